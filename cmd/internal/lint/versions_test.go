package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsOfV8AreComparedInOnePackageOnly(t *testing.T) {
	const source = `package v8

import "ustack/symbolize/v8/release"

func compares(b *Binary, v release.Version) (bool, string) {
	if b.Version.Major >= 13 {
		return true, ""
	}
	switch p := &v; v {
	case release.Version{Major: 9, Minor: 4}:
		return p.Patch == 0, v.String()
	}
	return v == b.Version, b.Version.String()
}
`
	folder, err := filepath.Abs("../../../symbolize/v8")
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string][]byte{filepath.Join(folder, "compares.go"): []byte(source)}
	got, err := comparisons(overlay, "ustack/symbolize/v8")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"compares.go:11: versions of V8 are compared in ustack/symbolize/v8/release only",
		"compares.go:13: versions of V8 are compared in ustack/symbolize/v8/release only",
		"compares.go:6: versions of V8 are compared in ustack/symbolize/v8/release only",
		"compares.go:9: versions of V8 are compared in ustack/symbolize/v8/release only",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comparisons (-want +got):\n%s", diff)
	}
}

func TestReleasesMayCompareVersions(t *testing.T) {
	if got, err := comparisons(nil, releases); err != nil || got != nil {
		t.Errorf("comparisons = %q, %v, want none", got, err)
	}
}
