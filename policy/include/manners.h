/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a client takes a refusal, learnt from what its address does, and the form that fits it:
 *
 *   - who stops at a RST gets one;
 *   - who sends its SYN again (Windows: every half second, as often as it would retransmit) is
 *     answered, with a SYN/ACK behind which there is nothing: connect() returns, and the RST to
 *     what the client says next is final, as one after the handshake always is (Shukla, thesis,
 *     4.1.5); but with a RST where it is to come again soon;
 *   - which of the two it is shows in its SYN (system.h), until its address has shown it; of an
 *     address, behind which there may be clients of both kinds, those that look alike are known
 *     together, and the others apart;
 *   - who sends it again all the same has silence;
 *   - an address whose programs connect again as soon as they are refused is told later: its SYNs
 *     are dropped, and told when they come again after a second.
 *
 * Of an address that is told often nobody knows whether few clients connect over and over, or many
 * stand behind it (a proxy, a NAT). It is tried out: for one tick it is told later. If half as many
 * come then, it was the refusals that brought them, and it stays so for a while.
 *
 * A table of cells by a keyed hash of the address, of which 64 bits count, and of what its SYNs
 * look like.
 */
#ifndef TG_MANNERS_H
#define TG_MANNERS_H

#include "siphash.h"
#include "waiting.h"

/* 1 MB, for all listeners together. */
#define TG_MANNERS_BLOCKS (1u << 14)
#define TG_MANNERS_CELLS 4
/*
 * An address sends SYNs again when more than one in so many of its connections did that were told.
 * So one in eight is told by RST all the same, which shows whether it still does.
 */
#define TG_MANNERS_SHARE 8
/* Connections that count; then all weigh half. */
#define TG_MANNERS_KNOWN 128
/* So many clients to be told in a tick of 1.07 s are many for one address. */
#define TG_MANNERS_MANY 64
/* What a trial has shown holds for so many ticks. */
#define TG_MANNERS_TRIAL_TICKS 16

/* Whether an address is told later. */
enum tg_manners_delay {
	TG_DELAY_NONE,
	TG_DELAY_TRIAL, /* for this tick */
	TG_DELAY_HELPS,
};

struct tg_manners {
	__u32 tag;    /* of the address; 0: nobody's */
	__u16 tick;   /* the last in which one was to be told */
	__u16 trial;  /* the tick of the last trial */
	__u16 lately; /* clients to be told in that tick, who had not been here */
	__u16 before; /* the same of the tick before a trial */
	__u8 told;    /* connections that were told */
	__u8 again;   /* of them, those that sent their SYN again all the same */
	__u8 delay;   /* enum tg_manners_delay */
	__u8 padding;
};

/* A cache line. */
struct tg_manners_block {
	struct tg_manners cells[TG_MANNERS_CELLS];
};

/*
 * The name here of an address's clients that look like this one: an IPv4 address, or the first half
 * of an IPv6 address. sends_again: 0 or 1, see system.h.
 */
TG_INLINE __u64 tg_manners_name(const struct tg_key *key, const struct tg_tuple *tuple,
                                __u32 sends_again)
{
	__u64 address = tuple->saddr[0] | (__u64)tuple->saddr[1] << 32;
	struct tg_siphash s;

	tg_siphash_init(&s, key);
	tg_siphash13_word(&s, address);
	/* Nine bytes: what no other message under this key is long. */
	tg_siphash13_word(&s, 9ull << 56 | sends_again << 1 | tuple->is_ipv6);
	return tg_siphash13_finish(&s);
}

TG_INLINE __u32 tg_manners_block_index(__u64 name)
{
	return (__u32)name & (TG_MANNERS_BLOCKS - 1);
}

/* The number of the cell that a name has, or may have. */
TG_INLINE __u32 tg_manners_cell(const struct tg_manners_block *block, __u64 name, __u64 now_ns)
{
	__u16 tick = tg_cell_tick(now_ns);
	__u64 best = 0;

	for (__u32 i = 0; i < TG_MANNERS_CELLS; i++) {
		const struct tg_manners *cell = &block->cells[i];
		__u32 age = tg_cell_age(tick, cell->tick);

		best = tg_cell_better(best, tg_cell_rank(i, cell->tag, age, tg_cell_tag(name)));
	}
	/* As it is: the verifier wants to hear it. */
	return tg_cell_number(best) % TG_MANNERS_CELLS;
}

/*
 * Whoever is held off for its network's sake takes nobody's cell who was there of late: a flood of
 * forged addresses would take all of them.
 */
TG_INLINE int tg_manners_may_take(const struct tg_manners *cell, __u64 name,
                                  const struct tg_client *client, __u16 tick)
{
	return !client->is_held_off || !cell->tag || cell->tag == tg_cell_tag(name) ||
	       tg_cell_age(tick, cell->tick) > TG_MANNERS_TRIAL_TICKS;
}

/* The cell's, from now on; a new name's is empty. */
TG_INLINE void tg_manners_take(struct tg_manners *cell, __u64 name, __u16 tick)
{
	if (cell->tag == tg_cell_tag(name))
		return;
	cell->tag = tg_cell_tag(name);
	cell->tick = tick;
	/* None was yet: the first may be at once. */
	cell->trial = tick - TG_MANNERS_TRIAL_TICKS;
	cell->lately = 0;
	cell->before = 0;
	cell->told = 0;
	cell->again = 0;
	cell->delay = TG_DELAY_NONE;
}

/*
 * A tick has begun, the next one or a later: what the last has shown. A trial is held against the
 * tick before it, in which the address was told at once. Where far more come than then, the trial
 * was of others.
 */
TG_INLINE void tg_manners_turn(struct tg_manners *cell, __u16 tick)
{
	int is_due = (__u16)(tick - cell->trial) >= TG_MANNERS_TRIAL_TICKS;
	int is_more = cell->lately > 2 * cell->before;
	int is_next = (__u16)(tick - cell->tick) == 1;

	if (cell->delay == TG_DELAY_TRIAL) {
		cell->delay = 2 * cell->lately < cell->before ? TG_DELAY_HELPS : TG_DELAY_NONE;
	} else if (cell->delay == TG_DELAY_HELPS) {
		cell->delay = is_due ? TG_DELAY_NONE : TG_DELAY_HELPS;
	} else if ((is_due || is_more) && is_next && cell->lately >= TG_MANNERS_MANY) {
		cell->delay = TG_DELAY_TRIAL;
		cell->before = cell->lately;
		cell->trial = tick;
	}
	cell->lately = 0;
	cell->tick = tick;
}

/* By what its address has done, and by its SYN: an enum tg_answer. */
TG_INLINE __u32 tg_manners_form(const struct tg_manners *cell, const struct tg_client *client)
{
	if (client->times_told >= TG_TOLD_MOST)
		return TG_ANSWER_SILENCE;
	if (client->caller == TG_CALLER_NEW && cell->delay != TG_DELAY_NONE)
		return TG_ANSWER_SILENCE;
	if (client->comes_soon)
		return TG_ANSWER_AS_RULED;
	if (client->caller == TG_CALLER_TOLD ||
	    (cell->again + client->sends_again) * TG_MANNERS_SHARE > cell->told)
		return TG_ANSWER_HOLLOW;
	return TG_ANSWER_AS_RULED;
}

/*
 * Whether it comes again is seen, where there is room to remember it. Else who was answered is not
 * expected, nor who looks like one that stops at a RST, if nobody at its address did anything else.
 */
TG_INLINE int tg_manners_is_gone(const struct tg_manners *cell, const struct tg_client *client)
{
	if (client->is_kept || client->answer == TG_ANSWER_SILENCE)
		return 0;
	if (client->answer == TG_ANSWER_HOLLOW)
		return 1;
	return client->caller == TG_CALLER_NEW && !client->sends_again && !cell->again;
}

/* It was told. A connection counts once, however often it comes again; if that would be seen. */
TG_INLINE void tg_manners_count(struct tg_manners *cell, const struct tg_client *client)
{
	if (client->answer == TG_ANSWER_AS_RULED && client->is_gone)
		return;
	cell->told += client->times_told == 0;
	cell->again += client->times_told == 1;
	if (cell->told >= TG_MANNERS_KNOWN || cell->again >= TG_MANNERS_KNOWN) {
		cell->told /= 2;
		cell->again /= 2;
	}
}

/* The answer to it, which is remembered of its address. */
TG_INLINE void tg_manners_answer(struct tg_manners *cell, __u64 name, struct tg_client *client,
                                 __u64 now_ns)
{
	__u16 tick = tg_cell_tick(now_ns);

	if (!tg_manners_may_take(cell, name, client, tick)) {
		client->answer = client->sends_again ? TG_ANSWER_HOLLOW : TG_ANSWER_AS_RULED;
		return;
	}
	tg_manners_take(cell, name, tick);
	if (cell->tick != tick && !tg_cell_is_behind(tick, cell->tick))
		tg_manners_turn(cell, tick);
	cell->lately += client->caller == TG_CALLER_NEW && cell->lately < 0xffff;
	client->answer = tg_manners_form(cell, client);
	client->is_gone = tg_manners_is_gone(cell, client);
	if (client->answer != TG_ANSWER_SILENCE && !client->is_held_off)
		tg_manners_count(cell, client);
}

#endif
