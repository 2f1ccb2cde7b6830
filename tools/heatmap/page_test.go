package heatmap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest/webdriver"
)

// sample returns a map of 10 seconds: 97 jobs of one kind in each, one of which has 900
// outliers in the fourth second, and one job of another kind in the eighth.
func sample() *Map {
	m := New(2, time.Second)
	for i := range 10 {
		m.column(i)
		m.Add("hash", "hash", append(counts(80, 97), counts(72, 96)...))
		if i == 3 {
			m.Add("hash", "hash", counts(84, 900))
		}
		if i == 7 {
			m.Add("</script>\x1b<b>read", "</script>\x1b<b>read", counts(120, 1))
		}
	}
	return m
}

func open(t *testing.T, m *Map) *webdriver.Browser {
	t.Helper()
	var b strings.Builder
	if err := m.WriteHTML(&b, Text{Title: "jobs <of> 4242", Summary: "all", Parts: []string{"total", "run"}, Noun: "jobs"}); err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"http:", "https:", "src=", "url(", "@import"} {
		if strings.Contains(b.String(), outside) {
			t.Errorf("page contains %q, want nothing from elsewhere", outside)
		}
	}
	browser := webdriver.Open(t)
	browser.Show("heatmap.html", b.String())
	return browser
}

const (
	rightKey = "\ue014"
	leftKey  = "\ue012"
	homeKey  = "\ue011"
	endKey   = "\ue010"
	shiftKey = "\ue008"
)

// details returns what the page says of the cell: its count, and the values of rows.
func details(b *webdriver.Browser, rows ...string) string {
	text := webdriver.Eval[string](b, `document.querySelector("#details h2").textContent`)
	for _, row := range rows {
		text += "; " + webdriver.Eval[string](b, `([...document.querySelectorAll("#details tr")].find(r => r.cells[0].textContent === arguments[0]) || {cells: [0, {textContent: "none"}]}).cells[1].textContent`, row)
	}
	return text
}

func expect(t *testing.T, after, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", after, got, want)
	}
}

func TestPageSaysWhatIsInACell(t *testing.T) {
	b := open(t, sample())
	b.Screenshot("heatmap")
	expect(t, "at first", details(b, "hash", "</script>\\u{1b}<b>read"), "1871 jobs; 1870 · 99.95%; none")
	// The rows are of two buckets each, from 80 to 121.
	stage := webdriver.Eval[map[string]float64](b, `(r => ({x: r.x, y: r.y, width: r.width, height: r.height}))(document.getElementById("canvas").getBoundingClientRect())`)
	at := func(column, row float64) webdriver.Point {
		const left, right, top, bottom, columns, rows = 62, 8, 8, 36, 10, 21
		return webdriver.Point{
			X: stage["x"] + left + (stage["width"]-left-right)*(column+0.5)/columns,
			Y: stage["y"] + stage["height"] - bottom - (stage["height"]-top-bottom)*(row+0.5)/rows,
		}
	}
	b.Hover(at(0, 0))
	expect(t, "first cell", details(b, "of this time", "of all", "hash"), "97 jobs; 97 · 100.00%; 97 · 5.18%; 97")
	b.Hover(at(3, 2))
	expect(t, "many", details(b, "of this time"), "900 jobs; 900 · 90.27%")
	b.Hover(at(7, 20))
	expect(t, "outlier", details(b, "latency", "of this time"), "1 jobs; 131 µs – 164 µs; 1 · 1.02%")
	b.Hover(at(5, 10))
	expect(t, "empty cell", details(b, "of this time"), "0 jobs; 0 · 0.00%")
	b.Quiet()
}

func TestPageNeedsNoMouse(t *testing.T) {
	b := open(t, sample())
	press := func(key, held string) string {
		b.Keys(key, held)
		return details(b, "of this time")
	}
	expect(t, "first key: the fullest cell", press(rightKey, ""), "900 jobs; 900 · 90.27%")
	expect(t, "Right", press(rightKey, ""), "0 jobs; 0 · 0.00%")
	expect(t, "Home", press(homeKey, ""), "0 jobs; 0 · 0.00%")
	expect(t, "Shift+Right", press(rightKey, shiftKey), "900 jobs; 900 · 90.27%")
	expect(t, "Shift+Right, where no more are", press(rightKey, shiftKey), "900 jobs; 900 · 90.27%")
	expect(t, "End", press(endKey, ""), "0 jobs; 0 · 0.00%")
	for range 2 {
		press(leftKey, "")
	}
	expect(t, "Shift+Up", press(webdriver.UpKey, shiftKey), "1 jobs; 1 · 1.02%")
	expect(t, "Escape", press(webdriver.EscapeKey, ""), "1871 jobs; none")
	b.Keys("p", "")
	expect(t, "p", details(b), "960 jobs")
	b.Keys("ps", "")
	expect(t, "p, s", details(b), "1870 jobs")
	b.Keys("s", "")
	expect(t, "s", details(b), "1 jobs")
	b.Keys("s", "")
	expect(t, "s, s", details(b), "1871 jobs")
	if got := webdriver.Eval[string](b, `[...document.getElementById("series").options].map(o => o.text).join("|")`); !strings.HasPrefix(got, "All – 1871|hash – 1870|</script>") || strings.ContainsRune(got, 0x1b) {
		t.Errorf("kinds of work = %q, want all, hash and the hostile one, safe", got)
	}
	b.Quiet()
}

// TestAnyCellIsVisible: a single value among a million, in a long run and a window that
// has fewer pixels than cells, in both colour schemes.
func TestAnyCellIsVisible(t *testing.T) {
	m := New(1, time.Second)
	for i := range maxColumns {
		m.column(i)
		m.Add("hash", "hash", counts(80, 1_000_000))
		if i == 151 {
			m.Add("hash", "hash", counts(490, 1))
		}
	}
	b := open(t, m)
	for _, scheme := range []string{"light", "dark"} {
		b.Prefer(scheme)
		b.Wait(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, scheme))
		b.Screenshot("heatmap-" + scheme)
		// Of the topmost row of cells, the pixels that differ in colour from the page and
		// the lines by more than the lines do.
		visible := webdriver.Eval[int](b, `(() => {
			const canvas = document.getElementById("canvas"), copy = document.createElement("canvas");
			copy.width = canvas.width;
			copy.height = canvas.height;
			const context = copy.getContext("2d", { willReadFrequently: true });
			context.drawImage(canvas, 0, 0);
			const page = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
			const { data } = context.getImageData(64, 9, canvas.width - 72, 2);
			let n = 0;
			for (let i = 0; i < data.length; i += 4) {
				if (data[i + 3] === 255 && Math.max(...[0, 1, 2].map(k => Math.abs(data[i + k] - page[k]))) > 60) n++;
			}
			return n;
		})()`)
		if visible < 2 {
			t.Errorf("%s: pixels of the outlier = %d, want 2 or more", scheme, visible)
		}
	}
	b.Quiet()
}

func TestPageOfNothing(t *testing.T) {
	b := open(t, New(2, time.Second))
	b.Keys(rightKey, "")
	expect(t, "nothing", details(b), "0 jobs")
	expect(t, "legend", webdriver.Eval[string](b, `document.getElementById("legend").textContent`), "nothing to draw")
	b.Quiet()
}
