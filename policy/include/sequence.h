/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP's sequence numbers, which wrap: RFC 9293, section 3.4. */
#ifndef TG_SEQUENCE_H
#define TG_SEQUENCE_H

#include "types.h"

TG_INLINE int tg_before(__u32 a, __u32 b)
{
	return a - b > 0x7fffffff;
}

/* A SYN, and what else one datagram could hold. */
#define TG_SYN_BYTES_MOST 65536u

/*
 * Whether a socket in SYN-SENT has its SYN acknowledged, or data that went with it: write_seq is
 * behind that (RFC 9293, section 3.10.7.3; a server may take the SYN of a Fast Open and leave its
 * data, RFC 7413, section 4.2). snd_nxt counts them only once they have left, and over loopback the
 * answer has come by then.
 *
 * Where more lies between the two no SYN has been made: snd_una is still 0 when write_seq is the
 * initial sequence number already, until tcp_connect_init() (tcp_v4_connect(), Linux 4.11 to 6.18).
 * Half of all numbers would acknowledge such a one.
 */
TG_INLINE int tg_acks_syn(__u32 ack, __u32 snd_una, __u32 write_seq)
{
	__u32 sent = write_seq - snd_una;

	return ack - snd_una - 1 < sent && sent <= TG_SYN_BYTES_MOST;
}

#endif
