package nodejs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest/calls"
)

// requestsProgram asks the system to open a pipe that nobody writes to.
const requestsProgram = `const { execFileSync } = require('child_process'), fs = require('fs'), path = require('path');
const pipe = path.join(path.dirname(__filename), 'pipe');
execFileSync('mkfifo', [pipe]);
fs.open(pipe, 'r', function opened() {});
process.on('SIGTERM', () => process.exit());
console.log('ready');`

// TestRequestsAreFound has a process with one pending request.
func TestRequestsAreFound(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			d, g := dumped(t, calls.StartSource(t, version, requestsProgram).PID)
			requests, err := d.Node().Requests(g.Graph)
			if err != nil {
				t.Fatal(err)
			}
			if found := ofClass(requests, "FSReqCallback"); len(found) != 1 || found[0].Address == 0 || found[0].Type != "" {
				t.Errorf("requests = %+v, want one of the file system", requests)
			}
		})
	}
}

// immediateProgram never returns to its event loop.
const immediateProgram = `function soon() {}
function kept() {}
setImmediate(soon);
setImmediate(kept).unref();
clearImmediate(setImmediate(() => {}));
console.log('ready');
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`

// TestImmediatesAreFound has a process with immediates that are never called, one of which
// it cancelled.
func TestImmediatesAreFound(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			d, g := dumped(t, calls.StartSource(t, version, immediateProgram).PID)
			got := map[string]bool{}
			for _, timer := range d.Node().Timers(g.Graph) {
				if timer.Kind != "immediate" || timer.After != 0 || timer.Place == "" {
					t.Errorf("timer = %+v, want an immediate of the program", timer)
				}
				got[string(timer.Callback.Text)] = timer.Unref
			}
			if diff := cmp.Diff(map[string]bool{"soon": false, "kept": true}, got); diff != "" {
				t.Errorf("immediates, and whether they are unreferenced (-want +got):\n%s", diff)
			}
		})
	}
}
