package stack

import (
	"debug/elf"
	"testing"

	"ustack/symbolize/space"
	"ustack/symbolize/unwind"
)

func TestCodeThatIsLostHasNoName(t *testing.T) {
	m := machines[elf.EM_X86_64]
	w := &walker{Unwinder: New(nil, V8{}), machine: m, at: unwind.Cursor{Arch: m.arch}}
	w.pushCode(codeBuiltin, space.Part{}) // V8's newest exit frame, which has been overwritten
	if got, want := w.stack.Frames[0].Name, "[code]"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
}
