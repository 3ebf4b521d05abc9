/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is done with a packet, and why. Every judged packet gets one of each,
 * and each pair has its counter per listener (struct tg_counters).
 */
#ifndef TG_VERDICT_H
#define TG_VERDICT_H

#include "types.h"

enum tg_verdict {
	TG_PASS,   /* the kernel gets the packet as it came */
	TG_DROP,   /* silence: the client retransmits */
	TG_RESET,  /* refused explicitly, with RST */
	TG_COOKIE, /* answered without state: SYN/ACK whose ISN is a cookie */
	TG_HOLLOW, /* refused by a SYN/ACK behind which there is nothing: its ACK meets a RST */
	TG_ADMIT,  /* a cookie came back and is let in as a full request */
	TG_VERDICTS,
};

/*
 * The names of the queue drop rules are those of Shukla, section 2.1.1. Where
 * the verdict beside such a reason is TG_PASS, the kernel makes the drop.
 */
enum tg_reason {
	/* SYN stage */
	TG_ROOM,                /* the queues had room */
	TG_SYNQ_FULL,           /* SynQFull: the SYN queue is full */
	TG_SYNQ_3_4_FULL,       /* SynQ3/4Full: of tcp_max_syn_backlog; no SYN cookies */
	TG_LISTENQ_FULL_AT_SYN, /* ListenQFullAtSyn */
	TG_KERNEL_COOKIE,       /* the kernel would answer with a cookie of its own: its SYN queue
	                         * is full, or tcp_syncookies is 2 */
	TG_NO_RESERVATION,      /* reserv: who waits, and who is half-open, have every place */
	TG_EARLY_RANDOM,        /* reserv: probabilistic early drop (Shukla 4.1.7) */
	TG_REFUSAL_LIMIT,       /* a refusal was due, but the limit on refusals was reached */
	TG_NO_COOKIE,           /* a cookie was due, and cannot be given */
	TG_HALF_OPEN,           /* its request or connection stands already, or it joins one: the
	                         * kernel answers */
	TG_WAIT_LIMIT,          /* room, but beyond a logical limit: tg_syn_room() */
	TG_NEW_FIRST,           /* auto: room, but for clients who have not waited */
	TG_POLICED,             /* its network sends more SYNs than it may: police.h */
	TG_BEYOND_SHARE,        /* its network has had its share of the room: share.h */
	TG_EXEMPT,              /* its network is exempt, and the kernel has room */
	/* ACK stage */
	TG_HANDSHAKE,           /* the ACK found room */
	TG_OVERFLOW_SYNACK_ACK, /* ListenQOverflow on a SYN/ACK ACK */
	TG_OVERFLOW_OTHER,      /* ListenQOverflow on the data or FIN that follow one */
	TG_COOKIE_VALID,        /* one of our cookies came back, and there was room */
	TG_COOKIE_NO_ROOM,      /* one of our cookies came back, and found no place */
	TG_COOKIE_FOREIGN,      /* an ACK that brings neither a request's number nor a cookie */
	TG_HOLLOW_ANSWERED,     /* an ACK to a hollow SYN/ACK, or what is said behind one that met
	                         * a RST: the rest of a refusal */
	/* Persistent dropping, before the SYN stage looks for room: shed.h */
	TG_SHED_STATELESS, /* SLPD: the hash is below p* */
	TG_SHED_NEW,       /* SBPD: a new request, and its chance is below p* */
	TG_SHED_AGAIN,     /* its stamp stands: the retransmission of a SYN that was dropped */
	TG_SHED_UNIFORM,   /* RBD, or what the others fall back to at last */
	TG_SPARED,         /* to be dropped, but from a preferred proxy */
	TG_FORWARDED,      /* let through on a path: no listener of this host has a say */
	/* FIN stage: rst-fin ends the connection, or leaves it alone and says why: fin.h */
	TG_FIN_ENDS,          /* a bare FIN, in its place */
	TG_FIN_HALF_CLOSE,    /* the application wants half-closed connections */
	TG_FIN_NO_CONNECTION, /* it belongs to nothing, or to nothing that stands on its feet */
	TG_FIN_CLOSING,       /* the server closed first, or the client's FIN came before */
	TG_FIN_WITH_DATA,     /* it brings data */
	TG_FIN_SIGNED,        /* TCP-MD5 or TCP-AO; or options that cannot be read, or IPsec */
	TG_FIN_OUT_OF_ORDER,  /* something before it is missing */
	TG_FIN_OUTSIDE,       /* outside of the window: old, or forged */
	TG_FIN_BAD_ACK,       /* what it acknowledges is not under way */
	TG_FIN_UNREAD,        /* strict: the application has not read everything */
	TG_FIN_UNACKED,       /* strict: it does not acknowledge everything that was written */
	TG_REASONS,
};

struct tg_decision {
	__u32 verdict; /* enum tg_verdict */
	__u32 reason;  /* enum tg_reason */
};

/* Is there no room by the kernel's own queue drop rules? Then it drops what we pass. */
TG_INLINE int tg_is_queue_drop(__u32 reason)
{
	return reason >= TG_SYNQ_FULL && reason <= TG_LISTENQ_FULL_AT_SYN;
}

/* Does this client get nothing now? Also where the kernel makes the drop. */
TG_INLINE int tg_is_refusal(struct tg_decision d)
{
	switch (d.verdict) {
	case TG_RESET:
	case TG_DROP: return d.reason != TG_HOLLOW_ANSWERED;
	case TG_HOLLOW: return 1;
	case TG_PASS:
		return tg_is_queue_drop(d.reason) || d.reason == TG_OVERFLOW_SYNACK_ACK ||
		       d.reason == TG_OVERFLOW_OTHER;
	default: return 0;
	}
}

/* Is there room for a SYN by this reason? */
TG_INLINE int tg_syn_has_room(__u32 reason)
{
	return reason == TG_ROOM || reason == TG_KERNEL_COOKIE || reason == TG_EXEMPT;
}

/*
 * Is this SYN answered by who has a place for its client, or did this ACK bring a cookie of ours
 * back and is let in? A cookie of the kernel's counts with its SYN: its ACK is one like others.
 */
TG_INLINE int tg_lets_in(struct tg_decision d)
{
	if (d.verdict == TG_PASS)
		return tg_syn_has_room(d.reason) || d.reason == TG_FORWARDED ||
		       d.reason == TG_SPARED;
	return d.verdict == TG_ADMIT;
}

/* Packets by reason and verdict; one per listener and processor. */
struct tg_counters {
	__u64 packets[TG_REASONS][TG_VERDICTS];
};

TG_INLINE struct tg_decision tg_decide(__u32 verdict, __u32 reason)
{
	struct tg_decision decision = {.verdict = verdict, .reason = reason};

	return decision;
}

#endif
