package verify

import (
	"errors"
	"strings"
	"testing"

	"ustack/symbolize/space"
)

func TestTallyIsJudged(t *testing.T) {
	for _, tt := range []struct {
		tally tally
		want  string // in the error; "" for none
	}{
		{tally{right: 100}, ""},
		{tally{right: 99}, "only 99 are right, and 0 changed"},
		{tally{right: 99, changed: 50}, "only 99 are right, and 50 changed"},
		{tally{}, "only 0 are right"},
		{tally{right: 100, changed: 1000}, ""},
		{tally{right: 100, wrong: 5, err: errWrong}, ""},
		{tally{right: 100, wrong: 6, err: errWrong}, "100 are right, 6 are wrong: wrong"},
		{tally{right: 19, wrong: 1, err: errWrong}, "19 are right, 1 are wrong"},
		{tally{wrong: 200, err: errWrong}, "0 are right, 200 are wrong"},
	} {
		err := tt.tally.judge(100)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v is judged %v, want %q", tt.tally, err, tt.want)
		}
		if tt.tally.err != nil && err != nil && !errors.Is(err, errWrong) {
			t.Errorf("%v does not wrap what is wrong", err)
		}
	}
}

func TestTallyCountsWhatCounts(t *testing.T) {
	changing := &changingMemory{size: space.PageSize}
	m := newSteadyMemory(changing)
	var got tally
	for _, err := range []error{errors.New("first"), errors.New("second")} {
		got.count(m, func() (bool, error) { return true, err })
	}
	got.count(m, func() (bool, error) { return true, nil })
	got.count(m, func() (bool, error) { return false, nil })
	got.count(m, func() (bool, error) {
		var b [1]byte
		m.ReadAt(b[:], 0)
		return true, errWrong
	})
	if got.right != 1 || got.wrong != 2 || got.changed != 1 || got.err == nil || got.err.Error() != "first" {
		t.Errorf("tally = %+v, want one right, two wrong of which the first is kept, one changed", got)
	}
}
