/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The integer types and the inlining rules that every policy header uses.
 *
 * Policy code runs twice, as BPF and natively, and must answer alike in both:
 * unsigned integers only, every divisor and shift guarded (BPF defines 7 / 0
 * as 0, a CPU traps), loops bounded, no padding left to the compiler.
 */
#ifndef TG_TYPES_H
#define TG_TYPES_H

/* A BPF program includes vmlinux.h before anything else, which has these types. */
#ifndef __bpf__
#include <linux/types.h>
#endif

#define TG_INLINE static inline __attribute__((always_inline))

/*
 * One after the other: what stands before it is in memory before what comes next is begun. Side by
 * side they would fill the stack, of which BPF has 512 bytes; and the verifier walks what comes
 * next once for each way there that leaves other registers.
 */
#define TG_IN_TURN() __asm__ volatile("" : : : "memory")
/* For what is rare and long: a stack frame of its own. */
#define TG_APART static __attribute__((noinline, unused))

/*
 * The same, of a function that is given no pointers but to memory: global, the verifier walks it
 * once, and not once for every way that leads there. It wants to hear that they are not NULL.
 */
#ifdef __bpf__
#define TG_ONCE __attribute__((noinline))
#else
#define TG_ONCE TG_APART
#endif

/* Fixed point with eight fractional bits: 256 is 1.0. */
#define TG_ONE_X256 256u

/*
 * 1 where a is less than b; both below 2^63. Without a branch, for loops and for what is only
 * counted, or asked later: the verifier would walk all that follows for each way.
 */
TG_INLINE __u64 tg_less(__u64 a, __u64 b)
{
	return (a - b) >> 63;
}

/* Two words of an address. Addresses stand where eight bytes may be read at once. */
typedef __u64 tg_pair __attribute__((may_alias));

/* 0 where two addresses are the same: of IPv4 word 0, the others are 0. Without a branch, as above.
 */
TG_INLINE __u64 tg_differ(const __u32 *a, const __u32 *b)
{
	const tg_pair *x = (const tg_pair *)a, *y = (const tg_pair *)b;

	return (x[0] ^ y[0]) | (x[1] ^ y[1]);
}

/* How long ago; 0 where it is to come: processors' coarse clocks differ by a tick. */
TG_INLINE __u64 tg_since(__u64 now_ns, __u64 then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
