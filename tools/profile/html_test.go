package profile

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/testdata/nodetest/webdriver"
)

// at returns the place in the window of what is at a fraction of the graph's
// width and a level above its root.
func (b *browser) at(fraction float64, level int) webdriver.Point {
	b.t.Helper()
	return eval[webdriver.Point](b, `(r => ({
		X: r.left + arguments[0] * r.width,
		Y: document.getElementById("invert").getAttribute("aria-pressed") === "true"
			? r.top + (arguments[1] + 0.5) * 18 : r.bottom - (arguments[1] + 0.5) * 18,
	}))(document.getElementById("canvas").getBoundingClientRect())`, fraction, level)
}

// detail returns the name, and the line of that label, in the panel of details.
func (b *browser) detail(label string) string {
	b.t.Helper()
	return eval[string](b, `document.querySelector("#details h2").textContent + ": " +
		([...document.querySelectorAll("#details tr")].find(tr => tr.textContent.startsWith(arguments[0]))?.cells[1].textContent ?? "")`, label)
}

func (b *browser) element(id string) webdriver.Point {
	b.t.Helper()
	return b.Middle(fmt.Sprintf("document.getElementById(%q)", id))
}

// choose picks an option of a select element.
func (b *browser) choose(id, value string) {
	b.t.Helper()
	eval[any](b, `(s => { s.value = arguments[1]; s.dispatchEvent(new Event("change")); })(document.getElementById(arguments[0]))`, id, value)
}

// simple has levels main (100), then a (20), b (30) and c (50), then c's d (40).
func simple() *Profile {
	main, a := native("main", 0), js("a", "/app/a.js", 1, 1)
	b, c, d := js("b", "/app/b.js", 2, 2), js("c", "/app/node_modules/pkg/c.js", 3, 3), builtin("d")
	type frames = []symbolize.Frame
	other := Stack{Value: 17, PID: 4242, TID: 4250, Thread: "pool", Frames: frames{d, native("worker", 0)}}
	return profileOf(on(20, frames{main, a}), on(30, frames{main, b}), on(10, frames{main, c}), on(40, frames{main, c, d}), other)
}

func TestHTMLZooms(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", fixtures()["server"], Options{Native: true}))
	b.Screenshot("html")
	b.Quiet()

	b = open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	b.Hover(b.at(0.75*100/117, 2))
	if got, want := b.detail("samples"), "c: 50 · 42.74%"; got != want {
		t.Fatalf("under the pointer: %q, want %q", got, want)
	}
	b.Click(b.at(0.75*100/117, 2))
	b.Screenshot("html-zoomed")
	for _, tt := range []struct {
		fraction float64
		level    int
		want     string
	}{{0.79, 3, "d: 40 · 34.19%"}, {0.01, 2, "c: 50 · 42.74%"}, {0.99, 1, "main: 100 · 85.47%"}, {0.81, 3, "c: 50 · 42.74%"}} {
		b.Hover(b.at(tt.fraction, tt.level))
		if got := b.detail("samples"); got != tt.want {
			t.Errorf("zoomed, at %g of level %d: %q, want %q", tt.fraction, tt.level, got, tt.want)
		}
	}
	b.Click(b.element("reset"))
	b.Hover(b.at(0.1, 2))
	if got, want := b.detail("samples"), "a: 20 · 17.09%"; got != want {
		t.Errorf("after reset: %q, want %q", got, want)
	}
	b.Quiet()
}

func TestHTMLSearches(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	b.Keys("f", webdriver.CtrlKey)
	b.Keys("^[cd] ?", "")
	if got, want := b.text("matched"), "57.3% matched"; got != want { // c with d in it, and the pool's d
		t.Errorf("matched = %q, want %q", got, want)
	}
	b.Screenshot("html-searched")
	b.Click(b.at(0.75*100/117, 2))
	if got, want := b.text("matched"), "100.0% matched"; got != want {
		t.Errorf("zoomed into c: matched = %q, want %q", got, want)
	}
	b.Keys(webdriver.EscapeKey, "")
	if got := b.text("matched"); got != "" {
		t.Errorf("after Esc: matched = %q, want nothing", got)
	}
	b.Quiet()
}

func TestHTMLTurnsOver(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	top := func() webdriver.Point {
		return eval[webdriver.Point](b, `(r => ({X: r.left + 5, Y: r.top + 9}))(document.getElementById("canvas").getBoundingClientRect())`)
	}
	b.Click(b.element("invert"))
	b.Hover(top())
	if got, want := b.detail("samples"), "all samples: 117 · 100.00%"; got != want {
		t.Errorf("icicle, at the top: %q, want %q", got, want)
	}
	b.Screenshot("html-icicle")
	b.Keys("i", "")
	b.Hover(top())
	if got := b.detail("samples"); got == "all samples: 117 · 100.00%" && eval[string](b, `document.getElementById("invert").getAttribute("aria-pressed")`) == "true" {
		t.Error("i does not turn the graph back")
	}
	b.Quiet()
}

func TestHTMLMergesFromTheLeaf(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	b.Click(b.element("reverse"))
	b.Screenshot("html-reversed")
	// Leaves by name: a (20), b (30), c (10), d (57).
	b.Hover(b.at(80.0/117, 1))
	if got, want := b.detail("samples"), "d: 57 · 48.72%"; got != want {
		t.Errorf("by callee: %q, want %q", got, want)
	}
	b.Hover(b.at(62.0/117, 2))
	if got, want := b.detail("samples"), "c: 40 · 34.19%"; got != want {
		t.Errorf("d's caller: %q, want %q", got, want)
	}
	b.Quiet()
}

func TestHTMLShowsOneThread(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	b.choose("thread", "thread 1")
	if got, want := b.detail("samples"), "all samples: 17 · 100.00%"; got != want {
		t.Errorf("the pool's thread: %q, want %q", got, want)
	}
	b.choose("thread", "thread 0")
	b.Hover(b.at(0.75, 2))
	if got, want := b.detail("samples"), "c: 50 · 50.00%"; got != want {
		t.Errorf("the main thread: %q, want %q", got, want)
	}
	b.Quiet()
}

func TestHTMLObeysTheKeyboard(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	b.Keys(webdriver.UpKey+webdriver.UpKey, "") // main, its widest callee
	if got, want := b.detail("samples"), "c: 50 · 42.74%"; got != want {
		t.Fatalf("up, up: %q, want %q", got, want)
	}
	b.Keys(webdriver.EnterKey, "")
	if !eval[bool](b, `!document.getElementById("reset").hidden`) {
		t.Error("Enter does not zoom")
	}
	b.Keys(webdriver.DownKey, "")
	if got, want := b.detail("samples"), "main: 100 · 85.47%"; got != want {
		t.Errorf("down: %q, want %q", got, want)
	}
	b.Keys(webdriver.EscapeKey, "")
	if eval[bool](b, `!document.getElementById("reset").hidden`) {
		t.Error("Esc does not zoom out")
	}
	b.Quiet()
}

// pixel returns the colour of the canvas at a point of the window.
func (b *browser) pixel(p webdriver.Point) []float64 {
	b.t.Helper()
	return eval[[]float64](b, `((c, r) => [...c.getContext("2d").getImageData(
		(arguments[0] - r.left) * devicePixelRatio, (arguments[1] - r.top) * devicePixelRatio, 1, 1).data])(
		document.getElementById("canvas"), document.getElementById("canvas").getBoundingClientRect())`, p.X, p.Y)
}

func TestHTMLColors(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", fixtures()["server"], Options{Native: true}))
	seen := map[string]string{}
	for _, mode := range []string{"kind", "depth", "share", "module", "tier"} {
		b.choose("color", mode)
		b.Screenshot("html-" + mode)
		key := fmt.Sprint(b.pixel(b.at(0.5, 3)), b.pixel(b.at(0.5, 8)), b.pixel(b.at(0.5, 12)))
		if was, ok := seen[key]; ok {
			t.Errorf("colours %s and %s look alike: %s", was, mode, key)
		}
		seen[key] = mode
		if legend := b.text("legend"); legend == "" {
			t.Errorf("colour %s has no legend", mode)
		}
	}
}

func TestHTMLIsSafeFromNames(t *testing.T) {
	page := write(t, "html", awkward(), Options{Title: "</title><script>alert(2)</script>"})
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("page ends %d scripts, want its own 2", n)
	}
	b := open(t, "awkward.html", page)
	b.Screenshot("html-awkward")
	want := map[string]bool{}
	for _, s := range awkward().Stacks {
		want[shortName(s.Frames[0])] = true
	}
	for _, n := range eval[[]string](b, `JSON.parse(document.getElementById("data").textContent).names`) {
		delete(want, n)
	}
	for n := range want {
		t.Errorf("no function %.80q in the page", n)
	}
	b.Quiet()
}

func TestHTMLShowsEmptyAndDeepProfiles(t *testing.T) {
	b := open(t, "empty.html", write(t, "html", &Profile{}, Options{}))
	b.Screenshot("html-empty")
	if got, want := b.detail("samples"), "all samples: 0 · 0.00%"; got != want {
		t.Errorf("empty: %q, want %q", got, want)
	}
	b.Quiet()

	b = open(t, "deep.html", write(t, "html", deep(), Options{}))
	for range 300 {
		b.Keys(webdriver.UpKey, "")
	}
	if got, want := b.detail("samples"), "level299: 5 · 100.00%"; got != want {
		t.Errorf("300 keys up: %q, want %q", got, want)
	}
	b.Screenshot("html-deep")
	b.Quiet()
}

// wide has n distinct functions, each on a stack of its own.
func wide(n int) *Profile {
	var stacks []Stack
	for i := range n {
		stacks = append(stacks, on(1, []symbolize.Frame{
			native("main", 0), js(fmt.Sprintf("group%d", i%997), "/srv/g.js", i%997+1, 1), js(fmt.Sprintf("f%d", i), "/srv/wide.js", i+1, 1),
		}))
	}
	return profileOf(stacks...)
}

func TestHTMLCopesWith50000Functions(t *testing.T) {
	b := open(t, "wide.html", write(t, "html", wide(50_000), Options{}))
	redraw := eval[float64](b, `(() => { const start = performance.now();
		document.getElementById("stage").dispatchEvent(new Event("scroll")); return performance.now() - start; })()`)
	t.Logf("a redraw of 50,000 functions takes %.0f ms", redraw)
	if redraw > 2000 {
		t.Errorf("a redraw takes %.0f ms, want at most 2000", redraw)
	}
	b.Keys("/", "")
	b.Keys("^f49999 ", "")
	if got, want := b.text("matched"), "0.0% matched"; got != want {
		t.Errorf("matched = %q, want %q", got, want)
	}
	b.Screenshot("html-wide")
	b.Quiet()
}

func (t *htmlTree) total() (sum uint64) {
	for i := 2; i < len(t.Nodes); i += 3 {
		sum += t.Nodes[i]
	}
	return sum
}

func TestHTMLDataAddsUp(t *testing.T) {
	d := newHTMLData(server(), Options{})
	var all, program uint64
	for _, thread := range d.Threads {
		all, program = all+thread.All.total(), program+thread.Program.total()
	}
	if want := server().Total; all != want || program != want || math.Mod(float64(len(d.Frames)), 5) != 0 {
		t.Errorf("nodes hold %d samples, %d of the program, and %d numbers of frames, want %d twice and a multiple of 5", all, program, len(d.Frames), want)
	}
}

func TestHTMLSearchDimsWhatDoesNotMatch(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", simple(), Options{Native: true}))
	alpha := func(fraction float64) float64 { // of c, which matches, or of b, which does not
		p := b.at(fraction, 2)
		p.Y -= 7 // above the label
		return b.pixel(p)[3]
	}
	const ofB, ofC = 0.4 * 100 / 117, 0.75 * 100 / 117
	b.Keys("/", "")
	b.Keys("^c ", "")
	if hit, other := alpha(ofC), alpha(ofB); hit != 255 || other > 100 {
		t.Errorf("alpha = %v of what matches, %v of what does not, want 255 and 64 or so", hit, other)
	}
	b.Prefer("dark")
	b.Screenshot("html-dark-searched")
	b.Keys(webdriver.EscapeKey, "")
	if got := alpha(ofB); got != 255 {
		t.Errorf("without a search, alpha = %v, want 255", got)
	}
	b.Screenshot("html-dark")
}

// blocks returns what the boxes of a row of the graph say, from left to right.
func (b *browser) blocks(level, width int) (labels []string) {
	b.t.Helper()
	for x := range width {
		b.Hover(b.at((float64(x)+0.5)/float64(width), level))
		if label := b.detail("samples"); len(labels) == 0 || labels[len(labels)-1] != label {
			labels = append(labels, label)
		}
	}
	return labels
}

func TestHTMLSwitchesToEverything(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", nested(), Options{}))
	b.Screenshot("html-program")
	pressed := func() string {
		return eval[string](b, `["program", "everything"].map(id => document.getElementById(id).getAttribute("aria-pressed")).join()`)
	}
	total := func() string { // of the root
		b.Hover(webdriver.Point{X: 1, Y: 1})
		return b.detail("samples")
	}
	const all = "all samples: 129 · 100.00%"
	is := func(after, state string, rows ...[]string) {
		t.Helper()
		if got := pressed(); got != state {
			t.Errorf("%s: JavaScript, Everything are pressed: %s, want %s", after, got, state)
		}
		if got := total(); got != all {
			t.Errorf("%s: %q, want %q", after, got, all)
		}
		for i, want := range rows {
			if diff := cmp.Diff(want, b.blocks(i+1, 129)); diff != "" {
				t.Errorf("%s: boxes of level %d differ (-want +got):\n%s", after, i+1, diff)
			}
		}
	}
	program := [][]string{ // where there is no box, the root is described
		{"[truncated]: 29 · 22.48%", "f: 28 · 21.71%", "g: 30 · 23.26%", "idle: 19 · 14.73%", "libuv's thread pool: 23 · 17.83%"},
		{"g: 29 · 22.48%", "JSON.parse: 26 · 20.16%", all, "mul: 17 · 13.18%", "replace: 13 · 10.08%", all},
	}
	everything := [][]string{
		{"[truncated]: 29 · 22.48%", "main: 77 · 59.69%", "worker: 23 · 17.83%"},
		{"g: 29 · 22.48%", "uv_run: 77 · 59.69%", "uv__fs_work: 23 · 17.83%"},
	}
	is("at first", "true,false", program...)
	b.Click(b.element("everything"))
	b.Screenshot("html-everything")
	is("click on Everything", "false,true", everything...)
	b.Click(b.element("everything"))
	is("click on it again", "false,true")
	b.Keys("j", "")
	is("j", "true,false", program...)
	b.Keys("r", "")
	is("by callee", "true,false", []string{
		"GC: 11 · 8.53%", "JSON.parse: 8 · 6.20%", "RegExp: /a+/: 13 · 10.08%", "f: 2 · 1.55%", "g: 36 · 27.91%",
		"idle: 19 · 14.73%", "libuv's thread pool: 23 · 17.83%", "malloc: 17 · 13.18%",
	})
	b.Keys("rj", "")
	is("r, j", "false,true", everything...)
	eval[any](b, `document.getElementById("program").focus()`)
	b.Keys(webdriver.EnterKey, "")
	is("Enter on JavaScript", "true,false", program...)
	b.Quiet()
}

func TestHTMLOpensWithEverything(t *testing.T) {
	native := profileOf(on(3, []symbolize.Frame{native("main", 0), native("compute", 0)}))
	for name, tt := range map[string]struct {
		p      *Profile
		o      Options
		want   string // what is at level 1
		choice bool
	}{
		"on request":         {nested(), Options{Native: true}, "main: 77 · 59.69%", true},
		"without JavaScript": {native, Options{}, "main: 3 · 100.00%", false},
		"of JavaScript only": {nested().JSOnly(), Options{}, "g: 59 · 45.74%", false},
	} {
		b := open(t, "graph.html", write(t, "html", tt.p, tt.o))
		b.Hover(b.at(0.6, 1))
		if got := b.detail("samples"); got != tt.want {
			t.Errorf("%s: level 1 has %q, want %q", name, got, tt.want)
		}
		if got := eval[bool](b, `!document.getElementById("functions").hidden`); got != tt.choice {
			t.Errorf("%s: the choice is shown: %t, want %t", name, got, tt.choice)
		}
		b.Keys("j", "")
		b.Quiet()
	}
}

// checkBothNamesAreFound searches a graph of one function of V8 by its full and its short
// name.
func checkBothNamesAreFound(t *testing.T, b *browser) {
	t.Helper()
	for _, term := range []string{"^v8::internal::Json", "^JsonParser<…>"} {
		b.Keys("/", "")
		b.Keys(term, "")
		if got, want := b.text("matched"), "100.0% matched"; got != want {
			t.Errorf("%s: matched = %q, want %q", term, got, want)
		}
		b.Keys(webdriver.EscapeKey, "")
	}
}

func TestHTMLShowsFullNames(t *testing.T) {
	const full = "v8::internal::JsonParser<unsigned char>::ParseJsonValue<false>"
	b := open(t, "graph.html", write(t, "html", profileOf(on(5, []symbolize.Frame{native(full, 0)})), Options{}))
	b.Hover(b.at(0.5, 1))
	if got, want := b.detail("samples"), full+": 5 · 100.00%"; got != want {
		t.Errorf("details = %q, want %q", got, want)
	}
	checkBothNamesAreFound(t, b)
	b.Quiet()
}
