// Package space describes the address space of a process.
package space

// A Region is a range of a process's addresses that are mapped alike.
type Region struct {
	Start, End  uint64 // up to, not including, End
	Write, Exec bool   // what the process may do there
	File        string // that is mapped; empty for anonymous memory
}

// A Range is a range of addresses.
type Range struct {
	Start, End uint64 // up to, not including, End
}
