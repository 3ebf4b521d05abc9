/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision at the ACK stage: for a segment that belongs to a half-open
 * request, and for an ACK that belongs to none and may carry a cookie, of ours or of the kernel.
 */
#ifndef TG_ACK_H
#define TG_ACK_H

#include "listener.h"
#include "room.h"
#include "verdict.h"

/* The cookie that an ACK without a request brings back. */
enum tg_ack_cookie {
	TG_ACK_NO_COOKIE,
	TG_ACK_COOKIE,        /* ours, and fresh */
	TG_ACK_KERNEL_COOKIE, /* one that the kernel gave */
	TG_ACK_HOLLOW,        /* none, but the number of a hollow SYN/ACK */
	TG_ACK_BEHIND,        /* none, but what came before it was left in silence, with a cookie */
};

/* Who was left in silence is known for as long as a client goes on asking. */
#define TG_LEFT_NS 10000000000ull
/* Who only wants to say that this was all says so at once. Windows asks again after 300 ms. */
#define TG_GAVE_UP_NS 250000000ull

struct tg_ack {
	__u32 is_request;  /* 1: a request is waiting for it; 0: none, see cookie */
	__u32 acceptable;  /* request: it acknowledges our SYN/ACK and is in the window */
	__u16 deferred;    /* request: TCP_DEFER_ACCEPT waits for data, this has none */
	__u16 is_signed;   /* request: by TCP-MD5 or TCP-AO, and what is changed is not heard */
	__u32 bare;        /* no data and no FIN: a SYN/ACK ACK (Shukla, Table 4.1) */
	__u32 cookie;      /* enum tg_ack_cookie */
	__u8 silent;       /* auto: who finds no room is not told */
	__u8 speaks_first; /* auto: and says something, again and again (speaks.h) */
	__u8 was_told;     /* cookie, hollow: the bare ACK before it met a RST, a moment ago */
	__u8 exempt;       /* its network is: the kernel alone decides */
};

TG_INLINE int tg_ack_brings_cookie(const struct tg_ack *ack)
{
	return ack->cookie == TG_ACK_COOKIE || ack->cookie == TG_ACK_KERNEL_COOKIE;
}

/* Does it prove that who sends it has our SYN/ACK? Anyone may send an ACK, from any address. */
TG_INLINE int tg_ack_proves(const struct tg_ack *ack)
{
	return ack->is_request ? ack->acceptable : tg_ack_brings_cookie(ack);
}

TG_INLINE __u32 tg_ack_overflow(const struct tg_ack *ack)
{
	return ack->bare ? TG_OVERFLOW_SYNACK_ACK : TG_OVERFLOW_OTHER;
}

/*
 * Is it left in silence, where it finds no room? Of whom there is a request, which the kernel
 * answers once more; or who says something, and so comes again. With a cookie and nothing to say it
 * would wait for ever.
 */
TG_INLINE int tg_ack_is_silent(const struct tg_ack *ack)
{
	return ack->silent && (ack->is_request || !ack->bare || ack->speaks_first);
}

/* The kernel makes a connection of it, if the listen queue has a place. */
TG_INLINE struct tg_decision tg_ack_decide_place(const struct tg_rules *rules,
                                                 const struct tg_queues *queues,
                                                 const struct tg_ack *ack)
{
	if (!tg_listen_queue_full(queues))
		return tg_decide(TG_PASS, TG_HANDSHAKE);
	if (rules->ack == TG_ACK_RESET && !tg_ack_is_silent(ack) && !ack->exempt && !ack->is_signed)
		return tg_decide(TG_RESET, tg_ack_overflow(ack));
	return tg_decide(TG_PASS, tg_ack_overflow(ack));
}

/*
 * Has who comes with a cookie a place where a new SYN would look for one? Half-open connections
 * have reserved theirs, but they may be forged, and it is here.
 */
TG_INLINE int tg_ack_finds_place(const struct tg_rules *rules, const struct tg_queues *queues)
{
	if (tg_room_ends(rules->places, queues))
		return 0;
	return rules->room != TG_ROOM_RESERVE ||
	       queues->listen_len < tg_reserve_places(rules, queues);
}

/*
 * Our cookie comes back. auto's comes in wherever the listen queue has room, as one that has a
 * request: it has let the client in when its SYN came; or has it wait for that room, connected, and
 * say again what it has to say. Of any other mechanism's it takes a place now.
 */
TG_INLINE struct tg_decision tg_ack_decide_ours(const struct tg_rules *rules,
                                                const struct tg_queues *queues,
                                                const struct tg_ack *ack)
{
	int has_place = !tg_listen_queue_full(queues) &&
	                (rules->is_auto || tg_ack_finds_place(rules, queues));

	if (has_place)
		return tg_decide(TG_ADMIT, TG_COOKIE_VALID);
	if (!rules->is_auto)
		return tg_decide(TG_RESET, TG_COOKIE_NO_ROOM);
	return tg_decide(tg_ack_is_silent(ack) ? TG_DROP : TG_RESET, tg_ack_overflow(ack));
}

TG_INLINE struct tg_decision tg_ack_decide_request(const struct tg_rules *rules,
                                                   const struct tg_queues *queues,
                                                   const struct tg_ack *ack)
{
	/* tcp_check_req() answers these before it looks at the listen queue. */
	if (!ack->acceptable || ack->deferred)
		return tg_decide(TG_PASS, TG_HANDSHAKE);
	return tg_ack_decide_place(rules, queues, ack);
}

/*
 * Behind the ACK comes what the client says; one RST is enough for both. With a cookie it comes in
 * by nothing that it has said before it heard: for a place that is free by now the kernel would
 * make a connection that the client has given up.
 */
TG_INLINE int tg_ack_is_behind_rst(const struct tg_ack *ack)
{
	return ack->was_told && !ack->bare &&
	       (ack->cookie == TG_ACK_HOLLOW || tg_ack_brings_cookie(ack));
}

TG_INLINE struct tg_decision tg_ack_decide_cookie(const struct tg_rules *rules,
                                                  const struct tg_queues *queues,
                                                  const struct tg_ack *ack)
{
	/* Counted as a refusal when its ACK came, or its SYN. */
	if (tg_ack_is_behind_rst(ack))
		return tg_decide(TG_DROP, TG_HOLLOW_ANSWERED);
	if (ack->cookie == TG_ACK_HOLLOW)
		return tg_decide(TG_RESET, TG_HOLLOW_ANSWERED);
	if (ack->cookie == TG_ACK_KERNEL_COOKIE)
		return tg_ack_decide_place(rules, queues, ack);
	if (ack->cookie == TG_ACK_COOKIE)
		return tg_ack_decide_ours(rules, queues, ack);
	/* The kernel, which knows of no connection, would reset it. */
	if (ack->cookie == TG_ACK_BEHIND)
		return tg_decide(TG_DROP, tg_ack_overflow(ack));
	return tg_decide(TG_PASS, TG_COOKIE_FOREIGN);
}

/*
 * Is it said behind what was left in silence so long ago? A FIN that comes later is no end of a
 * request: who has given up sends it, and its host would go on asking for the request all the same
 * (Windows and macOS let their FIN pass what was lost). It is the kernel's, to which the connection
 * is unknown: its RST ends that, so that no place is taken for someone who has left.
 */
TG_INLINE int tg_ack_is_behind(__u64 since_ns, int has_fin)
{
	return since_ns < (has_fin ? TG_GAVE_UP_NS : TG_LEFT_NS);
}

/*
 * auto: was one who brings a cookie left in silence? What it says further has another sequence
 * number, and so opens no cookie; by it, and by what it says first, the client is known from now
 * on.
 */
TG_INLINE int tg_ack_leaves(const struct tg_rules *rules, const struct tg_ack *ack,
                            struct tg_decision decision)
{
	return rules->is_auto && !ack->exempt && decision.reason == tg_ack_overflow(ack) &&
	       decision.verdict != TG_RESET && tg_ack_brings_cookie(ack);
}

/*
 * Is one who brings a cookie told with its bare ACK? Then what it says next was on its way. (Where
 * that is told itself, its ACK was lost: nothing is behind it, and who says it again has not
 * heard.)
 */
TG_INLINE int tg_ack_tells(const struct tg_ack *ack, struct tg_decision decision)
{
	return ack->bare && decision.verdict == TG_RESET && tg_ack_brings_cookie(ack);
}

TG_INLINE struct tg_decision tg_ack_decide(const struct tg_rules *rules,
                                           const struct tg_queues *queues, const struct tg_ack *ack)
{
	return ack->is_request ? tg_ack_decide_request(rules, queues, ack)
	                       : tg_ack_decide_cookie(rules, queues, ack);
}

#endif
