/*
 * mappings DIR: memory of every kind. Prints a line "NAME ADDRESS" for each and
 * then "ready", and waits for the end of its input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

enum { PAGE = 4096, PAGES = 8 };

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static char *map(const char *name, size_t size, int flags, int fd)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	check(at != MAP_FAILED, name);
	printf("%s %p\n", name, (void *)at);
	return at;
}

/* A file of PAGES pages, each full of the letter 'f'. */
static int make_file(const char *dir, const char *name)
{
	char path[4096], page[PAGE];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(fd >= 0, path);
	memset(page, 'f', sizeof(page));
	for (int i = 0; i < PAGES; i++)
		check(write(fd, page, PAGE) == PAGE, path);
	if (strcmp(name, "removed") == 0)
		check(unlink(path) == 0, path);
	return fd;
}

int main(int argc, char **argv)
{
	const size_t size = PAGES * PAGE, terabyte = 1ul << 40;
	const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *at;
	int fd;

	check(argc == 2, "arguments");
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* to wait for it changes no memory */
	map("anonymous", size, private, -1)[PAGE] = 'a';
	at = map("secret", size, private, -1);
	at[0] = 's';
	check(madvise(at, size, MADV_DONTDUMP) == 0, "madvise");
	at = map("unforkable", size, private, -1);
	at[0] = 'u';
	check(madvise(at, size, MADV_DONTFORK) == 0, "madvise");
	at = map("wiped", size, private, -1);
	at[0] = 'W';
	check(madvise(at, size, MADV_WIPEONFORK) == 0, "madvise");
	at = map("protected", size, private, -1);
	at[PAGE] = 'p';
	check(mprotect(at, size, PROT_NONE) == 0, "mprotect");
	at = map("reserved", terabyte, private, -1);
	check(mprotect(at, terabyte, PROT_NONE) == 0, "mprotect");
	map("huge-and-sparse", 1ul << 34, private, -1)[1ul << 33] = 'h';
	map("shared", size, MAP_SHARED | MAP_ANONYMOUS, -1)[PAGE] = 'm';
	fd = memfd_create("x", 0);
	check(fd >= 0 && ftruncate(fd, size) == 0, "memfd");
	map("memfd", size, MAP_SHARED, fd)[2 * PAGE] = 'x';
	map("written", size, MAP_PRIVATE, make_file(argv[1], "written"))[PAGE] = 'w';
	check(map("unwritten", size, MAP_PRIVATE, make_file(argv[1], "unwritten"))[PAGE] == 'f', "read");
	check(map("removed", size, MAP_PRIVATE, make_file(argv[1], "removed"))[PAGE] == 'f', "read");
	map("shared-file", size, MAP_SHARED, make_file(argv[1], "shared"))[PAGE] = 'n';
	at = mmap(NULL, 1 << 22, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (at != MAP_FAILED) {
		at[PAGE] = 'H';
		printf("hugetlb %p\n", (void *)at);
	}
	puts("ready");
	return getchar() == EOF ? 0 : 1;
}
