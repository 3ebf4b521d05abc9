/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of pairs that are held here in TIME-WAIT although the kernel's end of the
 * connection is CLOSED: it closed second. A cache line for each, found by two keyed hashes,
 * in the less filled of two blocks. A pair whose block is full is not held, and whoever
 * asked must then leave TIME-WAIT where TCP leaves it.
 */
#ifndef TG_HELD_H
#define TG_HELD_H

#include "sequence.h"
#include "siphash.h"
#include "tuple.h"
#include "types.h"

/* 2 MSL, as Linux has it (TCP_TIMEWAIT_LEN). */
#define TG_HELD_NS 60000000000ull
#define TG_HELD_CELLS 8

#define TG_HELD_TIMESTAMPS 1u /* the connection had them: own_ts and peer_ts are good */
#define TG_HELD_REOPENED 2u   /* a SYN that was safe has passed since */
#define TG_HELD_IPV6 4u
#define TG_HELD_SWAPPED 8u   /* by close_swap; else it was agreed */
#define TG_HELD_GIVEN_UP 16u /* our FIN has no answer: the other end may read on */

/* One pair, from this host's side. Addresses and ports in network byte order. */
struct tg_held {
	__u64 until_ns; /* of the monotonic clock; at or before now: the cell is free */
	__u32 own[4];
	__u32 peer[4];
	__u16 own_port;
	__u16 peer_port;
	__u32 snd_nxt; /* behind the last that was sent, host byte order */
	__u32 rcv_nxt; /* behind the last that was received */
	__u32 own_ts;  /* the last time stamps sent and received */
	__u32 peer_ts;
	__u32 flags;
};

_Static_assert(sizeof(struct tg_held) == 64, "a cache line");

struct tg_held_block {
	struct tg_held cells[TG_HELD_CELLS];
};

/* Two hashes in one: each half names a block. */
TG_INLINE __u64 tg_held_hash(const struct tg_key *key, const struct tg_held *pair)
{
	struct tg_siphash s;

	tg_siphash_init(&s, key);
	tg_siphash_word(&s, (__u64)pair->own[0] << 32 | pair->peer[0]);
	if (pair->flags & TG_HELD_IPV6) {
		tg_siphash_word(&s, (__u64)pair->own[1] << 32 | pair->peer[1]);
		tg_siphash_word(&s, (__u64)pair->own[2] << 32 | pair->peer[2]);
		tg_siphash_word(&s, (__u64)pair->own[3] << 32 | pair->peer[3]);
	}
	return tg_siphash_end(&s, (__u32)pair->own_port << 16 | pair->peer_port,
	                      pair->flags & TG_HELD_IPV6 ? 36 : 12);
}

/* Which of `blocks` a half of the hash names. */
TG_INLINE __u32 tg_held_index(__u32 half, __u32 blocks)
{
	return (__u32)((__u64)half * blocks >> 32);
}

TG_INLINE int tg_held_stands(const struct tg_held *cell, __u64 now_ns)
{
	return cell->until_ns > now_ns;
}

TG_INLINE int tg_held_same(const struct tg_held *a, const struct tg_held *b)
{
	__u32 ports = (a->own_port ^ b->own_port) | (a->peer_port ^ b->peer_port);
	__u32 family = (a->flags ^ b->flags) & TG_HELD_IPV6;

	return !(ports | family | tg_differ(a->own, b->own) | tg_differ(a->peer, b->peer));
}

/* The cell of a block that holds the pair, or TG_HELD_CELLS. */
TG_INLINE __u32 tg_held_find(const struct tg_held_block *block, const struct tg_held *pair,
                             __u64 now_ns)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TG_HELD_CELLS; i++) {
		if (tg_held_stands(&block->cells[i], now_ns) &&
		    tg_held_same(&block->cells[i], pair))
			return i;
	}
	return TG_HELD_CELLS;
}

/* Free cells of a block. Without branches: see tg_less(). */
TG_INLINE __u32 tg_held_room(const struct tg_held_block *block, __u64 now_ns)
{
	__u32 room = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TG_HELD_CELLS; i++)
		room += 1 - tg_less(now_ns, block->cells[i].until_ns);
	return room;
}

/* Takes a free cell of a block, though others look for one at once; or TG_HELD_CELLS. */
TG_INLINE __u32 tg_held_take(struct tg_held_block *block, __u64 now_ns)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TG_HELD_CELLS; i++) {
		__u64 was = block->cells[i].until_ns;

		if (was <= now_ns && __sync_val_compare_and_swap(&block->cells[i].until_ns, was,
		                                                 now_ns + TG_HELD_NS) == was)
			return i;
	}
	return TG_HELD_CELLS;
}

/* Fills a taken cell. The wait begins anew where the pair was held already. */
TG_INLINE void tg_held_fill(struct tg_held *cell, const struct tg_held *pair, __u64 now_ns)
{
	struct tg_held held = *pair;

	/* Whole before it is written: a cell that seems free for a moment may be taken. */
	held.until_ns = now_ns + TG_HELD_NS;
	*cell = held;
}

/* The cell that holds a pair, in the two blocks of its hash; or NULL. */
TG_INLINE struct tg_held *tg_held_get(struct tg_held_block *one, struct tg_held_block *other,
                                      const struct tg_held *pair, __u64 now_ns)
{
	__u32 at = tg_held_find(one, pair, now_ns);

	if (at < TG_HELD_CELLS)
		return &one->cells[at];
	at = tg_held_find(other, pair, now_ns);
	return at < TG_HELD_CELLS ? &other->cells[at] : (void *)0;
}

/* What became of a pair that was to be held. */
enum tg_held_put {
	TG_HELD_NO_ROOM,
	TG_HELD_DONE,
	TG_HELD_EVICTED, /* in the place of the one that had waited longest */
};

/* The cell of two blocks whose wait is over soonest. */
TG_INLINE struct tg_held *tg_held_soonest(struct tg_held_block *one, struct tg_held_block *other)
{
	struct tg_held *soonest = &one->cells[0];

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TG_HELD_CELLS; i++) {
		if (one->cells[i].until_ns < soonest->until_ns)
			soonest = &one->cells[i];
		if (other->cells[i].until_ns < soonest->until_ns)
			soonest = &other->cells[i];
	}
	return soonest;
}

/*
 * Holds a pair for 2 MSL from now; enum tg_held_put. must: the other end counts on it, so it
 * takes another's place where there is no room.
 */
TG_INLINE __u32 tg_held_put(struct tg_held_block *one, struct tg_held_block *other,
                            const struct tg_held *pair, __u32 must, __u64 now_ns)
{
	struct tg_held *cell = tg_held_get(one, other, pair, now_ns);
	struct tg_held_block *block = one;
	__u32 done = TG_HELD_DONE, at;

	if (!cell) {
		if (tg_held_room(other, now_ns) > tg_held_room(one, now_ns))
			block = other;
		at = tg_held_take(block, now_ns);
		if (at < TG_HELD_CELLS) {
			cell = &block->cells[at];
		} else if (must) {
			cell = tg_held_soonest(one, other);
			done = TG_HELD_EVICTED;
		} else {
			return TG_HELD_NO_ROOM;
		}
	}
	tg_held_fill(cell, pair, now_ns);
	return done;
}

/* Free cells that the two blocks of a pair must have before the pair is offered to be held. */
#define TG_HELD_SPARE 4u

/* One that is held already would have its own cell again. */
TG_INLINE __u32 tg_held_can_hold(const struct tg_held_block *one, const struct tg_held_block *other,
                                 const struct tg_held *pair, __u64 now_ns)
{
	if (tg_held_room(one, now_ns) + tg_held_room(other, now_ns) >= TG_HELD_SPARE)
		return 1;
	return tg_held_find(one, pair, now_ns) < TG_HELD_CELLS ||
	       tg_held_find(other, pair, now_ns) < TG_HELD_CELLS;
}

/* A segment that may concern a held pair: it has SYN or RST set. */
struct tg_held_segment {
	__u32 seq;
	__u32 ts; /* its time stamp, where it has one */
	__u32 has_ts;
	__u32 outgoing;
	__u16 syn; /* with or without ACK */
	__u16 ack; /* then: it answers a SYN */
	__u32 rst;
};

enum tg_held_verdict {
	TG_HELD_PASS,
	TG_HELD_REOPEN, /* safe: nothing of the old connection is acceptable to the new one */
	TG_HELD_BLOCK,
};

/*
 * Our kernel has no socket for an old duplicate, and answers it with RST. TIME-WAIT would
 * not: the RST stays here, but for close_swap's own. And but for those of a program that closed
 * with a reply still on its way, which a client that reads on waits for: only RST tells it.
 */
TG_INLINE __u32 tg_held_judge_rst(const struct tg_held *cell, const struct tg_held_segment *segment)
{
	if (!segment->outgoing || (cell->flags & (TG_HELD_REOPENED | TG_HELD_GIVEN_UP)))
		return TG_HELD_PASS;
	if ((cell->flags & TG_HELD_SWAPPED) && segment->seq == cell->snd_nxt)
		return TG_HELD_PASS;
	return TG_HELD_BLOCK;
}

/*
 * A SYN on a held pair opens it again only where no old duplicate can be taken for a new
 * segment: its sequence number lies behind all that this end used before (RFC 9293, 3.6.1),
 * or its time stamp does (RFC 6191), as Linux has it. It holds for the SYN of either end, ours
 * and the other's, and for SYN/ACKs. What has SYN and is not safe does not pass.
 */
TG_INLINE __u32 tg_held_judge(const struct tg_held *cell, const struct tg_held_segment *segment)
{
	__u32 last_ts = segment->outgoing ? cell->own_ts : cell->peer_ts;
	__u32 last_seq = segment->outgoing ? cell->snd_nxt : cell->rcv_nxt;
	int both_ts = segment->has_ts && (cell->flags & TG_HELD_TIMESTAMPS);

	if (segment->rst)
		return tg_held_judge_rst(cell, segment);
	if (!segment->syn)
		return TG_HELD_PASS;
	if (both_ts && segment->ts != last_ts) {
		if (tg_before(last_ts, segment->ts))
			return TG_HELD_REOPEN;
		/*
		 * It answers a SYN that was safe, and its time stamp says nothing: a SYN cookie's
		 * begins anywhere, with each connection. Linux does not ask for it, either
		 * (tcp_tw_reuse).
		 */
		return segment->ack && (cell->flags & TG_HELD_REOPENED) ? TG_HELD_PASS
		                                                        : TG_HELD_BLOCK;
	}
	if (segment->seq == last_seq || tg_before(segment->seq, last_seq))
		return TG_HELD_BLOCK;
	return TG_HELD_REOPEN;
}

#endif
