package stopon

import (
	"fmt"
	"math"
	"strings"

	"ustack/bpf"
)

// explainException processes what the kernel has read of an exception.
func (h *Hit) explainException(r *bpf.StoponHit) {
	h.Class = text(r.Class[:], r.ClassLength)
	h.Message = text(r.Match.Text[:], r.Match.Length)
	h.Rejection, h.Thrower = r.Arguments[0] == 1, r.Arguments[1] == 1
	value := r.Arguments[2]
	switch bpf.StoponThrownKind(r.What) {
	case bpf.StoponThrownKindTHROWN_STRING:
		h.Class = "string"
	case bpf.StoponThrownKindTHROWN_SMI:
		const smiShift = 32 // of the number in its word
		h.Class, h.Message = "number", fmt.Sprint(int32(value>>smiShift))
	case bpf.StoponThrownKindTHROWN_NUMBER:
		h.Class, h.Message = "number", fmt.Sprint(math.Float64frombits(value))
	case bpf.StoponThrownKindTHROWN_ODDBALL:
		h.Class = h.Message
		if h.Message == "true" || h.Message == "false" {
			h.Class = "boolean"
		}
	}
}

// exception returns the exception on one line: "TypeError: x is not a
// function".
func (h *Hit) exception() string {
	message, _, more := strings.Cut(h.Message, "\n")
	if more {
		message += " …"
	}
	if message == "" || message == h.Class {
		return h.Class
	}
	return h.Class + ": " + message
}

// text returns the first length bytes of a field that the kernel has filled, as
// valid UTF-8: it may have been cut within a character.
func text(field []byte, length uint32) string {
	return strings.ToValidUTF8(string(field[:min(int(length), len(field))]), "\ufffd")
}
