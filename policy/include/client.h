/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* auto: the client that a SYN is from, and what it is told. */
#ifndef TG_CLIENT_H
#define TG_CLIENT_H

#include "types.h"
#include "verdict.h"

/* Whom a SYN is from. */
enum tg_caller {
	TG_CALLER_NEW,
	TG_CALLER_WAITS, /* it was dropped in silence */
	TG_CALLER_TOLD,  /* it was refused */
};

/* What is said to one who finds no room. */
enum tg_answer {
	TG_ANSWER_AS_RULED, /* by the rules of its listener; 0 */
	TG_ANSWER_SILENCE,
	TG_ANSWER_COOKIE,            /* a SYN cookie, with which it comes in when there is room */
	TG_ANSWER_COOKIE_OR_SILENCE, /* until it is known whether its SYN fits one */
	TG_ANSWER_HOLLOW, /* where the rules have a RST: a SYN/ACK, and the RST afterwards */
};

/* All zero: one who was not asked for. */
struct tg_client {
	__u32 caller;       /* enum tg_caller */
	__u16 times_told;   /* before */
	__u16 waited_ticks; /* since its first SYN, of 2^30 ns */
	__u32 sends_again;  /* on a RST, by what its SYN looks like: see system.h */
	__u32 comes_soon;   /* it is told to: by a RST, on which it sends its SYN again */
	__u32 speaks_first; /* behind a handshake: who does not cannot wait connected (speaks.h) */
	__u32 is_kept;      /* there is room to remember it in any case: see overload_telling.h */
	__u32 answer;       /* to it, where it finds no room: enum tg_answer */
	__u16 is_gone;      /* it is not expected again: it is not remembered */
	__u16 is_held_off;  /* for its network's sake: nothing is remembered of it */
};

/* Its answer, now that this is known. */
TG_INLINE void tg_client_settle(struct tg_client *client, int cookie_usable)
{
	if (client->answer == TG_ANSWER_COOKIE_OR_SILENCE)
		client->answer = cookie_usable ? TG_ANSWER_COOKIE : TG_ANSWER_SILENCE;
}

/*
 * And what became of that: where no more refusals may be sent it was not told, neither for good nor
 * to come again soon. It waits, if it is remembered: in a flood there is no room for all. Who was
 * to have a hollow SYN/ACK, and stands in TIME-WAIT, had a RST, on which such a client comes again:
 * tg_manners_is_gone() would have said so. By a mask: see tg_less().
 */
TG_INLINE void tg_client_part(struct tg_client *client, struct tg_decision decision)
{
	__u32 had_rst = (decision.verdict == TG_RESET) & (client->answer == TG_ANSWER_HOLLOW);

	client->answer &= had_rst - 1;
	client->is_gone &= (__u16)(had_rst - 1);
	if (decision.reason != TG_REFUSAL_LIMIT)
		return;
	client->answer = TG_ANSWER_SILENCE;
	client->comes_soon = 0;
}

#endif
