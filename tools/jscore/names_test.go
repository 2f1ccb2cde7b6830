package jscore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest/calls"
)

// titlesProgram has classes whose names the program sets, as bundlers do that shorten names.
const titlesProgram = `class A { constructor() { this.x = 1; } }
Object.defineProperty(A, 'name', { value: 'Redefined' });
class B { static name = 'Field'; constructor() { this.x = 1; } }
class C { static name() {} constructor() { this.x = 1; } }
function D() { this.x = 1; }
Object.defineProperty(D, 'name', { value: 'OfFunction' });
class E { constructor() { this.x = 1; } }
Object.defineProperty(E, 'name', { get: () => 'never called' });
for (let i = 0; i < 20; i++) D['property' + i] = 'name';
globalThis.kept = [A, B, C, D, E].map((Class, i) => Array.from({ length: 10 + i }, () => new Class()));
console.log('ready {}');
setInterval(() => {}, 1 << 30);`

// TestClassesHaveTheNamesThatAProgramSets counts objects by the names that V8 keeps in dictionaries.
func TestClassesHaveTheNamesThatAProgramSets(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, titlesProgram)
			var facts struct{}
			target.Facts(&facts)
			counts := make(map[string]int)
			for _, group := range graphOf(t, target.PID).Census(t.Context(), CensusOptions{ByClass: true, Live: true}).Groups {
				counts[group.Class] += group.Live
			}
			for class, want := range map[string]int{"Redefined": 10, "Field": 11, "C": 12, "OfFunction": 13, "E": 14} {
				if got := counts[class]; got != want {
					t.Errorf("objects of %s = %d, want %d", class, got, want)
				}
			}
		})
	}
}

const manyClasses = 6007

// manyProgram has as many classes, each with one object and a method of its own: more maps than are
// stored together, and a prototype with a dictionary for each.
var manyProgram = fmt.Sprintf(`globalThis.kept = Array.from({ length: %d }, (_, i) => {
  const name = 'Class' + i;
  const Class = ({ [name]: class { constructor() { this['field' + i] = i; } ['method' + i]() {} } })[name];
  return new Class();
});
console.log('ready {}');
setInterval(() => {}, 1 << 30);`, manyClasses)

// TestManyClassesAreDistinguished counts the objects of each class with their properties, and the prototypes.
func TestManyClassesAreDistinguished(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, manyProgram)
			var facts struct{}
			target.Facts(&facts)
			objects, prototypes := make(map[string]*census.Group), 0
			for _, group := range graphOf(t, target.PID).Census(t.Context(), CensusOptions{Live: true}).Groups {
				if strings.HasPrefix(group.Class, "Class") {
					objects[group.Class] = group
				}
				if group.Class == "Object" && len(group.Properties) == 2 && strings.HasPrefix(string(group.Properties[1]), "method") {
					prototypes += group.Live
				}
			}
			if len(objects) != manyClasses || prototypes != manyClasses {
				t.Errorf("classes = %d, prototypes = %d, want %d of each", len(objects), prototypes, manyClasses)
			}
			for class, group := range objects {
				want := []value.Text{value.Text("field" + strings.TrimPrefix(class, "Class"))}
				if group.Live != 1 || !slices.Equal(group.Properties, want) {
					t.Errorf("%s: %d objects with %q, want 1 with %q", class, group.Live, group.Properties, want)
				}
			}
		})
	}
}
