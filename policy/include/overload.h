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
 * In silence a client is served if the overload ends while it is still there. overload_hope.h
 * says how many may wait for that. How many do is known by the SYNs that are dropped in silence,
 * one a second each.
 *
 * t is the second after which every system of today sends a SYN again: a shorter overload
 * meets nobody twice. It is over at once where the last overloads were longer than 2 s. Beyond it
 * an overload persists when more wait than may; or, where those who may are never reached, when it
 * has outlived T. While it persists those who wait are not served, but new clients, who have not
 * waited: the same number, and at once. The queue is short while it goes on, once it is known what
 * the server takes. docs/auto.md has what comes of it.
 */
#ifndef TG_OVERLOAD_H
#define TG_OVERLOAD_H

#include "ack.h"
#include "overload_hope.h"
#include "overload_inside.h"
#include "overload_places.h"
#include "overload_telling.h"
#include "pace.h"
#include "rate.h"
#include "waiting.h"

/* Fewer drops than one in so many SYNs are chance: a server below its capacity has some. */
#define TG_OVERLOAD_SHARE 32
/* Time constant of the means: 537 ms. */
#define TG_OVERLOAD_MEAN_NS (1ull << 29)
/* A longer calm between two overloads is no bound: all who wait are served in it. */
#define TG_OVERLOAD_CALM_MOST_MS 60000
/* By this part the drain rises in a window in which the server was short of clients. */
#define TG_OVERLOAD_STARVED_RISE 16

/*
 * New clients, those who wait, and the drain, a second. A server that nobody has to wait
 * for shows no more than that it can do so much. (Where it takes many at a time, half of the queue
 * waits while it takes none, though nobody is dropped: that counts as what it takes, as does the
 * window in which it takes them.) Nor does one before which an overload persists: what is let in
 * then is all that it takes, and if that counted, chance would keep the overload alive when the
 * crowd has gone. Should it have become slower, the overload seems to end, and that shows it.
 *
 * Nor does it rise by cookies of which no ACK seems to come: who has one counts as let in, and in a
 * flood of forged SYNs that is whoever asks.
 */
TG_INLINE void tg_overload_see_rates(struct tg_overload *o, __u32 queued, int may_fall,
                                     int may_rise, __u64 passed_ns)
{
	__u64 in = o->entered + o->queued;
	__u64 drain = tg_rate_of(in > queued ? in - queued : 0, passed_ns);
	__u64 waiting = tg_rate_of(o->silent + o->hastened, passed_ns);

	o->queued = queued;
	if (passed_ns > TG_OVERLOAD_BURST_NS) {
		o->fresh_x256 = 0;
		o->silent_x256 = 0;
		return;
	}
	o->fresh_x256 = tg_rate_toward(o->fresh_x256, tg_rate_of(o->fresh, passed_ns), passed_ns,
	                               TG_OVERLOAD_MEAN_NS);
	o->silent_x256 = tg_rate_toward(o->silent_x256, waiting, passed_ns, TG_OVERLOAD_MEAN_NS);
	if (drain > o->drain_x256 ? may_rise : may_fall)
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

/* A window is over: what it shows of the pace, and is there hope for those who wait? */
TG_INLINE void tg_overload_see_window(const struct tg_rules *rules, struct tg_overload *o)
{
	tg_pace_see(o);
	tg_overload_hope(rules, o);
}

/*
 * And how long may the queue be, and how many are kept out for their network? Before it is closed,
 * and apart, for the sake of the stack, as tg_overload_hope() is.
 */
TG_INLINE void tg_overload_see_queue(struct tg_overload *o, const struct tg_queues *queues,
                                     __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->window_ns);
	__u64 in = o->entered + o->exempted + o->queued;
	__u64 queued = (__u64)queues->listen_len + queues->syn_len;
	__u64 taken_x256 = tg_rate_of(in > queued ? in - queued : 0, passed_ns);

	/* This one was taken away, and another has closed it. */
	if (!tg_overload_due(o, now_ns))
		return;
	o->bound = tg_overload_bound(o, queues->listen_len, taken_x256);
	o->taken_x256 = passed_ns > TG_OVERLOAD_BURST_NS ? 0 : taken_x256;
	o->listened = queues->listen_len;
	o->members = queues->members;
	o->exempted = 0;
	o->kept_out_x256 =
		passed_ns > TG_OVERLOAD_BURST_NS
			? 0
			: tg_rate_toward(o->kept_out_x256, tg_rate_of(o->kept_out, passed_ns),
	                                 passed_ns, TG_OVERLOAD_MEAN_NS);
}

/* A SYN of an exempt network found room: auto does not watch it, and it fills the queue. */
TG_INLINE void tg_overload_pass_by(struct tg_overload *o)
{
	__sync_fetch_and_add(&o->exempted, 1);
}

/*
 * A new client is kept out for its network's share: the crowd is as large as with those, though no
 * more are let on than the server takes.
 */
TG_INLINE void tg_overload_keep_out(struct tg_overload *o)
{
	__sync_fetch_and_add(&o->kept_out, 1);
}

/* An overload has begun: how long it was calm between the last ones is known from now on. */
TG_INLINE void tg_overload_start(struct tg_overload *o)
{
	__u64 calm_ms = tg_since(o->window_ns, o->excess_ns) / 1000000;

	o->since_ns = o->window_ns ? o->window_ns : 1;
	if (!o->ended)
		return;
	if (calm_ms > TG_OVERLOAD_CALM_MOST_MS)
		calm_ms = TG_OVERLOAD_CALM_MOST_MS;
	o->calm_ms = o->calm_ms ? (o->calm_ms + calm_ms) / 2 : calm_ms;
}

/*
 * Do more new clients come than the server takes, and for how long? Those who have waited
 * are kept out, or keep new ones out, without there being a crowd.
 */
TG_INLINE void tg_overload_see_excess(const struct tg_rules *rules, struct tg_overload *o,
                                      __u64 over_ns)
{
	__u64 crowd_x256 = o->fresh_x256 + o->kept_out_x256, lasted_ns;

	/* The mean still has those of the windows before. */
	if (o->was_quiet || crowd_x256 <= o->drain_x256 ||
	    (o->fresh_dropped + o->kept_out) * TG_OVERLOAD_SHARE < o->fresh + o->kept_out)
		return;
	if (!o->since_ns)
		tg_overload_start(o);
	o->excess_ns = over_ns;
	o->was_long = tg_overload_is_long(o);
	if (crowd_x256 > o->peak_x256)
		o->peak_x256 = crowd_x256;
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
	__u64 lasted_ms = tg_overload_lasted_ns(o) / 1000000;

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

/*
 * Of the cookies that were room in the window at hand, and on their way before it, those that have
 * not come back. What is of a window before it never will.
 */
TG_INLINE __u64 tg_overload_on_return(const struct tg_overload *o)
{
	__u64 given = o->cookies + o->on_return;
	__u64 left = given > o->returned ? given - o->returned : 0;

	return left < o->cookies ? left : o->cookies;
}

/* Has the window at hand, with those kept out for their network, more than chance has? */
TG_INLINE int tg_overload_is_crowded(const struct tg_overload *o)
{
	__u64 lost = o->dropped + o->kept_out;

	return lost && lost * TG_OVERLOAD_SHARE + o->repeated >= o->seen + o->kept_out;
}

/* Nothing is counted yet. */
TG_INLINE void tg_overload_begin_window(struct tg_overload *o, __u64 now_ns)
{
	o->stuck = o->half_open;
	o->half_open = ~0u;
	o->seen = 0;
	o->repeated = 0;
	o->fresh = 0;
	o->dropped = 0;
	o->fresh_dropped = 0;
	o->kept_out = 0;
	o->entered = 0;
	o->waiting_sum = 0;
	o->silent = 0;
	o->hastened = 0;
	o->steady = 0;
	o->connected = 0;
	o->cookies = 0;
	o->returned = 0;
	o->proved = 0;
	o->window_ns = now_ns;
}

/* One window is over. */
TG_INLINE void tg_overload_close(const struct tg_rules *rules, struct tg_overload *o, __u32 queued,
                                 __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->window_ns);
	/* Nobody came since: what there was of it was over by then. */
	__u64 over_ns =
		passed_ns > TG_OVERLOAD_BURST_NS ? o->window_ns + TG_OVERLOAD_WINDOW_NS : now_ns;
	/* Anyone can repeat a SYN that was let in: these are no measure of how many are not. */
	int is_overloaded = o->dropped && o->dropped * TG_OVERLOAD_SHARE + o->repeated >= o->seen;
	__u32 phase = tg_overload_phase(o, o->window_ns);
	int was_half_full = tg_overload_was_half_full(o, now_ns);
	int may_rise =
		!o->cookies || (was_half_full && !tg_overload_hardly_come_back(o, o->cookies));

	o->is_flooded = tg_overload_is_flooded(o);
	o->on_return = tg_overload_on_return(o);
	TG_IN_TURN();
	o->was_quiet = tg_overload_is_quiet(o, o->kept_out, passed_ns);
	TG_IN_TURN();
	if (o->since_ns && tg_since(o->window_ns, o->excess_ns) >= TG_OVERLOAD_CALM_NS)
		tg_overload_learn(o);
	/* Until nobody is left of those who wait, for whom it is no burst. */
	if (phase == TG_CALM) {
		o->is_persistent = 0;
		o->was_long = 0;
	}
	tg_overload_see_rates(o, queued,
	                      (is_overloaded || was_half_full) && tg_overload_may_fall(o, phase),
	                      may_rise, passed_ns);
	if (tg_inside_counts(o))
		o->drain_x256 = o->answered_x256;
	if (is_overloaded)
		tg_overload_see_starved(o);
	if (tg_overload_is_crowded(o)) {
		o->dropped_ns = over_ns;
		tg_overload_see_excess(rules, o, over_ns);
	}
	o->places = tg_overload_places(rules, o);
	o->few_places = tg_overload_few_places(o);
	tg_overload_begin_window(o, now_ns);
}

/*
 * Before a SYN is judged, by who has claimed the window. What other processors count meanwhile may
 * be lost, of all counts alike. But what is stored by one that read it before brings the window's
 * count back, twice as much as came: where that would last, since what the server takes is measured
 * by it or the most of it is kept (entered, exempted, fresh and kept_out), or since answers go by
 * it while the window lasts (silent, hastened, steady, connected and cookies), one adds in one
 * step.
 */
TG_INLINE void tg_overload_turn_window(const struct tg_rules *rules, struct tg_overload *o,
                                       __u32 queued, __u64 now_ns)
{
	if (tg_overload_due(o, now_ns))
		tg_overload_close(rules, o, queued, now_ns);
	o->closing_tick = 0;
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
	o->places = tg_overload_within(o->places, queues->listen_max);
	o->few_places = tg_overload_within(o->few_places, queues->listen_max);
	tg_pace_begin(o, queues);
	TG_IN_TURN();
	queues->places = tg_overload_limit(o, phase, now_ns);
	if (tg_overload_fills_half(queues))
		o->half_full_ns = now_ns;
	queues->shut = tg_overload_shuts(o, queues, now_ns);
	if (tg_pace_is_far(o))
		queues->places = 0;
	if (tg_inside_counts(o))
		queues->places = 0;
	if (tg_inside_is_full(o, now_ns))
		queues->shut = TG_SHUT;
	return phase;
}

/*
 * The short queue's limit as it stands, where nobody comes: of a crowd that has gone there is none,
 * for the next SYN would have it forgotten.
 */
TG_INLINE __u32 tg_overload_places_now(const struct tg_overload *o, __u64 now_ns)
{
	struct tg_overload copy = *o;
	/* As long as the listen queue may be. */
	struct tg_queues queues = {.listen_max = ~0u};

	if (tg_since(now_ns, copy.window_ns) > TG_OVERLOAD_BURST_NS)
		copy.bound = 0;
	tg_overload_begin(&copy, &queues, now_ns);
	return queues.places;
}

/*
 * So many less were let in: one, or none. Never less than none, of a window that begins meanwhile
 * either.
 */
TG_INLINE void tg_overload_turn_back(struct tg_overload *o, __u64 clients)
{
	__u64 entered = o->entered;

	if (entered)
		__sync_val_compare_and_swap(&o->entered, entered, entered - clients);
}

/*
 * 1 where it was counted as let in when its SYN came. Of those who bring a cookie of ours these are
 * as many as had one for room; who comes beyond them has waited connected, and was counted as one
 * that found none.
 */
TG_INLINE __u64 tg_overload_was_let_in(const struct tg_overload *o, const struct tg_ack *ack)
{
	return (ack->cookie != TG_ACK_COOKIE) | tg_less(o->returned, o->cookies + o->on_return);
}

/*
 * After an ACK was judged: who is told that there is no room was not taken by the server. (Who is
 * not told comes again, and may be.) Behind a bare ACK may come its data, which is told, too. Who
 * has waited connected is taken now, or had found no room before; the others who bring a cookie
 * were taken when their SYN came.
 */
TG_INLINE void tg_overload_meet_ack(struct tg_overload *o, const struct tg_ack *ack,
                                    struct tg_decision decision, __u32 seq, __u64 now_ns)
{
	__u64 was_let_in = tg_overload_was_let_in(o, ack);

	o->proved += tg_ack_brings_cookie(ack);
	if (tg_ack_proves(ack) && tg_pace_tells(o, seq, now_ns))
		tg_pace_see_round_trip(o, now_ns);
	if (decision.verdict == TG_ADMIT) {
		__sync_fetch_and_add(&o->entered, 1 - was_let_in);
		o->returned++;
	}
	if (decision.verdict != TG_RESET || decision.reason != TG_OVERFLOW_SYNACK_ACK)
		return;
	tg_overload_turn_back(o, was_let_in);
	o->returned += ack->cookie == TG_ACK_COOKIE;
	o->dropped += was_let_in;
	o->fresh_dropped += was_let_in;
}

/* What became of the SYN. */
struct tg_overload_met {
	__u32 has_room;
	__u32 is_half_open; /* its request stands: it found no room, and has lost none */
	__u32 has_cookie;   /* its room is a SYN cookie: the kernel's, or ours in its place */
	__u32 isn;          /* its initial sequence number */
};

/* After it was judged. cell is NULL where nobody asked who it is. */
TG_INLINE void tg_overload_end(struct tg_overload *o, const struct tg_overload_met *met,
                               const struct tg_client *client, struct tg_waiting *cell, __u64 name,
                               __u64 now_ns)
{
	int is_lost = !met->has_room && !met->is_half_open;
	int is_silent = is_lost && client->answer == TG_ANSWER_SILENCE;

	o->seen++;
	o->repeated += !met->has_room && met->is_half_open;
	__sync_fetch_and_add(&o->fresh, client->caller == TG_CALLER_NEW && !met->is_half_open);
	o->dropped += is_lost;
	o->fresh_dropped += is_lost && client->caller == TG_CALLER_NEW;
	if (met->has_room) {
		__sync_fetch_and_add(&o->entered, 1);
		__sync_fetch_and_add(&o->let_in, 1);
		tg_pace_let_in(o, met->isn, now_ns);
	}
	if (is_silent)
		__sync_fetch_and_add(&o->silent, 1);
	if (is_silent && !tg_overload_may_hasten(client))
		__sync_fetch_and_add(&o->steady, 1);
	if (is_lost && client->comes_soon)
		__sync_fetch_and_add(&o->hastened, 1);
	if (is_lost && client->answer == TG_ANSWER_COOKIE)
		__sync_fetch_and_add(&o->connected, 1);
	if (met->has_cookie)
		__sync_fetch_and_add(&o->cookies, 1);
	if (!cell)
		return;
	if (is_lost && !client->is_gone)
		tg_waiting_keep(cell, name, tg_overload_times_told(client), client->waited_ticks,
		                now_ns);
	else if (client->caller != TG_CALLER_NEW)
		cell->tag = 0;
}

#endif
