package profile

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/symbolize"
	"ustack/testdata/nodetest/webdriver"
)

// frame is the JavaScript for the box of the function of that name in an SVG.
func frame(name string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#frames g')].find(g => g.dataset.name === %q)", name)
}

func (b *browser) text(id string) string {
	b.t.Helper()
	return eval[string](b, "document.getElementById(arguments[0]).textContent", id)
}

// share returns how much of the root's box an element's box is wide.
func (b *browser) share(name string) float64 {
	b.t.Helper()
	return eval[float64](b, fmt.Sprintf("(%s).querySelector('rect').getBoundingClientRect().width"+
		" / document.querySelector('#frames rect').getBoundingClientRect().width", frame(name)))
}

func (b *browser) shown(name string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf("(%s).getBoundingClientRect().width > 0", frame(name)))
}

func TestSVGIsWellFormed(t *testing.T) {
	for name, p := range fixtures() {
		d := xml.NewDecoder(strings.NewReader(write(t, "svg", p, Options{Title: `<&">`})))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestSVGHidesSmallFrames(t *testing.T) {
	all, some := write(t, "svg", server(), Options{}), write(t, "svg", server(), Options{MinPercent: 5})
	if !strings.Contains(all, `data-name="read"`) || strings.Contains(some, `data-name="read"`) {
		t.Error("read has 1.2%: it must be drawn, and not with MinPercent 5")
	}
	if !strings.Contains(some, "narrow frames not drawn") {
		t.Error("the picture does not say that frames are not drawn")
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		label string
		room  int
		want  string
	}{
		{"escapeHtml", 10, "escapeHtml"},
		{"escapeHtml", 9, "escapeHt…"},
		{"escapeHtml", 3, "es…"},
		{"escapeHtml", 2, ""},
		{"ab", 2, "ab"},
		{"", 0, ""},
		{"漢字カナ", 8, "漢字カナ"},
		{"漢字カナ", 6, "漢字…"},
		{"🎉🎉", 3, "🎉…"},
	} {
		if got := fit(tt.label, (float64(tt.room)+0.5)*svgChar); got != tt.want {
			t.Errorf("fit(%q) to %d = %q, want %q", tt.label, tt.room, got, tt.want)
		}
	}
}

func TestColorsAreOfTheKind(t *testing.T) {
	for _, tt := range []struct {
		h, s, l float64
		want    string
	}{{0, 1, 0.5, "#ff0000"}, {120, 1, 0.25, "#008000"}, {210, 0, 0.5, "#808080"}, {240, 1, 0.75, "#8080ff"}} {
		if got := hsl(tt.h, tt.s, tt.l); got != tt.want {
			t.Errorf("hsl(%g, %g, %g) = %s, want %s", tt.h, tt.s, tt.l, got, tt.want)
		}
	}
	a, b := &node{frame: js("f", "/a.js", 1, 1)}, &node{frame: js("f", "/b.js", 9, 1)}
	if fill(a) != fill(b) || fill(a) == fill(&node{frame: js("g", "/a.js", 1, 1)}) {
		t.Error("a colour must be its name's")
	}
}

func TestSVGZoomsOnClick(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", fixtures()["server"], Options{}))
	b.Screenshot("svg")
	if got, want := b.share("renderPage"), 463.0/882; math.Abs(got-want) > 0.005 {
		t.Errorf("renderPage has %.3f of the width, want %.3f", got, want)
	}
	b.Click(b.Middle(frame("renderPage")))
	b.Screenshot("svg-zoomed")
	if got := b.share("renderPage"); math.Abs(got-1) > 0.005 {
		t.Errorf("zoomed, renderPage has %.3f of the width, want all", got)
	}
	if b.shown("Catalog.find") || !b.shown("escapeHtml") || !b.shown("uv_run") {
		t.Error("zoomed, callers and callees must show, others not")
	}
	b.Click(b.Middle("document.getElementById('reset')"))
	if got, want := b.share("renderPage"), 463.0/882; math.Abs(got-want) > 0.005 {
		t.Errorf("reset, renderPage has %.3f of the width, want %.3f", got, want)
	}
	b.Click(b.Middle(frame("Catalog.find")))
	b.Keys(webdriver.EscapeKey, "")
	if !b.shown("renderPage") {
		t.Error("Esc does not zoom out")
	}
	b.Quiet()
}

func TestSVGSearches(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", fixtures()["server"], Options{}))
	b.Keys("f", webdriver.CtrlKey)
	b.Keys("render|expand", "")
	if got, want := b.text("matched"), "52.5% matched"; got != want { // nested matches count once
		t.Errorf("matched = %q, want %q", got, want)
	}
	b.Screenshot("svg-searched")
	b.Click(b.Middle(frame("Catalog.find")))
	if got := b.text("matched"); got != "0.0% matched" {
		t.Errorf("zoomed to Catalog.find: matched = %q, want 0.0%% matched", got)
	}
	b.Keys(webdriver.EscapeKey, "") // forgets the search
	if got := b.text("matched"); got != "" {
		t.Errorf("after Esc, matched = %q, want nothing", got)
	}
	b.Keys(webdriver.EscapeKey, "") // zooms out
	b.Keys("/", "")
	b.Keys("(unbalanced", "")
	if got := b.text("matched"); got != "no match" {
		t.Errorf("matched = %q, want no match", got)
	}
	b.Quiet()
}

func TestSVGTellsDetailsUnderThePointer(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", fixtures()["server"], Options{}))
	b.Hover(b.Middle(frame("escapeHtml")))
	want := "escapeHtml /srv/shop/lib/escape.js:3:21, turbofan: 355 samples, 40.25%; 294 in itself"
	if got := b.text("details"); got != want {
		t.Errorf("details = %q, want %q", got, want)
	}
}

func TestSVGShowsAwkwardNames(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", awkward(), Options{}))
	b.Screenshot("svg-awkward")
	got := eval[[]string](b, "[...document.querySelectorAll('#frames g')].map(g => g.dataset.name)")
	has := map[string]bool{}
	for _, name := range got {
		has[name] = true
	}
	for _, s := range awkward().Stacks {
		if want := cut(shortName(s.Frames[0]), maxShown); !has[want] {
			t.Errorf("no box for %.80q", want)
		}
		if n := utf8.RuneCountInString(cut(name(s.Frames[0]), maxShown)); n > maxShown {
			t.Errorf("name has %d characters, want at most %d", n, maxShown)
		}
	}
	b.Quiet()
}

// inSight reports whether all of the box of the function of that name is in the window.
func (b *browser) inSight(name string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf("(r => r.top >= 0 && r.bottom <= innerHeight)((%s).getBoundingClientRect())", frame(name)))
}

func TestSVGOpensAtItsRoot(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", deep(), Options{}))
	if !b.inSight("all") || !b.inSight("level0") || b.inSight("level299") {
		t.Error("of 300 levels, those at the root are not in sight")
	}
	b.Screenshot("svg-deep")
}

func TestSVGIsDarkWhereTheUserWantsIt(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", fixtures()["server"], Options{}))
	for scheme, want := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 31)"} {
		b.Prefer(scheme)
		b.Screenshot("svg-" + scheme)
		page := eval[string](b, "getComputedStyle(document.getElementById('page')).fill")
		ink := eval[string](b, "getComputedStyle(document.getElementById('title')).fill")
		if page != want || ink == page {
			t.Errorf("%s: page is %s with text in %s, want the page in %s", scheme, page, ink, want)
		}
	}
	b.Keys("/", "")
	b.Keys("escape", "")
	b.Screenshot("svg-dark-searched")
	b.Quiet()
}

func TestSVGSearchDimsWhatDoesNotMatch(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", fixtures()["server"], Options{}))
	opacity := func(name string) string {
		return eval[string](b, fmt.Sprintf("getComputedStyle((%s).querySelector('rect')).opacity", frame(name)))
	}
	b.Keys("/", "")
	b.Keys("escapeHtml", "")
	if hit, other := opacity("escapeHtml"), opacity("Catalog.find"); hit != "1" || other != "0.25" {
		t.Errorf("opacity = %s of what matches, %s of what does not, want 1 and 0.25", hit, other)
	}
	b.Keys(webdriver.EscapeKey, "")
	if got := opacity("Catalog.find"); got != "1" {
		t.Errorf("without a search, opacity = %s, want 1", got)
	}
}

func TestSVGShowsDeepStacks(t *testing.T) {
	b := open(t, "graph.svg", write(t, "svg", deep(), Options{}))
	if !b.shown("level299") {
		t.Error("the leaf of 300 frames does not show")
	}
	b.Quiet()
}

func TestSVGShowsFullNames(t *testing.T) {
	const full, short = "v8::internal::JsonParser<unsigned char>::ParseJsonValue<false>", "JsonParser<…>::ParseJsonValue<false>"
	b := open(t, "graph.svg", write(t, "svg", profileOf(on(5, []symbolize.Frame{native(full, 0)})), Options{}))
	b.Hover(b.Middle(frame(short)))
	if got, want := b.text("details"), full+" in "+nodeBinary+": 5 samples, 100.00%; 5 in itself"; got != want {
		t.Errorf("details = %q, want %q", got, want)
	}
	checkBothNamesAreFound(t, b)
	b.Quiet()
}
