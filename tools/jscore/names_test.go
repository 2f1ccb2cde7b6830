package jscore

import (
	"testing"

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
