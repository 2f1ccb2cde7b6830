package elfsym

import (
	"debug/elf"

	"github.com/ianlancetaylor/demangle"
)

// A Symbol is one entry of a symbol table.
type Symbol struct {
	Name    string // raw: as the linker knows it, without a version
	Address uint64 // an offset in the thread's block if Type is elf.STT_TLS
	Size    uint64 // in bytes; 0 if the table does not say
	Type    elf.SymType
	Bind    elf.SymBind
}

// maxDemangled bounds a demangled name, as a power of two: a mangled name can
// refer back to its own parts and so describe a name far longer than itself.
const maxDemangled = 12

// Demangled returns the name as a C++ or Rust programmer wrote it, without
// parameters and clone suffixes ("node::fs::Open"), at most 4096 bytes long.
// Other names are returned unchanged.
func (s Symbol) Demangled() string {
	return demangle.Filter(s.Name, demangle.NoParams, demangle.NoEnclosingParams, demangle.NoClones,
		demangle.MaxLength(maxDemangled))
}
