package read_test

import (
	"bytes"
	"testing"

	"ustack/tools/profile"
	"ustack/tools/profile/read"
)

// fuzz reads anything as the format: it must be an error, or a profile that is valid and can be
// written.
func fuzz(f *testing.F, format string, seeds ...string) {
	if written, err := profile.Lookup(format); err == nil {
		var b bytes.Buffer
		if err := written.Write(&b, rich(), profile.Options{}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	collapsed, err := profile.Lookup("collapsed")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := read.Profile(bytes.NewReader(in), read.Options{Format: format})
		if err != nil {
			return
		}
		if err := collapsed.Write(new(bytes.Buffer), got.Profile, profile.Options{}); err != nil {
			t.Error(err)
		}
	})
}

func FuzzJSON(f *testing.F)  { fuzz(f, "json", " ") }
func FuzzPprof(f *testing.F) { fuzz(f, "pprof", "\n\x02\b\x01\x12\x02\x10\x01") }
func FuzzSpeedscope(f *testing.F) {
	fuzz(f, "speedscope", `{"shared":{"frames":[{}]},"profiles":[{"type":"evented","events":[{"type":"O","at":1e300}],"endValue":1e308}]}`)
}

func FuzzCPUProfile(f *testing.F) {
	fuzz(f, "cpuprofile", `{"nodes":[{"id":1,"parent":1,"hitCount":1}],"samples":[1],"endTime":1e300}`)
}
func FuzzDTrace(f *testing.F)    { fuzz(f, "dtrace", "          a`b\n   1\n") }
func FuzzCollapsed(f *testing.F) { fuzz(f, "collapsed", "a_[k];b_[i];JS:*c /x:1:2 7\n") }
func FuzzStackvis(f *testing.F) {
	fuzz(f, "stackvis", `{"":{"svTotal":1,"svChildren":{"a":{"svUnique":1}}}}`)
}
func FuzzPerf(f *testing.F) { fuzz(f, "perf", perfScript, "node 1 cycles:  12 main+0x1 (/a)\n") }
func FuzzAny(f *testing.F)  { fuzz(f, "", perfScript, "{}", "\x1f\x8b") }
