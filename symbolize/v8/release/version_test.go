package release

import (
	"slices"
	"testing"
)

func TestVersionsAreInOrder(t *testing.T) {
	texts := []string{"9.4.146.24", "9.4.146.26", "10.2.0.0", "12.4.254.21", "14.1.146.11", "14.6.0.0"}
	var versions []Version
	for _, text := range texts {
		v := version(t, text)
		if got := v.String(); got != text {
			t.Errorf("version of %q = %q", text, got)
		}
		versions = append(versions, v)
	}
	if !slices.IsSortedFunc(versions, Version.compare) {
		t.Errorf("versions %v are not in order", versions)
	}
}
