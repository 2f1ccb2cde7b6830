package nodetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Twin is a process whose program, add-on and script have the same paths as those of other
// processes, and are other files, as in a container. It spins in the function "spin_" and its
// name, at Line of app.js, and has its add-on do jobs: Twin.Begin hands in those that Twin.Do
// does.
type Twin struct {
	*Target
	Name    string
	Version string // of its Node.js
	Line    int
	Files   string // where its files are for processes outside
}

// Spin is the JavaScript function in which the twin spends its time.
func (w *Twin) Spin() string { return "spin_" + w.Name }

// Class is the class of an object that the twin keeps.
func (w *Twin) Class() string { return "Twin_" + w.Name }

// Begin is the function of addon.node that hands in jobs.
func (w *Twin) Begin() string { return "begin_" + w.Name }

// Do is the function of addon.node that does jobs.
func (w *Twin) Do() string { return "do_" + w.Name }

// twins are a process outside of containers, one of those in which other files are mounted
// there, and one in which they are in a layer, as those of images are.
var twins = []struct {
	name, version string
	mount         string // a command that mounts a folder, $1, over another, $0
}{
	{"outside", "26.10.0", ""},
	{"mounted", "18.20.8", `mount --bind "$1" "$0"`},
	{"layered", "22.23.3", `mount -t overlay -o "lowerdir=$1:$0" twin "$0"`},
}

// Twins starts the twins, the one outside of containers first. Their files are in the folder
// that they share.
func Twins(t testing.TB) (all []Twin, folder string) {
	t.Helper()
	Root(t)
	temp := t.TempDir()
	folder = filepath.Join(temp, "outside")
	for i, w := range twins {
		twin := Twin{Name: w.name, Version: w.version, Line: 2 + 3*i, Files: filepath.Join(temp, w.name)}
		twin.install(t)
		program := filepath.Join(folder, "node")
		if w.mount != "" {
			program = filepath.Join(temp, "start-"+w.name)
			script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c '%s && folder=$0 && shift && exec \"$folder/node\" \"$@\"' %s %s \"$@\"\n", w.mount, folder, twin.Files)
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		twin.Target = Start(t, program, Options{Script: filepath.Join(folder, "app.js")})
		all = append(all, twin)
	}
	return all, folder
}

const twinScript = `%sfunction spin_%s() { for (const end = Date.now() + 5; Date.now() < end;); }
const addon = require(__dirname + '/addon.node');
function turn() { spin_%[2]s(); addon.spin(100, () => setImmediate(turn)); }
globalThis.twin = new (class Twin_%[2]s {});
require('fs').writeSync(1, 'ready\n');
turn();
`

// install makes the twin's files.
func (w *Twin) install(t testing.TB) {
	t.Helper()
	node := Node(t, w.Version)
	addon := Addon(t, node, "napi.c", "-Dbegin_spin="+w.Begin(), "-Ddo_spin="+w.Do())
	script := fmt.Sprintf(twinScript, strings.Repeat("\n", w.Line-1), w.Name)
	err := errors.Join(
		os.Mkdir(w.Files, 0o755),
		link(node, filepath.Join(w.Files, "node")),
		link(addon, filepath.Join(w.Files, "addon.node")),
		os.WriteFile(filepath.Join(w.Files, "app.js"), []byte(script), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// link makes a link to a file, or a copy where another file system is.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
