/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SYN cookies of the kernel's own: whether an ACK brings one back (Linux 6.0). */
#ifndef TG_KERNEL_COOKIE_H
#define TG_KERNEL_COOKIE_H

#include "packet.h"

/* The helpers read addresses, ports and numbers, and nothing else of a header. */
TG_INLINE int tg_brings_kernel_cookie(const struct tg_packet *p)
{
	struct tcphdr tcp = {};

	tcp.source = p->tuple.sport;
	tcp.dest = p->tuple.dport;
	tcp.seq = bpf_htonl(p->seq);
	tcp.ack_seq = bpf_htonl(p->ack);
	if (p->tuple.is_ipv6) {
		struct ipv6hdr ip = {};

		__builtin_memcpy(&ip.saddr, p->tuple.saddr, sizeof(ip.saddr));
		__builtin_memcpy(&ip.daddr, p->tuple.daddr, sizeof(ip.daddr));
		return bpf_tcp_raw_check_syncookie_ipv6(&ip, &tcp) == 0;
	} else {
		struct iphdr ip = {};

		ip.saddr = p->tuple.saddr[0];
		ip.daddr = p->tuple.daddr[0];
		return bpf_tcp_raw_check_syncookie_ipv4(&ip, &tcp) == 0;
	}
}

#endif
