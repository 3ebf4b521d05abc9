/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What silence is worth: how likely is it that an overload ends while those who wait are there?
 *
 * In silence a client is served if the overload ends while it is still there. Of overloads
 * without a typical length those that have lasted for s end within the next T, the clients'
 * patience, with a probability h of T / (s + T). The last overloads of this socket tell more:
 * where n of them were longer than s, and m of these not by more than T, and what one knows
 * without them counts as one more,
 *
 *   h = (m + T / (s + T)) / (n + 1).
 *
 * About half of those who wait then come back in time. Each sends a SYN a second meanwhile,
 * which costs the share c of what serving a client does: c T in all. So silence gains while
 * h / 2 > c T, where nothing is known until
 *
 *   s = 1 / 2 c - T
 *
 * which is the crossover of Shukla's section 5.2; and where that is nothing, or less, it may gain
 * within a part of T. While it gains, and h is a third at least, as many may wait as the gain is
 * worth, of those whom the server takes in T, and all others are told.
 */
#ifndef TG_OVERLOAD_HOPE_H
#define TG_OVERLOAD_HOPE_H

#include "cell.h"
#include "overload_window.h"

/* Below a third, of 2^16, one client in six would be served in silence: too few. */
#define TG_OVERLOAD_HOPE_X16 ((1u << 16) / 3)
/* So long a system that sends its SYN again on a RST goes on with it: Windows does. */
#define TG_OVERLOAD_AGAIN_MS 2000
/* Of the clients' patience the whole, a half, a quarter and an eighth are looked at. */
#define TG_OVERLOAD_PARTS 4
/*
 * By then who waits has come again, by every system's schedule. In the first seconds of a burst
 * more come than will: those who may wait by their number are more than there is time for behind
 * it.
 */
#define TG_OVERLOAD_SETTLED_MS 4000
/* So many may wait in the first overload, which shows how many the server takes. */
#define TG_OVERLOAD_NO_BOUND 0xffffffffull
/* A small overload's clients may cost an eighth of their socket's time, each a SYN a second. */
#define TG_OVERLOAD_SMALL_COST_NS (1000000000 / 8)

/*
 * What a SYN costs, where to serve a client costs 1 / drain; what costs nothing is not divided by.
 * In a SO_REUSEPORT group one socket's drain is that of its part of the host: of that a SYN takes
 * as many times more as there are members.
 */
TG_INLINE __u64 tg_overload_syn_ns(const struct tg_rules *rules, const struct tg_overload *o)
{
	return (rules->syn_ns + !rules->syn_ns) * (o->members + !o->members);
}

/*
 * When as many wait as are served in T, at this excess of new clients, from the overload's
 * beginning on; or, where that is sooner, 1 / c from now, by when the SYNs of those who wait have
 * cost as much as they bring. 0 where it is within T: then some give up in any case.
 */
TG_INLINE __u64 tg_overload_small_until_ms(const struct tg_rules *rules,
                                           const struct tg_overload *o, __u64 lasted_ms)
{
	__u64 drain_x256 = o->drain_x256;
	__u64 excess_x256 = o->peak_x256 - drain_x256;
	__u64 syn_ns = tg_overload_syn_ns(rules, o);
	__u64 filled_ms, paid_ms;

	if (o->peak_x256 <= drain_x256 || excess_x256 >= drain_x256)
		return 0;
	filled_ms = drain_x256 * (rules->patience_ms & 0xfffff) / excess_x256;
	paid_ms = 256 * (1000000000000ull / syn_ns) / drain_x256;
	return lasted_ms + (filled_ms < paid_ms ? filled_ms : paid_ms);
}

/*
 * Of the overloads that were longer than this one is now, the share that had ended by then, of
 * 2^16. What is known without them counts as one more.
 */
TG_INLINE __u64 tg_overload_ended_by(const struct tg_overload *o, __u64 lasted_ms, __u64 until_ms,
                                     __u64 without_x16)
{
	__u64 ended_x16 = without_x16, longer = 1;

	for (__u32 i = 0; i < TG_OVERLOAD_KNOWN; i++) {
		__u64 known_ms = o->lasted_ms[i];
		/* An eighth more is as long. */
		__u64 is_longer = tg_less(lasted_ms, known_ms + (known_ms >> 3));

		longer += is_longer;
		ended_x16 += (is_longer & ~tg_less(until_ms, known_ms)) << 16;
		/* One after the other: side by side they fill the stack. */
		__asm__ volatile("" : "+r"(ended_x16), "+r"(longer));
	}
	return ended_x16 / longer;
}

/* h, that it ends within so long, of 2^16. */
TG_INLINE __u64 tg_overload_hope_of(const struct tg_overload *o, __u64 lasted_ms, __u64 within_ms)
{
	__u64 until_ms = lasted_ms + within_ms;

	return tg_overload_ended_by(o, lasted_ms, until_ms,
	                            (within_ms << 16) / (until_ms + !until_ms));
}

/* Those whom the server takes in this time. */
TG_INLINE __u64 tg_overload_served(const struct tg_overload *o, __u64 within_ms)
{
	return tg_overload_taken_in(o->drain_x256, within_ms);
}

/*
 * What a SYN costs while as many come as in the window at hand, once that has settled. Most of what
 * one costs that comes alone is the interrupt; who comes while the host is at another is taken in
 * with that.
 */
TG_INLINE __u64 tg_overload_syn_among_ns(const struct tg_rules *rules, const struct tg_overload *o,
                                         __u64 lasted_ms)
{
	__u64 syn_ns = tg_overload_syn_ns(rules, o);

	if (lasted_ms < TG_OVERLOAD_SETTLED_MS)
		return syn_ns;
	return syn_ns * TG_OVERLOAD_WINDOW_NS / (TG_OVERLOAD_WINDOW_NS + o->seen * syn_ns);
}

/* 2 c T, of 2^16, where c is what a SYN costs of 10^9 / drain. */
TG_INLINE __u64 tg_overload_cost_x16(__u64 syn_ns, __u64 served)
{
	return served * (syn_ns << 11) / (1000000000 >> 6);
}

/*
 * Where one crowd follows another: of so many, those who are served before the next one comes, and
 * a quarter more, for some have given up by then. Nobody else gains by waiting. Behind a crowd of
 * up to two seconds it is not time that the server is short of: those who wait come seconds apart,
 * and the more there are, the less it is idle between.
 */
TG_INLINE __u64 tg_overload_before_next(const struct tg_overload *o, __u64 clients)
{
	__u64 served = tg_overload_served(o, o->calm_ms);
	__u64 most = served + served / 4;

	return o->calm_ms && tg_overload_last_was_long(o) && most < clients ? most : clients;
}

/*
 * So many clients may wait for this part of T, where h is the hope that it ends within it: those
 * whom the server takes in it, times 2 (h - 2 c T). By a mask: see tg_less().
 */
TG_INLINE __u64 tg_overload_worth(const struct tg_rules *rules, const struct tg_overload *o,
                                  __u64 lasted_ms, __u32 part)
{
	__u64 within_ms = rules->patience_ms >> part;
	__u64 hope_x16 = tg_overload_hope_of(o, lasted_ms, within_ms);
	__u64 served = tg_overload_served(o, within_ms);
	__u64 cost_x16 = tg_overload_cost_x16(o->syn_ns, served);
	__u64 gains = tg_less(TG_OVERLOAD_HOPE_X16 - 1, hope_x16) & tg_less(cost_x16, hope_x16);

	return 2 * served * ((hope_x16 - cost_x16) & -gains) >> 16;
}

/*
 * When it is over, or as long as it is a burst: so many of those who wait are served before they
 * give up. Each sends a SYN a second until then, for half of T in the mean: of those whom the
 * server takes in T these take the share c T / 2; or of those in a part of T, where that is more.
 */
TG_INLINE __u64 tg_overload_in_time(const struct tg_rules *rules, const struct tg_overload *o)
{
	__u64 most = 0;

	for (__u32 part = 0; part < TG_OVERLOAD_PARTS; part++) {
		__u64 served = tg_overload_served(o, rules->patience_ms >> part);
		__u64 cost_x16 = tg_overload_cost_x16(tg_overload_syn_ns(rules, o), served) / 4;
		__u64 left = served * ((1 << 16) - cost_x16) >> 16;

		most = tg_cell_better(most, left & -tg_less(cost_x16, 1 << 16));
	}
	return most;
}

/*
 * For how many would it pay to wait, if it should go on? Where a server takes that many connections
 * that a client's SYNs for T seconds cost it more than the client brings, it may still pay to wait
 * for a part of T, if the overload is likely to end by then. No more than are served before the
 * next one.
 */
TG_INLINE __u64 tg_overload_most_worth(const struct tg_rules *rules, const struct tg_overload *o,
                                       __u64 lasted_ms)
{
	/* Not 0, of which the verifier knows what is more, and would walk each way apart. */
	__u64 most = tg_overload_worth(rules, o, lasted_ms, 0);

	for (__u32 part = 1; part < TG_OVERLOAD_PARTS; part++)
		most = tg_cell_better(most, tg_overload_worth(rules, o, lasted_ms, part));
	return tg_overload_before_next(o, most);
}

/*
 * Is it likely to end before too many wait, by what is known alone; and if it should go on, how
 * many may wait? Each is stored once: another processor may close the window meanwhile, and go by
 * it. Before the window is closed that asks for it, and apart from that: together they need more
 * stack than BPF has left.
 */
TG_INLINE void tg_overload_hope(const struct tg_rules *rules, struct tg_overload *o)
{
	/* The first window of an overload is not over yet. */
	__u64 lasted_ms = o->since_ns ? tg_overload_lasted_ns(o) / 1000000 : 0;
	__u64 until_ms = tg_overload_small_until_ms(rules, o, lasted_ms);

	o->syn_ns = tg_overload_syn_among_ns(rules, o, lasted_ms);
	/* When a small one begins is chance: the next may seem twice as long. */
	o->small_x16 = tg_overload_ended_by(o, lasted_ms / 2, until_ms, 0);
	o->ends_soon = tg_overload_hope_of(o, lasted_ms, TG_OVERLOAD_AGAIN_MS) >= 1 << 15;
	o->in_time = tg_overload_in_time(rules, o) | (tg_less(o->ended, 1) * TG_OVERLOAD_NO_BOUND);
	o->worth = tg_overload_most_worth(rules, o, lasted_ms);
}

/*
 * Is it one of those that end before as many wait as are served in T, and do no more than three
 * quarters of these wait yet? Then hardly anybody has to give up: new clients go first, but for who
 * will hardly come again, and all of those who wait come in when it ends. (At a half Knot was idle
 * when it had ended: those who were left had waited for long already.)
 */
TG_INLINE int tg_overload_is_small(const struct tg_rules *rules, const struct tg_overload *o)
{
	__u64 waiting = o->silent_x256 >> 8, drain = o->drain_x256 >> 8;

	return o->small_x16 >= 1 << 15 && waiting <= drain * rules->patience_ms * 3 / 4000 &&
	       waiting * tg_overload_syn_ns(rules, o) <= TG_OVERLOAD_SMALL_COST_NS;
}

#endif
