/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What persistent dropping is asked for, and whether what it does is that: the
 * measurement, the fallbacks and the exemption of preferred proxies (Jamjoom and
 * Shin, SIGCOMM 2003, section 3.4).
 */
#ifndef TG_SHED_TARGET_H
#define TG_SHED_TARGET_H

#include "types.h"

/* Probabilities are parts of 2^32. */
#define TG_SHED_ONE (1ull << 32)

enum tg_shed_policy {
	TG_SHED_OFF,
	TG_RBD,
	TG_SLPD,
	TG_SBPD,
};

/* What is dropped or let through as one (3.4). */
enum tg_shed_key {
	TG_KEY_CLIENT,     /* H1: source and destination address */
	TG_KEY_CONNECTION, /* H2: addresses and ports */
};

enum tg_shed_refusal {
	TG_REFUSE_SILENTLY, /* the paper's */
	TG_REFUSE_RESET,
	TG_REFUSE_COOKIE, /* SYN/ACK: RST only for who answers it, nothing more for who is forged */
};

/* How far a policy has fallen back because it missed its target (3.4.2). */
enum tg_shed_fallback {
	TG_FALLBACK_NONE,
	TG_FALLBACK_STATELESS, /* SBPD decides as SLPD */
	TG_FALLBACK_UNIFORM,   /* all decide as RBD, with (p*)^(1/(n+1)) */
};

/* All zero: nothing is shed. */
struct tg_shed_rules {
	__u64 p_x32;         /* p*; with RBD the drop probability of each SYN */
	__u64 uniform_x32;   /* (p*)^(1/(n+1)), the last fallback's */
	__u32 policy;        /* enum tg_shed_policy */
	__u32 key;           /* enum tg_shed_key */
	__u32 refusal;       /* enum tg_shed_refusal */
	__u32 has_preferred; /* sources are looked up in the list of preferred proxies */
	__u32 first_block;   /* where this listener's part of the table begins */
	__u32 blocks;        /* its size: M of Eq. 9, in blocks */
	__u32 is_auto; /* p* is controlled (shed_auto.h), and p_x32 and uniform_x32 are not used */
	__u32 rate_per_s; /* then: connections to admit; 0: as many as the listener drains */
	__u32 attempts;   /* n + 1: SYNs of a client before it gives up */
	__u32 padding;
};

/* The control of p*: what it knows, then what is counted since its last step. Rates a second. */
struct tg_auto {
	__u64 p_x32;        /* p*, in force */
	__u64 uniform_x32;  /* p*^(1/attempts) */
	__u64 fresh_x256;   /* new connections that come */
	__u64 drain_x256;   /* connections that the server takes */
	__u64 queue_x256;   /* the listen queue as SYNs meet it */
	__u64 waiting_x256; /* the same with half-open ones, at the last step; or the counted queue
	                     */
	__u64 stepped_ns;   /* when the last step was taken; 0: never */
	__u32 is_shedding;
	__u32 starved;  /* steps in a row with little in the queue */
	__u64 stepping; /* above 0: some processor is at it */
	__u64 passed;   /* SYNs not shed */
	__u64 entered;  /* of them, those that found room */
	__u64 seen;     /* SYNs */
	__u64 queued;   /* the sum of the listen queues that they met */
	__u64 waited;   /* the same with half-open ones */
};

/* One for each listener; but for the control, written only when something changes. */
struct tg_shed_state {
	__u64 changed_ns;       /* monotonic; 0: never */
	__u32 fallback;         /* enum tg_shed_fallback */
	__u32 preferred_judged; /* the target is missed when the preferred are exempt: they are not
	                         */
	__u32 changes;          /* how often it fell back, or came back */
	__u32 padding;
	struct tg_auto control; /* where rules say so */
};

/* What was measured since since_ns: one for each listener and processor. */
struct tg_shed_monitor {
	__u64 since_ns;
	__u64 spared;   /* SYNs of preferred proxies let through that were to be dropped: all so far
	                 */
	__u64 asked;    /* the sum of p* over arrivals, in parts of 2^24, where it is controlled */
	__u32 arrivals; /* SYNs */
	__u32 chosen;   /* of them, below p* by the hash */
	__u32 taken;    /* of the cells probed, those with a stamp that stands */
	__u32 passed;   /* not to be dropped, and not from a preferred proxy */
	__u32 preferred; /* not to be dropped, and from one */
	__u32 padding;
};

/* p* now. */
TG_INLINE __u64 tg_shed_p(const struct tg_shed_rules *rules, const struct tg_shed_state *state)
{
	return rules->is_auto ? state->control.p_x32 : rules->p_x32;
}

/* p* while this was measured: its mean, where it moves. */
TG_INLINE __u64 tg_shed_asked(const struct tg_shed_rules *rules, const struct tg_shed_monitor *m)
{
	if (!rules->is_auto)
		return rules->p_x32;
	return m->arrivals ? (m->asked << 8) / m->arrivals : 0;
}

/* Dramatically more than p* (3.4.2) is twice as much, or half of those let through. */
TG_INLINE __u64 tg_shed_bound(__u64 p_x32)
{
	__u64 rest_x32 = p_x32 < TG_SHED_ONE ? TG_SHED_ONE - p_x32 : 0;

	return p_x32 < rest_x32 / 2 ? p_x32 : rest_x32 / 2;
}

/* What a new request meets beyond p*: its cell is taken, though it would be let through. */
TG_INLINE __u64 tg_shed_excess(__u64 p_x32, const struct tg_shed_monitor *m)
{
	__u64 taken_x32 = m->arrivals ? ((__u64)m->taken << 32) / m->arrivals : 0;
	__u64 rest_x32 = p_x32 < TG_SHED_ONE ? TG_SHED_ONE - p_x32 : 0;

	return (taken_x32 >> 8) * (rest_x32 >> 8) >> 16;
}

/*
 * What the table may drop beyond p*. Where p* is controlled, the control makes up for it, and
 * a p* that falls while the stamps of a crowd still stand is no reason to forget them: then
 * it is that of a p* of 1/16 at least.
 */
#define TG_SHED_AUTO_BOUND (TG_SHED_ONE >> 4)

TG_INLINE __u64 tg_shed_excess_bound(const struct tg_shed_rules *rules, __u64 p_x32)
{
	__u64 bound_x32 = tg_shed_bound(p_x32);

	if (rules->is_auto && p_x32 < TG_SHED_AUTO_BOUND)
		return TG_SHED_AUTO_BOUND;
	return bound_x32;
}

/* The share of the SYNs that the hash has chosen. */
TG_INLINE __u64 tg_shed_chosen_share(const struct tg_shed_monitor *m)
{
	return m->arrivals ? ((__u64)m->chosen << 32) / m->arrivals : 0;
}

/*
 * The fallback that what was measured asks for. The way back is a little longer; a
 * table at the rate that Eq. 9 sizes it for (sigma = 1.2) must find it.
 *
 * A hash that chooses less than half of what it should, as when one client with H1
 * makes most of the requests and is not chosen, is fallen back from. One that seems
 * to choose too much is not: the chosen come again, and when a crowd has gone only
 * they still come. Without state that cannot be told from a miss, and to let them
 * through then would be the worst of times. While all are dropped alike, the chosen
 * come no more often than others.
 */
TG_INLINE __u32 tg_shed_next_fallback(const struct tg_shed_rules *rules, __u32 fallback,
                                      const struct tg_shed_monitor *m)
{
	__u64 p_x32 = tg_shed_asked(rules, m), bound_x32 = tg_shed_bound(p_x32), excess_x32;
	__u64 chosen_x32 = tg_shed_chosen_share(m);
	int stateful = rules->policy == TG_SBPD;

	if (fallback == TG_FALLBACK_UNIFORM) {
		if (chosen_x32 < p_x32 - p_x32 / 4 || chosen_x32 > p_x32 + bound_x32 / 2)
			return fallback;
		return stateful ? TG_FALLBACK_STATELESS : TG_FALLBACK_NONE;
	}
	if (fallback == TG_FALLBACK_STATELESS || !stateful) {
		if (chosen_x32 < p_x32 / 2)
			return TG_FALLBACK_UNIFORM;
		excess_x32 = tg_shed_excess_bound(rules, p_x32);
		if (stateful && tg_shed_excess(p_x32, m) < excess_x32 - excess_x32 / 8)
			return TG_FALLBACK_NONE;
		return fallback;
	}
	excess_x32 = tg_shed_excess_bound(rules, p_x32);
	return tg_shed_excess(p_x32, m) > excess_x32 ? TG_FALLBACK_STATELESS : fallback;
}

/*
 * "Packets originating from these addresses can then be excluded from dropping as
 * long as the control target is met" (H1): as long as p* of all is at least half of
 * what is asked for, so while the preferred make less than half of the requests.
 * Only those let through are compared, which each request is once.
 */
TG_INLINE __u32 tg_shed_next_preferred(__u32 judged, const struct tg_shed_monitor *m)
{
	__u64 all = (__u64)m->passed + m->preferred;

	if (judged)
		return (__u64)m->preferred * 8 > all * 3;
	return (__u64)m->preferred * 2 > all;
}

/* A window is judged on as many SYNs as make 128 drops, and after this long at least. */
#define TG_SHED_MEASURE_SYNS 2048
#define TG_SHED_MEASURE_DROPS 128
#define TG_SHED_MEASURE_NS (1ull << 28)

TG_INLINE int tg_shed_measured(const struct tg_shed_rules *rules, const struct tg_shed_monitor *m,
                               __u64 now_ns)
{
	__u64 drops_x24 = rules->is_auto ? m->asked : m->arrivals * (rules->p_x32 >> 8);

	return m->arrivals >= TG_SHED_MEASURE_SYNS &&
	       drops_x24 >= (__u64)TG_SHED_MEASURE_DROPS << 24 &&
	       now_ns - m->since_ns >= TG_SHED_MEASURE_NS;
}

/* Until they are so many: where nobody is shed, there is nothing to measure. */
#define TG_SHED_MEASURE_MOST (1u << 24)

TG_INLINE void tg_shed_measure_anew(struct tg_shed_monitor *m, __u64 now_ns)
{
	m->since_ns = now_ns;
	m->asked = 0;
	m->arrivals = 0;
	m->chosen = 0;
	m->taken = 0;
	m->passed = 0;
	m->preferred = 0;
}

/*
 * "Dynamic monitoring to detect and take corrective actions" (3.4.2). Each processor measures for
 * itself, and one that sees few SYNs for long: what it measured before the last action, another's,
 * says nothing of what came of that.
 */
TG_INLINE void tg_shed_monitor_syn(const struct tg_shed_rules *rules, struct tg_shed_state *state,
                                   struct tg_shed_monitor *m, __u64 now_ns)
{
	__u32 fallback, judged;

	if (!m->since_ns || m->since_ns < state->changed_ns)
		tg_shed_measure_anew(m, now_ns);
	m->arrivals++;
	if (rules->is_auto)
		m->asked += state->control.p_x32 >> 8;
	if (!tg_shed_measured(rules, m, now_ns)) {
		if (m->arrivals >= TG_SHED_MEASURE_MOST)
			tg_shed_measure_anew(m, now_ns);
		return;
	}
	fallback = state->fallback;
	if (rules->policy == TG_SLPD || rules->policy == TG_SBPD)
		fallback = tg_shed_next_fallback(rules, fallback, m);
	judged = rules->has_preferred ? tg_shed_next_preferred(state->preferred_judged, m) : 0;
	if (fallback != state->fallback || judged != state->preferred_judged) {
		state->changes += fallback != state->fallback;
		state->fallback = fallback;
		state->preferred_judged = judged;
		state->changed_ns = now_ns;
	}
	tg_shed_measure_anew(m, now_ns);
}

#endif
