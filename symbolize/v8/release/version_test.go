package release

import (
	"slices"
	"strings"
	"testing"
)

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func TestVersionsAreParsed(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Version
		err  string
	}{
		{"12.4.254.21-node.56", Version{12, 4, 254, 21}, ""},
		{"9.4", Version{9, 4, 0, 0}, ""},
		{"14.6.202.34", Version{14, 6, 202, 34}, ""},
		{"", Version{}, "want major.minor"},
		{"9", Version{}, "want major.minor"},
		{"1.2.3.4.5", Version{}, "want major.minor"},
		{"1.x", Version{}, "invalid syntax"},
		{"1.2.-", Version{}, "invalid syntax"},
		{"1.99999999999", Version{}, "out of range"},
	} {
		got, err := ParseVersion(tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !contains(err, tt.err) {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v and an error with %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestVersionsAreInOrder(t *testing.T) {
	texts := []string{"9.4.146.24", "9.4.146.26", "10.2.0.0", "12.4.254.21", "14.1.146.11", "14.6.0.0"}
	var versions []Version
	for _, text := range texts {
		v, err := ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String(); got != text {
			t.Errorf("ParseVersion(%q).String() = %q", text, got)
		}
		versions = append(versions, v)
	}
	if !slices.IsSortedFunc(versions, Version.compare) {
		t.Errorf("versions %v are not in order", versions)
	}
}
