package jscore

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// memoryVersions returns the versions that a test of memory runs on.
func memoryVersions(few ...string) []string {
	if matrix() {
		return nodetest.Versions
	}
	return few
}

// startLeaks starts leaks.js in one of its ways.
func startLeaks(t *testing.T, version, way string) *nodetest.Target {
	t.Helper()
	node := nodetest.Node(t, version)
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: []string{"--expose-gc"}, Script: "leaks.js", Args: []string{way, nodetest.Addon(t, node, "leaks.cc")},
	})
	nodetest.WaitUntilIdle(t, target.PID)
	return target
}

// memoryOf returns what a process's memory is used for, and how much there is by the kernel.
func memoryOf(t *testing.T, pid int) (m *Memory, rss uint64) {
	t.Helper()
	rss = rssOf(t, pid)
	d := dumped(t, pid, Options{})
	return memoryIn(t, d), rss
}

func memoryIn(t *testing.T, d *Dump) *Memory {
	t.Helper()
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Memory(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rssOf returns a process's resident memory as the kernel counts it.
func rssOf(t *testing.T, pid int) uint64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Rss:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the kernel says no Rss")
	return 0
}

// checkParts checks that the parts sum to the resident memory, and that little of it is
// unknown.
func checkParts(t *testing.T, m *Memory, rss uint64) {
	t.Helper()
	sum := uint64(0)
	for _, p := range m.Parts {
		sum += p.Bytes
		of := uint64(0)
		for _, part := range p.Parts {
			of += part.Bytes
		}
		if len(p.Parts) > 0 && of != p.Bytes {
			t.Errorf("%s has %d bytes, and its parts %d", p.Name, p.Bytes, of)
		}
	}
	if sum != m.Resident {
		t.Errorf("the parts have %d bytes, want all %d that are resident", sum, m.Resident)
	}
	const percent = 2
	if low, high := rss-rss*percent/100, rss+rss*percent/100; sum < low || sum > high {
		t.Errorf("the parts have %d bytes, want %d as the kernel says, within %d%%", sum, rss, percent)
	}
	if unknown := m.Part(partUnknown); unknown.Bytes > rss*percent/100 {
		t.Errorf("unknown = %+v, want at most %d%% of %d", unknown, percent, rss)
	}
	if !m.Exact || m.Unread != "" {
		t.Errorf("exact = %v, unread = %q, want true and none", m.Exact, m.Unread)
	}
}

func TestVerdictsNameLeaks(t *testing.T) {
	for _, version := range memoryVersions("26.10.0") {
		for _, tt := range []struct{ way, kind, keeper, as, text, next string }{ // those of malloc are in the tests of lost blocks, too
			{"buffers", KindBuffers, "Map", ".cache", "class Buffer", "jsroots "},
			{"malloc", KindMalloc, "", "", "blocks of 1008 bytes; native code still refers to all", "malloc"},
			{"lost", KindMalloc, "", "", "native code has lost it", "findleaks"},
			{"fragmentation", KindFragmentation, "", "", "free", "malloc"},
			{"strings", KindStrings, "Array", ".logs", "external string", "jsroots "},
			{"workers", KindWorkers, "", "", "12 worker threads", "v8isolates"},
			{"objects", KindObjects, "Array", ".sessions", "JavaScript objects", "jsroots "},
		} {
			if !matrix() && (tt.kind == KindMalloc || tt.kind == KindObjects) {
				continue
			}
			t.Run(version+"/"+tt.way, func(t *testing.T) {
				m, rss := memoryOf(t, startLeaks(t, version, tt.way).PID)
				checkParts(t, m, rss)
				keeper := ""
				if m.Verdict.Keeper != nil {
					keeper = m.Verdict.Keeper.Class
				}
				if m.Verdict.Kind != tt.kind || keeper != tt.keeper || m.Verdict.As != tt.as {
					t.Errorf("verdict = %+v (keeper %s), want %s by the %s %s", m.Verdict, keeper, tt.kind, tt.keeper, tt.as)
				}
				if !strings.Contains(m.Verdict.Text, tt.text) || !strings.HasPrefix(m.Verdict.Next, tt.next) {
					t.Errorf("verdict = %q, next %q, want %q and %q", m.Verdict.Text, m.Verdict.Next, tt.text, tt.next)
				}
			})
		}
	}
}

func TestHealthyProgramsHaveNoVerdict(t *testing.T) {
	for _, version := range memoryVersions("18.20.8") {
		for _, options := range []nodetest.Options{
			{Script: "leaks.js", Args: []string{"nothing"}, Flags: []string{"--expose-gc"}},
			{Script: "web.js"},
			{Script: "workers.js", Args: []string{"3"}},
			{Script: "census.js", Args: []string{"1000", "1000", "-"}},
			{Script: "heap.js", Args: []string{"20"}},
		} {
			if !matrix() && options.Script == "workers.js" {
				continue // it takes all CPUs
			}
			t.Run(version+"/"+options.Script, func(t *testing.T) {
				target := nodetest.Start(t, nodetest.Node(t, version), options)
				m, rss := memoryOf(t, target.PID)
				if m.Verdict.Kind != KindOrdinary {
					t.Errorf("verdict = %+v, want none about %d bytes", m.Verdict, rss)
				}
			})
		}
	}
}

// TestMemoryOfOthersCores has cores of the kernel and of gdb, which do not say what was in memory.
func TestMemoryOfOthersCores(t *testing.T) {
	const script = `globalThis.cache = new Map();
for (let i = 0; i < 1600; i++) cache.set(i, Buffer.alloc(1 << 16, 1));
process.abort();`
	kernels, _ := died(t, nodetest.Node(t, anyVersion), "-e", script)
	dumps := map[string]*Dump{"kernel": kernels}
	if matrix() { // gdb writes a gigabyte
		target := startLeaks(t, anyVersion, "buffers")
		path := filepath.Join(t.TempDir(), "core")
		if err := exec.CommandContext(t.Context(), "gdb", "-p", strconv.Itoa(target.PID), "-batch", "-nx", "-ex", "gcore "+path).Run(); err != nil {
			nodetest.MustRun(t, "take a core: "+err.Error())
		}
		dumps["gdb"] = opened(t, path, Options{})
	}
	for maker, d := range dumps {
		m := memoryIn(t, d)
		if m.Exact || m.Verdict.Kind != KindBuffers {
			t.Errorf("%s: exact = %v, verdict = %+v, want false and %s", maker, m.Exact, m.Verdict, KindBuffers)
		}
		var text strings.Builder
		if err := m.WriteText(&text); err != nil || !strings.Contains(text.String(), "does not say which pages were in memory") {
			t.Errorf("%s: text = %s, %v, want that resident pages are not known", maker, text.String(), err)
		}
	}
}

// TestCompressedCoresSayWhatWasResident writes a core and opens it again.
func TestCompressedCoresSayWhatWasResident(t *testing.T) {
	target := startLeaks(t, anyVersion, "nothing")
	rss := rssOf(t, target.PID)
	path := filepath.Join(t.TempDir(), "core.zst")
	if _, err := core.Write(t.Context(), target.PID, path, core.Options{}); err != nil {
		t.Fatal(err)
	}
	d := opened(t, path, Options{})
	m := memoryIn(t, d)
	checkParts(t, m, rss)
}

// TestLostBlocksAreFound has an add-on lose 50,000 blocks and as many C++ objects. A stale word
// somewhere may still refer to a few.
func TestLostBlocksAreFound(t *testing.T) {
	const lost, least = 50_000, 49_500
	for _, version := range memoryVersions("18.20.8") {
		t.Run(version, func(t *testing.T) {
			d := dumped(t, startLeaks(t, version, "lost").PID, Options{})
			found, err := d.FindLeaks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []struct {
				size    uint64
				content string
			}{{1024, "Widget"}, {1008, "text: \"xxxxxxxxxxxxxxxx\""}} {
				blocks := 0
				for _, g := range found.Groups {
					if g.Size == want.size && g.Content == want.content {
						blocks = g.Blocks
					}
				}
				if blocks < least || blocks > lost {
					t.Errorf("%s of %d bytes: %d blocks, want about %d", want.content, want.size, blocks, lost)
				}
			}
			if found.Blocks > 2*lost+20 {
				t.Errorf("lost blocks = %d, want little more than %d: %+v", found.Blocks, 2*lost, found.Groups)
			}
			checkVerdict(t, d, "native code has lost it")
			if n := len(found.Addresses()); n < 2*maxLostListed {
				t.Errorf("addresses = %d, want %d of each group", n, maxLostListed)
			}
		})
	}
}

// checkVerdict checks that the verdict is about malloc's blocks.
func checkVerdict(t *testing.T, d *Dump, text string) {
	t.Helper()
	m, err := d.Memory(t.Context(), nil)
	if err != nil || m.Verdict.Kind != KindMalloc || !strings.Contains(m.Verdict.Text, text) {
		t.Errorf("verdict = %+v, %v, want one about malloc: %s", m.Verdict, err, text)
	}
}

// TestKeptBlocksAreNotLost has an add-on keep blocks in a list that begins in its data.
func TestKeptBlocksAreNotLost(t *testing.T) {
	const kept, size = 100_000, 1008
	for _, version := range memoryVersions("26.10.0") {
		t.Run(version, func(t *testing.T) {
			d := dumped(t, startLeaks(t, version, "malloc").PID, Options{})
			found, err := d.FindLeaks(t.Context())
			if err != nil || found.Blocks > 20 {
				t.Errorf("lost = %+v, %v, want hardly any", found, err)
			}
			m, err := d.Malloc(t.Context(), MallocOptions{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if s := m.Sizes[0]; s.Size != size || s.InUse < kept || s.InUse > kept+100 || len(m.Sizes) != 1 || m.More == 0 {
				t.Errorf("sizes = %+v and %d more, want first %d of %d bytes", m.Sizes, m.More, kept, size)
			}
			checkVerdict(t, d, "native code still refers to all")
			blocks, err := d.Blocks(t.Context(), MallocOptions{Size: size, Limit: 7})
			if err != nil || len(blocks.Addresses()) != 7 {
				t.Errorf("blocks = %+v, %v, want 7", blocks, err)
			}
		})
	}
}

// TestOtherMallocsAreNamed has a library with another malloc's name.
func TestOtherMallocsAreNamed(t *testing.T) {
	node := nodetest.Node(t, anyVersion)
	library := filepath.Join(t.TempDir(), "libjemalloc.so.2")
	compile := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	compile.Stdin = strings.NewReader("int nothing;")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: []string{"--expose-gc"}, Script: "leaks.js", Args: []string{"nothing"}, Env: []string{"LD_PRELOAD=" + library},
	})
	d := dumped(t, target.PID, Options{})
	if _, err := d.FindLeaks(t.Context()); err == nil || !strings.Contains(err.Error(), "jemalloc") {
		t.Errorf("FindLeaks: %v, want that the process uses jemalloc", err)
	}
	m, err := d.Memory(t.Context(), nil)
	if err != nil || !strings.Contains(m.Unread, "jemalloc") {
		t.Errorf("unread = %q, %v, want that the process uses jemalloc", m.Unread, err)
	}
}
