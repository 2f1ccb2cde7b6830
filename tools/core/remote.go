package core

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// remoteTypes are file systems whose files are served by somebody else, who may
// never answer; file systems named "fuse.x" are treated alike.
var remoteTypes = map[string]bool{
	"9p": true, "afs": true, "ceph": true, "cifs": true, "fuse": true, "fuseblk": true, "gfs2": true, "lustre": true,
	"ncpfs": true, "nfs": true, "nfs4": true, "ocfs2": true, "smb3": true, "virtiofs": true,
}

// remoteDevices returns the devices of the process's remote file systems, from
// its mountinfo. It does not access any file system.
func remoteDevices(mountinfo string) map[uint64]bool {
	remote := make(map[uint64]bool)
	for line := range strings.Lines(mountinfo) {
		// id parent major:minor root mount-point options … - type source super-options
		left, right, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(left), strings.Fields(right)
		if len(where) < 3 || len(what) < 1 {
			continue
		}
		kind, _, _ := strings.Cut(what[0], ".")
		first, last, _ := strings.Cut(where[2], ":")
		major, err := strconv.ParseUint(first, 10, 32)
		minor, minorErr := strconv.ParseUint(last, 10, 32)
		if err == nil && minorErr == nil && remoteTypes[kind] {
			remote[unix.Mkdev(uint32(major), uint32(minor))] = true
		}
	}
	return remote
}
