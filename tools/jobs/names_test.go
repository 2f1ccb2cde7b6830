package jobs

import (
	"testing"

	"ustack/bpf"
	"ustack/symbolize"
)

func TestClassesAreNamed(t *testing.T) {
	for class, want := range map[string]string{
		"node::crypto::DeriveBitsJob<node::crypto::PBKDF2Traits>":                                                 "crypto.PBKDF2",
		"node::crypto::RandomBytesJob<RandomPrimeTraits>":                                                         "random",
		"node::(anonymous namespace)::CompressionStream<node::Z>":                                                 "zlib",
		"node::crypto::KeyGenJob<node::crypto::KeyPairGenTraits<node::crypto::RsaKeyGenTraits> >":                 "crypto.KeyPairGen",
		"node::crypto::DeriveBitsJob<node::crypto::RandomBytesTraits>":                                            "random",
		"node::crypto::CipherJob<node::crypto::ChaCha20Poly1305CipherTraits>":                                     "crypto.ChaCha20Poly1305Cipher",
		"node::(anonymous namespace)::BrotliCompressionStream<node::(anonymous namespace)::BrotliDecoderContext>": "zlib",
		"node::(anonymous namespace)::ZstdStream<node::(anonymous namespace)::ZstdCompressContext>":               "zlib",
		"node::fs::ReadFileJob":                   "fs.readFile",
		"node::(anonymous namespace)::ZlibStream": "zlib",
		"node::crypto::TLSWrap":                   "node::crypto::TLSWrap", "myaddon::HashTraits": "", "std::thread": "",
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
	for work, want := range map[bpf.TraceWorkKind]string{
		bpf.TraceWorkKindWORK_ADDRINFO: "dns.lookup", bpf.TraceWorkKindWORK_NAMEINFO: "dns.lookupService",
		bpf.TraceWorkKindWORK_RANDOM: "random",
	} {
		if got := Operation(work, 1); got != want {
			t.Errorf("operation of %d = %q, want %q", work, got, want)
		}
	}
}

func TestFunctionsAreNamed(t *testing.T) {
	for want, f := range map[string]symbolize.Frame{
		"x.node`Do":   {Module: "/a/x.node", Name: "Do.isra.0.cold"},
		"x.node`0x10": {Module: "/a/x.node", Name: symbolize.Unknown, Offset: 16},
		"x.node`0x20": {Module: "/a/x.node", Offset: 32},
		"x.node`f":    {Module: "x.node", Name: "f.constprop.2.part.0"},
		"node`a.b":    {Module: "/usr/bin/node", Name: "a.b"},
		"given":       {Name: "given"},
		"node`node::ThreadPoolWork::ScheduleWork": {
			Module: "/usr/bin/node", Name: "node::ThreadPoolWork::ScheduleWork()::{lambda(uv_work_s*)#1}::_FUN",
		},
	} {
		if got := Function(f); got != want {
			t.Errorf("Function(%+v) = %q, want %q", f, got, want)
		}
	}
}

func TestAddonsAreToldByTheirFile(t *testing.T) {
	for module, want := range map[string]bool{"/a/x.node": true, "/usr/bin/node": false, "/a/x.node.so": false, "": false} {
		if got := IsAddon(symbolize.Frame{Module: module}); got != want {
			t.Errorf("IsAddon of %q = %v, want %v", module, got, want)
		}
	}
}
