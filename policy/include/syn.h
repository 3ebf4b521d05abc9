/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision at the SYN stage.
 *
 * In this order, each able to decide: is its network exempt, or over its rate (police.h)?
 * Shed (shed.h)? Has its network had its share (share.h)? Room? If there is none, the refusal
 * that the mechanism names.
 */
#ifndef TG_SYN_H
#define TG_SYN_H

#include "bucket.h"
#include "cookie.h"
#include "listener.h"
#include "manners.h"
#include "overload.h"
#include "police.h"
#include "room.h"
#include "verdict.h"

/*
 * A request may still be confirmed this long: by default its last SYN/ACK is sent after 31 s, and
 * it ends after 63 s (tcp_synack_retries).
 */
#define TG_REQUEST_LIFE_NS 64000000000ull
/* Who is answered answers within a few round trips; later the kernel resets it. */
#define TG_HOLLOW_LIFE_NS 4000000000ull
/* Nor is it longer for it than so many places. */
#define TG_WITHIN_PLACES_MOST 128u

struct tg_syn {
	__u64 now_ns;
	__u32 random;    /* uniform over 32 bits */
	__u16 half_open; /* a request of this client stands already, or what it adds a subflow to */
	__u16 cookie_usable; /* this SYN's options fit a cookie, and this hook can answer */
	__u16 answer;        /* auto: enum tg_answer, to who finds no room */
	__u16 source;        /* enum tg_source */
	__u16 sends_again;   /* on a RST, by what it looks like: see system.h */
	__u16 taken;         /* a socket of this client's stands here, which would get its ACK */
};

/* May a SYN be left to the kernel's cookies? Never with no-syn-drop: theirs lose options. */
TG_INLINE int tg_syn_may_have_cookie(const struct tg_rules *rules, const struct tg_queues *queues)
{
	return rules->syn != TG_SYN_COOKIE && queues->shut != TG_SHUT_TO_COOKIES;
}

/*
 * auto: so many places of the listen queue are for this SYN; 0: all. The short queue is four times
 * as long for who sends less than its share, so that who finds it full sends more.
 */
TG_INLINE __u32 tg_syn_places(const struct tg_queues *queues, __u32 source)
{
	__u32 places = queues->places;

	if (source != TG_SOURCE_WITHIN || places >= TG_WITHIN_PLACES_MOST)
		return places;
	return places * 4 < TG_WITHIN_PLACES_MOST ? places * 4 : TG_WITHIN_PLACES_MOST;
}

/*
 * Room for a SYN: TG_ROOM, TG_KERNEL_COOKIE, or the reason why there is none. places are auto's for
 * it.
 */
TG_INLINE __u32 tg_syn_room(const struct tg_rules *rules, const struct tg_queues *queues,
                            __u32 places, __u32 random)
{
	__u32 reason = rules->room == TG_ROOM_RESERVE ? tg_room_reserve(rules, queues, random)
	                                              : tg_room_kernel(queues);

	if (reason == TG_KERNEL_COOKIE && !tg_syn_may_have_cookie(rules, queues))
		return TG_SYNQ_FULL;
	if (reason == TG_ROOM && tg_room_ends(places, queues))
		return TG_WAIT_LIMIT;
	if ((reason == TG_ROOM || reason == TG_KERNEL_COOKIE) &&
	    (tg_room_ends(rules->places, queues) || queues->shut == TG_SHUT))
		return TG_WAIT_LIMIT;
	return reason;
}

/* What stands against this SYN, by where it comes from and by the room that there is. */
TG_INLINE __u32 tg_syn_reason(const struct tg_rules *rules, const struct tg_queues *queues,
                              const struct tg_syn *syn)
{
	__u32 reason;

	if (syn->source == TG_SOURCE_OVER)
		return TG_POLICED;
	if (syn->source == TG_SOURCE_BEYOND)
		return TG_BEYOND_SHARE;
	if (syn->source != TG_SOURCE_EXEMPT)
		return tg_syn_room(rules, queues, tg_syn_places(queues, syn->source), syn->random);
	reason = tg_room_kernel(queues);
	return reason == TG_ROOM ? TG_EXEMPT : reason;
}

/*
 * Does it add a subflow to a connection that the application has (MPTCP)? The kernel takes no place
 * in the listen queue for it (rsk_drop_req, Linux 5.6), and resets one of a connection that it does
 * not know. Whoever says that it joins has made sure that the kernel takes it for that, too. Over
 * its network's rate it is one of a flood.
 */
TG_INLINE int tg_syn_needs_no_place(__u32 reason, __u32 joins)
{
	return joins && reason != TG_POLICED;
}

/* Is it for its network that a SYN does not come in, whatever room there is? */
TG_INLINE int tg_syn_is_held(__u32 reason)
{
	return reason == TG_POLICED || reason == TG_BEYOND_SHARE;
}

/* Has one whose turn it was found no room? Who has a request already has lost nothing. */
TG_INLINE int tg_syn_is_lost(__u32 reason)
{
	return !tg_syn_has_room(reason) && reason != TG_HALF_OPEN && !tg_syn_is_held(reason);
}

/*
 * What a SYN that was judged so says of room. Who is held for its network's sake may be counted
 * under another reason, where it is dropped for want of refusals or of a cookie.
 */
TG_INLINE __u32 tg_syn_of_room(__u32 reason, struct tg_decision decision)
{
	return tg_syn_is_held(reason) ? reason : decision.reason;
}

/* What it lacked: for want of refusals one is dropped that lacked room before. */
TG_INLINE __u32 tg_syn_lack(__u32 reason, struct tg_decision decision)
{
	return decision.reason == TG_REFUSAL_LIMIT ? reason : decision.reason;
}

/*
 * A SYN without room may be the retransmission of one that has its request and
 * its place. Worth a look-up only where there are requests at all.
 */
TG_INLINE int tg_syn_asks_for_request(__u32 reason, const struct tg_queues *queues)
{
	return !tg_syn_has_room(reason) && queues->syn_len > 0;
}

/*
 * Once it is known what stands there: does this SYN take over a TIME-WAIT, for which the kernel
 * asks no rule of its SYN queue (tcp_conn_request(): "TW buckets are converted to open requests
 * without limitations", Linux 4.10 to 6.18)? The listen queue, and limits of ours, hold for it all
 * the same. One that TIME-WAIT takes for an old one is acknowledged.
 */
TG_INLINE __u32 tg_syn_takes_over(const struct tg_rules *rules, const struct tg_queues *queues,
                                  const struct tg_syn *syn, __u32 reason)
{
	if (reason != TG_SYNQ_FULL && reason != TG_SYNQ_3_4_FULL)
		return 0;
	if (queues->listen_len >= tg_least_places(rules, queues, tg_listen_places(queues)) ||
	    queues->shut == TG_SHUT)
		return 0;
	/* Of all that stands only TIME-WAIT is taken and has no answer of the kernel's. */
	return syn->taken & !syn->half_open;
}

/* What one who does has in place of the reason that stood against it. */
TG_INLINE __u32 tg_syn_room_of_taken(const struct tg_syn *syn)
{
	return syn->source == TG_SOURCE_EXEMPT ? TG_EXEMPT : TG_ROOM;
}

/*
 * Might the kernel let in a SYN that finds no room here? Its rule is not reserv's, nor its limits
 * ours: what stands against this SYN is then nothing to it. Where reserv asks for its rule, it
 * would give a cookie of its own, or keep room for those whom it remembers.
 */
TG_INLINE int tg_syn_kernel_has_room(const struct tg_rules *rules, __u32 reason)
{
	return rules->room == TG_ROOM_RESERVE || !tg_is_queue_drop(reason);
}

/*
 * reserv: is it half-open connections that leave no room? With overbooking they may have the whole
 * SYN queue before they have every place. Without a branch, as the next: see tg_less().
 */
TG_INLINE int tg_syn_is_exhausted(__u32 reason)
{
	return (reason == TG_NO_RESERVATION) | (reason == TG_SYNQ_FULL);
}

/* auto: is it to be told by a SYN/ACK behind which there is nothing? */
TG_INLINE int tg_syn_wants_hollow(const struct tg_rules *rules, const struct tg_syn *syn)
{
	return (rules->syn == TG_SYN_RESET) & (syn->answer == TG_ANSWER_HOLLOW);
}

/* The form of the refusal: an enum tg_syn_refusal. */
TG_INLINE __u32 tg_syn_refusal(const struct tg_rules *rules, __u32 reason, const struct tg_syn *syn)
{
	if (syn->source == TG_SOURCE_EXEMPT)
		return TG_SYN_KERNEL;
	if (syn->answer == TG_ANSWER_SILENCE)
		return TG_SYN_DROP;
	if (syn->answer == TG_ANSWER_COOKIE && syn->cookie_usable)
		return TG_SYN_COOKIE;
	if (rules->cookie_when_reserved && tg_syn_is_exhausted(reason))
		return TG_SYN_COOKIE;
	/* At its ACK nobody would ask for its network's share. */
	if (reason == TG_BEYOND_SHARE && rules->syn == TG_SYN_COOKIE)
		return TG_SYN_DROP;
	if (rules->syn == TG_SYN_KERNEL && tg_syn_kernel_has_room(rules, reason))
		return TG_SYN_DROP;
	/* TIME-WAIT would acknowledge the ACK, where it is to meet a RST: its client would wait. */
	if (tg_syn_wants_hollow(rules, syn) & !syn->taken)
		return TG_SYN_HOLLOW;
	return rules->syn;
}

/*
 * auto answers where the kernel would, with a cookie that costs less and keeps the options. But for
 * who is exempt: the kernel alone decides.
 */
TG_INLINE int tg_syn_spares_cookie(const struct tg_rules *rules, __u32 reason,
                                   const struct tg_syn *syn)
{
	return rules->is_auto && reason == TG_KERNEL_COOKIE && syn->source != TG_SOURCE_EXEMPT;
}

TG_INLINE int tg_syn_wants_cookie(const struct tg_rules *rules, __u32 reason,
                                  const struct tg_syn *syn)
{
	if (tg_syn_has_room(reason))
		return tg_syn_spares_cookie(rules, reason, syn);
	return syn->answer == TG_ANSWER_COOKIE || syn->answer == TG_ANSWER_COOKIE_OR_SILENCE ||
	       tg_syn_refusal(rules, reason, syn) == TG_SYN_COOKIE;
}

/* auto's rules watch those SYNs that it is to find room for. */
TG_INLINE int tg_syn_is_watched(const struct tg_rules *rules, const struct tg_syn *syn)
{
	return rules->is_auto && (syn->source == TG_SOURCE_ANY || syn->source == TG_SOURCE_WITHIN);
}

/* reason is what tg_syn_reason() said. */
TG_INLINE struct tg_decision tg_syn_decide(const struct tg_rules *rules, __u32 reason,
                                           const struct tg_syn *syn, struct tg_bucket *refusals)
{
	__u32 refusal;

	if (tg_syn_spares_cookie(rules, reason, syn) && syn->cookie_usable && !syn->half_open)
		return tg_decide(TG_COOKIE, reason);
	if (tg_syn_has_room(reason))
		return tg_decide(TG_PASS, reason);
	if (syn->half_open)
		return tg_decide(TG_PASS, TG_HALF_OPEN);

	refusal = tg_syn_refusal(rules, reason, syn);
	switch (refusal) {
	case TG_SYN_DROP: return tg_decide(TG_DROP, reason);
	case TG_SYN_RESET:
	case TG_SYN_HOLLOW:
		if (rules->refusal_cost_ns &&
		    !tg_bucket_take(refusals, rules->refusal_cost_ns, syn->now_ns))
			return tg_decide(TG_DROP, TG_REFUSAL_LIMIT);
		return tg_decide(refusal == TG_SYN_RESET ? TG_RESET : TG_HOLLOW, reason);
	case TG_SYN_COOKIE:
		if (syn->cookie_usable)
			return tg_decide(TG_COOKIE, reason);
		/* The kernel may still have a cookie for a SYN whose options we cannot keep. */
		return tg_decide(tg_syn_kernel_has_room(rules, reason) ? TG_DROP : TG_PASS,
		                 TG_NO_COOKIE);
	default: return tg_decide(TG_PASS, reason);
	}
}

/*
 * auto, once it is known what room there is: whose turn it is, which may change the reason, and
 * whether who finds none is left in silence, or is to come again soon.
 */
TG_INLINE void tg_syn_meet(const struct tg_rules *rules, const struct tg_overload *o, __u32 phase,
                           __u32 *reason, struct tg_client *client, int is_half_full, __u64 now_ns)
{
	__u32 telling;

	if (tg_syn_has_room(*reason))
		*reason = tg_overload_turn(rules, o, phase, *reason, client, is_half_full, now_ns);
	if (tg_syn_has_room(*reason))
		return;
	telling = tg_overload_tells(o, phase, client, now_ns);
	client->comes_soon = telling == TG_TELLS_SOON;
	if (telling == TG_SILENT)
		client->answer = TG_ANSWER_SILENCE;
	else if (telling == TG_CONNECTS)
		client->answer = TG_ANSWER_COOKIE;
	else if (telling == TG_BRIDGES)
		client->answer = TG_ANSWER_COOKIE_OR_SILENCE;
}

/*
 * auto: is one who finds no room to be told so, in a form that is still to be found? Not whose
 * request stands.
 */
TG_INLINE int tg_syn_is_told(__u32 reason, const struct tg_syn *syn, const struct tg_client *client)
{
	return !tg_syn_has_room(reason) && !syn->half_open && client->answer == TG_ANSWER_AS_RULED;
}

/*
 * auto: who does not come in for its network's sake is told in the form that fits its address. Of
 * its connection nothing is remembered: they may be a flood, which would fill the table of those
 * who wait.
 */
TG_INLINE int tg_syn_is_held_off(const struct tg_rules *rules, __u32 reason,
                                 const struct tg_syn *syn)
{
	return rules->is_auto && tg_syn_is_held(reason) && !syn->half_open;
}

/* auto, of one who is: those beyond their network's share are of the crowd all the same. */
TG_INLINE void tg_syn_meet_held(const struct tg_syn *syn, struct tg_overload *o,
                                struct tg_client *client)
{
	client->is_held_off = 1;
	if (syn->source == TG_SOURCE_BEYOND)
		tg_overload_keep_out(o);
}

/*
 * auto, of any other: what became of it, by the reason that tg_syn_meet() left. isn is its initial
 * sequence number. Where there is room nobody has looked whether its request stands, and who comes
 * again counts as who comes: the simulator, which knows, counts as the datapath. Who takes over a
 * TIME-WAIT counts as one whose request stands: it lost nothing.
 */
TG_INLINE struct tg_overload_met tg_syn_met(__u32 reason, __u32 is_half_open, __u32 isn)
{
	return (struct tg_overload_met){
		.has_room = tg_syn_has_room(reason),
		.is_half_open = is_half_open & (reason != TG_ROOM),
		.has_cookie = reason == TG_KERNEL_COOKIE,
		.isn = isn,
	};
}

/*
 * Could an ACK that is under way find the listen queue full? While this is
 * false for every listener, segments that carry no SYN need no look-up.
 */
TG_INLINE int tg_syn_overflow_possible(const struct tg_queues *queues)
{
	return (__u64)queues->listen_len + queues->syn_len + queues->claimed + TG_POLL_BATCH >=
	       queues->listen_max;
}

/*
 * For how long its guard's ACKs are looked at for the sake of this SYN; 0: not at all. phase is
 * auto's, TG_CALM where it watches nobody: while clients find no room, by the ACKs of those who do
 * it learns how far they are, though the limit that they meet is its own and the kernel's queues
 * could not overflow.
 */
TG_INLINE __u64 tg_syn_watch_ns(struct tg_decision decision, const struct tg_queues *queues,
                                __u32 phase)
{
	if (decision.verdict == TG_COOKIE)
		return TG_COOKIE_LIFE_NS;
	if (decision.verdict == TG_HOLLOW)
		return TG_HOLLOW_LIFE_NS;
	if (decision.reason == TG_KERNEL_COOKIE || tg_syn_overflow_possible(queues) ||
	    phase != TG_CALM)
		return TG_REQUEST_LIFE_NS;
	return 0;
}

#endif
