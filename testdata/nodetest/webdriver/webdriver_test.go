package webdriver

import "testing"

func TestMain(m *testing.M) { Main(m) }

func TestPageIsUsedAsPeopleDo(t *testing.T) {
	b := Open(t)
	b.Show("page.html", `<title>page</title><style>@media (prefers-color-scheme: dark) { p { color: #fff } }</style>
		<p>text</p><input><button onclick="document.title = document.querySelector('input').value">set</button>`)
	b.Click(b.Middle(`document.querySelector("input")`))
	b.Keys("typed", "")
	b.Hover(Point{1, 1})
	b.Click(b.Middle(`document.querySelector("button")`))
	b.Wait(`document.title !== "page"`)
	if got, want := Eval[string](b, "document.title"), "typed"; got != want {
		t.Errorf("title = %q, want %q", got, want)
	}
	color := `getComputedStyle(document.querySelector("p")).color`
	for scheme, want := range map[string]string{"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"} {
		b.Prefer(scheme)
		if got := Eval[string](b, color); got != want {
			t.Errorf("%s: color = %s, want %s", scheme, got, want)
		}
	}
	b.Quiet()
}
