package jobs

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"ustack/bpf"
	"ustack/symbolize"
)

// operations are libuv's file system operations by number (include/uv.h: enum
// uv_fs_type), with node's names.
var operations = []string{
	1: "open", 2: "close", 3: "read", 4: "write", 5: "sendfile", 6: "stat", 7: "lstat", 8: "fstat",
	9: "ftruncate", 10: "utimes", 11: "futimes", 12: "access", 13: "chmod", 14: "fchmod", 15: "fsync",
	16: "fdatasync", 17: "unlink", 18: "rmdir", 19: "mkdir", 20: "mkdtemp", 21: "rename", 22: "readdir",
	23: "link", 24: "symlink", 25: "readlink", 26: "chown", 27: "fchown", 28: "realpath", 29: "copyFile",
	30: "lchown", 31: "opendir", 32: "dir.read", 33: "dir.close", 34: "statfs", 35: "mkstemp", 36: "lutimes",
}

// Operation names work that libuv itself does on the pool. The number is uv_fs_type of
// file system operations.
func Operation(work bpf.TraceWorkKind, number int32) string {
	switch work {
	case bpf.TraceWorkKindWORK_FS:
		if number > 0 && int(number) < len(operations) {
			return "fs." + operations[number]
		}
		return fmt.Sprintf("fs operation %d", number)
	case bpf.TraceWorkKindWORK_ADDRINFO:
		return "dns.lookup"
	case bpf.TraceWorkKindWORK_NAMEINFO:
		return "dns.lookupService"
	}
	return "random"
}

// traits matches the part of a class's name that says which of node's crypto jobs it
// is: node::crypto::DeriveBitsJob<node::crypto::PBKDF2Traits> (src/crypto).
var traits = regexp.MustCompile(`(\w+?)(Traits|Config)\b`)

// compression matches the names of node's compression streams (src/node_zlib.cc).
var compression = regexp.MustCompile(`[Zz]lib|Brotli|Zstd|Compression`)

// fileJob matches the names of node's classes that do all of an operation on a file (src/node_file.cc
// of Node.js 26).
var fileJob = regexp.MustCompile(`^node::fs::(\w)(\w*)Job$`)

// OfClass names the work of one of node's classes; empty if it is none.
func OfClass(class string) string {
	switch name := traits.FindStringSubmatch(class); {
	case strings.HasPrefix(class, "node::crypto::") && name != nil:
		if strings.HasPrefix(name[1], "Random") {
			return "random"
		}
		return "crypto." + name[1]
	case compression.MatchString(class):
		return "zlib"
	case fileJob.MatchString(class):
		name := fileJob.FindStringSubmatch(class)
		return "fs." + strings.ToLower(name[1]) + name[2]
	case class != symbolize.Unknown && strings.HasPrefix(class, "node::"):
		return class
	}
	return ""
}

// clone matches what gcc appends to the name of a function that it has changed.
var clone = regexp.MustCompile(`(\.(isra|constprop|part|cold|lto_priv)(\.\d+)?)+$`)

// lambda matches what a lambda's name has after that of the function it is in.
var lambda = regexp.MustCompile(`\(\)::\{lambda\(.*$`)

// Function formats a frame as DTrace does: module`function. A lambda is called as the function that
// it is in.
func Function(f symbolize.Frame) string {
	name := lambda.ReplaceAllString(clone.ReplaceAllString(f.Name, ""), "")
	if f.Module == "" { // a name from Node-API
		return name
	}
	if IsNameless(f) {
		name = fmt.Sprintf("%#x", f.Offset)
	}
	return path.Base(f.Module) + "`" + name
}

// IsNameless reports whether a frame's function has no name.
func IsNameless(f symbolize.Frame) bool { return f.Name == "" || f.Name == symbolize.Unknown }

// IsAddon reports whether a frame is an add-on's.
func IsAddon(f symbolize.Frame) bool { return path.Ext(f.Module) == ".node" }
