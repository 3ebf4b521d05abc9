/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the policy knows of one listener: its rules and the state of its queues. */
#ifndef TG_LISTENER_H
#define TG_LISTENER_H

#include "types.h"

/* How room for a SYN is judged. */
enum tg_room_rule {
	TG_ROOM_KERNEL,  /* the kernel's own queue drop rules */
	TG_ROOM_RESERVE, /* reserv: a place in the listen queue must be free (Shukla 4.1.2) */
};

/* What a SYN without room gets (Shukla 4.1.5, 5.4). */
enum tg_syn_refusal {
	TG_SYN_KERNEL, /* default, abort: passed, the kernel drops it silently */
	TG_SYN_DROP,   /* early-syn-drop: dropped silently, at the hook */
	TG_SYN_RESET,  /* rst-syn */
	TG_SYN_COOKIE, /* no-syn-drop */
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

/* The rules of one guarded listener. All zero is `default`: watch and count. */
struct tg_rules {
	__u32 room; /* enum tg_room_rule */
	__u32 syn;  /* enum tg_syn_refusal */
	__u32 ack;  /* enum tg_ack_refusal */
	/* reserv: a free place may be promised this many times (256 = once). */
	__u32 overbook_x256;
	/* reserv: when half-open connections hold every place, answer with a cookie. */
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
};

/* The queues of one listening socket at this moment, and the host's rules for them. */
struct tg_queues {
	__u32 listen_len; /* connections waiting for accept() */
	__u32 listen_max; /* the backlog; Linux calls a queue full at listen_max + 1 */
	__u32 syn_len;    /* half-open connections: SYN/ACKs in flight */
	__u32 syn_max;    /* net.ipv4.tcp_max_syn_backlog */
	__u32 syncookies; /* net.ipv4.tcp_syncookies: 0, 1 or 2 */
	__u32 claimed;    /* SYNs let through that TCP has not seen yet */
};

/* Linux's rule, sk_acceptq_is_full(): strictly above the backlog. */
TG_INLINE int tg_listen_queue_full(const struct tg_queues *queues)
{
	return queues->listen_len > queues->listen_max;
}

/* Linux's rule since 4.4, inet_csk_reqsk_queue_is_full(): bounded by the backlog. */
TG_INLINE int tg_syn_queue_full(const struct tg_queues *queues)
{
	return queues->syn_len > queues->listen_max;
}

#endif
