/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RSTs that are sent beside a segment which goes on as it came: to its sender, or behind it
 * into our own kernel.
 */
#ifndef TG_END_RESET_H
#define TG_END_RESET_H

#include "packet.h"
#include "socket.h"

/* A TCP header without options, and with the most it can have. */
#define TG_TCP_BYTES 20
#define TG_TCP_BYTES_MOST 60
/* Up to here a header is rewritten: link with two tags, IPv6, TCP with every option. */
#define TG_REWRITE_MOST (22 + 40 + TG_TCP_BYTES_MOST)

struct tg_rewrite {
	__u8 was[128]; /* the frame's headers as they came, to be put back */
	__u8 is[128];
};

/* One for each processor: it is more than the stack has. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_rewrite);
} rewrites SEC(".maps");

struct tg_end_reset {
	__u32 seq; /* host byte order, as is ack */
	__u32 ack;
	__u32 flags;
};

TG_INLINE __u16 tg_fold_sum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

TG_INLINE void tg_swap_bytes(__u8 *a, __u8 *b, __u32 count)
{
	for (__u32 i = 0; i < count; i++) {
		__u8 was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

/*
 * Writes a RST to the sender over a segment, at its full length: payload there is none, and
 * where options stood are NOPs, so that the frame can be put back as it was. Only headers that
 * follow each other at once. Returns the length that was rewritten, 0 where it cannot be.
 */
static __noinline __u32 tg_write_reset(struct __sk_buff *ctx, const struct tg_packet *p,
                                       const struct tg_end_reset *r)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	__u32 zero = 0, l3 = p->l3_offset, l4, bytes, tcp_bytes = p->tcp_header_bytes;
	struct tg_rewrite *w = bpf_map_lookup_elem(&rewrites, &zero);
	__u32 *word;
	__u64 sum;

	if (!w || !p->direct || p->payload_bytes || l3 < 14 || l3 > 22 ||
	    tcp_bytes < TG_TCP_BYTES || tcp_bytes > TG_TCP_BYTES_MOST)
		return 0;
	l4 = l3 + (p->tuple.is_ipv6 ? 40 : 20);
	bytes = l4 + tcp_bytes;
	if (bytes < 54 || bytes > TG_REWRITE_MOST || bpf_skb_load_bytes(ctx, 0, w->was, bytes))
		return 0;
	__builtin_memcpy(w->is, w->was, sizeof(w->is));
	barrier_var(l3);
	l3 &= 31;
	tg_swap_bytes(&w->is[0], &w->is[6], 6);
	if (p->tuple.is_ipv6)
		tg_swap_bytes(&w->is[l3 + 8], &w->is[l3 + 24], 16);
	else
		tg_swap_bytes(&w->is[l3 + 12], &w->is[l3 + 16], 4);
	barrier_var(l4);
	word = (__u32 *)&w->is[l4 & 63];
	word[0] = p->tuple.dport | (__u32)p->tuple.sport << 16;
	word[1] = bpf_htonl(r->seq);
	word[2] = bpf_htonl(r->ack);
	word[3] = bpf_htonl((tcp_bytes / 4) << 28 | r->flags << 16);
	/* The device, or what is behind it, finishes the sum where it was left to it. */
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		word[4] &= 0xffff;
	else
		word[4] = 0;
	sum = (__u64)word[0] + word[1] + word[2] + word[3];
#pragma clang loop unroll(disable)
	for (__u32 i = 5; i < TG_TCP_BYTES_MOST / 4; i++) {
		if (i * 4 >= tcp_bytes)
			break;
		word[i] = 0x01010101;
		sum += 0x01010101;
	}
	if (skb->ip_summed != CHECKSUM_PARTIAL) {
		sum += bpf_htons(TG_IPPROTO_TCP) + bpf_htons((__u16)tcp_bytes);
		for (int i = 0; i < 4; i++)
			sum += (__u64)p->tuple.saddr[i] + p->tuple.daddr[i];
		word[4] = (__u16)~tg_fold_sum(sum);
	}
	if (bpf_skb_store_bytes(ctx, 0, w->is, bytes, BPF_F_RECOMPUTE_CSUM))
		return 0;
	return bytes;
}

/* The RST that answers a segment: RFC 9293, section 3.10.7.1. */
TG_INLINE void tg_answer_reset(const struct tg_packet *p, struct tg_end_reset *r)
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

/* Sends a RST to the sender of a segment that goes on as it is. */
static __noinline int tg_send_reset(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_end_reset r;
	__u32 bytes, zero = 0;
	struct tg_rewrite *w;
	long sent;

	tg_answer_reset(p, &r);
	bytes = tg_write_reset(ctx, p, &r);
	if (!bytes)
		return 0;
	sent = bpf_clone_redirect(ctx, ctx->ifindex, 0);
	w = bpf_map_lookup_elem(&rewrites, &zero);
	if (!w || bytes < 54 || bytes > TG_REWRITE_MOST ||
	    bpf_skb_store_bytes(ctx, 0, w->was, bytes, BPF_F_RECOMPUTE_CSUM))
		return 0;
	return sent == 0;
}

/* Sets flags and numbers of a segment, checksum and all. */
static __noinline int tg_set_segment(struct __sk_buff *ctx, __u32 l4, const struct tg_end_reset *r)
{
	__u32 flags_at = l4 + __builtin_offsetof(struct tcphdr, flags) - 1;
	__u32 check_at = l4 + __builtin_offsetof(struct tcphdr, check);
	__u32 seq_at = l4 + __builtin_offsetof(struct tcphdr, seq);
	__be32 was[2], is[2] = {bpf_htonl(r->seq), bpf_htonl(r->ack)};
	__u16 was_flags, is_flags;

	if (bpf_skb_load_bytes(ctx, flags_at, &was_flags, sizeof(was_flags)) ||
	    bpf_skb_load_bytes(ctx, seq_at, was, sizeof(was)))
		return 0;
	is_flags = (was_flags & bpf_htons(0xff00)) | bpf_htons((__u16)r->flags);
	if (bpf_l4_csum_replace(ctx, check_at, was[0], is[0], sizeof(is[0])) ||
	    bpf_l4_csum_replace(ctx, check_at, was[1], is[1], sizeof(is[1])) ||
	    bpf_l4_csum_replace(ctx, check_at, was_flags, is_flags, sizeof(is_flags)))
		return 0;
	bpf_skb_store_bytes(ctx, seq_at, is, sizeof(is), 0);
	bpf_skb_store_bytes(ctx, flags_at, &is_flags, sizeof(is_flags), 0);
	return 1;
}

/*
 * Has the kernel end a TIME_WAIT that this segment is about to begin: behind it comes, from the
 * same interface, a RST that stands where the other end's sequence numbers will (RFC 1337,
 * section 2, here on purpose). Nothing goes out. Should the RST overtake the segment, it is not
 * at the sequence number that a connection still open accepts it at.
 */
static __noinline void tg_end_behind(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_end_reset as_it_was = {.seq = p->seq, .ack = p->ack, .flags = p->flags};
	struct tg_end_reset behind = as_it_was;

	behind.seq += p->payload_bytes + !!(p->flags & TG_TCP_FIN);
	behind.flags = TG_TCP_RST | TG_TCP_ACK;
	if (!tg_set_segment(ctx, p->l4_offset, &behind))
		return;
	bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS);
	tg_set_segment(ctx, p->l4_offset, &as_it_was);
}

#endif
