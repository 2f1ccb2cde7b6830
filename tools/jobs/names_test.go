package jobs

import (
	"testing"

	"ustack/bpf"
	"ustack/symbolize"
)

func TestClassesAreNamed(t *testing.T) {
	for class, want := range map[string]string{
		"node::crypto::DeriveBitsJob<node::crypto::PBKDF2Traits>": "crypto.PBKDF2",
		"node::crypto::RandomBytesJob<RandomPrimeTraits>":         "random",
		"node::(anonymous namespace)::CompressionStream<node::Z>": "zlib",
		"node::Blob": "node::Blob", symbolize.Unknown: "", "": "",
	} {
		if got := OfClass(class); got != want {
			t.Errorf("OfClass(%q) = %q, want %q", class, got, want)
		}
	}
}

func TestOperationsAreNamed(t *testing.T) {
	for number, want := range map[int32]string{1: "fs.open", 36: "fs.lutimes", 0: "fs operation 0", -1: "fs operation -1", 1 << 20: "fs operation 1048576"} {
		if got := Operation(bpf.TraceWorkKindWORK_FS, number); got != want {
			t.Errorf("operation %d = %q, want %q", number, got, want)
		}
	}
	if got, want := Operation(bpf.TraceWorkKindWORK_ADDRINFO, 0), "dns.lookup"; got != want {
		t.Errorf("operation = %q, want %q", got, want)
	}
}

func TestFunctionsAreNamed(t *testing.T) {
	for want, f := range map[string]symbolize.Frame{
		"x.node`Do":   {Module: "/a/x.node", Name: "Do.isra.0.cold"},
		"x.node`0x10": {Module: "/a/x.node", Name: symbolize.Unknown, Offset: 16},
		"given":       {Name: "given"},
	} {
		if got := Function(f); got != want {
			t.Errorf("Function(%+v) = %q, want %q", f, got, want)
		}
	}
}
