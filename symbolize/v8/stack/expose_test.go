package stack

// MaxFrames bounds a stack.
const MaxFrames = maxFrames

// IsJIT reports whether the code at pc was compiled by V8 from JavaScript.
func IsJIT(u *Unwinder, pc uint64) bool {
	kind, _ := u.codeAt(pc)
	return kind == codeJIT
}

// IsBuiltin reports whether the code at pc is one of V8's own functions.
func IsBuiltin(u *Unwinder, pc uint64) bool {
	kind, _ := u.codeAt(pc)
	return kind == codeBuiltin
}
