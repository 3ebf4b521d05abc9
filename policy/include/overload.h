/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is it a burst, or has a crowd come to stay? (Shukla, thesis, section 5.2: "The server
 * TCP stack assumes short-lived bursty traffic when queue drops first occur. [...] If
 * queue drops do last for t seconds, persistent overload is detected".)
 *
 *   calm        nobody has been dropped for a while
 *   burst       silence, for no more than are served before they give up: who is dropped comes
 *               again, and finds room when it is over
 *   persistent  new clients first, and silence for no more of the others than can hope to be
 *               served
 *   recovering  the crowd has gone: those who were left in silence come in, by half of the
 *               queue
 *
 * What makes an overload is that more *new* clients come than the server takes. Drops alone
 * last for as long as those who were dropped come again, whether a crowd is there or not.
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
 * which is the crossover of section 5.2; and where that is nothing, or less, it may gain within a
 * part of T. While it gains, and h is a third at least, as many may wait as the gain is worth, of
 * those whom the server takes in T, and all others are told. How many wait is known by the SYNs
 * that are dropped in silence, one a second each.
 *
 * t is the second after which every system of today sends a SYN again: a shorter overload
 * meets nobody twice. It is over at once where the last overloads were longer than 2 s. Beyond it
 * an overload persists when more wait than may; or, where those who may are never reached, when it
 * has outlived T. While it persists those who wait are not served, but new clients, who have not
 * waited: the same number, and at once. The queue is short while it goes on, once it is known what
 * the server takes. docs/auto.md has what comes of it.
 *
 * A listening socket is watched in windows. A window is closed by the SYN that finds it
 * old enough, so the phases go on while no daemon runs.
 */
#ifndef TG_OVERLOAD_H
#define TG_OVERLOAD_H

#include "listener.h"
#include "pace.h"
#include "rate.h"
#include "room.h"
#include "verdict.h"
#include "waiting.h"

/* 2^28 ns, 268 ms. */
#define TG_OVERLOAD_WINDOW_NS (1ull << 28)
/* Fewer drops than one in so many SYNs are chance: a server below its capacity has some. */
#define TG_OVERLOAD_SHARE 32
/* Persistent until so long after the last window with too many new clients: 537 ms. */
#define TG_OVERLOAD_HOLD_NS (1ull << 29)
/*
 * Over so long after its last window: 1.6 s. Longer than the second after which every
 * system of today sends a SYN again.
 */
#define TG_OVERLOAD_CALM_NS (3ull << 29)
/* Time constant of the means: 537 ms. */
#define TG_OVERLOAD_MEAN_NS (1ull << 29)
/* The drain's: 2.1 s, for a server that takes many at a time (Knot) takes none for half a second.
 */
#define TG_OVERLOAD_DRAIN_NS (1ull << 31)
/* By this part the drain rises in a window in which the server was short of clients. */
#define TG_OVERLOAD_STARVED_RISE 16
/* t: 2^30 ns, 1.07 s. A window that is longer tells nothing of rates. */
#define TG_OVERLOAD_BURST_NS (1ull << 30)
/* So much of a window tells whether new clients still come: 34 ms. */
#define TG_OVERLOAD_GLANCE_NS (1ull << 25)
/* Below a third, of 2^16, one client in six would be served in silence: too few. */
#define TG_OVERLOAD_HOPE_X16 ((1u << 16) / 3)
/* So long a system that sends its SYN again on a RST goes on with it: Windows does. */
#define TG_OVERLOAD_AGAIN_MS 2000
/* Of the clients' patience the whole, a half, a quarter and an eighth are looked at. */
#define TG_OVERLOAD_PARTS 4
/* So many may wait in the first overload, which shows how many the server takes. */
#define TG_OVERLOAD_NO_BOUND 0xffffffffull
/* A small overload's clients may cost an eighth of the host's time, each a SYN a second. */
#define TG_OVERLOAD_SMALL_COST_NS (1000000000 / 8)
/* As many new clients a second are remembered when they are told: for 3 s, a fifth of the table. */
#define TG_OVERLOAD_TOLD_KEPT (TG_WAITING_BLOCKS * TG_WAITING_CELLS / 16)
/*
 * The short queue has at least so many places. With 16 a server of one thread at 1.1 times
 * its capacity is idle for 2 % of its time (M/M/1/K with K = 17), with 8 for 6 %.
 */
#define TG_OVERLOAD_PLACES_LEAST 16
/*
 * And so many where far more come. With 8 it is busy, too (M/M/1/K at twice its capacity is idle
 * for 0.1 %), but takes them in smaller batches than packets are cheap in.
 */
#define TG_OVERLOAD_PLACES_FEWEST 12

/* More new clients come than the server takes, or did so a moment ago. */
TG_INLINE int tg_overload_goes_on(const struct tg_overload *o, __u64 now_ns)
{
	return tg_since(now_ns, o->excess_ns) < TG_OVERLOAD_HOLD_NS;
}

/* An enum tg_phase. */
TG_INLINE __u32 tg_overload_phase(const struct tg_overload *o, __u64 now_ns)
{
	if (o->is_persistent && tg_overload_goes_on(o, now_ns))
		return TG_PERSISTENT;
	if (!o->dropped_ns || tg_since(now_ns, o->dropped_ns) >= TG_OVERLOAD_CALM_NS)
		return TG_CALM;
	return o->is_persistent ? TG_RECOVERING : TG_BURST;
}

/* So few new clients in this part of a window that there is no crowd: half of what is taken. */
TG_INLINE int tg_overload_is_quiet(const struct tg_overload *o, __u64 passed_ns)
{
	/* Nobody came since: amounts are of up to a second. */
	if (passed_ns > TG_OVERLOAD_BURST_NS)
		return 1;
	return o->fresh * 512 < tg_rate_amount(o->drain_x256, passed_ns);
}

/*
 * New clients, those who wait, and the drain, a second. A server that nobody has to wait
 * for shows no more than that it can do so much. Nor does one before which an overload
 * persists: what is let in then is all that it takes, and if that counted, chance would
 * keep the overload alive when the crowd has gone. Should it have become slower, the
 * overload seems to end, and that shows it.
 */
TG_INLINE void tg_overload_see_rates(struct tg_overload *o, __u32 queued, int may_fall,
                                     __u64 passed_ns)
{
	__u64 in = o->entered + o->queued;
	__u64 drain = tg_rate_of(in > queued ? in - queued : 0, passed_ns);

	o->queued = queued;
	if (passed_ns > TG_OVERLOAD_BURST_NS) {
		o->fresh_x256 = 0;
		o->silent_x256 = 0;
		return;
	}
	o->fresh_x256 = tg_rate_toward(o->fresh_x256, tg_rate_of(o->fresh, passed_ns), passed_ns,
	                               TG_OVERLOAD_MEAN_NS);
	o->silent_x256 = tg_rate_toward(o->silent_x256, tg_rate_of(o->silent, passed_ns), passed_ns,
	                                TG_OVERLOAD_MEAN_NS);
	if (may_fall || drain > o->drain_x256)
		o->drain_x256 =
			tg_rate_toward(o->drain_x256, drain, passed_ns, TG_OVERLOAD_DRAIN_NS);
}

/*
 * The server was short of clients, while some were kept out: it takes more than was thought, though
 * no more than come. (Knot takes many at a time, and for a while hardly any; when it is quick again
 * the pace would tell by its sixteenth only.)
 */
TG_INLINE void tg_overload_see_starved(struct tg_overload *o)
{
	if (o->supply == TG_STARVED && o->drain_x256 < o->fresh_x256 + o->silent_x256)
		o->drain_x256 += o->drain_x256 / TG_OVERLOAD_STARVED_RISE;
}

/* The places of the short queue: what the server takes in the time that a client may wait. */
TG_INLINE __u32 tg_overload_places(const struct tg_rules *rules, const struct tg_overload *o)
{
	/* Amounts are of up to a second. */
	__u64 wait_ns = rules->wait_us < 1000000 ? rules->wait_us * 1000ull : 1000000000ull;
	__u64 places = tg_rate_amount(o->drain_x256, wait_ns) / 256;

	return places > TG_OVERLOAD_PLACES_LEAST ? (__u32)places : TG_OVERLOAD_PLACES_LEAST;
}

/*
 * And those that are enough while a crowd is there: the more come, the sooner a place that becomes
 * free is taken again. From half as many again as the server takes fewer, by the excess; a quarter
 * of them at three times. But as many as are let in within a round trip.
 */
TG_INLINE __u32 tg_overload_few_places(const struct tg_overload *o)
{
	__u64 excess_x256 = o->fresh_x256 > o->drain_x256 ? o->fresh_x256 - o->drain_x256 : 0;
	__u32 least = o->on_their_way > TG_OVERLOAD_PLACES_FEWEST ? o->on_their_way
	                                                          : TG_OVERLOAD_PLACES_FEWEST;
	__u64 places;

	if (2 * excess_x256 <= o->drain_x256)
		return o->places;
	places = o->places * o->drain_x256 / (2 * excess_x256);
	return places > least ? (__u32)places : least;
}

/* To serve a client costs 1 / drain; what costs nothing is not divided by. */
TG_INLINE __u64 tg_overload_syn_ns(const struct tg_rules *rules)
{
	return rules->syn_ns + !rules->syn_ns;
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
	__u64 syn_ns = tg_overload_syn_ns(rules);
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
	return (o->drain_x256 >> 8) * within_ms / 1000;
}

/* 2 c T, of 2^16, where c is what a SYN costs of 10^9 / drain. */
TG_INLINE __u64 tg_overload_cost_x16(const struct tg_rules *rules, __u64 served)
{
	return served * (tg_overload_syn_ns(rules) << 11) / (1000000000 >> 6);
}

/*
 * So many clients may wait for this time, where h is the hope that it ends within it: those whom
 * the server takes in it, times 2 (h - 2 c T).
 */
TG_INLINE __u64 tg_overload_worth(const struct tg_rules *rules, const struct tg_overload *o,
                                  __u64 within_ms, __u64 hope_x16)
{
	__u64 served = tg_overload_served(o, within_ms);
	__u64 cost_x16 = tg_overload_cost_x16(rules, served);

	if (hope_x16 < TG_OVERLOAD_HOPE_X16 || hope_x16 <= cost_x16)
		return 0;
	return 2 * served * (hope_x16 - cost_x16) >> 16;
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
		__u64 cost_x16 = tg_overload_cost_x16(rules, served) / 4;
		__u64 left = served * ((1 << 16) - cost_x16) >> 16;

		most = tg_cell_better(most, left & -tg_less(cost_x16, 1 << 16));
	}
	return most;
}

/*
 * Is it likely to end before too many wait, by what is known alone; and if it should go on, how
 * many may wait? Where a server takes that many connections that a client's SYNs for T seconds cost
 * it more than the client brings, it may still pay to wait for a part of T, if the overload is
 * likely to end by then. Before the window is closed that asks for it, and apart from that:
 * together they need more stack than BPF has left.
 */
TG_INLINE void tg_overload_hope(const struct tg_rules *rules, struct tg_overload *o)
{
	/* The first window of an overload is not over yet. */
	__u64 lasted_ms = o->since_ns ? tg_since(o->excess_ns, o->since_ns) / 1000000 : 0;
	__u64 until_ms = tg_overload_small_until_ms(rules, o, lasted_ms);

	/* When a small one begins is chance: the next may seem twice as long. */
	o->small_x16 = tg_overload_ended_by(o, lasted_ms / 2, until_ms, 0);
	o->ends_soon = tg_overload_hope_of(o, lasted_ms, TG_OVERLOAD_AGAIN_MS) >= 1 << 15;
	o->in_time = tg_overload_in_time(rules, o) | (tg_less(o->ended, 1) * TG_OVERLOAD_NO_BOUND);
	o->worth = 0;
	for (__u32 part = 0; part < TG_OVERLOAD_PARTS; part++) {
		__u64 within_ms = rules->patience_ms >> part;
		__u64 hope_x16 = tg_overload_hope_of(o, lasted_ms, within_ms);
		__u64 worth = tg_overload_worth(rules, o, within_ms, hope_x16);

		if (worth > o->worth)
			o->worth = worth;
	}
}

/* A window is over: what it shows of the pace, and is there hope for those who wait? */
TG_INLINE void tg_overload_see_window(const struct tg_rules *rules, struct tg_overload *o)
{
	tg_pace_see(o);
	tg_overload_hope(rules, o);
}

/*
 * Is it one of those that end before as many wait as are served in T, and do no more than three
 * quarters of these wait yet? Then hardly anybody has to give up: who waits and who comes are
 * served alike, and all of those who wait when it ends. (At a half Knot was idle when it had ended:
 * those who were left had waited for long already.)
 */
TG_INLINE int tg_overload_is_small(const struct tg_rules *rules, const struct tg_overload *o)
{
	__u64 waiting = o->silent_x256 >> 8, drain = o->drain_x256 >> 8;

	return o->small_x16 >= 1 << 15 && waiting <= drain * rules->patience_ms * 3 / 4000 &&
	       waiting * rules->syn_ns <= TG_OVERLOAD_SMALL_COST_NS;
}

/*
 * Do more new clients come than the server takes, and for how long? Those who have waited
 * are kept out, or keep new ones out, without there being a crowd.
 */
TG_INLINE void tg_overload_see_excess(const struct tg_rules *rules, struct tg_overload *o,
                                      __u64 over_ns)
{
	__u64 lasted_ns;

	/* The mean still has those of the windows before. */
	if (o->was_quiet || o->fresh_x256 <= o->drain_x256 ||
	    o->fresh_dropped * TG_OVERLOAD_SHARE < o->fresh)
		return;
	if (!o->since_ns)
		o->since_ns = o->window_ns ? o->window_ns : 1;
	o->excess_ns = over_ns;
	if (o->fresh_x256 > o->peak_x256)
		o->peak_x256 = o->fresh_x256;
	o->may_wait = o->worth;
	TG_IN_TURN();
	lasted_ns = tg_since(over_ns, o->since_ns);
	/* The first window does not tell whether it is small. */
	if (lasted_ns < 2 * TG_OVERLOAD_WINDOW_NS)
		return;
	if (o->ends_soon && lasted_ns < TG_OVERLOAD_BURST_NS)
		return;
	if (tg_overload_is_small(rules, o))
		o->is_persistent = 0;
	else if (o->silent_x256 >> 8 > o->may_wait || lasted_ns >= rules->patience_ms * 1000000ull)
		o->is_persistent = 1;
}

/* An overload has ended: how long it was is known from now on. */
TG_INLINE void tg_overload_learn(struct tg_overload *o)
{
	__u64 lasted_ms = tg_since(o->excess_ns, o->since_ns) / 1000000;

	o->lasted_ms[o->ended++ % TG_OVERLOAD_KNOWN] =
		lasted_ms < 0xffffffff ? (__u32)lasted_ms : 0xffffffff;
	o->since_ns = 0;
	o->peak_x256 = 0;
}

/* May the server take less than was thought? Not for being let have no more, by pace or in turn. */
TG_INLINE int tg_overload_may_fall(const struct tg_overload *o, __u32 phase)
{
	if (tg_pace_is_far(o) && (o->ended || phase == TG_PERSISTENT))
		return o->supply == TG_SATED;
	return phase != TG_PERSISTENT;
}

/* One window is over. */
TG_INLINE void tg_overload_close(const struct tg_rules *rules, struct tg_overload *o, __u32 queued,
                                 __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->window_ns);
	/* Nobody came since: what there was of it was over by then. */
	__u64 over_ns =
		passed_ns > TG_OVERLOAD_BURST_NS ? o->window_ns + TG_OVERLOAD_WINDOW_NS : now_ns;
	int is_overloaded = o->dropped && o->dropped * TG_OVERLOAD_SHARE >= o->seen;
	__u32 phase = tg_overload_phase(o, o->window_ns);

	o->was_quiet = tg_overload_is_quiet(o, passed_ns);
	TG_IN_TURN();
	if (o->since_ns && tg_since(o->window_ns, o->excess_ns) >= TG_OVERLOAD_CALM_NS)
		tg_overload_learn(o);
	/* Until nobody is left of those who wait, for whom it is no burst. */
	if (phase == TG_CALM)
		o->is_persistent = 0;
	tg_overload_see_rates(o, queued, is_overloaded && tg_overload_may_fall(o, phase),
	                      passed_ns);
	if (is_overloaded) {
		tg_overload_see_starved(o);
		o->dropped_ns = over_ns;
		tg_overload_see_excess(rules, o, over_ns);
	}
	o->places = tg_overload_places(rules, o);
	o->few_places = tg_overload_few_places(o);
	o->stuck = o->half_open;
	o->half_open = ~0u;
	o->seen = 0;
	o->fresh = 0;
	o->dropped = 0;
	o->fresh_dropped = 0;
	o->entered = 0;
	o->waiting_sum = 0;
	o->silent = 0;
	o->cookies = 0;
	o->window_ns = now_ns;
}

TG_INLINE int tg_overload_due(const struct tg_overload *o, __u64 now_ns)
{
	return tg_since(now_ns, o->window_ns) >= TG_OVERLOAD_WINDOW_NS;
}

/*
 * Before a SYN is judged, where the window is over. Of several processors one closes it;
 * what the others count meanwhile may be lost, of all counts alike.
 */
TG_INLINE void tg_overload_turn_window(const struct tg_rules *rules, struct tg_overload *o,
                                       __u32 queued, __u64 now_ns)
{
	if (__sync_fetch_and_add(&o->closing, 1))
		return;
	if (tg_overload_due(o, now_ns))
		tg_overload_close(rules, o, queued, now_ns);
	o->closing = 0;
}

/*
 * As many SYNs as these clients have sent since the window began, one a second each: so many find
 * silence, evenly. Had the first of a window what there is, those who wait would all come at the
 * same parts of a second, a second apart, and the server would be idle between.
 */
TG_INLINE __u64 tg_overload_share(const struct tg_overload *o, __u64 clients, __u64 now_ns)
{
	return clients * (1 + (tg_since(now_ns, o->window_ns) >> 20)) / (1000000000 >> 20);
}

/* So much of the listen queue is taken, or of the short one. */
TG_INLINE int tg_overload_fills_half(const struct tg_queues *queues)
{
	__u64 twice = 2 * (__u64)queues->listen_len;

	return twice >= queues->listen_max || (queues->places && twice >= queues->places);
}

/* Do ACKs come? A flood of forged SYNs brings none. */
TG_INLINE int tg_overload_was_half_full(const struct tg_overload *o, __u64 now_ns)
{
	return tg_since(now_ns, o->half_full_ns) < TG_OVERLOAD_HOLD_NS;
}

/*
 * Are the kernel's SYN cookies, which it gives while its SYN queue is full, no room? Who has one is
 * in no queue until its ACK is back, so that hundreds would be given one for each place that
 * becomes free. So there are none while half of the listen queue is taken; nor, for a while after
 * half of it was, or of the short one, more than twice what the server takes, once that is known.
 * Where the ACKs never come, in a flood of forged SYNs, the queue is empty, and every SYN has the
 * kernel's cookie. A kernel that answers every SYN so is left to itself: its SYN queue is empty.
 */
TG_INLINE int tg_overload_bars_cookies(const struct tg_overload *o, const struct tg_queues *queues,
                                       __u64 now_ns)
{
	__u64 most;

	if (!tg_syn_queue_full(queues))
		return 0;
	if (2 * (__u64)queues->listen_len >= queues->listen_max)
		return 1;
	if (!o->ended || !tg_overload_was_half_full(o, now_ns))
		return 0;
	most = tg_overload_share(o, 2 * (o->drain_x256 >> 8), now_ns);
	return o->cookies >= most + TG_OVERLOAD_PLACES_LEAST;
}

/* Were more let in than the server takes, of those whose ACKs come? */
TG_INLINE int tg_overload_is_ahead(const struct tg_overload *o, __u64 now_ns)
{
	return tg_overload_was_half_full(o, now_ns) && tg_pace_is_ahead(o, now_ns);
}

/* For whom there is no room, whatever the queues say: an enum tg_shut. */
TG_INLINE __u32 tg_overload_shuts(const struct tg_overload *o, const struct tg_queues *queues,
                                  __u64 now_ns)
{
	if (queues->places && tg_pace_is_far(o))
		return tg_overload_is_ahead(o, now_ns) ? TG_SHUT : TG_OPEN;
	return tg_overload_bars_cookies(o, queues, now_ns) ? TG_SHUT_TO_COOKIES : TG_OPEN;
}

/* New clients have stopped coming: seen before the window is over, or in the one before. */
TG_INLINE int tg_overload_has_ended(const struct tg_overload *o, __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->window_ns);

	if (passed_ns < TG_OVERLOAD_GLANCE_NS)
		return o->was_quiet;
	return tg_overload_is_quiet(o, passed_ns);
}

/* The short queue's limit, where one is in force; a crowd that stays keeps fewer places taken. */
TG_INLINE __u32 tg_overload_limit(const struct tg_overload *o, __u32 phase, __u64 now_ns)
{
	if (!tg_overload_goes_on(o, now_ns) || (!o->ended && phase != TG_PERSISTENT))
		return 0;
	if (phase != TG_PERSISTENT || tg_overload_has_ended(o, now_ns) || tg_pace_is_far(o))
		return o->places;
	return o->few_places;
}

/*
 * Then: tells the phase, and puts the short queue's limit in force, where more come than the server
 * takes and that is known; or the pace, where clients are away, while ACKs come that half fill it.
 * A server that accepts as many as there are, and serves them afterwards, would else accept a
 * second's crowd and do nothing else.
 */
TG_INLINE __u32 tg_overload_begin(struct tg_overload *o, struct tg_queues *queues, __u64 now_ns)
{
	__u32 phase = tg_overload_phase(o, now_ns);

	if (queues->syn_len < o->half_open)
		o->half_open = queues->syn_len;
	tg_pace_begin(o, queues);
	TG_IN_TURN();
	queues->places = tg_overload_limit(o, phase, now_ns);
	if (tg_overload_fills_half(queues))
		o->half_full_ns = now_ns;
	queues->shut = tg_overload_shuts(o, queues, now_ns);
	if (tg_pace_is_far(o))
		queues->places = 0;
	return phase;
}

/*
 * The ACK stage: is who finds no room left in silence? For t, and when the crowd has gone.
 * Meanwhile it is told, be those who only ask left in silence or not: it takes itself for
 * connected, and sends again and again what it has to say, before nginx at its capacity 90,000
 * segments a second.
 */
TG_INLINE int tg_overload_silences_ack(const struct tg_overload *o, __u64 now_ns)
{
	int is_long = o->since_ns && tg_since(now_ns, o->since_ns) >= TG_OVERLOAD_BURST_NS;

	if (!tg_overload_goes_on(o, now_ns) || tg_overload_has_ended(o, now_ns))
		return 1;
	return !is_long && !o->is_persistent;
}

/*
 * After an ACK was judged: who is told that there is no room was not taken by the server. (Who is
 * not told comes again, and may be.) Behind a bare ACK may come its data, which is told, too.
 */
TG_INLINE void tg_overload_meet_ack(struct tg_overload *o, struct tg_decision decision, __u32 seq,
                                    __u64 now_ns)
{
	if (tg_pace_tells(o, seq))
		tg_pace_see_round_trip(o, now_ns);
	if (decision.verdict != TG_RESET || decision.reason != TG_OVERFLOW_SYNACK_ACK)
		return;
	o->entered -= !!o->entered;
	o->dropped++;
	o->fresh_dropped++;
}

/* Must it be known whether this client waits already? In calm, with room, nobody does. */
TG_INLINE int tg_overload_asks(__u32 phase, int has_room)
{
	return phase != TG_CALM || !has_room;
}

/*
 * Half of the places that are in use, by the least of the limits. Who is let in takes a place a
 * round trip later, so those on their way count; not so where clients are away, and no more were
 * let in than the server takes; nor the half-open connections that have stood for a window. Their
 * ACKs found the queue full, and until the kernel sends the SYN/ACK again, a second later, they
 * would keep it empty.
 */
TG_INLINE int tg_overload_is_half_full(const struct tg_rules *rules, const struct tg_overload *o,
                                       const struct tg_queues *queues, __u64 now_ns)
{
	__u64 places = tg_listen_places(queues);
	__u64 coming = queues->syn_len > o->stuck ? queues->syn_len - o->stuck : 0;

	if (rules->places && rules->places < places)
		places = rules->places;
	if (queues->places && queues->places < places)
		places = queues->places;
	if (tg_pace_is_far(o) && !tg_overload_is_ahead(o, now_ns))
		coming = 0;
	return 2 * (queues->listen_len + coming) >= places;
}

/*
 * New clients first: the reason for who finds room and is to come later. When the crowd has
 * gone who has waited comes in, but by half of the queue: thousands of them would fill it
 * whenever a place is free, and new ones would have to wait in their stead, who would fill
 * it after them, for as long as the server has little time to spare.
 */
TG_INLINE __u32 tg_overload_turn(const struct tg_overload *o, __u32 phase, __u32 reason,
                                 __u32 caller, int is_half_full, __u64 now_ns)
{
	if (caller == TG_CALLER_NEW || phase == TG_CALM || phase == TG_BURST)
		return reason;
	if (is_half_full || (phase == TG_PERSISTENT && !tg_overload_has_ended(o, now_ns)))
		return TG_NEW_FIRST;
	return reason;
}

/* Whether one who finds no room is told so. */
enum tg_telling {
	TG_SILENT,
	TG_TELLS_SOON, /* to come again soon, by a RST: it sends its SYN again on one */
	TG_TELLS,      /* not to come again */
};

/*
 * Is there room to remember who is told and not expected again? Not in a flood of new clients, by
 * the mean, or by this quarter of a second where that has not risen yet: they would fill the table,
 * and who waits would be taken for new.
 */
TG_INLINE int tg_overload_keeps_told(const struct tg_overload *o)
{
	return o->fresh_x256 >> 8 < TG_OVERLOAD_TOLD_KEPT && o->fresh < TG_OVERLOAD_TOLD_KEPT / 4;
}

/* Does chance decide who is told? What is left of a crowd that has gone draws lots. */
TG_INLINE int tg_overload_draws_lots(const struct tg_overload *o, __u64 now_ns)
{
	return tg_overload_has_ended(o, now_ns);
}

/*
 * What is left of a crowd that has gone: who sends its SYN again on a RST, as it has shown or as it
 * looks, has one, or silence, as it falls. Windows comes again after 1, 3 and 7 s, and the server
 * would be idle between; on a RST it comes after half a second, but five times in all.
 */
TG_INLINE __u32 tg_overload_hastens(const struct tg_overload *o, const struct tg_client *client,
                                    __u32 random, __u64 now_ns)
{
	int does = client->caller == TG_CALLER_TOLD ||
	           (client->caller == TG_CALLER_WAITS && client->sends_again);

	return does && random & 1 && tg_overload_draws_lots(o, now_ns) ? TG_TELLS_SOON : TG_SILENT;
}

/*
 * Is one who finds no room to be told so, an enum tg_telling? There is silence for as many SYNs as
 * those who may wait send: in a burst, and when the crowd has gone, who is served in time; while it
 * stays, who may hope for its end. Then who has waited is told sooner than who comes, which has
 * most of its patience left, and who was told once is told again.
 */
TG_INLINE __u32 tg_overload_tells(const struct tg_overload *o, __u32 phase,
                                  const struct tg_client *client, __u32 random, __u64 now_ns)
{
	__u64 share;

	if (phase != TG_PERSISTENT || tg_overload_has_ended(o, now_ns)) {
		share = tg_overload_share(o, o->in_time, now_ns) + TG_POLL_BATCH;
		if (o->silent >= share)
			return TG_TELLS;
		return tg_overload_hastens(o, client, random, now_ns);
	}
	if (client->caller == TG_CALLER_TOLD)
		return TG_TELLS;
	share = tg_overload_share(o, o->may_wait, now_ns);
	if (client->caller != TG_CALLER_WAITS)
		share *= 2;
	return o->silent >= share ? TG_TELLS : TG_SILENT;
}

/* What became of the SYN. */
struct tg_overload_met {
	__u32 has_room;
	__u32 is_half_open; /* its request stands: it found no room, and has lost none */
	__u32 has_cookie;   /* the kernel's is its room */
	__u32 isn;          /* its initial sequence number */
};

/* How often it was told, with this time. */
TG_INLINE __u32 tg_overload_times_told(const struct tg_client *client)
{
	if (client->answer != TG_ANSWER_SILENCE)
		return client->times_told + 1;
	return client->times_told < TG_TOLD_MOST ? 0 : client->times_told;
}

/* After it was judged. cell is NULL where nobody asked who it is. */
TG_INLINE void tg_overload_end(struct tg_overload *o, const struct tg_overload_met *met,
                               const struct tg_client *client, struct tg_waiting *cell, __u64 name,
                               __u64 now_ns)
{
	int is_lost = !met->has_room && !met->is_half_open;

	o->seen++;
	o->fresh += client->caller == TG_CALLER_NEW && !met->is_half_open;
	o->dropped += is_lost;
	o->fresh_dropped += is_lost && client->caller == TG_CALLER_NEW;
	o->entered += !!met->has_room;
	if (met->has_room)
		tg_pace_let_in(o, met->isn, now_ns);
	o->silent += is_lost && client->answer == TG_ANSWER_SILENCE;
	o->cookies += met->has_cookie;
	if (!cell)
		return;
	if (is_lost && !client->is_gone)
		tg_waiting_keep(cell, name, tg_overload_times_told(client), now_ns);
	else if (client->caller != TG_CALLER_NEW)
		cell->tag = 0;
}

#endif
