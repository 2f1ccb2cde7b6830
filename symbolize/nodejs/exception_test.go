package nodejs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// configError is a class of errors, as programs have them.
const configError = `class ConfigError extends Error { constructor(m) { super(m); this.name = 'ConfigError'; } }
`

// exceptionPrograms are killed by what they throw; before that, they catch something else.
var exceptionPrograms = []struct{ name, source, want string }{
	{"thrown", configError + `try { null.x } catch {}; throw new ConfigError('missing key "port"');`, `ConfigError: missing key "port"`},
	{"by V8", `setTimeout(() => { try { null.x } catch {}; undefined.missing; }, 1);`, "TypeError: Cannot read "},
	{"by a builtin", `try { null.x } catch {}; JSON.parse('{bad');`, "SyntaxError: "},
	{"text", `try { null.x } catch {}; throw 'just a text';`, `"just a text"`},
	{"number", `try { null.x } catch {}; throw 42;`, `SMI: value = 42`},
	{"rejection", configError + `(async () => { await null; throw new ConfigError('late'); })();`, "ConfigError: late"},
	{"listener", `process.on('uncaughtException', () => process.abort()); setImmediate(() => { throw new RangeError('caught'); });`, "RangeError: caught"},
	{"rejection's listener", `process.on('unhandledRejection', () => process.abort()); Promise.reject(new RangeError('not caught'));`, "RangeError: not caught"},
	{"caught", `try { throw new Error('old') } catch (e) { process.abort(e) }`, ""},
	{"none", `process.abort();`, ""},
}

// exceptionVersions are those whose aborts are tested.
func exceptionVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
}

// TestExceptionOfAnAbortIsNamed opens the cores of programs that do not catch what they throw.
func TestExceptionOfAnAbortIsNamed(t *testing.T) {
	for _, version := range exceptionVersions() {
		for _, p := range exceptionPrograms {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), p.name), func(t *testing.T) {
				t.Parallel()
				core, _ := nodetest.Killed(t, nodetest.Node(t, version), "--abort-on-uncaught-exception", "-e", p.source)
				if got := exceptionIn(t, core); !strings.HasPrefix(got, p.want) || p.want == "" && got != "" {
					t.Errorf("exception = %s, want %s", got, p.want)
				}
			})
		}
	}
}

// TestExceptionOfAStrippedBuildIsNamed has builds that name few of their functions.
func TestExceptionOfAStrippedBuildIsNamed(t *testing.T) {
	for _, version := range []string{"22.23.3", "24.21.0", "26.10.0"} {
		for _, p := range exceptionPrograms {
			if p.name == "rejection" || p.name == "text" || p.name == "number" {
				continue // Node.js aborts by functions without names; and what is no error is not recognised
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), p.name), func(t *testing.T) {
				t.Parallel()
				core, _ := nodetest.Killed(t, nodetest.StrippedNode(t, version), "--abort-on-uncaught-exception", "-e", p.source)
				if got := exceptionIn(t, core); !strings.HasPrefix(got, p.want) || p.want == "" && got != "" {
					t.Errorf("exception = %s, want %s", got, p.want)
				}
			})
		}
	}
}

// exceptionIn returns the line of a core's status about its exception.
func exceptionIn(t *testing.T, core string) string {
	t.Helper()
	d, err := jscore.Open(t.Context(), core, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var text strings.Builder
	if err := d.Status().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if rest, ok := strings.CutPrefix(line, "exception: "); ok {
			return rest
		}
	}
	return ""
}

// TestPendingExceptionIsNamed takes a core while V8 searches for what catches an exception.
func TestPendingExceptionIsNamed(t *testing.T) {
	for _, version := range exceptionVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			core := filepath.Join(t.TempDir(), "core")
			run := "run -e '(function f() { try { throw new RangeError(`pending`) } catch {} })()'"
			debug := exec.CommandContext(t.Context(), "gdb", "-batch", "-nx", "-ex", "set breakpoint pending on",
				"-ex", "break v8::internal::Isolate::UnwindAndFindHandler", "-ex", run, "-ex", "gcore "+core, "-ex", "kill", nodetest.Node(t, version))
			if out, err := debug.CombinedOutput(); err != nil || !strings.Contains(string(out), "Saved corefile") {
				nodetest.MustRun(t, fmt.Sprintf("take a core: %v\n%s", err, out))
			}
			if got := exceptionIn(t, core); !strings.HasPrefix(got, "RangeError: pending") {
				t.Errorf("exception = %s, want the pending one", got)
			}
		})
	}
}
