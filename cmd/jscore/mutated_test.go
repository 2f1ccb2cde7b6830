package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

const (
	wordSize   = 8
	elfHeader  = 64               // bytes
	maxSegment = 1 << 26          // bytes of a segment that is damaged: V8's range for code is a large hole
	endsWithin = 10 * time.Minute // beside other work
)

// wholeHeap are commands that go through all objects, or through all of the core.
var wholeHeap = []string{
	"status", "memory", "malloc", "findleaks", "jsstack", "walk", "suspended", "globals", "nodeinfo", "v8isolates", "v8spaces", "handles", "requests", "timers",
	"findjsobjects", "findjsobjects -a --by-class", "findjsobjects -i -k array", "jsfunctions", "strings", "leaks", "jsretained",
	"findjsobjects -k array | jsprint -d 4", "findjsobjects -k string | jsfindrefs -l 3", "findjsobjects | jsroots",
	"findjsobjects -c Holder | findjsobjects", "findjsobjects | v8print", "ugrep 1f3c9",
	"findjsobjects -lv", "jsfunctions -X -x 1f3c9", "jsfunctions -l | jsfunctions", "findjsobjects -lc Holder | findjsobjects -m; findjsobjects -r",
	"findjsobjects -c Holder | jsfindrefs -dv",
	"$C", "regs", "mappings", "nm uv_run | dis", "jsfunctions -l | v8code -d", "jsfunctions -l | v8function -d", "memgrep Holder",
	"walk jsframe | jsframe -p this", "jsstack -Ap arg1", "findjsobjects -l | walk jsprop", "findjsobjects -l -k array | walk jselement",
	"findjsobjects -l | /2pXsSiaYyC", "findjsobjects -l | v8whatis -v -d 64", "findjsobjects -l | v8print JSObject", "findjsobjects -l -k array | dis",
}

// A mutant is a core that can be damaged, and made whole again.
type mutant struct {
	t    *testing.T
	file *os.File
	path string

	headers, notes span
	memory         []span
	before         []patch
}

// A span is a range of the file's bytes.
type span struct{ start, size int64 }

// A patch is a word of the file as it was.
type patch struct {
	at   int64
	word [wordSize]byte
}

func openMutant(t *testing.T, path string) *mutant {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	image, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	const programSize = 56
	m := &mutant{t: t, file: f, path: path, headers: span{elfHeader, int64(len(image.Progs)) * programSize}}
	for _, p := range image.Progs {
		s := span{int64(p.Off), int64(p.Filesz)}
		switch {
		case p.Type == elf.PT_NOTE:
			m.notes = s
		case p.Flags&elf.PF_W != 0 && s.size >= wordSize && s.size <= maxSegment:
			m.memory = append(m.memory, s)
		}
	}
	return m
}

// damage changes words in one of the ways that random's next number says, and says which.
func (m *mutant) damage(random *rand.Rand) string {
	ways := []struct {
		name  string
		spans []span
		words int
	}{
		{"headers", []span{m.headers}, 4},
		{"notes", []span{m.notes}, 32},
		{"few words", m.memory, 1 << 10},
		{"many words", m.memory, 1 << 15},
		{"everything", append([]span{m.headers, m.notes}, m.memory...), 1 << 12},
	}
	way := ways[random.IntN(len(ways))]
	for range way.words {
		s := way.spans[random.IntN(len(way.spans))]
		m.change(s.start+random.Int64N(s.size/wordSize)*wordSize, random)
	}
	return way.name
}

func (m *mutant) change(at int64, random *rand.Rand) {
	p := patch{at: at}
	if _, err := m.file.ReadAt(p.word[:], at); err != nil {
		m.t.Fatal(err)
	}
	m.before = append(m.before, p)
	word := binary.LittleEndian.Uint64(p.word[:])
	changed := []uint64{
		0, 1, 1<<63 - 1, ^uint64(0), 1 << random.IntN(64), word + 8, word - 1, word ^ 1<<random.IntN(64), random.Uint64(), word << 20,
	}[random.IntN(10)]
	m.put(at, binary.LittleEndian.AppendUint64(nil, changed))
}

func (m *mutant) put(at int64, word []byte) {
	if _, err := m.file.WriteAt(word, at); err != nil {
		m.t.Fatal(err)
	}
}

// heal undoes all damage.
func (m *mutant) heal() {
	for i := len(m.before) - 1; i >= 0; i-- {
		m.put(m.before[i].at, m.before[i].word[:])
	}
	m.before = nil
}

// run runs a line, which must end.
func (m *mutant) run(ctx context.Context, s *session, line, name string) {
	m.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.line(ctx, line)
	}()
	select {
	case <-done:
	case <-time.After(endsWithin):
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // to memory
		m.t.Fatalf("%s: %s does not end:\n%s", name, line, stacks.String())
	}
}

// TestChaosMutatedCores damages a core at random, and runs each command that goes
// through it whole. All end, some because they are interrupted, and none by a fault.
func TestChaosMutatedCores(t *testing.T) {
	path := coreOf(t, "26.10.0", "census.js", "500", "500", "-")
	m := openMutant(t, path)
	for seed := range uint64(nodetest.Rounds(4, 106)) {
		random := rand.New(rand.NewPCG(seed, 11))
		name := fmt.Sprintf("seed %d, %s", seed, m.damage(random))
		m.look(name, random)
		m.heal()
	}
}

// look runs all commands, and one that is interrupted.
func (m *mutant) look(name string, random *rand.Rand) {
	m.t.Helper()
	dump, err := jscore.Open(m.t.Context(), m.path, jscore.Options{})
	if err != nil {
		if strings.Contains(err.Error(), "internal error") {
			m.t.Errorf("%s: %v", name, err)
		}
		return // no core any more
	}
	defer dump.Close()
	var said bytes.Buffer
	cmd := &cobra.Command{Use: "jscore"}
	cmd.SetErr(&said)
	fresh := func() *session {
		return &session{
			dump: dump, commands: commands(), messages: cli.NewMessages(cmd),
			output: output{stdout: io.Discard, stderr: io.Discard},
		}
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(random.IntN(200))*time.Millisecond)
	m.run(ctx, fresh(), "jsretained", name+", interrupted")
	cancel()
	s := fresh()
	for _, line := range append(wholeHeap, "export "+filepath.Join(m.t.TempDir(), "out.heapsnapshot")) {
		m.run(m.t.Context(), s, line, name)
	}
	for text := range strings.Lines(said.String()) {
		if strings.Contains(text, "internal error") {
			m.t.Errorf("%s: %s", name, text)
		}
	}
}
