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

/* A socket knows how long so many of its last overloads were: see overload.h. */
#define TG_OVERLOAD_KNOWN 8

/* What the pace brought the server, by the mean of its queue. */
enum tg_supply {
	TG_FITS,
	TG_SATED,   /* the short queue was at its limit */
	TG_STARVED, /* hardly anybody was in it */
};

/* What the SYNs of one listening socket have met: see overload.h. All zero: none has come. */
struct tg_overload {
	__u64 window_ns; /* when the window at hand began */
	__u64 since_ns; /* when more new clients began to come than the server takes; 0: they do not
	                 */
	__u64 excess_ns;     /* when the last such window ended */
	__u64 dropped_ns;    /* when the last window with drops ended */
	__u64 half_full_ns;  /* when a SYN last found half of the places in use taken */
	__u64 fresh_x256;    /* new clients, a second */
	__u64 kept_out_x256; /* SYNs beyond their network's share, a second */
	__u64 peak_x256;     /* the most of both in this overload */
	__u64 drain_x256;    /* connections that the server takes, a second */
	__u64 silent_x256;   /* SYNs dropped in silence, or to come again soon, a second: as many
	                      * clients wait */
	__u64 small_x16;     /* that it ends before too many wait, by what is known; of 2^16 */
	__u64 syn_ns;        /* what a SYN costs the host while so many come */
	__u64 worth;         /* clients for whom it would pay to wait, were there an overload */
	__u64 may_wait;      /* clients that should, beyond a burst */
	__u64 in_time;       /* clients that may wait in a burst, and when it is over */
	__u64 calm_ms;       /* between the last overloads, a mean; 0: not known */
	__u64 bound;         /* so many may wait for accept() at any time; 0: not known */
	__u64 taken_x256;    /* connections that the server took in the window before, a second */
	__u32 closing;       /* above 0: some processor closes the window */
	__u32 proved;        /* ACKs of this window that brought a cookie, let in or not */
	__u64 seen;          /* SYNs of this window */
	__u64 repeated;      /* of them, those that found no room, and whose request stands */
	__u64 fresh;         /* of them, those of clients that were not waiting */
	__u64 dropped;       /* of them, those that found no room */
	__u64 fresh_dropped; /* those that are both */
	__u64 kept_out;      /* SYNs of this window beyond their network's share: not seen */
	__u64 entered;       /* of them, those that found room, and not none when their ACK came */
	__u64 silent;        /* of them, those dropped in silence */
	__u64 hastened;      /* of them, those told to come again soon */
	__u64 steady;        /* of those dropped in silence, those whom nothing makes come sooner */
	__u64 connected;     /* of them, those that wait connected, by a SYN cookie */
	__u64 cookies;       /* of them, those that the kernel's SYN cookies are for */
	__u64 returned;      /* SYN cookies of ours that came back in this window, let in or told */
	__u64 on_return;     /* those of the window before that had not come back when it ended */
	__u64 apart_ns;      /* between two that the server takes */
	__u64 step_ns;       /* between two that are let in, now */
	__u64 next_ns;       /* when the next is to be let in */
	__u64 waiting_sum;   /* those that wait for accept(), summed over the SYNs of this window */
	__u64 probed_ns;     /* when the client was let in whose ACK is waited for */
	__u64 round_trip_ns; /* the mean of the last that were seen */
	__u32 probe_isn;     /* its initial sequence number; 0: none is waited for */
	__u32 on_their_way;  /* let in, and not in the listen queue yet, at what the server takes */
	__u32 queued;        /* in both queues when it began */
	__u32 listened;      /* in the listen queue then */
	__u32 exempted;      /* of exempt networks that found room in it, and are not watched */
	__u32 places;        /* of the listen queue, for an overload whose server is known */
	__u32 few_places;    /* as many as it takes while this crowd is there */
	__u32 half_open;     /* the fewest half-open connections in this window */
	__u32 stuck;         /* in the one before: no ACK is on its way to these */
	__u16 is_persistent;
	__u8 was_quiet;  /* hardly a new client came in the window before */
	__u8 is_flooded; /* of the SYN cookies hardly any came back then: they are a flood's */
	__u16 ends_soon; /* within 2 s, more likely than not */
	__u8 supply;     /* enum tg_supply: where clients are away, of the window before */
	__u8 was_long;   /* the overload at hand, or the last, if it has not been calm since */
	__u32 ended;     /* overloads that have ended */
	/* How long the last of them were, in ms; 0: there was none. */
	__u32 lasted_ms[TG_OVERLOAD_KNOWN];
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
