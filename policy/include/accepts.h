/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How an application takes its connections, as its listen queue shows it: one after the other, or
 * many at a time (D. Pariag, thesis, 2004: C_avg, equation 4.1).
 *
 * No hook of an unmodified kernel sees an accept() that all hosts let us use, but each SYN reads
 * the queue. While more come than are taken it does so more often than the application accepts:
 * where the queue is shorter by more than evenly taken connections explain, they were taken at
 * once. That is a leap. It goes on while the queue falls like this, and is over when it has not for
 * as long as four connections take: packets that come meanwhile interrupt it.
 *
 * Nothing is looked at before a SYN finds no room: in calm every strategy is as good (Pariag,
 * Figures 4.1 and 4.12, below the peak).
 */
#ifndef TG_ACCEPTS_H
#define TG_ACCEPTS_H

#include "syn.h"

/* 2^28 ns, 268 ms; and of the windows before, seven eighths each time: 2.1 s in all. */
#define TG_ACCEPTS_WINDOW_NS (1ull << 28)
#define TG_ACCEPTS_KEPT 7
#define TG_ACCEPTS_KEPT_SHIFT 3
/* So long after the last SYN without room it is looked on: 2.1 s. */
#define TG_ACCEPTS_HOLD_NS (1ull << 31)
/* A longer silence than this, 1.07 s, begins anew. */
#define TG_ACCEPTS_GAP_NS (1ull << 30)
/*
 * SYNs that follow each other within 16 us are one look: a driver hands them up before TCP sees
 * the first.
 */
#define TG_ACCEPTS_LOOK_NS (1ull << 14)
/* So many at once are no leap. */
#define TG_ACCEPTS_FEW 3
/*
 * Nor are four times as many whole ones as are taken in the mean: where packets are worked on by
 * the application's own processor it takes all that it does between two batches of them.
 */
#define TG_ACCEPTS_TIMES_SHIFT 2
/* A leap has emptied the queue where a sixteenth of it is left. */
#define TG_ACCEPTS_EMPTY_SHIFT 4

/*
 * What was seen in some time. Counts are in 256ths: of whole ones that are few in a window, as
 * leaps are where each is followed by much work, nothing would be kept in the next.
 */
struct tg_accepts_sum {
	__u64 lasted_ns;
	__u64 seen_x256;    /* SYNs */
	__u64 refused_x256; /* of them, those that found no room */
	__u64 taken_x256;   /* of them, those let in: while more come, no fewer than are accepted */
	__u64 waited_x256;  /* the length of the listen queue that they found, added up */
	__u64 leaps_x256;
	__u64 leapt_x256;   /* connections that were taken in leaps */
	__u64 emptied_x256; /* leaps that have emptied the queue */
	__u64 dark_ns;      /* between looks too far apart to tell a leap of half of the queue */
};

/* Of one listening socket. All zero: no SYN has been without room. */
struct tg_accepts {
	__u64 trouble_ns; /* the last SYN without room */
	__u64 window_ns;  /* when the window at hand began */
	__u64 looked_ns;  /* the last look at the queue */
	__u64 leap_ns;    /* the last fall of the leap at hand; 0: there is none */
	__u64 looking;    /* above 0: some processor looks */
	struct tg_accepts_sum window;
	struct tg_accepts_sum before; /* the windows before */
	__u32 listen_len;             /* at the last look */
	__u32 has_emptied;            /* the leap at hand */
};

/* Is it worth a look? reason is the SYN's; the clock may be a coarse one. */
TG_INLINE int tg_accepts_asks(const struct tg_accepts *a, __u32 reason, __u64 now_ns)
{
	return tg_syn_is_lost(reason) ||
	       (a->trouble_ns && tg_since(now_ns, a->trouble_ns) < TG_ACCEPTS_HOLD_NS);
}

/*
 * A cookie of ours has come back for this reason: is it to be taken now? No SYN has said so; but
 * auto's was counted when its SYN came. (Not that of who was to wait connected, and nothing tells
 * the two apart.)
 */
TG_INLINE int tg_accepts_admits(const struct tg_rules *rules, __u32 reason)
{
	return reason == TG_COOKIE_VALID && !rules->is_auto;
}

/* One more is to be taken, of which no SYN has told. Several processors may say so at once. */
TG_INLINE void tg_accepts_take(struct tg_accepts *a)
{
	__sync_fetch_and_add(&a->window.taken_x256, TG_ONE_X256);
}

TG_INLINE __u64 tg_accepts_keep(__u64 before, __u64 window)
{
	return (before * TG_ACCEPTS_KEPT >> TG_ACCEPTS_KEPT_SHIFT) + window;
}

/* A window is over, or what was before is too long ago to go on from. */
TG_INLINE void tg_accepts_turn(struct tg_accepts *a, __u32 listen_len, __u64 now_ns)
{
	struct tg_accepts_sum *b = &a->before, *w = &a->window;
	__u64 passed_ns = tg_since(now_ns, a->window_ns);

	if (passed_ns >= TG_ACCEPTS_GAP_NS) {
		__builtin_memset(b, 0, sizeof(*b));
		a->listen_len = listen_len;
		a->looked_ns = now_ns;
		a->leap_ns = 0;
	} else {
		b->lasted_ns = tg_accepts_keep(b->lasted_ns, passed_ns);
		b->seen_x256 = tg_accepts_keep(b->seen_x256, w->seen_x256);
		b->refused_x256 = tg_accepts_keep(b->refused_x256, w->refused_x256);
		b->taken_x256 = tg_accepts_keep(b->taken_x256, w->taken_x256);
		b->waited_x256 = tg_accepts_keep(b->waited_x256, w->waited_x256);
		b->leaps_x256 = tg_accepts_keep(b->leaps_x256, w->leaps_x256);
		b->leapt_x256 = tg_accepts_keep(b->leapt_x256, w->leapt_x256);
		b->emptied_x256 = tg_accepts_keep(b->emptied_x256, w->emptied_x256);
		b->dark_ns = tg_accepts_keep(b->dark_ns, w->dark_ns);
	}
	__builtin_memset(w, 0, sizeof(*w));
	a->window_ns = now_ns;
}

/* The queue since the last look. Without a window before no rate is known. */
TG_INLINE void tg_accepts_see(struct tg_accepts *a, const struct tg_rules *rules,
                              const struct tg_queues *queues, __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, a->looked_ns), apart_ns, even, fall = 0;
	/* What cannot be in the queue cannot be seen to leave it. */
	__u64 most = tg_room_most(rules, queues);
	const struct tg_accepts_sum *b = &a->before;
	struct tg_accepts_sum *w = &a->window;
	__u32 len = queues->listen_len;

	if (a->listen_len > len)
		fall = a->listen_len - len;
	a->listen_len = len;
	a->looked_ns = now_ns;
	if (!b->lasted_ns || !b->taken_x256)
		return;
	apart_ns = b->lasted_ns * TG_ONE_X256 / b->taken_x256;
	if (a->leap_ns && tg_since(now_ns, a->leap_ns) >= apart_ns << TG_ACCEPTS_TIMES_SHIFT)
		a->leap_ns = 0;
	/* In steps of 256 ns: by the ns, a count in 256ths might come to more than 2^64. */
	even = b->taken_x256 * (passed_ns / TG_ONE_X256) / b->lasted_ns;
	even = (even << TG_ACCEPTS_TIMES_SHIFT) + TG_ACCEPTS_FEW;
	if (2 * even > most)
		w->dark_ns += passed_ns;
	if (fall <= even)
		return;
	if (!a->leap_ns) {
		w->leaps_x256 += TG_ONE_X256;
		a->has_emptied = 0;
	}
	a->leap_ns = now_ns;
	w->leapt_x256 += fall * TG_ONE_X256;
	if (!a->has_emptied && (__u64)len << TG_ACCEPTS_EMPTY_SHIFT <= most) {
		a->has_emptied = 1;
		w->emptied_x256 += TG_ONE_X256;
	}
}

/*
 * After a SYN was judged, by a clock of nanoseconds; *queues is as auto has seen them. Of several
 * processors one looks; the SYNs of the others are not counted meanwhile.
 */
TG_INLINE void tg_accepts_look(struct tg_accepts *a, const struct tg_rules *rules,
                               const struct tg_queues *queues, __u32 reason, __u64 now_ns)
{
	struct tg_accepts_sum *w = &a->window;

	if (__sync_fetch_and_add(&a->looking, 1))
		return;
	if (tg_since(now_ns, a->window_ns) >= TG_ACCEPTS_WINDOW_NS)
		tg_accepts_turn(a, queues->listen_len, now_ns);
	if (tg_syn_is_lost(reason)) {
		a->trouble_ns = now_ns;
		w->refused_x256 += TG_ONE_X256;
	}
	w->seen_x256 += TG_ONE_X256;
	if (tg_syn_has_room(reason))
		w->taken_x256 += TG_ONE_X256;
	w->waited_x256 += (__u64)queues->listen_len * TG_ONE_X256;
	if (tg_since(now_ns, a->looked_ns) >= TG_ACCEPTS_LOOK_NS)
		tg_accepts_see(a, rules, queues, now_ns);
	a->looking = 0;
}

#endif
