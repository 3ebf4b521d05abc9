/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients who have been here: those whose SYN was dropped in silence, and who will send it
 * again; and those who were told, of whom some send it again, too (Windows does, every
 * half second). A table of cells by a keyed hash of the connection and its initial
 * sequence number, which a retransmission repeats and a new connection does not. Who is
 * forgotten is counted as new when it comes again.
 */
#ifndef TG_WAITING_H
#define TG_WAITING_H

#include "cell.h"
#include "client.h"
#include "tuple.h"

/* 4 MB, for all listeners together. */
#define TG_WAITING_BLOCKS (1u << 16)
#define TG_WAITING_CELLS 8
/* Who has not come for this long has given up: Linux sends a SYN for the last time after 67 s. */
#define TG_WAITING_TICKS 63
/* Who was told comes again for 2 s. */
#define TG_TOLD_TICKS 3
/* Who was told so often has silence from then on. Windows sends five SYNs. */
#define TG_TOLD_MOST 8
/* Longer ago is as long. */
#define TG_WAITED_MOST 255

struct tg_waiting {
	__u32 tag; /* of the name; 0: nobody */
	__u16 since_tick;
	__u8 times_told;   /* 0: it was left in silence */
	__u8 waited_ticks; /* when it was heard of last */
};

/* A cache line. */
struct tg_waiting_block {
	struct tg_waiting cells[TG_WAITING_CELLS];
};

/* A connection's name here: key is no cookie's. */
TG_INLINE __u64 tg_waiting_name(const struct tg_key *key, const struct tg_tuple *tuple, __u32 isn)
{
	return tg_tuple_mac(key, tuple, isn, 0);
}

TG_INLINE __u32 tg_waiting_block_index(__u64 name)
{
	return (__u32)name & (TG_WAITING_BLOCKS - 1);
}

TG_INLINE __u32 tg_waiting_age(const struct tg_waiting *cell, __u16 tick)
{
	return (__u16)(tick - cell->since_tick);
}

_Static_assert(0xffff < 1u << TG_CELL_AGE_BITS, "an age fits into a cell's rank");

/* An enum tg_caller. */
TG_INLINE __u32 tg_waiting_caller(const struct tg_waiting *cell, __u64 name, __u64 now_ns)
{
	__u32 age = tg_waiting_age(cell, tg_cell_tick(now_ns));

	if (cell->tag != tg_cell_tag(name))
		return TG_CALLER_NEW;
	if (cell->times_told)
		return age <= TG_TOLD_TICKS ? TG_CALLER_TOLD : TG_CALLER_NEW;
	return age <= TG_WAITING_TICKS ? TG_CALLER_WAITS : TG_CALLER_NEW;
}

/* How long a client has come again and again. */
TG_INLINE __u32 tg_waiting_waited(const struct tg_waiting *cell, __u32 caller, __u64 now_ns)
{
	__u32 waited = cell->waited_ticks + tg_waiting_age(cell, tg_cell_tick(now_ns));

	if (caller == TG_CALLER_NEW)
		return 0;
	return waited < TG_WAITED_MOST ? waited : TG_WAITED_MOST;
}

/* What is known of a client by the cell that its name has, or may have. */
TG_INLINE void tg_waiting_know(const struct tg_waiting *cell, __u64 name, __u64 now_ns,
                               struct tg_client *client)
{
	client->caller = tg_waiting_caller(cell, name, now_ns);
	client->times_told = client->caller == TG_CALLER_TOLD ? cell->times_told : 0;
	client->waited_ticks = (__u16)tg_waiting_waited(cell, client->caller, now_ns);
}

/* The number of the cell that a name has, or may have. */
TG_INLINE __u32 tg_waiting_cell(const struct tg_waiting_block *block, __u64 name, __u64 now_ns)
{
	__u16 tick = tg_cell_tick(now_ns);
	__u64 best = 0;

	for (__u32 i = 0; i < TG_WAITING_CELLS; i++) {
		const struct tg_waiting *cell = &block->cells[i];
		__u32 age = tg_cell_age(tick, cell->since_tick);

		best = tg_cell_better(best, tg_cell_rank(i, cell->tag, age, tg_cell_tag(name)));
	}
	/* As it is: the verifier wants to hear it. */
	return tg_cell_number(best) % TG_WAITING_CELLS;
}

TG_INLINE void tg_waiting_keep(struct tg_waiting *cell, __u64 name, __u32 times_told,
                               __u32 waited_ticks, __u64 now_ns)
{
	cell->tag = tg_cell_tag(name);
	cell->since_tick = tg_cell_tick(now_ns);
	cell->times_told = (__u8)times_told;
	cell->waited_ticks = (__u8)waited_ticks;
}

#endif
