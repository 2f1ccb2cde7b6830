package jsprof

import (
	"slices"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// TestFilesOfOnePathAreDistinguished profiles processes whose programs, add-ons and scripts have the
// same paths and are other files: none gets a version, a name or a line of another.
func TestFilesOfOnePathAreDistinguished(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	twins, folder := nodetest.Twins(t)
	var pids []int
	for _, w := range twins {
		pids = append(pids, w.PID)
	}
	p := takeProfile(t, Options{Selection: trace.Selection{PIDs: pids}, Duration: 6 * time.Second, Hz: 997})
	for _, w := range twins {
		at := slices.IndexFunc(p.Processes, func(of profile.Process) bool { return of.PID == w.PID })
		if at < 0 || p.Processes[at].Node != "v"+w.Version {
			t.Errorf("processes = %+v, want %d with v%s", p.Processes, w.PID, w.Version)
		}
		of := framesOf(p, w.PID)
		for _, want := range []symbolize.Frame{
			{Kind: symbolize.JS, Name: w.Spin(), File: folder + "/app.js", Line: w.Line},
			{Kind: symbolize.Native, Name: "node::Start", Module: folder + "/node"},
			{Kind: symbolize.Native, Name: "uv_run", Module: folder + "/node"},
			{Kind: symbolize.Native, Name: w.Do(), Module: folder + "/addon.node"},
		} {
			if !of[want] {
				t.Errorf("%s: no frame %+v", w.Name, want)
			}
		}
		for _, other := range twins {
			for f := range of {
				if other.Name != w.Name && slices.Contains([]string{other.Spin(), other.Begin(), other.Do()}, f.Name) {
					t.Errorf("%s has the frame %+v of %s", w.Name, f, other.Name)
				}
			}
		}
	}
}

// framesOf returns the frames of a process, as far as they do not depend on the moment.
func framesOf(p *profile.Profile, pid int) map[symbolize.Frame]bool {
	all := make(map[symbolize.Frame]bool)
	for _, s := range p.Stacks {
		if s.PID != pid {
			continue
		}
		for _, f := range s.Frames {
			all[symbolize.Frame{Kind: f.Kind, Name: f.Name, Module: f.Module, File: f.File, Line: f.Line}] = true
		}
	}
	return all
}
