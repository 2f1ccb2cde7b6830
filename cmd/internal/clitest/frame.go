package clitest

// A Frame is a frame of a stack in the JSON of all tools, with every name of the contract.
// Name is nil if it is missing, which it must not be.
type Frame struct {
	Kind   string  `json:"kind"`
	Name   *string `json:"name"`
	File   string  `json:"file"`
	Line   int     `json:"line"`
	Column int     `json:"column"`
	Tier   string  `json:"tier"`
	Module string  `json:"module"`
	Offset uint64  `json:"offset"`

	ExecutingLine   int  `json:"executing_line"`
	ExecutingColumn int  `json:"executing_column"`
	Inlined         bool `json:"inlined"`

	GeneratedFile            string `json:"generated_file"`
	GeneratedLine            int    `json:"generated_line"`
	GeneratedColumn          int    `json:"generated_column"`
	GeneratedExecutingLine   int    `json:"generated_executing_line"`
	GeneratedExecutingColumn int    `json:"generated_executing_column"`
}
