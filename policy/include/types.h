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
/* For what is rare and long: a stack frame of its own. */
#define TG_APART static __attribute__((noinline, unused))

/* Fixed point with eight fractional bits: 256 is 1.0. */
#define TG_ONE_X256 256u

#endif
