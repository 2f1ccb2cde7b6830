package stack

import (
	"testing"

	"ustack/symbolize/space"
)

func TestCodeThatIsLostHasNoName(t *testing.T) {
	w := &walker{Unwinder: New(nil, V8{})}
	w.pushCode(codeBuiltin, space.Part{}) // V8's newest exit frame, which has been overwritten
	if got, want := w.stack.Frames[0].Name, "[code]"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
}
