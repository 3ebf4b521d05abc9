/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of persistent dropping (Jamjoom and Shin, SIGCOMM 2003, section 3.4.2):
 * when a request was first dropped, in 8 bits.
 */
#ifndef TG_SHED_TABLE_H
#define TG_SHED_TABLE_H

#include "types.h"

/* T_abort^max, "the maximum timeout value among most OS implementations" (3.4.2). */
#define TG_SHED_WINDOW_NS 75000000000ull
/* Stamps count 2^30 ns, 1.07 s; 70 of them are no less than the window. */
#define TG_SHED_TICK_SHIFT 30
#define TG_SHED_WINDOW_TICKS 70
/* A block of the table is one cache line. */
#define TG_SHED_CELLS 56

struct tg_shed_block {
	__u64 swept_tick;           /* when expired stamps were last taken out of this block */
	__u8 stamps[TG_SHED_CELLS]; /* 0: empty */
};

TG_INLINE __u32 tg_shed_tick(__u64 now_ns)
{
	return (__u32)(now_ns >> TG_SHED_TICK_SHIFT);
}

/* 0 says empty: a tick that ends in 0 is stamped as the next one. */
TG_INLINE __u8 tg_shed_stamp(__u32 tick)
{
	return (tick & 0xff) ? (__u8)tick : 1;
}

/* A stamp stands for the window. It may be a tick ahead, see tg_shed_stamp. */
TG_INLINE __u32 tg_shed_stands(__u8 stamp, __u32 tick)
{
	return tg_less(0, stamp) & tg_less((tick - stamp + 1) & 0xff, TG_SHED_WINDOW_TICKS + 2);
}

/* Eight stamps; they stand at a multiple of eight bytes. */
typedef __u64 __attribute__((may_alias)) tg_shed_eight;

_Static_assert(__builtin_offsetof(struct tg_shed_block, stamps) % 8 == 0 && TG_SHED_CELLS % 8 == 0,
               "stamps are read eight at once");

/* Eight bytes at once: x in each, and their upper bits. */
#define TG_SHED_EACH(x) ((x)*0x0101010101010101ull)
#define TG_SHED_UPPER TG_SHED_EACH(0x80)

/* Of eight stamps those that stand, as tg_shed_stands says; 0 for the others. */
TG_INLINE __u64 tg_shed_standing(__u64 stamps, __u32 tick)
{
	__u64 next = TG_SHED_EACH((__u64)((tick + 1) & 0xff));
	/* Byte by byte: next - stamp, the borrow kept from the neighbour. */
	__u64 age = ((next | TG_SHED_UPPER) - (stamps & ~TG_SHED_UPPER)) ^
	            ((next ^ ~stamps) & TG_SHED_UPPER);
	__u64 old =
		((age & ~TG_SHED_UPPER) + TG_SHED_EACH(0x7full - TG_SHED_WINDOW_TICKS - 1)) | age;
	__u64 used = ((stamps & ~TG_SHED_UPPER) + ~TG_SHED_UPPER) | stamps;

	return stamps & ((used & ~old & TG_SHED_UPPER) >> 7) * 0xff;
}

/* A block that was not swept for this long is, before anything else is done with it. */
#define TG_SHED_SWEEP_TICKS 64

/* Ticks since a block was swept; none by a clock that is behind the one that swept it. */
TG_INLINE __u32 tg_shed_since(const struct tg_shed_block *block, __u32 tick)
{
	__s32 since = (__s32)(tick - (__u32)block->swept_tick);

	return since > 0 ? (__u32)since : 0;
}

/* May any stamp stand of a block that was swept so many ticks ago? Without a branch. */
TG_INLINE __u64 tg_shed_may_stand(__u32 since)
{
	return tg_less(since, TG_SHED_SWEEP_TICKS + TG_SHED_WINDOW_TICKS + 2);
}

/*
 * Periodic maintenance (3.4.2), by the SYNs themselves: eight bits wrap after 275 s,
 * and no stamp may grow so old that it seems fresh. When a block is swept, its
 * stamps were made before the last sweep, at most a window earlier, or after it,
 * within TG_SHED_SWEEP_TICKS: they are all expired, or none is older than 206 ticks.
 */
TG_INLINE void tg_shed_sweep(struct tg_shed_block *block, __u32 tick)
{
	__u32 since = tg_shed_since(block, tick);
	__u64 kept = -tg_shed_may_stand(since);

	if (since < TG_SHED_SWEEP_TICKS)
		return;
		/* Unrolled it would take the stack that its caller has little of. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < TG_SHED_CELLS; i += 8) {
		tg_shed_eight *eight = (tg_shed_eight *)&block->stamps[i];

		*eight = tg_shed_standing(*eight, tick) & kept;
	}
	block->swept_tick = tick;
}

/* Stamps of a block that stand, swept or not. */
TG_INLINE __u32 tg_shed_count(const struct tg_shed_block *block, __u32 tick)
{
	__u32 count = 0;

	if (!tg_shed_may_stand(tg_shed_since(block, tick)))
		return 0;
	for (int i = 0; i < TG_SHED_CELLS; i++)
		count += tg_shed_stands(block->stamps[i], tick);
	return count;
}

#endif
