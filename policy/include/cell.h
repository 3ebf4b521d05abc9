/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table that forgets: cells by name, a keyed hash of 64 bits. The lower half of a name says
 * which block, a cache line; its upper half is the tag that the cell keeps of it. A name has the
 * cells of its block to choose from: its own; else an empty one; else the oldest, whose name is
 * forgotten.
 */
#ifndef TG_CELL_H
#define TG_CELL_H

#include "types.h"

/* Cells count 2^30 ns, 1.07 s. */
#define TG_CELL_TICK_SHIFT 30
/* The oldest of a table may be this old, in ticks or what it counts with. */
#define TG_CELL_AGE_BITS 22

/* Never 0, which is an empty cell's. */
TG_INLINE __u32 tg_cell_tag(__u64 name)
{
	return (__u32)(name >> 32) | 1;
}

TG_INLINE __u16 tg_cell_tick(__u64 now_ns)
{
	return (__u16)(now_ns >> TG_CELL_TICK_SHIFT);
}

/* A clock of ticks that is one behind: processors' coarse clocks differ by so much. */
TG_INLINE int tg_cell_is_behind(__u16 tick, __u16 other)
{
	return (__u16)(other - tick) == 1;
}

/* The age by which cells are ranked: the youngest may be a tick ahead, by another's clock. */
TG_INLINE __u16 tg_cell_age(__u16 tick, __u16 then)
{
	return tick - then + 1;
}

/* 1 where both are the same. */
TG_INLINE __u64 tg_cell_same(__u32 a, __u32 b)
{
	return ((__u64)(a ^ b) - 1) >> 63;
}

/*
 * How well a cell suits a tag, its number in the lowest byte. Of 32 bits in all: with ages of 32
 * bits it took 16 bytes more of the BPF stack, which the SYN stage does not have.
 */
TG_INLINE __u64 tg_cell_rank(__u32 number, __u32 tag_there, __u32 age, __u32 tag)
{
	__u64 suits = tg_cell_same(tag_there, tag) << (TG_CELL_AGE_BITS + 1) |
	              tg_cell_same(tag_there, 0) << TG_CELL_AGE_BITS | age;

	return suits << 8 | number;
}

/* The larger of the two. Without branches: see tg_less(). */
TG_INLINE __u64 tg_cell_better(__u64 a, __u64 b)
{
	return a + ((b - a) & -tg_less(a, b));
}

TG_INLINE __u32 tg_cell_number(__u64 rank)
{
	return (__u8)rank;
}

#endif
