// Package webdriver lets tests use a page as people do: in a real browser, with
// its mouse and keyboard.
package webdriver

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
)

// need returns the path of a program; without it the test is skipped, or fails
// where every test must run.
func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		nodetest.MustRun(t, fmt.Sprintf("needs %s: %v", program, err))
	}
	return path
}

// A Browser is one headless Chromium with one page, of one test.
type Browser struct {
	t       testing.TB
	session string // URL
}

// chromeFlags keep Chromium off the screen and off the network.
var chromeFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--hide-scrollbars", "--force-color-profile=srgb", "--window-size=1280,800",
}

// A process is a browser and what drives it. It serves one test after another.
type process struct {
	driver  *exec.Cmd
	profile string // folder
	session string // URL
}

// idle has the browser for the next test; nil: the test starts one. Main stops it.
var idle struct {
	keep    bool
	browser *process
}

// Main runs a package's tests, which share one browser, one test after another: to start one
// takes longer than most tests.
func Main(m *testing.M) {
	idle.keep = true
	status := m.Run()
	if p := idle.browser; p != nil {
		if err := p.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// Open returns a browser on an empty page, with these flags beside its own. The test is
// skipped where there is no Chromium, or fails where every test must run.
func Open(t testing.TB, flags ...string) *Browser {
	t.Helper()
	p := idle.browser
	if p == nil || len(flags) > 0 {
		p = start(t, flags)
	} else {
		idle.browser = nil
	}
	b := &Browser{t, p.session}
	t.Cleanup(func() {
		if idle.keep && idle.browser == nil && len(flags) == 0 && !t.Failed() {
			b.reset()
			idle.browser = p
		} else if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// reset makes the browser as it was when it started.
func (b *Browser) reset() {
	b.t.Helper()
	b.call("DELETE", "/actions", nil, nil)
	b.Prefer("")
	b.Visit("about:blank")
	b.messages()
}

var driverPort = regexp.MustCompile(`started successfully on port (\d+)`)

// start starts a browser.
func start(t testing.TB, flags []string) *process {
	t.Helper()
	chromium := need(t, "chromium")
	p := &process{driver: exec.Command(need(t, "chromedriver"), "--port=0")}
	out, err := p.driver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.profile, err = os.MkdirTemp("", "chromium-"); err != nil {
		t.Fatal(err)
	}
	if err := p.driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.session == "" {
			_ = p.stop() // its start has failed
		}
	})
	b := &Browser{t: t}
	for s := bufio.NewScanner(out); b.session == "" && s.Scan(); {
		if m := driverPort.FindStringSubmatch(s.Text()); m != nil {
			b.session = "http://127.0.0.1:" + m[1] + "/session"
		}
	}
	args := slices.Concat([]string{"--user-data-dir=" + p.profile}, chromeFlags, flags)
	var created struct{ SessionID string }
	b.call("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"binary": chromium, "args": args},
		"goog:loggingPrefs":  map[string]any{"browser": "ALL"},
	}}}, &created)
	p.session = b.session + "/" + created.SessionID
	return p
}

// stop ends the browser and what drives it.
func (p *process) stop() error {
	req, err := http.NewRequest(http.MethodDelete, p.session, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	_ = p.driver.Process.Kill()
	_ = p.driver.Wait() // it was killed
	return errors.Join(err, os.RemoveAll(p.profile))
}

// Visit loads a page.
func (b *Browser) Visit(page string) {
	b.t.Helper()
	b.call("POST", "/url", map[string]string{"url": page}, nil)
}

// Show loads a page of that content, from a file of that name.
func (b *Browser) Show(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.Visit((&url.URL{Scheme: "file", Path: file}).String())
}

// Prefer sets what the user is taken to prefer: "light", "dark", or neither.
func (b *Browser) Prefer(scheme string) {
	b.t.Helper()
	b.call("POST", "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setEmulatedMedia", "params": map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}}, nil)
}

// call makes one WebDriver request and reads the value of its answer into value.
func (b *Browser) call(method, path string, body, value any) {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	if body == nil {
		data = nil
	}
	req, err := http.NewRequest(method, b.session+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		b.t.Fatalf("read answer to %s %s: %v", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %.600s", method, path, answer.Value)
	}
	if value != nil {
		if err := json.Unmarshal(answer.Value, value); err != nil {
			b.t.Fatalf("read answer to %s %s: %v", method, path, err)
		}
	}
}

// Eval returns the value of a JavaScript expression in the page.
func Eval[T any](b *Browser, expression string, args ...any) T {
	b.t.Helper()
	if args == nil {
		args = []any{}
	}
	var value T
	b.call("POST", "/execute/sync", map[string]any{"script": "return (" + expression + ");", "args": args}, &value)
	return value
}

// A Point is a place in the window, in pixels.
type Point struct{ X, Y float64 }

// Middle returns the middle of the element that a JavaScript expression gives.
func (b *Browser) Middle(element string) Point {
	b.t.Helper()
	return Eval[Point](b, fmt.Sprintf(
		"(r => ({X: r.x + r.width / 2, Y: r.y + r.height / 2}))((%s).getBoundingClientRect())", element))
}

// pointer moves the mouse to p, and clicks if click is set.
func (b *Browser) pointer(p Point, click bool) {
	b.t.Helper()
	actions := []map[string]any{{"type": "pointerMove", "duration": 0, "x": int(p.X), "y": int(p.Y)}}
	if click {
		actions = append(actions, map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0})
	}
	b.call("POST", "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "pointer", "id": "mouse", "parameters": map[string]string{"pointerType": "mouse"}, "actions": actions,
	}}}, nil)
}

// Click clicks at p, and Hover moves the mouse there.
func (b *Browser) Click(p Point) { b.t.Helper(); b.pointer(p, true) }
func (b *Browser) Hover(p Point) { b.t.Helper(); b.pointer(p, false) }

// Keys of WebDriver.
const (
	EscapeKey = "\ue00c"
	EnterKey  = "\ue007"
	CtrlKey   = "\ue009"
	UpKey     = "\ue013"
	DownKey   = "\ue015"
)

// Keys types text; a key in held is held down meanwhile.
func (b *Browser) Keys(text, held string) {
	b.t.Helper()
	var actions []map[string]any
	if held != "" {
		actions = append(actions, map[string]any{"type": "keyDown", "value": held})
	}
	for _, r := range text {
		actions = append(actions, map[string]any{"type": "keyDown", "value": string(r)}, map[string]any{"type": "keyUp", "value": string(r)})
	}
	if held != "" {
		actions = append(actions, map[string]any{"type": "keyUp", "value": held})
	}
	b.call("POST", "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keys", "actions": actions}}}, nil)
}

// Screenshot writes the page to DIR/name.png where USTACK_SCREENSHOTS names a
// folder, for a person to look at.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("USTACK_SCREENSHOTS")
	if dir == "" {
		return
	}
	var data string
	b.call("GET", "/screenshot", nil, &data)
	png, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Quiet fails the test if the page wrote errors or asked for anything else than itself.
func (b *Browser) Quiet() {
	b.t.Helper()
	for _, m := range b.messages() {
		b.t.Errorf("page says %s: %s", m.Level, m.Message)
	}
	if got := Eval[[]string](b, "performance.getEntriesByType('resource').map(e => e.name)"); len(got) > 0 {
		b.t.Errorf("page fetched %q, want nothing", got)
	}
}

// A message is what a page wrote.
type message struct{ Level, Message string }

// messages returns the pages' messages since the last call.
func (b *Browser) messages() (all []message) {
	b.t.Helper()
	b.call("POST", "/se/log", map[string]string{"type": "browser"}, &all)
	return all
}

// Wait returns once a JavaScript condition holds.
func (b *Browser) Wait(condition string) {
	b.t.Helper()
	var held bool
	b.call("POST", "/execute/async", map[string]any{"args": []any{}, "script": fmt.Sprintf(`const done = arguments[0];
		const check = () => (%s) ? done(true) : requestAnimationFrame(check);
		check();`, condition)}, &held)
}
