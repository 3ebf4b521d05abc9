/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision at the FIN stage: rst-fin (Shukla, thesis, section 4.2.1).
 *
 * A client that closes sends a FIN, and TCP takes it for a half-close: the
 * server goes on working for a client that has gone. rst-fin takes it for the
 * end, and the connection is reset on both sides. A FIN that brings data closes
 * as usual, and so does every FIN that is not the very next thing which an open
 * connection waits for: one that came early, late or again, or that is forged.
 *
 * Only who closes first is meant. Where the server closed first, the client's
 * FIN completes the close, and the server owes the net its TIME-WAIT.
 */
#ifndef TG_FIN_H
#define TG_FIN_H

#include "listener.h"
#include "sequence.h"
#include "verdict.h"

/* What the FIN belongs to. */
enum tg_connection {
	TG_CONNECTION_NONE,    /* nothing, a half-open request, TIME-WAIT, or not plain TCP */
	TG_CONNECTION_OPEN,    /* neither side has closed */
	TG_CONNECTION_CLOSING, /* one side has closed, or both */
};

/* Sequence numbers in host byte order; those of the connection as the server's TCP has them. */
struct tg_fin {
	__u32 connection; /* enum tg_connection; without one the rest of it is unset */
	__u32 payload_bytes;
	/* By TCP-MD5 or TCP-AO, so that nothing can be changed; or unreadable, or through IPsec. */
	__u32 is_signed;
	__u32 seq;
	__u32 ack;
	__u32 rcv_nxt;    /* the next that is expected */
	__u32 rcv_end;    /* where the window ends */
	__u32 copied_seq; /* up to here the application has read */
	__u32 snd_una;    /* up to here the client had acknowledged */
	__u32 snd_nxt;    /* up to here it was sent */
	__u32 write_seq;  /* up to here the application has written */
};

/*
 * The rule for one connection. said is what its application said by the socket
 * option: 0 nothing, else an enum tg_fin_rule and 1.
 */
TG_INLINE __u32 tg_fin_rule_of(__u32 configured, __u32 said)
{
	return said ? said - 1 : configured;
}

/* RFC 5961, section 5.2, and stricter: no ACK from before what has been seen since. */
TG_INLINE int tg_fin_ack_acceptable(const struct tg_fin *fin)
{
	return !tg_before(fin->ack, fin->snd_una) && !tg_before(fin->snd_nxt, fin->ack);
}

TG_INLINE __u32 tg_fin_reason(__u32 rule, const struct tg_fin *fin)
{
	if (rule != TG_RST_FIN && rule != TG_RST_FIN_STRICT)
		return TG_FIN_HALF_CLOSE;
	if (fin->connection == TG_CONNECTION_NONE)
		return TG_FIN_NO_CONNECTION;
	if (fin->connection != TG_CONNECTION_OPEN)
		return TG_FIN_CLOSING;
	if (fin->payload_bytes)
		return TG_FIN_WITH_DATA;
	if (fin->is_signed)
		return TG_FIN_SIGNED;
	if (fin->seq != fin->rcv_nxt)
		return tg_before(fin->rcv_nxt, fin->seq) && !tg_before(fin->rcv_end, fin->seq)
		               ? TG_FIN_OUT_OF_ORDER
		               : TG_FIN_OUTSIDE;
	if (!tg_fin_ack_acceptable(fin))
		return TG_FIN_BAD_ACK;
	if (rule == TG_RST_FIN)
		return TG_FIN_ENDS;
	if (fin->copied_seq != fin->rcv_nxt)
		return TG_FIN_UNREAD;
	return fin->ack == fin->write_seq ? TG_FIN_ENDS : TG_FIN_UNACKED;
}

TG_INLINE struct tg_decision tg_fin_decide(__u32 rule, const struct tg_fin *fin)
{
	__u32 reason = tg_fin_reason(rule, fin);

	return tg_decide(reason == TG_FIN_ENDS ? TG_RESET : TG_PASS, reason);
}

#endif
