/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The control of p* (Jamjoom and Shin, SIGCOMM 2003, leave it open in section 4.4:
 * "how a traffic controller would adjust p* based on the measured arrival rates or
 * router queue lengths"). docs/shedding.md has plant, law, gains and step responses.
 *
 * Two things are estimated from what SYNs meet: the rate of new connections, from
 * those let through, each of which is one, over the share that is let through; and
 * the rate at which the server takes them from its listen queue. What is admitted is
 * that drain, and so much more or less as brings the queue to its aim in half a
 * second; p* is what this leaves of the new ones. Until the queue has once been half
 * full, nobody is shed.
 *
 * A rate set by hand takes the place of the drain, and a queue that is only counted
 * the place of the listen queue: on a router there is no other.
 *
 * A step is taken by the SYN that finds the last one long enough ago. So the control
 * goes on while no daemon runs, and nobody is shed by a p* of long ago.
 */
#ifndef TG_SHED_AUTO_H
#define TG_SHED_AUTO_H

#include "rate.h"
#include "shed_target.h"
#include "syn.h"

/* Between two steps: 2^25 ns, 34 ms. */
#define TG_AUTO_STEP_NS (1ull << 25)
/* Time constants of the smoothing: 134 ms, 268 ms, 537 ms. */
#define TG_AUTO_QUEUE_NS (1ull << 27)
#define TG_AUTO_FRESH_NS (1ull << 28)
#define TG_AUTO_DRAIN_NS (1ull << 29)
/* What is missing or too much in the queue is made up for at this rate, per second. */
#define TG_AUTO_GAIN_PER_S 2
/* The aim: what the server drains in 2^27 ns, at least this many and at most half the queue. */
#define TG_AUTO_AIM_NS (1ull << 27)
#define TG_AUTO_AIM_LEAST 8
/*
 * A server starves that has had less than an eighth of the aim in its queue for so many
 * steps, 403 ms, while less than an eighth of those who come were let in.
 */
#define TG_AUTO_STARVED_STEPS 12
/*
 * A crowd has gone when fewer than half as many are let through in a step as were to be expected,
 * and these were so many that chance is no reason (of 32, 16 fewer are 2.8 standard deviations).
 */
#define TG_AUTO_GONE_LEAST 32
/* Some are always let through: else nobody would tell what comes. */
#define TG_AUTO_P_MOST (TG_SHED_ONE - (TG_SHED_ONE >> 8))
/*
 * SBPD's least while those whom it remembers still come, and are too many to be let in at
 * once: nearly nobody of those who are new.
 */
#define TG_AUTO_P_LEAST (TG_SHED_ONE >> 8)
/* A queue that is counted, for a rate set by hand, holds what it drains in 2^28 ns. */
#define TG_AUTO_COUNTED_NS (1ull << 28)
/* What was known this long ago is forgotten. */
#define TG_AUTO_STALE_NS (1ull << 30)

/* What the SYN at hand met: the listen queue, where there is one. */
struct tg_auto_queue {
	__u32 listen_len; /* connections that wait for accept() */
	__u32 waiting;    /* the same and half-open ones */
	__u32 limit;      /* of the listen queue; 0: there is none */
	__u32 has_room;   /* a SYN let through now becomes a connection */
};

/* These queues as the control sees them; reason is what tg_syn_room() said of them. */
TG_INLINE struct tg_auto_queue tg_auto_view(const struct tg_rules *rules,
                                            const struct tg_queues *queues, __u32 reason)
{
	return (struct tg_auto_queue){
		.listen_len = queues->listen_len,
		.waiting = queues->listen_len + queues->syn_len,
		.limit = (__u32)tg_room_most(rules, queues),
		.has_room = tg_syn_has_room(reason),
	};
}

/*
 * base^exponent, of parts of 2^32; the exponent is below 128. Without branches, as is the
 * root: the verifier would walk each way through each turn of the loop.
 */
TG_INLINE __u64 tg_auto_power(__u64 base_x32, __u32 exponent)
{
	__u64 power_x32 = TG_SHED_ONE;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 7; i++) {
		__u64 factor_x32 = TG_SHED_ONE - (TG_SHED_ONE - base_x32) * (exponent >> i & 1);

		power_x32 = (power_x32 - (power_x32 >> 32)) * factor_x32 >> 32;
		base_x32 = base_x32 * base_x32 >> 32;
	}
	return power_x32;
}

/* p^(1/attempts), the last fallback's (3.4.2), to 16 bits. */
TG_INLINE __u64 tg_auto_root(__u64 p_x32, __u32 attempts)
{
	__u64 root_x32 = 0;

#pragma clang loop unroll(disable)
	for (__u32 bit = 31; bit >= 16; bit--) {
		__u64 power_x32 = tg_auto_power(root_x32 | 1ull << bit, attempts);

		/* 1 where the difference is below 0: the power is less than p. */
		root_x32 |= (power_x32 - p_x32) >> 63 << bit;
	}
	return root_x32;
}

/* Where the queue should stand. Both in 256ths. */
TG_INLINE __u64 tg_auto_aim(__u64 drain_x256, __u64 limit_x256)
{
	__u64 aim = tg_rate_amount(drain_x256, TG_AUTO_AIM_NS);

	if (aim < TG_AUTO_AIM_LEAST * 256)
		aim = TG_AUTO_AIM_LEAST * 256;
	return aim < limit_x256 / 2 ? aim : limit_x256 / 2;
}

/*
 * The rate to admit: the drain, less by a half at most; or more, by a quarter at most,
 * and by as much as tries out what the server can do where it has had nothing to do for
 * a while: it may have stood still, or be faster than it was.
 */
TG_INLINE __u64 tg_auto_admit(__u64 drain_x256, __u64 queue_x256, __u64 aim_x256, __u32 starved)
{
	__u64 change, most = drain_x256 / 4;

	if (queue_x256 > aim_x256) {
		change = (queue_x256 - aim_x256) * TG_AUTO_GAIN_PER_S;
		return drain_x256 - (change < drain_x256 / 2 ? change : drain_x256 / 2);
	}
	change = (aim_x256 - queue_x256) * TG_AUTO_GAIN_PER_S;
	if (starved >= TG_AUTO_STARVED_STEPS)
		return drain_x256 * 3 + change;
	return drain_x256 + (change < most ? change : most);
}

/* p* that leaves so many of the new ones. */
TG_INLINE __u64 tg_auto_p(__u64 fresh_x256, __u64 admit_x256)
{
	__u64 p_x32;

	if (fresh_x256 <= admit_x256)
		return 0;
	p_x32 = TG_SHED_ONE - ((admit_x256 << 20) / fresh_x256 << 12);
	return p_x32 < TG_AUTO_P_MOST ? p_x32 : TG_AUTO_P_MOST;
}

/*
 * Whether the crowd has gone. Believed at once where who is shed is told: nobody waits outside whom
 * a p* that falls would let in. Who is dropped in silence does, and all who do at once would fill
 * the queue; there p* falls by and by.
 */
TG_INLINE int tg_auto_has_gone(const struct tg_shed_rules *rules, __u64 expected_x256, __u64 passed)
{
	return rules->refusal != TG_REFUSE_SILENTLY && expected_x256 >= TG_AUTO_GONE_LEAST * 256 &&
	       passed * 512 < expected_x256;
}

/* The rate of new connections, from those let through since the last step. */
TG_INLINE void tg_auto_see_fresh(const struct tg_shed_rules *rules, struct tg_auto *a, __u64 passed,
                                 __u64 passed_ns)
{
	/* At least a 256th: see TG_AUTO_P_MOST. */
	__u64 let_through_x16 = (TG_SHED_ONE - a->p_x32) >> 16;
	__u64 expected_x256 = tg_rate_amount(a->fresh_x256, passed_ns) * let_through_x16 >> 16;
	__u64 sample = tg_rate_of(passed, passed_ns);

	sample = (sample << 16) / (let_through_x16 ? let_through_x16 : 1);
	sample = sample < TG_RATE_MOST ? sample : TG_RATE_MOST;
	if (tg_auto_has_gone(rules, expected_x256, passed))
		a->fresh_x256 = sample;
	else
		a->fresh_x256 = tg_rate_toward(a->fresh_x256, sample, passed_ns, TG_AUTO_FRESH_NS);
}

/*
 * The server's drain: those that entered, less what the queues have grown by. A server
 * that had nothing to take shows no more than that it can do so much.
 */
TG_INLINE void tg_auto_see_drain(struct tg_auto *a, __u64 entered, __u64 waiting_x256,
                                 __u64 aim_x256, __u64 passed_ns)
{
	__u64 in_x256 = entered * 256 + a->waiting_x256;
	__u64 out_x256 = in_x256 > waiting_x256 ? in_x256 - waiting_x256 : 0;
	__u64 sample = tg_rate_of(out_x256, passed_ns) >> 8;

	if (a->queue_x256 >= aim_x256 / 4 || sample > a->drain_x256)
		a->drain_x256 = tg_rate_toward(a->drain_x256, sample, passed_ns, TG_AUTO_DRAIN_NS);
	a->waiting_x256 = waiting_x256;
}

/*
 * The queue that is counted, for a rate set by hand, and which takes the drain's place: keeps both,
 * and returns how long it may be.
 */
TG_INLINE __u64 tg_auto_count(const struct tg_shed_rules *rules, struct tg_auto *a, __u64 passed,
                              __u64 passed_ns)
{
	__u64 drain_x256 = (__u64)rules->rate_per_s * 256;
	__u64 limit_x256 = tg_rate_amount(drain_x256, TG_AUTO_COUNTED_NS);
	__u64 queue_x256 = a->waiting_x256 + passed * 256;
	__u64 out_x256 = tg_rate_amount(drain_x256, passed_ns);

	if (limit_x256 < 2 * TG_AUTO_AIM_LEAST * 256)
		limit_x256 = 2 * TG_AUTO_AIM_LEAST * 256;
	queue_x256 = queue_x256 > out_x256 ? queue_x256 - out_x256 : 0;
	a->drain_x256 = drain_x256;
	a->waiting_x256 = queue_x256 < limit_x256 ? queue_x256 : limit_x256;
	return limit_x256;
}

/* What was known is of too long ago. */
TG_INLINE void tg_auto_forget(struct tg_auto *a, __u64 waiting_x256)
{
	a->is_shedding = 0;
	a->fresh_x256 = 0;
	a->drain_x256 = 0;
	a->queue_x256 = 0;
	a->waiting_x256 = waiting_x256;
}

/*
 * Where p* is 0, SBPD drops nobody whom it remembers either. So it becomes 0 only when all
 * who come could be admitted, new or not: else they would fill the queue in a moment, be
 * taken for new ones, and raise p* against those who are.
 */
TG_INLINE int tg_auto_remembered_wait(const struct tg_shed_rules *rules, __u64 seen,
                                      __u64 admit_x256, __u64 passed_ns)
{
	return rules->policy == TG_SBPD && tg_rate_of(seen, passed_ns) > admit_x256;
}

/* One step. Apart, for the sake of the stack of its caller. */
TG_APART void tg_auto_step(const struct tg_shed_rules *rules, struct tg_auto *a,
                           const struct tg_auto_queue *now, __u64 now_ns)
{
	__u64 passed_ns = now_ns - a->stepped_ns;
	__u64 passed = __sync_lock_test_and_set(&a->passed, 0);
	__u64 entered = __sync_lock_test_and_set(&a->entered, 0);
	__u64 seen = __sync_lock_test_and_set(&a->seen, 0);
	__u64 queued = __sync_lock_test_and_set(&a->queued, 0);
	__u64 waited = __sync_lock_test_and_set(&a->waited, 0);
	__u64 limit_x256 = (__u64)now->limit * 256;
	__u64 queue_x256 = (__u64)now->listen_len * 256, waiting_x256 = (__u64)now->waiting * 256;
	__u64 aim_x256, admit_x256;

	if (passed_ns > TG_AUTO_STALE_NS) {
		tg_auto_forget(a, waiting_x256);
		passed = 0;
		seen = 0;
		entered = 0;
	}
	if (seen) {
		queue_x256 = queued * 256 / seen;
		waiting_x256 = waited * 256 / seen;
	}
	tg_auto_see_fresh(rules, a, passed, passed_ns);
	if (rules->rate_per_s) {
		limit_x256 = tg_auto_count(rules, a, passed, passed_ns);
		queue_x256 = a->waiting_x256;
	}
	a->queue_x256 = tg_rate_toward(a->queue_x256, queue_x256, passed_ns, TG_AUTO_QUEUE_NS);
	aim_x256 = tg_auto_aim(a->drain_x256, limit_x256);
	if (!rules->rate_per_s)
		tg_auto_see_drain(a, entered, waiting_x256, aim_x256, passed_ns);
	a->starved = a->queue_x256 < aim_x256 / 8 && a->drain_x256 < a->fresh_x256 / 8
	                     ? a->starved + 1
	                     : 0;
	admit_x256 = tg_auto_admit(a->drain_x256, a->queue_x256, aim_x256, a->starved);
	if (!a->is_shedding && limit_x256 && a->queue_x256 >= limit_x256 / 2)
		a->is_shedding = 1;
	a->p_x32 = a->is_shedding ? tg_auto_p(a->fresh_x256, admit_x256) : 0;
	if (a->is_shedding && a->p_x32 < TG_AUTO_P_LEAST &&
	    tg_auto_remembered_wait(rules, seen, admit_x256, passed_ns))
		a->p_x32 = TG_AUTO_P_LEAST;
	if (!a->p_x32)
		a->is_shedding = 0;
	a->uniform_x32 = tg_auto_root(a->p_x32, rules->attempts);
	a->stepped_ns = now_ns;
}

TG_INLINE int tg_auto_due(const struct tg_auto *a, __u64 now_ns)
{
	return now_ns > a->stepped_ns && now_ns - a->stepped_ns >= TG_AUTO_STEP_NS;
}

/* Before a SYN is judged: a step, where one is due. Of several processors one takes it. */
TG_INLINE void tg_auto_begin(const struct tg_shed_rules *rules, struct tg_auto *a,
                             const struct tg_auto_queue *now, __u64 now_ns)
{
	if (!a->stepped_ns)
		a->stepped_ns = now_ns;
	if (!tg_auto_due(a, now_ns) || __sync_fetch_and_add(&a->stepping, 1))
		return;
	if (tg_auto_due(a, now_ns))
		tg_auto_step(rules, a, now, now_ns);
	a->stepping = 0;
}

/*
 * After it was judged. Whichever processor it came to, it is counted, to this step or the next:
 * what is let through is what a rate is kept by, and a sum whose number is another step's is no
 * mean. (Of a SYN that is counted while a step is taken the sums may be the next one's: as many at
 * most as there are processors.)
 */
TG_INLINE void tg_auto_end(struct tg_auto *a, const struct tg_auto_queue *now, int passes)
{
	__sync_fetch_and_add(&a->seen, 1);
	__sync_fetch_and_add(&a->queued, now->listen_len);
	__sync_fetch_and_add(&a->waited, now->waiting);
	if (!passes)
		return;
	__sync_fetch_and_add(&a->passed, 1);
	if (now->has_room)
		__sync_fetch_and_add(&a->entered, 1);
}

#endif
