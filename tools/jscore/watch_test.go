package jscore

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
)

// growing keeps more Sessions, each with a Buffer, at each SIGUSR2.
const growing = `class Session { constructor(i) { this.id = i; this.body = Buffer.alloc(20000, 1); } }
const server = { sessions: [] };
global.server = server;
process.on('SIGUSR2', () => {
  for (let i = 0; i < 1000; i++) server.sessions.push(new Session(i));
  console.log('grown');
});
setInterval(() => server, 1 << 30);
console.log('ready');`

// grow has the program keep 1000 more Sessions.
func grow(t *testing.T, target *nodetest.Target) {
	t.Helper()
	if err := syscall.Kill(target.PID, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if line := target.Line(); line != "grown" {
		t.Fatalf("line = %q, want grown", line)
	}
}

func TestMemoryDiffTellsWhatGrew(t *testing.T) {
	for _, version := range memoryVersions("24.21.0") {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, growing)
			nodetest.WaitUntilIdle(t, target.PID)
			before, _ := memoryOf(t, target.PID)
			grow(t, target)
			after, _ := memoryOf(t, target.PID)
			d := DiffMemory(t.Context(), before, after)
			const bytes, around = 20_000_000, 500_000
			if v := d.Verdict; v.Kind != KindBuffers || v.As != ".sessions" || v.Bytes < bytes || v.Bytes > bytes+around {
				t.Errorf("verdict = %+v, want %d bytes of buffers kept by .sessions", v, bytes)
			}
			sum := int64(0)
			for _, p := range d.Parts {
				if !strings.Contains(p.Name, ": ") {
					sum += p.Bytes
				}
			}
			if want := int64(after.Resident) - int64(before.Resident); sum != want || !d.Exact {
				t.Errorf("the parts grew by %d bytes, exact %v, want %d as the whole", sum, d.Exact, want)
			}
			if same := DiffMemory(t.Context(), after, after); same.Verdict.Kind != KindOrdinary || len(same.Parts) != 0 {
				t.Errorf("difference to itself = %+v, want none", same)
			}
		})
	}
}

func TestWatchNamesTheLeak(t *testing.T) {
	for _, version := range memoryVersions("22.23.3") {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, growing)
			w, err := Watch(t.Context(), target.PID, WatchOptions{Every: time.Millisecond, Count: 3, Each: func(*WatchSample) error {
				grow(t, target)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			s := w.Suspect
			if s == nil {
				t.Fatalf("no suspect: %+v", w)
			}
			const bytes, around = 40_000_000, 1_000_000
			if s.Class != "Session" || s.Before != 0 || s.After != 2000 || s.Grew != 2 || s.Retained < bytes || s.Retained > bytes+around {
				t.Errorf("suspect = %+v, want 2000 Sessions with %d bytes", s, bytes)
			}
			if s.Constructor == nil || s.Constructor.Name != "Session" || !strings.Contains(s.DefinedAt, "source.js") {
				t.Errorf("constructor = %+v at %q, want Session of source.js", s.Constructor, s.DefinedAt)
			}
			var text strings.Builder
			if err := w.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"3 snapshots", "likely leak: Session", "  .sessions\n", "array buffers: Buffer"} {
				if !strings.Contains(text.String(), want) {
					t.Errorf("text has no %q:\n%s", want, &text)
				}
			}
		})
	}
}

// TestWatchConcludesHoweverItEnds ends the watch by an interrupt, and by the end of the process.
func TestWatchConcludesHoweverItEnds(t *testing.T) {
	for name, end := range map[string]func(target *nodetest.Target, cancel func()){
		"interrupt":     func(_ *nodetest.Target, cancel func()) { cancel() },
		"process's end": func(target *nodetest.Target, _ func()) { target.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			target := calls.StartSource(t, anyVersion, growing)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			samples := 0
			w, err := Watch(ctx, target.PID, WatchOptions{Every: time.Millisecond, Each: func(*WatchSample) error {
				if samples++; samples == 2 {
					end(target, cancel)
				} else {
					grow(t, target)
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if w.Samples != 2 || w.Suspect == nil || w.Suspect.Class != "Session" || (w.Ended != "") != (name != "interrupt") {
				t.Errorf("watched = %+v, want 2 samples and that Sessions leak", w)
			}
		})
	}
}

func TestWatchNeedsTwoSamples(t *testing.T) {
	target := calls.StartSource(t, anyVersion, growing)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Watch(ctx, target.PID, WatchOptions{Every: time.Hour, Each: func(*WatchSample) error { cancel(); return nil }})
	if !errors.Is(err, errFewSamples) {
		t.Errorf("error = %v, want that two samples are needed", err)
	}
}
