/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fair share for each network of clients, while there is not room for all: core-stateless fair
 * queueing (Stoica, Shenker and Zhang, SIGCOMM 1998, section 3.1), where SYNs are the packets, the
 * networks are the flows, and the listening socket is the link.
 *
 * While a listening socket is short of room, the SYNs of each network are counted in windows. There
 * is one limit for all, so many SYNs a window. Of a network that sends more, each SYN is let on
 * with the probability limit / sent, so that the network has the limit whatever it sends; one that
 * sends less loses nothing.
 *
 * The paper sets the limit by the link's rate, which a server has not. Here it follows what is
 * lost, SYNs that were let on and found no room, in steps: after one that has lost some the limit
 * falls, after others it rises, the quicker the longer. A step in which the server hardly took any
 * is not told from one in which too many came: so a limit that was good falls by half at most, and
 * while it is less than half of what was good it doubles.
 *
 * Short of room is said of a time, not of the queue as it stands: a server that accepts all who
 * wait at once leaves an empty queue in the midst of an overload.
 */
#ifndef TG_SHARE_H
#define TG_SHARE_H

#include "police.h"
#include "siphash.h"
#include "syn.h"
#include "tuple.h"

/* Windows are of 2^28 ns, 268 ms, and numbered by the clock. */
#define TG_SHARE_WINDOW_SHIFT 28
/* Steps are of 2^29 ns, 537 ms: several times what a server takes for a whole queue at once. */
#define TG_SHARE_STEP_SHIFT 29
/* Short of room until so long after the last SYN without: 2.1 s. */
#define TG_SHARE_HOLD_NS (1ull << 31)
/* A step has lost SYNs when it has lost more than one in so many. */
#define TG_SHARE_LOST 128
/*
 * auto keeps the queue short, and a short queue keeps the server busy only while more come than it
 * takes: with 12 places and one that is served M/M/1 is idle for 0.6 % of its time at 4/3 times its
 * capacity, and for 7 % at 1. So one in so many is to be lost there, of those of networks that send
 * more than the limit: for who sends less it is longer (tg_syn_places()).
 */
#define TG_SHARE_SPILT 4
/*
 * Of networks that send less than so many SYNs a window, in 256ths, each seems to send nothing when
 * one comes: where the limit is so low, nobody is said to be below it.
 */
#define TG_SHARE_WITHIN_LEAST (4ull << 8)
/*
 * The limit rises by a sixteenth; after so many steps in a row by twice as much, and so on, until
 * it doubles. A queue that is not full yet loses nothing while it fills.
 */
#define TG_SHARE_RISE_SHIFT 4
#define TG_SHARE_RISE_STEPS 4
/* So large a limit, in 256ths of a SYN, is none. */
#define TG_SHARE_LIMIT_MOST (1ull << 32)

/*
 * Networks are counted in two rows, in a cell of each by one half of a keyed hash, and the less of
 * the two counts (a count-min sketch: Cormode and Muthukrishnan, Journal of Algorithms 2005). So
 * memory is bounded, 512 KiB for all listeners, and nobody can choose whom to be counted with.
 */
#define TG_SHARE_ROWS 2
#define TG_SHARE_CELLS (1u << 14)

struct tg_share_cell {
	__u32 window; /* the number of the one at hand */
	__u32 count;  /* SYNs in it */
	__u32 before; /* SYNs in the one before it */
	__u32 padding;
};

/* Of one listening socket. All zero: it was never short of room. */
struct tg_share {
	__u64 short_ns;   /* the last SYN without room, or step with SYNs held; 0: none yet */
	__u64 limit_x256; /* SYNs that a network may have in a window; 0: no limit */
	__u32 step;       /* the number of the one at hand */
	__u32 rising;     /* steps since the limit was last cut, or some were lost on purpose */
	/* In the step at hand: */
	__u32 let_on;  /* SYNs let on to where room is looked for */
	__u32 limited; /* of them, those of networks that send more than the limit */
	__u32 lost;    /* of those let on, those that found no room */
	__u32 held;    /* SYNs beyond their network's share */
	__u32 spilt;   /* of those lost, those not said to be below it that met a limit of auto's */
	/* Of any step, the last limit with which no more were lost than should be; 0: none yet. */
	__u32 good_x256;
	__u64 most_x256; /* SYNs of the network that sent the most */
};

TG_INLINE __u32 tg_share_window(__u64 now_ns)
{
	return (__u32)(now_ns >> TG_SHARE_WINDOW_SHIFT);
}

/* Is a SYN one of those that have a part in a share? The source is an enum tg_source. */
TG_INLINE int tg_share_concerns(const struct tg_rules *rules, __u32 source)
{
	return rules->share_ipv4_bits && (source == TG_SOURCE_ANY || source == TG_SOURCE_WITHIN);
}

/* Are the networks counted? */
TG_INLINE int tg_share_is_on(const struct tg_share *share, __u64 now_ns)
{
	return share->short_ns && tg_since(now_ns, share->short_ns) < TG_SHARE_HOLD_NS;
}

/*
 * A client's network, hashed: the first bits of its address, of which at most 64 count. owner is
 * the listening socket's.
 */
TG_INLINE __u64 tg_share_hash(const struct tg_key *key, const struct tg_tuple *tuple,
                              const struct tg_rules *rules, __u32 owner)
{
	__u64 upper = (__u64)__builtin_bswap32(tuple->saddr[0]) << 32;
	__u32 bits = rules->share_ipv4_bits;
	struct tg_siphash s;

	if (tuple->is_ipv6) {
		upper |= __builtin_bswap32(tuple->saddr[1]);
		bits = rules->share_ipv6_bits;
	}
	tg_siphash_init(&s, key);
	tg_siphash13_word(&s, upper >> ((64 - bits) & 63));
	/* Twelve bytes: what no other message under this key is long. */
	tg_siphash13_word(&s, 12ull << 56 | (__u64)tuple->is_ipv6 << 32 | owner);
	return tg_siphash13_finish(&s);
}

/* The cell of a network in a row: the first row's cells come first. */
TG_INLINE __u32 tg_share_cell_index(__u64 hash, __u32 row)
{
	return row * TG_SHARE_CELLS + ((__u32)(hash >> (row * 32)) & (TG_SHARE_CELLS - 1));
}

/*
 * SYNs of a network in a window's time until now, in 256ths, and one more from now on: of the
 * window before as much as is left of this one, if it sent evenly. Several processors count in one
 * step each: else who sends the most would be counted short, and have the more.
 */
TG_INLINE __u64 tg_share_count(struct tg_share_cell *cell, __u64 now_ns)
{
	__u32 window = tg_share_window(now_ns), was = cell->window;
	__u64 past_x256 = now_ns >> (TG_SHARE_WINDOW_SHIFT - 8) & 255, count_x256;

	if ((__s32)(window - was) > 0) {
		if (__sync_val_compare_and_swap(&cell->window, was, window) == was) {
			__u32 count = __sync_lock_test_and_set(&cell->count, 0);

			cell->before = was + 1 == window ? count : 0;
		}
	} else if (window != was) {
		/* By a clock that is behind: for it the window has just begun. */
		past_x256 = 0;
	}
	count_x256 = (__u64)cell->before * (256 - past_x256) + (__u64)cell->count * 256;
	__sync_fetch_and_add(&cell->count, 1);
	return count_x256 < TG_SHARE_LIMIT_MOST ? count_x256 : TG_SHARE_LIMIT_MOST - 1;
}

/* Nothing is counted of a step yet. */
TG_INLINE void tg_share_begin(struct tg_share *share)
{
	share->let_on = 0;
	share->limited = 0;
	share->lost = 0;
	share->held = 0;
	share->spilt = 0;
	share->most_x256 = 0;
}

/*
 * The limit after a step that has lost too many. A limit that lost / let on lower is not low
 * enough, since those below it send what they sent; one that is lost / limited lower is too low,
 * since there are others who come to be limited then. The middle of both; but the server may have
 * paused for this step alone.
 */
TG_INLINE __u64 tg_share_cut(const struct tg_share *share, __u64 lost)
{
	__u64 limit_x256 = share->limit_x256, most_x256 = share->most_x256;
	__u64 all = share->let_on, limited = share->limited;
	__u64 least_x256 = share->good_x256 ? limit_x256 / 2 : 0;
	__u64 too_high, too_low = 0;

	/* Of those lost none was counted: they were under way when the networks came to be. */
	if (!limit_x256 && !most_x256)
		return 0;
	/* Nobody was near it: whoever sent the most may have paused for this step alone. */
	if (limit_x256 > 2 * most_x256)
		return limit_x256 / 2;
	if (!limit_x256 || limit_x256 > most_x256)
		limit_x256 = most_x256;
	too_high = limit_x256 - limit_x256 * lost / all;
	if (limited > lost)
		too_low = limit_x256 - limit_x256 * lost / limited;
	limit_x256 = (too_high + too_low) / 2;
	/* Never nothing. */
	return (limit_x256 > least_x256 ? limit_x256 : least_x256) | 1;
}

/* Is the limit no more than half of one that was good? */
TG_INLINE int tg_share_is_low(const struct tg_share *share)
{
	return share->limit_x256 <= share->good_x256 / 2;
}

/* Has the step at hand lost more than chance has it? */
TG_INLINE int tg_share_loses(const struct tg_share *share)
{
	return (__u64)share->lost * TG_SHARE_LOST > share->let_on;
}

/*
 * The limit after a step that has not lost too many; 0 where nobody needs one. While some are lost
 * it is one for somebody, and clearly so: most_x256 is a maximum of counts that chance varies.
 */
TG_INLINE __u64 tg_share_raise(const struct tg_share *share)
{
	__u64 limit_x256 = share->limit_x256;
	__u32 times = share->rising / TG_SHARE_RISE_STEPS;

	if (tg_share_is_low(share) || times > TG_SHARE_RISE_SHIFT)
		times = TG_SHARE_RISE_SHIFT;
	limit_x256 += (limit_x256 >> (TG_SHARE_RISE_SHIFT - times)) + 1;
	if (tg_share_loses(share) && limit_x256 > share->most_x256 / 4 * 3) {
		/* That does not make it lower: it may be nobody's who sends far too much. */
		limit_x256 = share->most_x256 / 4 * 3 + 1;
		return limit_x256 > share->limit_x256 ? limit_x256 : share->limit_x256;
	}
	return limit_x256 < TG_SHARE_LIMIT_MOST ? limit_x256 : 0;
}

/*
 * SYNs that a step has lost beyond what keeps the server busy. Where few are limited, most of
 * theirs are not to be lost for that.
 */
TG_INLINE __u64 tg_share_missed(const struct tg_share *share, const struct tg_rules *rules)
{
	__u32 spilt = share->let_on / TG_SHARE_SPILT;

	if (!rules->is_auto || !share->limit_x256)
		return share->lost;
	if (spilt > share->limited / 2)
		spilt = share->limited / 2;
	if (spilt > share->spilt)
		spilt = share->spilt;
	return share->lost > spilt ? share->lost - spilt : 0;
}

/* A step is over. When all was lost, the server stood still, which tells nothing of shares. */
TG_APART void tg_share_turn(struct tg_share *share, const struct tg_rules *rules, __u64 now_ns)
{
	__u64 lost = tg_share_missed(share, rules);

	/* Room is short for as long as a limit is needed. */
	if (share->held)
		share->short_ns = now_ns;
	if (lost * TG_SHARE_LOST > share->let_on) {
		/*
		 * On its way back it has come too far, by twice at most: what was good is so no
		 * longer. Where far more than half was lost the server paused again.
		 */
		if (share->rising && share->limit_x256 < share->good_x256 &&
		    share->lost < (__u64)share->let_on * 3 / 4)
			share->good_x256 = (__u32)share->limit_x256 / 2;
		if (share->lost < share->let_on)
			share->limit_x256 = tg_share_cut(share, lost);
		share->rising = 0;
	} else if (share->limit_x256) {
		if (tg_share_loses(share) || !tg_share_is_low(share))
			share->good_x256 = (__u32)share->limit_x256;
		share->limit_x256 = tg_share_raise(share);
		/* Where some are lost on purpose it is nearly high enough. */
		share->rising = tg_share_loses(share) ? 0 : share->rising + 1;
	}
	tg_share_begin(share);
}

/* Changes the limit where it is time to. Of several processors one does. */
TG_INLINE void tg_share_look(struct tg_share *share, const struct tg_rules *rules, __u64 now_ns)
{
	__u32 step = (__u32)(now_ns >> TG_SHARE_STEP_SHIFT), was = share->step;

	if ((__s32)(step - was) > 0 && __sync_val_compare_and_swap(&share->step, was, step) == was)
		tg_share_turn(share, rules, now_ns);
}

/*
 * An enum tg_source, of a SYN whose network has sent so many in a window's time. random is
 * uniform over 32 bits.
 */
TG_INLINE __u32 tg_share_take(struct tg_share *share, __u64 sent_x256, __u32 random)
{
	__u64 limit_x256 = share->limit_x256;

	/* With this one. */
	if (share->most_x256 < sent_x256 + 256)
		share->most_x256 = sent_x256 + 256;
	if (limit_x256 && random * sent_x256 >> 32 >= limit_x256) {
		share->held++;
		return TG_SOURCE_BEYOND;
	}
	if (limit_x256 && sent_x256 < limit_x256)
		return limit_x256 < TG_SHARE_WITHIN_LEAST ? TG_SOURCE_ANY : TG_SOURCE_WITHIN;
	share->limited++;
	return TG_SOURCE_ANY;
}

/*
 * The whole of it before room is looked for, where networks are counted and tg_share_look() has
 * been asked.
 */
TG_INLINE __u32 tg_share_ask(struct tg_share *share, struct tg_share_cell *one,
                             struct tg_share_cell *other, __u32 random, __u64 now_ns)
{
	__u64 least = tg_share_count(one, now_ns);
	__u64 count = tg_share_count(other, now_ns);

	return tg_share_take(share, count < least ? count : least, random);
}

/*
 * The same with what comes before it, for a caller that has everything at hand: the simulator, and
 * the tests. Where packets pass, look-ups come in between (datapath/bpf/share_stage.h).
 */
TG_INLINE __u32 tg_share_step(struct tg_share *share, const struct tg_rules *rules,
                              struct tg_share_cell *one, struct tg_share_cell *other, __u32 random,
                              __u64 now_ns)
{
	if (!tg_share_is_on(share, now_ns))
		return TG_SOURCE_ANY;
	tg_share_look(share, rules, now_ns);
	return tg_share_ask(share, one, other, random, now_ns);
}

/* Once a SYN that was let on is judged, for this reason. The source is an enum tg_source. */
TG_INLINE void tg_share_end(struct tg_share *share, __u32 source, __u32 reason, __u64 now_ns)
{
	int is_lost = tg_syn_is_lost(reason);
	int is_on = tg_share_is_on(share, now_ns);

	if (!is_lost && !is_on)
		return;
	if (!is_on) {
		/*
		 * Another overload, of which nothing is known yet; the rest of this step is too
		 * little to tell by.
		 */
		share->limit_x256 = 0;
		share->good_x256 = 0;
		share->rising = 0;
		share->step = (__u32)(now_ns >> TG_SHARE_STEP_SHIFT) + 1;
		tg_share_begin(share);
	}
	share->let_on++;
	if (is_lost) {
		share->lost++;
		share->spilt += source == TG_SOURCE_ANY &&
		                (reason == TG_WAIT_LIMIT || reason == TG_NEW_FIRST);
		share->short_ns = now_ns;
	}
}

#endif
