/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the policy knows of one listener: its rules and the state of its queues. */
#ifndef TG_LISTENER_H
#define TG_LISTENER_H

#include "types.h"

/* SYNs that one poll of a driver hands up before TCP sees the first: NAPI's weight. */
#define TG_POLL_BATCH 64

/* How room for a SYN is judged. */
enum tg_room_rule {
	TG_ROOM_KERNEL,  /* the kernel's own queue drop rules */
	TG_ROOM_RESERVE, /* reserv, lazy: a place must be free for it (Shukla 4.1.2) */
};

/* What a SYN without room gets (Shukla 4.1.5, 5.4). */
enum tg_syn_refusal {
	TG_SYN_KERNEL, /* default, abort: passed, the kernel drops it silently */
	TG_SYN_DROP,   /* early-syn-drop: dropped silently, at the hook */
	TG_SYN_RESET,  /* rst-syn */
	TG_SYN_COOKIE, /* no-syn-drop */
	TG_SYN_HOLLOW, /* rst-syn, to one that would send its SYN again: manners.h */
};

/* What an ACK that finds the listen queue full gets (Shukla 4.1.2). */
enum tg_ack_refusal {
	TG_ACK_KERNEL, /* default: dropped silently by the kernel */
	TG_ACK_RESET,  /* abort: RST, and the request is removed */
};

/* What a client's FIN does to a connection (Shukla 4.2.1). */
enum tg_fin_rule {
	TG_HALF_CLOSE,     /* the client's side is closed, as TCP has it */
	TG_RST_FIN,        /* the connection ends */
	TG_RST_FIN_STRICT, /* the same, where nothing that was sent or written can be lost */
};

/* What an overload is in: see overload.h. */
enum tg_phase {
	TG_CALM,
	TG_BURST,      /* queue drops, which may be over soon */
	TG_PERSISTENT, /* they have lasted */
	TG_RECOVERING, /* it was persistent, and they have stopped */
	TG_PHASES,
};

/* The rules of one guarded listener. All zero is `default`: watch and count. */
struct tg_rules {
	__u32 room; /* enum tg_room_rule */
	__u32 syn;  /* enum tg_syn_refusal */
	__u32 ack;  /* enum tg_ack_refusal */
	/* reserv: a free place may be promised this many times (256 = once). */
	__u32 overbook_x256;
	/* reserv: when half-open connections hold every place, or fill the SYN queue, answer with a
	 * cookie. */
	__u32 cookie_when_reserved;
	/* reserv: early drop begins at this share of the places taken; 256 turns it off. */
	__u32 early_from_x256;
	/* reserv: probability of early drop when every place is taken, of 256. */
	__u32 early_probability_x256;
	/* reserv: a reservation older than this may be cleaned, milliseconds; 0 never. */
	__u32 clean_after_ms;
	/* Explicit refusals cost this many nanoseconds of the bucket's credit; 0 is no limit. */
	__u32 refusal_cost_ns;
	__u32 fin; /* enum tg_fin_rule */
	/* auto: syn and ack hold in persistent overload, and silence in any other. */
	__u32 is_auto;
	/* auto: how long clients wait before they give up, milliseconds: see overload.h. */
	__u32 patience_ms;
	/* auto: what a SYN costs that is dropped in silence, nanoseconds of the host's time. */
	__u64 syn_ns;
	/* auto: who is let in during an overload waits this long for accept(), microseconds. */
	__u32 wait_us;
	/* Of the listen queue those for new SYNs; the rest is for requests under way. 0: all. */
	__u32 places;
	/* An explicit refusal says why: see notice.h. */
	__u32 notice;
	/* And when to come back, in hundredths of a second; 0: it does not. */
	__u32 come_back_ticks;
	/* Refusals that are told of cost so much of a bucket's credit, nanoseconds; 0: none is. */
	__u32 log_cost_ns;
	/* lazy: reserv, with no more places than the application is about to ask for. 0: all. */
	__u32 ahead;
	/* While there is not room for all, networks of so many bits have equal shares; 0: no share
	 * is kept. Of IPv6 at most 64: see share.h. */
	__u32 share_ipv4_bits;
	__u32 share_ipv6_bits;
};

/* auto: for whom there is no room, whatever the queues say: see overload.h. */
enum tg_shut {
	TG_OPEN,
	TG_SHUT_TO_COOKIES, /* who would have one of the kernel's */
	TG_SHUT,            /* anybody */
};

/* The queues of one listening socket at this moment, and the host's rules for them. */
struct tg_queues {
	__u32 listen_len; /* connections waiting for accept() */
	__u32 listen_max; /* the backlog; Linux calls a queue full at listen_max + 1 */
	__u32 syn_len;    /* half-open connections: SYN/ACKs in flight */
	__u32 syn_max;    /* net.ipv4.tcp_max_syn_backlog */
	__u32 syncookies; /* net.ipv4.tcp_syncookies: 0, 1 or 2 */
	__u32 claimed; /* SYNs let through that TCP has not seen yet, to any socket of the port */
	__u32 places;  /* auto: of the listen queue those in use now; 0: all */
	__u16 shut;    /* auto: enum tg_shut */
	__u16 members; /* of its SO_REUSEPORT group; 0: it is in none */
};

/* Linux's rule, sk_acceptq_is_full(): strictly above the backlog. */
TG_INLINE int tg_listen_queue_full(const struct tg_queues *queues)
{
	return queues->listen_len > queues->listen_max;
}

/*
 * Linux's rule, inet_csk_reqsk_queue_is_full(): bounded by the backlog since 4.4, and strictly
 * above it since 6.13, 6.12.10, 6.6.72 and 6.1.125. An older kernel calls the queue full one
 * request before we do: of a SYN that finds just so many half-open as the backlog we say that there
 * is room, and it answers with a cookie, or drops it where tcp_syncookies is 0.
 */
TG_INLINE int tg_syn_queue_full(const struct tg_queues *queues)
{
	return queues->syn_len > queues->listen_max;
}

#endif
