// A library with one of each thing that a symbol table can say of code and data.

#include <stddef.h>

int initialised[4] = {11, 22, 33, 44};
int zeroed[1024];
_Thread_local long per_thread __attribute__((aligned(64))) = 7;

__attribute__((noinline)) static int hidden_helper(int x)
{
	return x * 3 + initialised[x & 3] + zeroed[x & 1023] + (int)per_thread;
}

int exported(int x)
{
	return hidden_helper(x) + 1;
}

int public_alias(int x) __attribute__((weak, alias("exported")));
int __exported(int x) __attribute__((alias("exported")));

static int chosen(int x)
{
	return x;
}

static void *choose(void)
{
	return (void *)chosen;
}

int indirect(int x) __attribute__((ifunc("choose")));

// Sized functions hide the labels inside; labels without a size reach to the next symbol.
__asm__(".text\n"
	".p2align 4\n"
	".type outer, @function\n"
	"outer: nop\n"
	"inner_label: nop\n"
	"nop\n"
	".type nested, @function\n"
	"nested: nop\n"
	"nop\n"
	".size nested, . - nested\n"
	"nop\n"
	".size outer, . - outer\n"
	"after_outer: nop\n" // no size, not typed
	"nop\n"
	".type typed_sizeless, @function\n"
	"typed_sizeless: nop\n"
	"nop\n"
	".globl sized_global\n"
	".type sized_global, @function\n"
	".type sized_local, @function\n"
	"label_there:\n"
	"sized_local:\n"
	"sized_global: nop\n"
	"nop\n"
	".size sized_global, . - sized_global\n"
	".size sized_local, . - sized_local + 2\n"
	"nop\n"
	"nop\n"
	"nop\n");
