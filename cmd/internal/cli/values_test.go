package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		text, complaint string
		want            time.Duration
	}{
		{"10s", "", 10 * time.Second},
		{"1m30s", "", 90 * time.Second},
		{"5", "", 5 * time.Second},
		{"0.5", "", 500 * time.Millisecond},
		{"0", "must be longer than 0", 0},
		{"-1s", "must be longer than 0", 0},
		{"ten", "not a duration (such as 10s or 1m30s)", 0},
		{"", "not a duration (such as 10s or 1m30s)", 0},
		{"1e300", "not a duration (such as 10s or 1m30s)", 0},
		{"NaN", "not a duration (such as 10s or 1m30s)", 0},
	} {
		var got Duration
		complaint := ""
		if err := got.Set(test.text); err != nil {
			complaint = err.Error()
		}
		if complaint != test.complaint {
			t.Errorf("complaint about %q = %q, want %q", test.text, complaint, test.complaint)
		}
		if time.Duration(got) != test.want {
			t.Errorf("duration of %q = %v, want %v", test.text, time.Duration(got), test.want)
		}
	}
}

func TestPIDsAreKeptOnceInOrder(t *testing.T) {
	var got PIDs
	for _, text := range []string{"3,1", "2, 3"} {
		if err := got.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(PIDs{3, 1, 2}, got); diff != "" {
		t.Errorf("pids (-want +got):\n%s", diff)
	}
	if got, want := got.String(), "3,1,2"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

func TestPIDsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "x", "0", "-4", "1,,2", "4194305", "99999999999999999999"} {
		var pids PIDs
		err := pids.Set(text)
		if err == nil || !strings.Contains(err.Error(), "is not a process ID") {
			t.Errorf("error of %q = %v, want that it is not a process ID", text, err)
		}
	}
}

func TestWord(t *testing.T) {
	var stored int
	w := NewWord(&stored, []string{"route", "status"})
	if err := w.Set("status"); err != nil || stored != 1 || w.String() != "status" {
		t.Errorf("stored = %d, %q, %v, want 1, status, nil", stored, w, err)
	}
	if err := w.Set("Status"); err == nil || err.Error() != "not one of route, status" || stored != 1 {
		t.Errorf("error, stored = %v, %d, want what it may be, 1", err, stored)
	}
}
