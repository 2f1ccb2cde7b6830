package heap_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// A chromium is a headless Chromium with one page, which may import the modules of its
// DevTools. It is controlled over pipes, with the DevTools protocol.
type chromium struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	sent    int    // messages
	session string // the page's session; empty for the browser itself
}

// chromiumLimit is how long a browser may take for everything a test does with it.
const chromiumLimit = 2 * time.Minute

// openDevTools starts a browser, which ends with the test.
func openDevTools(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		nodetest.MustRun(t, fmt.Sprintf("needs chromium: %v", err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), chromiumLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	theirIn, in := pipe(t)
	out, theirOut := pipe(t)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	c := &chromium{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		c.session = ""
		c.call("Browser.close", nil, nil)
		if err := cmd.Wait(); err != nil {
			t.Errorf("chromium: %v", err)
		}
	})
	var page struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &page)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	c.call("Page.navigate", map[string]any{"url": "devtools://devtools/bundled/inspector.html"}, nil)
	return c
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// call sends one message and decodes the answer's result into what result points to,
// unless it is nil.
func (c *chromium) call(method string, params map[string]any, result any) {
	c.t.Helper()
	c.sent++
	message := map[string]any{"id": c.sent, "method": method, "params": params}
	if c.session != "" {
		message["sessionId"] = c.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(data, 0)); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	var answer struct {
		ID            int
		Result, Error json.RawMessage
	}
	for answer.ID != c.sent { // a message without an ID is an event
		data, err := c.out.ReadBytes(0)
		if err != nil {
			c.t.Fatalf("read answer to %s: %v", method, err)
		}
		if err := json.Unmarshal(data[:len(data)-1], &answer); err != nil {
			c.t.Fatalf("decode answer to %s: %v", method, err)
		}
	}
	if answer.Error != nil {
		c.t.Fatalf("%s: %s", method, answer.Error)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		c.t.Fatalf("decode answer to %s: %v", method, err)
	}
}

// An evaluated is the result of a script.
type evaluated struct {
	Result struct {
		ObjectID string
		Value    json.RawMessage
	}
	ExceptionDetails json.RawMessage
}

// evaluate runs a script in the page and waits for the promise if it returns one.
func (c *chromium) evaluate(script string, byValue bool) evaluated {
	c.t.Helper()
	var e evaluated
	c.call("Runtime.evaluate", map[string]any{
		"expression": script, "awaitPromise": true, "returnByValue": byValue,
	}, &e)
	if e.ExceptionDetails != nil {
		c.t.Fatalf("run script in DevTools: %s", e.ExceptionDetails)
	}
	return e
}

// A chromeView is what Chrome shows of a heap snapshot.
type chromeView struct {
	Nodes     int
	IDs       int    // distinct ones
	Unreached int    // nodes
	Total     uint64 // bytes
	Classes   map[string]struct {
		Count    int
		Bytes    uint64 // including what V8 keeps only for these objects
		Retained uint64 // bytes
	}
	Concatenated []string // the text of strings that consist of others
	Warnings     []string
}

// view has Chrome's own parser read a heap snapshot.
func (c *chromium) view(path string) chromeView {
	c.t.Helper()
	input := c.evaluate("globalThis.input = Object.assign(document.createElement('input'), { type: 'file' })", false)
	c.call("DOM.setFileInputFiles", map[string]any{"files": []string{path}, "objectId": input.Result.ObjectID}, nil)
	script, err := os.ReadFile(filepath.Join("testdata", "chrome.js"))
	if err != nil {
		c.t.Fatal(err)
	}
	var view chromeView
	if err := json.Unmarshal(c.evaluate(string(script), true).Result.Value, &view); err != nil {
		c.t.Fatal(err)
	}
	return view
}

// TestExportOpensInChrome has Chrome's own parser read the snapshot of a core and the one
// that the process itself wrote, and compares them.
func TestExportOpensInChrome(t *testing.T) {
	versions := []string{"22.23.3"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			own, exported := filepath.Join(dir, "v8.heapsnapshot"), filepath.Join(dir, "our.heapsnapshot")
			d, facts := censusDump(t, version, 2_000, 0, own)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := openDevTools(t)
			got := c.view(exportTo(t, g, exported))
			chromeSeesAllThatIsLive(t, g, got)
			chromeCountsAsACensusDoes(t, g, got, facts)
			chromeFindsTheSameInV8sOwn(t, got, c.view(own), facts)
		})
	}
}

func exportTo(t *testing.T, g *jscore.Graph, path string) string {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := g.Export(t.Context(), file); err != nil {
		t.Fatalf("Export: %v", err)
	}
	return path
}

func chromeSeesAllThatIsLive(t *testing.T, g *jscore.Graph, got chromeView) {
	t.Helper()
	for _, warning := range got.Warnings {
		t.Errorf("Chrome warns: %s", warning)
	}
	if want := g.Live + syntheticNodes; got.Nodes != want || got.IDs != want || got.Unreached != 0 {
		t.Errorf("nodes = %d with %d IDs, %d of them unreached, want %d, as many, 0", got.Nodes, got.IDs, got.Unreached, want)
	}
	bytes := uint64(0)
	for id := range heap.ID(g.Len()) {
		if g.IsLive(id) {
			bytes += g.Bytes(id)
		}
	}
	if got.Total != bytes {
		t.Errorf("bytes in all = %d, want %d", got.Total, bytes)
	}
}

func chromeCountsAsACensusDoes(t *testing.T, g *jscore.Graph, got chromeView, facts censusFacts) {
	t.Helper()
	for _, class := range facts.Classes {
		if got, want := got.Classes[class].Count, counted(class, facts.Keep); got != want {
			t.Errorf("objects of %s = %d, want %d", class, got, want)
		}
	}
	for _, group := range g.Census(t.Context(), jscore.CensusOptions{ByClass: true, Live: true}).Groups {
		if slices.Contains(summedUp, group.Class) || isFunction(t, g, group) {
			continue
		}
		if count := got.Classes[group.Class].Count; count != group.Count {
			t.Errorf("objects of %s = %d, want %d, as the census counts", group.Class, count, group.Count)
		}
	}
}

// summedUp are classes that Chrome splits by properties, or merges with others.
var summedUp = []string{"Object", "Function", "RegExp"}

// chromeFindsTheSameInV8sOwn compares with a snapshot that the program wrote before it
// printed anything: node has loaded a few more modules of its own since.
func chromeFindsTheSameInV8sOwn(t *testing.T, got, want chromeView, facts censusFacts) {
	t.Helper()
	for _, class := range facts.Classes {
		ours, theirs := got.Classes[class], want.Classes[class]
		if ours.Count != theirs.Count ||
			!near(ours.Bytes, theirs.Bytes, 0.01) || !near(ours.Retained, theirs.Retained, 0.01) {
			t.Errorf("objects of %s with bytes, retained = %v, want %v, as V8 writes", class, ours, theirs)
		}
	}
	for _, class := range []string{
		"BuiltinModule", "Array", "Function", "RegExp", "system / Context", "(string)", "(concatenated string)", "(number)",
	} {
		if ours, theirs := got.Classes[class].Count, want.Classes[class].Count; !near(ours, theirs, 0.2) {
			t.Errorf("objects of %s = %d, want about %d, as V8 writes", class, ours, theirs)
		}
	}
	lacking := slices.DeleteFunc(want.Concatenated, func(s string) bool { return slices.Contains(got.Concatenated, s) })
	if len(lacking) > len(got.Concatenated)/10 {
		t.Errorf("concatenated strings that V8 writes and the export lacks: %q", lacking)
	}
}

// near reports whether got differs from want by at most that share of want.
func near[T int | uint64](got, want T, share float64) bool {
	return math.Abs(float64(got)-float64(want)) <= share*float64(want)
}

// isFunction reports whether a group is of functions.
func isFunction(t *testing.T, g *jscore.Graph, group *census.Group) bool {
	t.Helper()
	o, err := reader(t, g).Object(v8.Value(group.Address))
	return err == nil && reader(t, g).IsFunction(o)
}
