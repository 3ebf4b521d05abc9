/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The SYN/ACK behind which there is nothing: a refusal after the handshake. */
#ifndef TG_HOLLOW_REPLY_H
#define TG_HOLLOW_REPLY_H

#include "../../policy/include/shed.h"
#include "guard.h"
#include "reply.h"

/*
 * Who answers it has no connection anywhere, and the kernel that gets the ACK says so with RST. No
 * cookie of ours or of the kernel's, it is the same for the same SYN; no options, for there will
 * be nothing to say.
 */
TG_INLINE void tg_reply_hollow(const struct tg_packet *packet, const struct tg_key *key,
                               struct tg_reply *r)
{
	r->marks.seq = tg_shed_answer(key, &packet->tuple, packet->seq);
	r->marks.ack = packet->seq + 1;
	r->marks.flags = TG_TCP_SYN | TG_TCP_ACK;
	r->window = TG_SYN_ACK_WINDOW;
}

/*
 * May what answers one be of one connection? Nothing tells those to whom auto gives it for their
 * network's sake, or who are shed by it, from those for whom there was no room.
 */
TG_INLINE __u32 tg_hollow_is_of_one(const struct tg_guard *g)
{
	return tg_shed_may_be_behind_hollow(&g->shed) || g->has_limits || g->rules.share_ipv4_bits;
}

/* Each refusal that needs no more than the SYN: verdict is TG_RESET or TG_HOLLOW. */
TG_INLINE void tg_reply_at_once(const struct tg_packet *packet, const struct tg_place *at,
                                __u32 verdict, __u32 is_of_one, struct tg_reply *r)
{
	if (verdict == TG_RESET)
		tg_reply_refuse(packet, &at->guard->rules, is_of_one, r);
	else
		tg_reply_hollow(packet, &at->config->shed_key, r);
}

#endif
