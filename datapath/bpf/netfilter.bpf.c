// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The TCP entry, netfilter local-in: behind routing and the host's own
 * firewall, just before TCP. A program here can accept or drop, and look
 * nothing up: it is told of the listening socket at the IP entry.
 *
 * It is also where reserv learns that TCP is about to see a SYN which an
 * earlier hook let through: between the two lies a whole batch of the driver.
 */
#include "vmlinux.h"

#include "police_stage.h"
#include "syn_stage.h"
#include "told.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym;
void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 offset, void *buffer,
                       __u32 buffer__szk) __ksym;

/* Where TCP begins behind IPv6's header, or 0: as at the earlier hooks, see tg_parse_ipv6(). */
TG_INLINE __u32 tg_nf_behind_extensions(const struct bpf_dynptr *packet, __u32 next)
{
	__u32 offset = sizeof(struct ipv6hdr);

	for (int i = 0; i < TG_IPV6_EXTENSIONS; i++) {
		__u8 buffer[4], *ext;
		__u32 bytes;

		if (next == TG_IPPROTO_TCP)
			break;
		ext = bpf_dynptr_slice(packet, offset, buffer, sizeof(buffer));
		bytes = ext ? tg_extension_bytes(ext, next, !i) : 0;
		if (!bytes)
			return 0;
		next = ext[0];
		offset += bytes;
	}
	return next == TG_IPPROTO_TCP ? offset : 0;
}

/* The segment from the network header on; fills what the SYN stage needs. */
TG_INLINE int tg_nf_parse(struct bpf_nf_ctx *ctx, struct tg_packet *p)
{
	struct tcphdr tcp_buffer, *tcp;
	struct bpf_dynptr packet;

	if (bpf_dynptr_from_skb(ctx->skb, 0, &packet))
		return 0;
	/*
	 * Of the packet, not of the hook: a structure of which no field is read is only a name in
	 * this object's types, and the kernel would not take bpf_dynptr_from_skb() with that.
	 */
	if (ctx->skb->protocol == bpf_htons(TG_ETH_P_IPV6)) {
		struct ipv6hdr buffer, *ip = bpf_dynptr_slice(&packet, 0, &buffer, sizeof(buffer));

		if (!ip)
			return 0;
		__builtin_memcpy(p->tuple.saddr, &ip->saddr, 16);
		__builtin_memcpy(p->tuple.daddr, &ip->daddr, 16);
		p->tuple.is_ipv6 = 1;
		p->l4_offset = tg_nf_behind_extensions(&packet, ip->nexthdr);
		if (!p->l4_offset)
			return 0;
	} else {
		struct iphdr buffer, *ip = bpf_dynptr_slice(&packet, 0, &buffer, sizeof(buffer));

		if (!ip || ip->protocol != TG_IPPROTO_TCP)
			return 0;
		p->tuple.saddr[0] = ip->saddr;
		p->tuple.daddr[0] = ip->daddr;
		p->tuple.is_ipv6 = 0;
		p->l4_offset = ip->ihl * 4;
	}
	tcp = bpf_dynptr_slice(&packet, p->l4_offset, &tcp_buffer, sizeof(tcp_buffer));
	if (!tcp)
		return 0;
	p->tuple.sport = tcp->source;
	p->tuple.dport = tcp->dest;
	p->flags = tcp->flags;
	return 1;
}

SEC("netfilter")
int tidegate_tcp(struct bpf_nf_ctx *ctx)
{
	struct tg_packet packet = {};
	struct tg_place at = {};
	struct tg_syn_stage s = {.packet = &packet, .at = &at};
	__u32 verdict;
	__u64 now_ns;
	int reserve;

	if (!tg_nf_parse(ctx, &packet) || !tg_is_syn(&packet))
		return NF_ACCEPT;
	if (!tg_find_guard(&packet.tuple, &at))
		return NF_ACCEPT;
	reserve = at.guard->rules.room == TG_ROOM_RESERVE;
	now_ns = bpf_ktime_get_ns(); /* the coarse clock is not to be had in this type */
	/*
	 * Judged at an earlier hook, as SO_REUSEPORT groups always are, or not to be judged: it has
	 * a request, or came by an interface that is not guarded.
	 */
	if (at.guard->hook != TG_HOOK_TCP ||
	    !tg_told_at_tcp_entry(&packet.tuple, now_ns, &s.socket)) {
		if (reserve)
			tg_settle_later(at.guard->claims_index, now_ns);
		return NF_ACCEPT;
	}
	s.hand = tg_hand_take();
	if (!s.hand)
		return NF_ACCEPT;
	tg_hand_begin(s.hand, tg_source_of(&packet, &at), now_ns);
	tg_syn_assess(ctx, &s, 0);
	verdict = tg_syn_conclude(&s);
	tg_hand_put(s.hand);
	if (verdict == TG_DROP)
		return NF_DROP;
	if (reserve)
		tg_settle_later(at.guard->claims_index, now_ns);
	return NF_ACCEPT;
}
