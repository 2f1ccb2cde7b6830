package core

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
	"github.com/pierrec/lz4/v4"
	"golang.org/x/sys/unix"

	"ustack/symbolize/contain"
)

// Bounds on unpacking a core.
const (
	maxUnpacked   = 1 << 46  // bytes that a compressed core unpacks to, holes included
	maxWindow     = 1 << 27  // bytes of memory for decompression; zstd's own default limit
	unpackBatch   = 1 << 20  // bytes unpacked at once
	spaceInterval = 64 << 20 // bytes between two checks of the free space
	spaceReserve  = 20       // a part of the file system that stays free: one in this many blocks
)

// A packing is a way to compress cores. systemd-coredump and the kernel's helpers name
// files by it; Open goes by the first bytes.
type packing struct {
	name  string
	magic string
	open  func(io.Reader) (io.Reader, error)
}

var packings = []packing{
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
	{"lz4", "\x04\x22\x4d\x18", func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, maxWindow) }},
}

// maxMagic is the length of the longest magic.
const maxMagic = 6

// packingOf returns how a file that begins with start is compressed, or nil.
func packingOf(start []byte) *packing {
	for i, p := range packings {
		if bytes.HasPrefix(start, []byte(p.magic)) {
			return &packings[i]
		}
	}
	return nil
}

// An unpacker decompresses a core into an unnamed file, of which nothing is left once it is
// closed or this process dies.
type unpacker struct {
	packing  *packing
	from     *counting
	size     uint64 // of the compressed file
	to       *os.File
	progress func(done, total uint64) // may be nil
	checked  int64                    // how far the free space was checked
}

// unpack decompresses a file. Zeros become holes. If the file is damaged, it returns what was
// before the damage, with the damage.
func unpack(ctx context.Context, p *packing, from *os.File, size int64, o OpenOptions) (to *os.File, damage, err error) {
	out, err := createTemporary()
	if err != nil {
		return nil, nil, fmt.Errorf("unpack: %w", err)
	}
	u := unpacker{packing: p, from: &counting{ctx: ctx, from: from}, size: uint64(size), to: out.file, progress: o.Progress}
	end, damage, err := u.run(ctx)
	if err == nil {
		err = u.to.Truncate(end)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("unpack: %w", err), out.discard())
	}
	return u.to, damage, nil
}

// run unpacks all, up to the first damage.
func (u *unpacker) run(ctx context.Context) (at int64, damage, err error) {
	reader, err := u.open()
	if err != nil {
		return 0, nil, err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer closer.Close()
	}
	batch := make([]byte, unpackBatch)
	for {
		n, readErr := u.read(reader, batch)
		if err := ctx.Err(); err != nil {
			return at, nil, context.Cause(ctx)
		}
		if err := u.write(batch[:n], at); err != nil {
			return at, nil, err
		}
		at += int64(n)
		switch {
		case at > maxUnpacked:
			return at, nil, fmt.Errorf("it is larger than %d bytes", int64(maxUnpacked))
		case errors.Is(readErr, io.EOF):
			return at, nil, nil
		case readErr != nil && at == 0:
			return 0, nil, readErr
		case readErr != nil:
			return at, fmt.Errorf("the compressed file is damaged or cut short after %d bytes: %w", at, readErr), nil
		}
		if u.progress != nil {
			u.progress(u.from.done, u.size)
		}
	}
}

func (u *unpacker) open() (r io.Reader, err error) {
	defer contain.Panic(&err, "unpack %s", u.packing.name)
	return u.packing.open(u.from)
}

// read fills the batch. The error is EOF only at the end of a file that is whole.
func (u *unpacker) read(from io.Reader, batch []byte) (n int, err error) {
	defer contain.Panic(&err, "unpack %s", u.packing.name)
	for n < len(batch) && err == nil {
		var more int
		more, err = from.Read(batch[n:])
		n += more
	}
	return n, err
}

// write writes what is not zero.
func (u *unpacker) write(b []byte, at int64) error {
	if at+int64(len(b)) > u.checked {
		if err := u.room(); err != nil {
			return err
		}
		u.checked = at + spaceInterval
	}
	for start := 0; start < len(b); {
		end := start
		for end < len(b) && !isZero(b[end:min(end+pageBytes, len(b))]) {
			end += pageBytes
		}
		end = min(end, len(b))
		if _, err := u.to.WriteAt(b[start:end], at+int64(start)); err != nil {
			return err
		}
		for start = end; start < len(b) && isZero(b[start:min(start+pageBytes, len(b))]); {
			start += pageBytes
		}
	}
	return nil
}

func isZero(page []byte) bool { return bytes.Equal(page, zeroPage[:len(page)]) }

// room returns an error if the file system is nearly full.
func (u *unpacker) room() error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(u.to.Fd()), &fs); err != nil {
		return err
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < spaceInterval || fs.Bavail < fs.Blocks/spaceReserve {
		return fmt.Errorf("%w in %s: %d MiB free (free some, or set TMPDIR to a folder with room)", unix.ENOSPC, os.TempDir(), free>>20)
	}
	return nil
}

// counting counts what is read of a file, and ends it once ctx is done.
type counting struct {
	ctx  context.Context
	from io.Reader
	done uint64
}

func (c *counting) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.from.Read(p)
	c.done += uint64(n)
	return n, err
}
