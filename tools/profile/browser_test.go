package profile

import (
	"os/exec"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/webdriver"
)

func TestMain(m *testing.M) { webdriver.Main(m) }

// need returns the path of a program; without it the test is skipped, or fails
// where every test must run.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		nodetest.MustRun(t, "needs "+program+": "+err.Error())
	}
	return path
}

// A browser shows one of our pages.
type browser struct {
	*webdriver.Browser
	t *testing.T
}

// open starts a browser on a page with that content.
func open(t *testing.T, file, content string) *browser {
	t.Helper()
	b := &browser{webdriver.Open(t), t}
	b.Show(file, content)
	return b
}

// eval returns the value of a JavaScript expression in the page.
func eval[T any](b *browser, expression string, args ...any) T {
	b.t.Helper()
	return webdriver.Eval[T](b.Browser, expression, args...)
}
