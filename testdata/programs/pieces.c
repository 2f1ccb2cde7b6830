/* pieces.c: maps memory directly behind the heap, so that malloc has to map pieces elsewhere,
 * each for a block or two. The second argument is the number of blocks; the facts are their
 * addresses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 100000 /* bytes; less than what malloc maps alone */
#define WALL 4096

int main(int argc, char **argv)
{
	int i, count = atoi(argv[argc - 1]);

	free(malloc(1)); /* creates the heap */
	if (mmap(sbrk(0), WALL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		return 1;
	printf("ready [");
	for (i = 0; i < count; i++) {
		void *block = malloc(SIZE);

		if (!block)
			return 1;
		memset(block, 1, SIZE);
		printf("%s%lu", i ? ", " : "", (unsigned long)block);
	}
	puts("]");
	fflush(stdout);
	pause();
	return 0;
}
