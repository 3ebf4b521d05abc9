/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The FIN stage: rst-fin. It stands at the IP entry only, for there a packet can
 * be sent besides the one that goes up.
 */
#ifndef TG_FIN_STAGE_H
#define TG_FIN_STAGE_H

#include "../../policy/include/fin.h"
#include "guard.h"
#include "said.h"
#include "socket.h"
#include "tc_packet.h"

#define TG_CLOSING_STATES                                                                          \
	(1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2 | 1u << TCP_CLOSE_WAIT | 1u << TCP_LAST_ACK |   \
	 1u << TCP_CLOSING)

TG_INLINE __u32 tg_connection_of(__u32 state)
{
	if (state == TCP_ESTABLISHED)
		return TG_CONNECTION_OPEN;
	return TG_CLOSING_STATES >> (state & 31) & 1 ? TG_CONNECTION_CLOSING : TG_CONNECTION_NONE;
}

TG_INLINE void tg_fin_read(struct bpf_sock *sk, struct tg_fin *fin)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	/* A subflow of MPTCP ends by rules of its own. */
	if (!tp || tp->is_mptcp)
		return;
	fin->connection = tg_connection_of(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state);
	fin->rcv_nxt = tp->rcv_nxt;
	fin->rcv_end = tp->rcv_wup + tp->rcv_wnd;
	fin->copied_seq = tp->copied_seq;
	fin->snd_una = tp->snd_una;
	fin->snd_nxt = tp->snd_nxt;
	fin->write_seq = tp->write_seq;
}

/* The verdict on a FIN: TG_RESET, or TG_PASS. *snd_nxt is the server's next sequence number. */
static __noinline __u32 tg_fin_stage(struct __sk_buff *ctx, struct tg_packet *p, __u32 *snd_nxt)
{
	struct tg_tcp_options seen = {};
	struct tg_decision decision;
	struct tg_place at = {};
	struct tg_fin fin = {};
	struct bpf_sock *sk;
	__u32 rule;

	if (!tg_find_guard(&p->tuple, &at) || at.guard->is_path)
		return TG_PASS;
	rule = at.guard->rules.fin;
	if (rule == TG_HALF_CLOSE && !tg_anyone_said())
		return TG_PASS;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (sk) {
		rule = tg_fin_rule_of(rule, tg_fin_said(sk));
		tg_fin_read(sk, &fin);
		bpf_sk_release(sk);
	}
	/* Nobody asks for anything: nothing to count. */
	if (rule == TG_HALF_CLOSE && at.guard->rules.fin == TG_HALF_CLOSE)
		return TG_PASS;
	fin.payload_bytes = p->payload_bytes;
	fin.seq = p->seq;
	fin.ack = p->ack;
	if (tg_tc_options(ctx, tg_options_offset(p), tg_options_end(p), &seen))
		fin.is_signed = seen.unanswerable;
	decision = tg_fin_decide(rule, &fin);
	/* Which listening socket an accepted connection came in by, nothing tells. */
	tg_count(at.index, decision);
	*snd_nxt = fin.snd_nxt;
	return decision.verdict;
}

/* The words of a TCP header of any length. */
#define TG_TCP_WORDS 15
#define TG_TCP_NOPS 0x01010101u
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

/* The RST to the client: behind all that is on its way there, as the kernel's own abort has it. */
TG_INLINE void tg_fin_answer(const struct tg_packet *p, __u32 snd_nxt, const __be32 *was,
                             __be32 *answer)
{
	answer[0] = p->tuple.dport | (__u32)p->tuple.sport << 16; /* as they lie in memory */
	answer[1] = bpf_htonl(snd_nxt);
	answer[2] = bpf_htonl(p->seq + 1);
	answer[3] = (was[3] & bpf_htonl(0xf0000000)) | bpf_htonl((TG_TCP_RST | TG_TCP_ACK) << 16);
	answer[4] = was[4] & bpf_htonl(0xffff0000); /* the checksum, brought up to date below */
#pragma unroll
	for (int i = 5; i < TG_TCP_WORDS; i++)
		answer[i] = TG_TCP_NOPS;
}

/*
 * Ends the connection. The FIN becomes a RST in its place and goes up: the kernel
 * drops the connection, what was not read stays readable, and the application
 * meets ECONNRESET. Before that the same packet, turned round, goes to the client.
 * Its length, its layout, and what a device knows of its checksum stay as they are.
 */
static __noinline int tg_fin_end(struct __sk_buff *ctx, const struct tg_packet *p, __u32 snd_nxt)
{
	__be32 was[TG_TCP_WORDS] = {}, answer[TG_TCP_WORDS], flags;
	__u32 l4 = p->l4_offset, check_at = l4 + __builtin_offsetof(struct tcphdr, check);
	__u32 bytes = p->tcp_header_bytes;
	__be16 hops, hops_back;
	long wrong;

	/* One bound after the other: the verifier loses sight of a range that was made in one. */
	if (bytes < sizeof(struct tcphdr))
		return TCX_NEXT;
	barrier_var(bytes);
	if (bytes > sizeof(was))
		return TCX_NEXT;
	barrier_var(bytes);
	if (bpf_skb_load_bytes(ctx, l4, was, bytes) ||
	    bpf_skb_load_bytes(ctx, tg_hops_at(p), &hops, sizeof(hops)))
		return TCX_NEXT;
	hops_back = tg_hops_back(p, hops);
	tg_fin_answer(p, snd_nxt, was, answer);
	wrong = tg_turn(ctx, p, p->tuple.daddr, p->tuple.saddr, hops, hops_back);
	wrong |= bpf_skb_store_bytes(ctx, l4, answer, bytes, 0);
	wrong |= bpf_l4_csum_replace(ctx, check_at, 0, bpf_csum_diff(was, bytes, answer, bytes, 0),
	                             0);
	/* A packet half changed is nobody's: the client sends its FIN again. */
	if (wrong)
		return TCX_DROP;
	/* Where this fails, the FIN that comes again meets no connection, and a RST. */
	bpf_clone_redirect(ctx, ctx->ifindex, 0);

	flags = (was[3] & bpf_htonl(0xff00ffff)) | bpf_htonl((TG_TCP_RST | TG_TCP_ACK) << 16);
	wrong = tg_turn(ctx, p, p->tuple.saddr, p->tuple.daddr, hops_back, hops);
	wrong |= bpf_skb_store_bytes(ctx, l4, was, bytes, 0);
	wrong |= bpf_skb_store_bytes(ctx, l4 + 12, &flags, sizeof(flags), 0);
	wrong |= bpf_l4_csum_replace(ctx, check_at, was[3], flags, sizeof(flags));
	return wrong ? TCX_DROP : TCX_NEXT;
}

#endif
