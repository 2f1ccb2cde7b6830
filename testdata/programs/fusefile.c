// SPDX-License-Identifier: MIT
//
// fusefile MOUNT FILE: serves FILE, read-only and by that name's last part, in a file
// system at MOUNT, without any library. It prints "ready". On SIGUSR1 it keeps taking
// requests and answers none, as a network file system whose server is gone.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILE_NODE = 2, MAX_REQUEST = 1 << 20 };

static volatile sig_atomic_t dead;
static int device, source;
static struct stat stat_of_file;
static const char *name;
static char request[MAX_REQUEST], data[MAX_REQUEST];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void on_signal(int number)
{
	(void)number;
	dead = 1;
}

static void answer(const struct fuse_in_header *in, int error, const void *body, size_t size)
{
	struct fuse_out_header out = { sizeof(out) + size, error, in->unique };
	struct iovec parts[2] = { { &out, sizeof(out) }, { (void *)body, size } };

	if (writev(device, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		die("answer");
}

static struct fuse_attr attributes(unsigned long node)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .mode = S_IFDIR | 0755, .blksize = 4096 };

	if (node == FILE_NODE) {
		a.mode = S_IFREG | 0755;
		a.size = stat_of_file.st_size;
		a.blocks = (stat_of_file.st_size + 511) / 512;
	}
	return a;
}

static void answer_read(const struct fuse_in_header *in)
{
	const struct fuse_read_in *r = (const void *)(in + 1);
	size_t size = r->size < sizeof(data) ? r->size : sizeof(data);
	ssize_t n = pread(source, data, size, r->offset);

	answer(in, n < 0 ? -EIO : 0, data, n < 0 ? 0 : n);
}

static void serve(const struct fuse_in_header *in)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 1 << 17,
		.flags = FUSE_ASYNC_READ, .max_background = 12, .congestion_threshold = 9, .max_write = 1 << 17 };
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attributes(FILE_NODE) };
	struct fuse_attr_out attr = { .attr = attributes(in->nodeid) };
	struct fuse_open_out open = { .fh = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		return answer(in, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		if (strcmp((const char *)(in + 1), name))
			return answer(in, -ENOENT, 0, 0);
		return answer(in, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return answer(in, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return answer(in, 0, &open, sizeof(open));
	case FUSE_READ:
		return answer_read(in);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		return answer(in, 0, 0, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return; /* none is expected */
	}
	answer(in, -ENOSYS, 0, 0);
}

int main(int argc, char **argv)
{
	char options[100];

	if (argc != 3)
		return 2;
	name = basename(argv[2]);
	source = open(argv[2], O_RDONLY);
	if (source < 0 || fstat(source, &stat_of_file))
		die(argv[2]);
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		die("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
	if (mount("fusefile", argv[1], "fuse", MS_NOSUID | MS_NODEV, options))
		die("mount");
	signal(SIGUSR1, on_signal);
	puts("ready");
	fflush(stdout);
	for (;;) {
		ssize_t n = read(device, request, sizeof(request));

		if (n < 0 && errno == ENODEV) /* unmounted */
			return 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT)
			die("read");
		if (n > 0 && !dead)
			serve((const struct fuse_in_header *)request);
	}
}
