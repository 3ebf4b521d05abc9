/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way back to a client, for an answer by which whoever sees it is let in. The kernel's goes by
 * the route to the client's address, whoever sent the SYN; ours is the SYN's frame turned round.
 * So it goes to that route's next hop where the route leads back by the interface that the SYN came
 * in at, and else not at all.
 */
#ifndef TG_WAY_BACK_H
#define TG_WAY_BACK_H

#include "local.h"
#include "reply.h"

/* What a SYN/ACK of ours is at most: IPv6's header, TCP's, and options. */
#define TG_WAY_BACK_BYTES 100

struct tg_way_back {
	__u16 next_hop[3]; /* its hardware address; 0: whoever sent the frame */
	__u16 padding;
};

/* No route is asked for these: they are of the link that the frame came in by. */
TG_INLINE int tg_is_link_local(const struct tg_tuple *t)
{
	return t->is_ipv6 && (t->saddr[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

TG_INLINE __u32 tg_differ_link(const __u16 *a, const __u16 *b)
{
	return (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]);
}

/*
 * Is there one? Where the interface does not forward bpf_fib_lookup() tells no route (Linux 4.18 to
 * 6.18), and the answer goes to the sender. A program at a driver, or where a VLAN is judged below
 * it, stands at another interface than the route names, with the same hardware address; where that
 * asks for no neighbours (IFF_NOARP) the next hop has it, too. A next hop whose hardware address is
 * not known yet only the kernel asks for.
 */
TG_INLINE int tg_find_way_back(void *ctx, void *data, void *data_end, const struct tg_tuple *t,
                               __u32 ifindex, struct tg_way_back *way)
{
	struct bpf_fib_lookup fib = {};
	const __u16 *own = data, *next = (const __u16 *)fib.dmac;
	long answer;

	if (ifindex == TG_LOOPBACK_IFINDEX)
		return 1;
	fib.sport = t->dport;
	fib.dport = t->sport;
	fib.tot_len = TG_WAY_BACK_BYTES;
	answer = tg_ask_route(ctx, &fib, t->daddr, t->saddr, t->is_ipv6, ifindex);
	if (answer == BPF_FIB_LKUP_RET_FWD_DISABLED)
		return 1;
	if (answer == BPF_FIB_LKUP_RET_NOT_FWDED)
		return tg_is_link_local(t);
	if (answer != BPF_FIB_LKUP_RET_SUCCESS || data + sizeof(struct ethhdr) > data_end)
		return 0;
	if (fib.ifindex != ifindex && tg_differ_link((const __u16 *)fib.smac, own))
		return 0;
	if (tg_differ_link(next, (const __u16 *)fib.smac))
		__builtin_memcpy(way->next_hop, next, sizeof(way->next_hop));
	return 1;
}

#endif
