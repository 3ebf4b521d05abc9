/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What makes a segment what it is: its flags, and the numbers that it stands at. */
#ifndef TG_MARKS_H
#define TG_MARKS_H

#include "packet.h"

/* Host byte order. */
struct tg_marks {
	__u32 seq;
	__u32 ack;
	__u32 flags;
};

/* RFC 9293, section 3.10.7.1: those of the RST that answers a segment without a connection. */
TG_INLINE void tg_reset_marks(const struct tg_packet *p, struct tg_marks *r)
{
	if (p->flags & TG_TCP_ACK) {
		r->seq = p->ack;
		r->ack = 0;
		r->flags = TG_TCP_RST;
	} else {
		r->seq = 0;
		r->ack = p->seq + p->payload_bytes + !!(p->flags & TG_TCP_SYN) +
		         !!(p->flags & TG_TCP_FIN);
		r->flags = TG_TCP_RST | TG_TCP_ACK;
	}
}

#endif
