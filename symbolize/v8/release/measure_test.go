package release_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// A measurement finds the release of a binary. What it does not measure stays as it
// is in the known file of that release, or in the newest.
type measurement struct {
	t      testing.TB
	node   string
	binary *nodeBinary
	file   *elfsym.File      // the binary's code
	types  map[uint16]string // V8's name of each instance type except those of strings
	probes map[string]*probe // by flags

	release  *release.Release
	from     string          // the Node.js whose file has what is not measured
	measured map[string]bool // fields of a Release, as "Pages.Size"

	confirmed map[string]bool // fields that are one of several possible values
}

// groups are what can be measured, in order.
var groups = []func(*measurement) error{
	measureTypes,
	measureFunctionTypes,
	measureFields,
	measureBuffers,
	measureDates,
	measureSymbols,
	measureBytecodes,
	measureLayouts,
	measureScriptType,
	measureFunctionCode,
	measureCode,
	measureTraces,
	measureCodeKinds,
	measureInitializers,
	measureElements,
	measurePages,
	measureSizes,
	measureInstructions,
	measurePositions,
	measureStrings,
	measureGCCount,
	measureScopePositions,
	measureScopes,
	measureFreeSpace,
	measureIsolate,
	measureDispatchTable,
	measureExitFrames,
	measureSpaces,
	measureWasmKind,
	measureFrames,
	measureInlined,
	measureModuleVariables,
	measureReceiverInfo,
	measureSteps,
	measureCodeAlign,
	measureScriptContexts,
	measureClosures,
	confirmExternal,
	confirmRegExp,
	confirmCalls,
}

// measure returns what it has measured, and an error for each value that it could not.
func measure(t testing.TB, node string) (*measurement, error) {
	t.Helper()
	m := &measurement{t: t, node: node, binary: readBinary(t, node), probes: map[string]*probe{}, measured: map[string]bool{}, confirmed: map[string]bool{}, file: nodetest.OpenELF(t, node)}
	version, err := m.version()
	if err != nil {
		return nil, err
	}
	if err := m.start(version); err != nil {
		return nil, err
	}
	if m.types, err = m.instanceTypes(); err != nil {
		return nil, err
	}
	var wrong []error
	for _, group := range groups {
		wrong = append(wrong, group(m))
	}
	return m, errors.Join(wrong...)
}

// start sets the release to that of a version, or to the newest as if it had it.
func (m *measurement) start(v release.Version) error {
	r, err := release.For(v)
	var unknown *release.UnknownVersionError
	if errors.As(err, &unknown) {
		all := release.All()
		r, err = release.For(all[len(all)-1].Version)
		if err != nil {
			return err
		}
		m.release, m.from = r, r.Node
		r.Version, r.Before = v, nil
		r.Node, err = m.probe("").evaluate("console.log(process.versions.node.split('.')[0])")
		r.Node = strings.TrimSpace(r.Node)
		return err
	}
	if err != nil {
		return err
	}
	m.release, m.from = r, r.Node
	return nil
}

func (m *measurement) version() (v release.Version, err error) {
	text, err := m.probe("").evaluate("console.log(process.versions.v8)")
	if err != nil {
		return v, err
	}
	if _, err := fmt.Sscanf(text, "%d.%d.%d.%d", &v.Major, &v.Minor, &v.Build, &v.Patch); err != nil {
		return v, fmt.Errorf("V8's version %q: %w", text, err)
	}
	return v, nil
}

// probe returns the process with flags, which are separated by spaces.
func (m *measurement) probe(flags string) *probe {
	if m.probes[flags] == nil {
		m.probes[flags] = startProbe(m.t, m.node, strings.Fields(flags)...)
		m.probes[flags].kind = m.kind
	}
	return m.probes[flags]
}

// set sets a field of the release, named as "Pages.Size".
func (m *measurement) set(name string, value any) {
	group, field, _ := strings.Cut(name, ".")
	f := reflect.ValueOf(m.release).Elem().FieldByName(group).FieldByName(field)
	f.Set(reflect.ValueOf(value).Convert(f.Type()))
	m.measured[name] = true
}

// confirm compares what the release has with what it may have.
func (m *measurement) confirm(name string, value int, possible ...int) error {
	if !slices.Contains(possible, value) {
		slices.Sort(possible)
		return fmt.Errorf("%s is %d, but may be any of %v only", name, value, possible)
	}
	m.confirmed[name] = true
	return nil
}

// measureFields sets the offsets in Fields.
func measureFields(m *measurement) error {
	var wrong []error
	for _, f := range fields {
		offset, err := 0, errAbsent
		if m.exists(f) {
			offset, err = m.probe(f.flags).offset(f)
		}
		switch {
		case errors.Is(err, errAbsent):
			delete(m.release.Fields, f.name)
			continue
		case err != nil:
			wrong = append(wrong, err)
			continue
		}
		m.release.Fields[f.name] = uint16(offset)
		m.measured["Fields."+f.name] = true
	}
	return errors.Join(wrong...)
}

// exists reports whether the release has a field.
func (m *measurement) exists(f field) bool {
	if name, ok := strings.CutPrefix(f.needs, "not "); ok {
		return !m.hasType(name)
	}
	return f.needs == "" || m.hasType(f.needs)
}

func openMemory(t testing.TB, pid int) *os.File {
	t.Helper()
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		nodetest.MustRun(t, err.Error())
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// notMeasured returns the names of the fields that are neither measured nor confirmed, but
// for those that other tests check, as docs/new-v8.md says.
func (m *measurement) notMeasured() []string {
	return slices.DeleteFunc(leaves(m.release), func(name string) bool {
		return m.measured[name] || m.confirmed[name] || strings.HasPrefix(name, "Allocations.") || name == "Frames.Registers"
	})
}

// TestFilesAreWhatIsMeasured measures the official binaries again. The files have
// what make v8-release prints.
func TestFilesAreWhatIsMeasured(t *testing.T) {
	for _, version := range append([]string{"18.0.0"}, nodetest.Versions...) {
		t.Run("node"+version, func(t *testing.T) {
			t.Parallel()
			m, err := measure(t, nodetest.Node(t, version))
			if err != nil {
				t.Fatal(err)
			}
			got, err := source(m.release)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(fileName(m.release.Version))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s is not what is measured (-file +measured):\n%s", fileName(m.release.Version), diff)
			}
		})
	}
}

// TestReleasesAreWhatIsMeasured compares other patch levels, which have a release
// by its Before.
func TestReleasesAreWhatIsMeasured(t *testing.T) {
	for _, version := range nodetest.ReleasesOr("24.0.0") {
		t.Run("node"+version, func(t *testing.T) {
			m, err := measure(t, nodetest.Node(t, version))
			if err != nil {
				t.Fatal(err)
			}
			want, err := release.For(m.release.Version)
			if err != nil {
				t.Fatal(err)
			}
			for number, name := range m.binary.metadataTypes() {
				if want.Types[className(name)] == number {
					delete(want.Types, className(name)) // early patch levels have some in the metadata
				}
			}
			if diff := cmp.Diff(want, m.release, cmpopts.IgnoreFields(release.Release{}, "Before")); diff != "" {
				t.Errorf("V8 %v is not what is measured (-known +measured):\n%s", want.Version, diff)
			}
		})
	}
}

// TestDocumentListsWhatIsNotMeasured compares docs/new-v8.md with the oldest
// release, of which least is measured.
func TestDocumentListsWhatIsNotMeasured(t *testing.T) {
	m, err := measure(t, nodetest.Node(t, nodetest.Versions[0]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/new-v8.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "These are confirmed")
	list, _, _ = strings.Cut(list, "All other fields are measured")
	var got []string
	for _, found := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(list, -1) {
		got = append(got, found[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(m.confirmed)), got); diff != "" {
		t.Errorf("docs/new-v8.md lists other fields (-confirmed +listed):\n%s", diff)
	}
	if names := m.notMeasured(); len(names) > 0 {
		t.Errorf("docs/new-v8.md does not list %v, which are not measured", names)
	}
}

// TestMeasure is make v8-release: it measures the binary $USTACK_MEASURE and writes
// the file of its release to $USTACK_MEASURED.
func TestMeasure(t *testing.T) {
	node, file := os.Getenv("USTACK_MEASURE"), os.Getenv("USTACK_MEASURED")
	if node == "" || file == "" {
		t.Skip("measures a binary for make v8-release only")
	}
	m, err := measure(t, node)
	if m == nil {
		t.Fatal(err)
	}
	text, sourceErr := source(m.release)
	if sourceErr != nil {
		t.Fatal(sourceErr)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("confirmed as for Node.js %s: %s", m.from, strings.Join(slices.Sorted(maps.Keys(m.confirmed)), " "))
	t.Logf("not measured, but as for Node.js %s: %s", m.from, strings.Join(m.notMeasured(), " "))
	if err != nil {
		t.Error(err)
	}
}
