/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many who wait are enough for a server that is behind (overload_inside.h). A request that
 * itself takes half a second needs as many inside as come in half a second, and the server would be
 * idle with fewer; where it only computes, all but a few wait for nothing.
 *
 * Nobody can tell the two apart from outside, so it is tried. While there is an overload and as
 * many wait as may, they are halved; where the server answers less with them than before, they are
 * doubled again, and so few not tried anew for a while. The first that is tried is what it answers
 * in a quarter of the clients' patience, and in a second at least; the most, in half of it.
 *
 * It is a number, and no time: what the server answers depends on it, and where it in turn went by
 * that, too few would have it be fewer still.
 */
#ifndef TG_OVERLOAD_ENOUGH_H
#define TG_OVERLOAD_ENOUGH_H

#include "overload_window.h"

/* The first is what is answered in this part of the clients' patience, the most in twice that. */
#define TG_ENOUGH_PATIENCE 4
/* With fewer who wait a server may be idle. */
#define TG_ENOUGH_LEAST 16
/*
 * A number is tried until so many were answered, in 2.1 s at least and 8.6 at most: what a server
 * whose requests are of unlike size answers is then within a twentieth of its mean, as a rule.
 */
#define TG_ENOUGH_ANSWERED 512
#define TG_ENOUGH_TRIED_NS (1ull << 31)
#define TG_ENOUGH_MOST_NS (1ull << 33)
/* A server answers less where it is by more than this part. */
#define TG_ENOUGH_LESS 16
/* After so many trials that found no less, what was too few is forgotten by two thirds, and more
 * are tried. */
#define TG_ENOUGH_TRIES 16

/* So many were answered from one time to a count: who came, less those by whom there are more. */
TG_INLINE __u64 tg_enough_answered(__u32 let_in_before, __u64 waiting_before,
                                   const struct tg_inside *count, __u64 waiting)
{
	__u64 in = (__u64)(count->let_in - let_in_before) + waiting_before;

	return in > waiting ? in - waiting : 0;
}

/* As many as a server that answers so many a second answers in a time, but not too few. */
TG_INLINE __u32 tg_enough_in(__u64 answered_x256, __u64 within_ms)
{
	__u64 most = tg_overload_taken_in(answered_x256, within_ms);

	return most > TG_ENOUGH_LEAST ? (__u32)most : TG_ENOUGH_LEAST;
}

TG_INLINE __u32 tg_enough_first(const struct tg_rules *rules, __u64 answered_x256)
{
	__u64 within_ms = rules->patience_ms / TG_ENOUGH_PATIENCE;
	__u64 least_ms = TG_OVERLOAD_BURST_NS / 1000000;

	return tg_enough_in(answered_x256, within_ms > least_ms ? within_ms : least_ms);
}

/*
 * It answered no less: half as many, or, where those were too few not long ago, not many fewer.
 * Those who wait are counted four times a second, so what it answers between two counts is not too
 * many.
 */
TG_INLINE void tg_enough_lower(struct tg_overload *o, __u64 answered_x256)
{
	struct tg_enough *enough = &o->enough;
	__u32 half = o->may_be_waiting / 2, least;

	if (answered_x256 > enough->did_x256)
		enough->did_x256 = answered_x256;
	else
		enough->did_x256 -= (enough->did_x256 - answered_x256) / TG_ENOUGH_LESS;
	enough->raised_x256 = 0;
	enough->least -= enough->least / TG_ENOUGH_TRIES;
	least = tg_enough_in(enough->did_x256, TG_OVERLOAD_WINDOW_NS / 1000000);
	if (least < enough->least)
		least = enough->least;
	o->may_be_waiting = half > least ? half : least;
	/* It may do more by now than it did when that was found. */
	if (++enough->tries < TG_ENOUGH_TRIES)
		return;
	o->may_be_waiting *= 2;
	enough->tries = 0;
}

/*
 * It answered less: twice as many, and not so few again. Where that has just been done and brought
 * no more, it was not for them: it has become slower.
 */
TG_INLINE void tg_enough_raise(const struct tg_rules *rules, struct tg_overload *o,
                               __u64 answered_x256)
{
	struct tg_enough *enough = &o->enough;
	__u32 most = 2 * tg_enough_first(rules, enough->did_x256);

	if (answered_x256 <= enough->raised_x256 + enough->raised_x256 / TG_ENOUGH_LESS) {
		enough->did_x256 = answered_x256;
		enough->least = 0;
		tg_enough_lower(o, answered_x256);
		return;
	}
	enough->raised_x256 = answered_x256;
	o->may_be_waiting = 2 * o->may_be_waiting < most ? 2 * o->may_be_waiting : most;
	enough->least = o->may_be_waiting;
	enough->tries = 0;
}

TG_INLINE void tg_enough_judge(const struct tg_rules *rules, struct tg_overload *o,
                               __u64 answered_x256)
{
	__u64 did_x256 = o->enough.did_x256;

	if (answered_x256 < did_x256 - did_x256 / TG_ENOUGH_LESS)
		tg_enough_raise(rules, o, answered_x256);
	else
		tg_enough_lower(o, answered_x256);
}

TG_INLINE void tg_enough_begin(struct tg_enough *enough, int is_tried,
                               const struct tg_inside *count, __u64 waiting)
{
	enough->is_tried = (__u32)is_tried;
	enough->since_ns = count->at_ns;
	enough->let_in = count->let_in;
	enough->waiting = waiting;
}

/*
 * A count of a server that has as much work as it may: so many wait, in the queues and inside. What
 * a change brings is seen when all are answered who waited when it was made. Before the first there
 * were more than enough, and what it answers then is what it can.
 */
TG_INLINE void tg_enough_see(const struct tg_rules *rules, struct tg_overload *o,
                             const struct tg_inside *count, __u64 waiting)
{
	struct tg_enough *enough = &o->enough;
	__u64 answered = tg_enough_answered(enough->let_in, enough->waiting, count, waiting);
	__u64 passed_ns = tg_since(count->at_ns, enough->since_ns);
	__u64 least_ns = enough->is_tried ? TG_ENOUGH_TRIED_NS : 0;
	__u64 until = enough->is_tried ? TG_ENOUGH_ANSWERED : enough->waiting;

	if (!enough->since_ns) {
		tg_enough_begin(enough, !enough->did_x256, count, waiting);
		return;
	}
	if (passed_ns < least_ns || (answered < until && passed_ns < TG_ENOUGH_MOST_NS))
		return;
	if (enough->is_tried)
		tg_enough_judge(rules, o, tg_rate_of(answered, passed_ns));
	tg_enough_begin(enough, !enough->is_tried || !enough->did_x256, count, waiting);
}

#endif
