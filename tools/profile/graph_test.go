package profile

import (
	"fmt"
	"testing"

	"ustack/testdata/nodetest/webdriver"
)

// A graphPage shows the flame graph of simple in one of the formats.
type graphPage struct {
	*browser
	canvas  string // the JavaScript for the element whose box is the root's width, with the root at its bottom
	details string // the JavaScript for "name: value · share" of what is described
}

var graphPages = map[string]graphPage{
	"svg": {
		canvas: `document.querySelector("#frames rect")`,
		details: `(m => m && m[1] + ": " + m[2] + " · " + m[3])(document.getElementById("details").textContent
			.match(/^(\w+).*: (\d+) samples, ([\d.]+%)/))`,
	},
	"html": {
		canvas: `document.getElementById("canvas")`,
		details: `document.querySelector("#details h2").textContent + ": " +
			[...document.querySelectorAll("#details tr")].find(tr => tr.textContent.startsWith("samples")).cells[1].textContent`,
	},
}

// at returns the place of a fraction of the root's width, at a level above it.
func (p graphPage) at(fraction float64, level int) webdriver.Point {
	p.t.Helper()
	return eval[webdriver.Point](p.browser, `(r => ({X: r.left + arguments[0] * r.width,
		Y: r.bottom - (arguments[1] + 0.5) * 18}))(`+p.canvas+`.getBoundingClientRect())`, fraction, level)
}

func (p graphPage) describes(after, want string) {
	p.t.Helper()
	if got := eval[string](p.browser, p.details); got != want {
		p.t.Errorf("%s: details are %q, want %q", after, got, want)
	}
}

func (p graphPage) matches(after, want string) {
	p.t.Helper()
	if got := p.text("matched"); got != want {
		p.t.Errorf("%s: matched = %q, want %q", after, got, want)
	}
}

func (p graphPage) zoomed(after string, want bool) {
	p.t.Helper()
	if got := !eval[bool](p.browser, `document.getElementById("reset").hasAttribute("hidden")`); got != want {
		p.t.Errorf("%s: zoomed = %t, want %t", after, got, want)
	}
}

// TestGraphsBehaveAlike has the same user before the SVG and the HTML page.
func TestGraphsBehaveAlike(t *testing.T) {
	const c = 0.75 * 100 / 117 // where c is
	for format, p := range graphPages {
		t.Run(format, func(t *testing.T) {
			p.browser = open(t, "graph."+format, write(t, format, simple(), Options{Native: true}))
			p.Hover(p.at(c, 2))
			p.describes("pointer on c", "c: 50 · 42.74%")
			p.zoomed("at first", false)

			p.Click(p.at(c, 2))
			p.zoomed("click on c", true)
			for _, tt := range []struct {
				fraction float64
				level    int
				want     string
			}{{0.79, 3, "d: 40 · 34.19%"}, {0.01, 2, "c: 50 · 42.74%"}, {0.99, 1, "main: 100 · 85.47%"}} {
				p.Hover(p.at(tt.fraction, tt.level))
				p.describes(fmt.Sprintf("zoomed, pointer on %g of level %d", tt.fraction, tt.level), tt.want)
			}

			p.Keys("f", webdriver.CtrlKey)
			p.Keys("^[cd] ?", "")
			p.matches("zoomed into c", "100.0% matched")
			p.Keys(webdriver.EscapeKey, "")
			p.matches("Esc", "")
			p.zoomed("Esc from the search", true)
			p.Keys(webdriver.EscapeKey, "")
			p.zoomed("Esc again", false)

			p.Keys("/", "")
			p.Keys("^[cd]", "")
			p.matches("all", "57.3% matched")
			p.Keys("(", "")
			p.matches("no regular expression, and nowhere as text", "no match")
			p.Keys(webdriver.EscapeKey, "")

			p.Hover(webdriver.Point{X: 1, Y: 1})
			p.Keys(webdriver.UpKey+webdriver.UpKey, "")
			p.describes("up, up", "c: 50 · 42.74%")
			p.Keys(webdriver.EnterKey, "")
			p.zoomed("Enter", true)
			p.Keys(webdriver.DownKey, "")
			p.describes("down", "main: 100 · 85.47%")
			p.Click(p.Middle(`document.getElementById("reset")`))
			p.zoomed("reset", false)
			p.Quiet()
		})
	}
}
