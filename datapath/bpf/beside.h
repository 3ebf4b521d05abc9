/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments beside one that goes on, at tc: an answer to its sender, in its place or besides, or a
 * RST behind it into our own kernel. The frame keeps its length, its layout, and what a device
 * knows of its checksum, so that it can be put back as it was.
 */
#ifndef TG_BESIDE_H
#define TG_BESIDE_H

#include "marks.h"
#include "tc_packet.h"

/* The words of a TCP header of any length. */
#define TG_TCP_WORDS 15
#define TG_TCP_NOPS 0x01010101u
/* Two NOPs, and time stamps: what Linux puts behind the header of all but SYNs. */
#define TG_TCP_STAMPED bpf_htonl(0x0101080a)
#define TG_TCP_STAMPED_BYTES 32
/* What a packet may have left of its journey, and still come back. */
#define TG_HOPS_LEAST 64

/* The half word with the hops that are left: TTL and protocol, or next header and hop limit. */
TG_INLINE __u32 tg_hops_at(const struct tg_packet *p)
{
	return p->l3_offset + (p->tuple.is_ipv6 ? 6 : 8);
}

TG_INLINE __be16 tg_hops_back(const struct tg_packet *p, __be16 hops)
{
	__u16 half = bpf_ntohs(hops);

	if (p->tuple.is_ipv6)
		return (half & 0xff) < TG_HOPS_LEAST ? bpf_htons((half & 0xff00) | TG_HOPS_LEAST)
		                                     : hops;
	return half >> 8 < TG_HOPS_LEAST ? bpf_htons((half & 0xff) | TG_HOPS_LEAST << 8) : hops;
}

/*
 * Turns the frame round: whoever sent it receives it. Addresses commute in every
 * checksum, so that only the hops change one.
 */
TG_INLINE long tg_turn(struct __sk_buff *ctx, const struct tg_packet *p, const __be32 *from,
                       const __be32 *to, __be16 was_hops, __be16 hops)
{
	__u32 l3 = p->l3_offset;
	__u16 link[6], turned[6];
	long wrong;

	wrong = bpf_skb_load_bytes(ctx, 0, link, sizeof(link));
#pragma unroll
	for (int i = 0; i < 3; i++) {
		turned[i] = link[3 + i];
		turned[3 + i] = link[i];
	}
	wrong |= bpf_skb_store_bytes(ctx, 0, turned, sizeof(turned), 0);
	wrong |= bpf_skb_store_bytes(ctx, tg_hops_at(p), &hops, sizeof(hops), 0);
	if (p->tuple.is_ipv6) {
		wrong |= bpf_skb_store_bytes(ctx, l3 + 8, from, 16, 0);
		wrong |= bpf_skb_store_bytes(ctx, l3 + 24, to, 16, 0);
	} else {
		wrong |= bpf_l3_csum_replace(ctx, l3 + 10, was_hops, hops, sizeof(hops));
		wrong |= bpf_skb_store_bytes(ctx, l3 + 12, from, 4, 0);
		wrong |= bpf_skb_store_bytes(ctx, l3 + 16, to, 4, 0);
	}
	return wrong;
}

/* A frame that was turned into an answer to its sender, and what puts it back. */
struct tg_turned {
	__be32 was[TG_TCP_WORDS]; /* the TCP header */
	__u32 bytes;              /* of it */
	__be16 hops;
	__be16 hops_back;
};

/* What became of it. */
enum tg_beside {
	TG_BESIDE_NOT, /* it cannot be turned, and is as it came */
	TG_BESIDE_SENT,
	TG_BESIDE_UNSENT, /* it is as it came */
	TG_BESIDE_SPOILT, /* half changed */
};

/*
 * The answer over a segment's header: where its options were are NOPs, but that an ACK has the
 * sender's time stamps the other way round, since it has seen ours that it echoes.
 */
TG_INLINE void tg_answer_words(const struct tg_packet *p, const struct tg_marks *r,
                               const __be32 *was, __be32 *words)
{
	words[0] = p->tuple.dport | (__u32)p->tuple.sport << 16; /* as they lie in memory */
	words[1] = bpf_htonl(r->seq);
	words[2] = bpf_htonl(r->ack);
	/* An ACK has the sender's own window back: it has nothing more to send into ours. */
	words[3] = was[3] & bpf_htonl(r->flags & TG_TCP_RST ? 0xf0000000 : 0xf000ffff);
	words[3] |= bpf_htonl(r->flags << 16);
	words[4] = was[4] & bpf_htonl(0xffff0000); /* the checksum, brought up to date later */
#pragma unroll
	for (int i = 5; i < TG_TCP_WORDS; i++)
		words[i] = TG_TCP_NOPS;
	if (!(r->flags & TG_TCP_RST) && was[5] == TG_TCP_STAMPED) {
		words[5] = was[5];
		words[6] = was[7];
		words[7] = was[6];
	}
}

/* Whether a segment's options are none that an ACK to it would have to do more about. */
TG_INLINE int tg_has_plain_options(const struct tg_packet *p, const __be32 *was)
{
	return p->tcp_header_bytes == sizeof(struct tcphdr) ||
	       (p->tcp_header_bytes == TG_TCP_STAMPED_BYTES && was[5] == TG_TCP_STAMPED);
}

/*
 * Turns a segment without payload into an answer to its sender, a RST or an ACK: SENT stands for
 * turned.
 */
static __noinline __u32 tg_turn_into_answer(struct __sk_buff *ctx, const struct tg_packet *p,
                                            const struct tg_marks *r, struct tg_turned *turned)
{
	__u32 l4 = p->l4_offset, check_at = l4 + __builtin_offsetof(struct tcphdr, check);
	__u32 bytes = p->tcp_header_bytes;
	__be32 words[TG_TCP_WORDS];
	long wrong;

	/* One bound after the other: the verifier loses sight of a range that was made in one. */
	if (p->payload_bytes || bytes < sizeof(struct tcphdr) || tg_tc_is_decrypted(ctx))
		return TG_BESIDE_NOT;
	barrier_var(bytes);
	if (bytes > sizeof(turned->was))
		return TG_BESIDE_NOT;
	barrier_var(bytes);
	if (bpf_skb_load_bytes(ctx, l4, turned->was, bytes) ||
	    bpf_skb_load_bytes(ctx, tg_hops_at(p), &turned->hops, sizeof(turned->hops)))
		return TG_BESIDE_NOT;
	if (!(r->flags & TG_TCP_RST) && !tg_has_plain_options(p, turned->was))
		return TG_BESIDE_NOT;
	turned->bytes = bytes;
	turned->hops_back = tg_hops_back(p, turned->hops);
	tg_answer_words(p, r, turned->was, words);
	wrong = tg_turn(ctx, p, p->tuple.daddr, p->tuple.saddr, turned->hops, turned->hops_back);
	wrong |= bpf_skb_store_bytes(ctx, l4, words, bytes, 0);
	wrong |= bpf_l4_csum_replace(ctx, check_at, 0,
	                             bpf_csum_diff(turned->was, bytes, words, bytes, 0), 0);
	return wrong ? TG_BESIDE_SPOILT : TG_BESIDE_SENT;
}

/* Sends an answer to the sender of a segment that goes on as it is; enum tg_beside. */
static __noinline __u32 tg_send_beside(struct __sk_buff *ctx, const struct tg_packet *p,
                                       const struct tg_marks *r)
{
	struct tg_turned turned = {};
	__u32 done = tg_turn_into_answer(ctx, p, r, &turned), bytes = turned.bytes;
	long sent;

	if (done != TG_BESIDE_SENT)
		return done;
	sent = bpf_clone_redirect(ctx, ctx->ifindex, 0);
	if (bytes < sizeof(struct tcphdr))
		return TG_BESIDE_SPOILT;
	barrier_var(bytes);
	if (bytes > sizeof(turned.was))
		return TG_BESIDE_SPOILT;
	barrier_var(bytes);
	if (tg_turn(ctx, p, p->tuple.saddr, p->tuple.daddr, turned.hops_back, turned.hops) ||
	    bpf_skb_store_bytes(ctx, p->l4_offset, turned.was, bytes, 0))
		return TG_BESIDE_SPOILT;
	return sent ? TG_BESIDE_UNSENT : TG_BESIDE_SENT;
}

/* Sets flags and numbers of a segment, checksum and all; 0 where it may be half changed. */
static __noinline int tg_set_marks(struct __sk_buff *ctx, __u32 l4, const struct tg_marks *r)
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
 * Makes a FIN without payload a RST in its place, which ends whatever stands at its sequence
 * number; 0 where it may be half changed.
 */
TG_INLINE int tg_reset_in_place(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_marks up = {.seq = p->seq, .ack = p->ack, .flags = TG_TCP_RST | TG_TCP_ACK};

	return tg_set_marks(ctx, p->l4_offset, &up);
}

/*
 * Has the kernel end a TIME_WAIT that this segment is about to begin: behind it comes, from the
 * same interface, a RST that stands where the other end's sequence numbers will (RFC 1337,
 * section 2, here on purpose). Nothing goes out. Should the RST overtake the segment, it is not
 * at the sequence number that a connection still open accepts it at.
 */
static __noinline void tg_end_behind(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_marks as_it_was = {.seq = p->seq, .ack = p->ack, .flags = p->flags};
	struct tg_marks behind = as_it_was;

	/* A copy would not be known as decrypted, and be dropped. */
	if (tg_tc_is_decrypted(ctx))
		return;
	behind.seq += p->payload_bytes + !!(p->flags & TG_TCP_FIN);
	behind.flags = TG_TCP_RST | TG_TCP_ACK;
	if (!tg_set_marks(ctx, p->l4_offset, &behind))
		return;
	bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS);
	tg_set_marks(ctx, p->l4_offset, &as_it_was);
}

#endif
