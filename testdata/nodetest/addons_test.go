package nodetest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestAddonsAreCompiledOnce(t *testing.T) {
	node := Node(t, "22.23.3")
	for _, source := range Addons {
		with, without := Addon(t, node, source, FramePointers), Addon(t, node, source, NoFramePointers)
		if with == without {
			t.Errorf("paths of %s with and without frame pointers = %q, want two", source, with)
		}
		before, err := os.Stat(with)
		if err != nil {
			t.Fatal(err)
		}
		again, err := os.Stat(Addon(t, node, source, FramePointers))
		if err != nil {
			t.Fatal(err)
		}
		if !again.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s was compiled twice", source)
		}
	}
}

func TestAddonsHoldTheFunctionsThatTheyState(t *testing.T) {
	for source, want := range map[string][]string{
		"rawuv.cc": {"_ZN5rawuv4Work10BeginSleepEv", "_ZN5rawuv4Work9BeginSpinEv", "_ZN5rawuv4Work11BeginCancelEv"},
		"napi.c":   {"begin_sleep", "begin_spin", "begin_cancel"},
		"napi.cc":  {"_ZN4pool7Sleeper5BeginEv", "_ZN4pool7Spinner5BeginEv", "_ZN4pool7Quitter5BeginEv"},
	} {
		for _, flag := range []string{FramePointers, NoFramePointers} {
			got := functions(t, Addon(t, Node(t, "22.23.3"), source, flag))
			for _, name := range want {
				if !slices.Contains(got, name) {
					t.Errorf("%s with %s has no function %s", source, flag, name)
				}
			}
		}
	}
}

func functions(t *testing.T, path string) []string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, symbol := range symbols {
		names = append(names, symbol.Name)
	}
	return names
}

func TestCacheIsFilledWholeOrNotAtAll(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("USTACK_CACHE", cache)
	broken := errors.New("no more space")
	fills := 0
	fill := func(err error) func(string) error {
		return func(temp string) error {
			fills++
			return errors.Join(err, os.WriteFile(filepath.Join(temp, "file"), nil, 0o644))
		}
	}
	if _, err := cached("thing", fill(broken)); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	for range 2 {
		dir, err := cached("thing", fill(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
			t.Error(err)
		}
	}
	if got, want := fills, 2; got != want {
		t.Errorf("fills = %d, want %d: one that failed and one", got, want)
	}
	left, err := filepath.Glob(filepath.Join(cache, ".fill-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %q, %v", left, err)
	}
}

func TestBrokenSourceIsTold(t *testing.T) {
	t.Setenv("USTACK_CACHE", t.TempDir())
	headers := filepath.Join(filepath.Dir(Program("")), "..")
	if _, err := headersMajor(headers); err == nil {
		t.Error("version of a folder without headers has no error, want one")
	}
	dir := t.TempDir()
	version := fmt.Sprintf("#define NODE_MAJOR_VERSION %d\n", 22)
	if err := os.WriteFile(filepath.Join(dir, "node_version.h"), []byte(version), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := compile(t.Context(), runtime.GOARCH, dir, "napi.c", nil)
	if err == nil || !strings.Contains(err.Error(), "node_api.h") {
		t.Errorf("error = %v, want the compiler's about node_api.h", err)
	}
}
