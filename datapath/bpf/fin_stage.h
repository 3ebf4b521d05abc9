/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The FIN stage: rst-fin. It stands at the IP entry only, for there a packet can
 * be sent besides the one that goes up.
 */
#ifndef TG_FIN_STAGE_H
#define TG_FIN_STAGE_H

#include "../../policy/include/fin.h"
#include "beside.h"
#include "guard.h"
#include "mptcp.h"
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
	if (!tp || tg_is_mptcp(tp))
		return;
	fin->connection = tg_connection_of(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state);
	fin->rcv_nxt = tp->rcv_nxt;
	fin->rcv_end = tp->rcv_wup + tp->rcv_wnd;
	fin->copied_seq = tp->copied_seq;
	fin->snd_una = tp->snd_una;
	fin->snd_nxt = tp->snd_nxt;
	fin->write_seq = tp->write_seq;
}

/*
 * The verdict on a FIN: TG_RESET, or TG_PASS. *snd_nxt is the server's next sequence number.
 * Global, as tg_shed is.
 */
__noinline __u32 tg_fin_stage(struct __sk_buff *ctx, struct tg_packet *p, __u32 *snd_nxt)
{
	struct tg_tcp_options seen = {};
	struct tg_decision decision;
	struct tg_place at = {};
	struct tg_fin fin = {};
	struct bpf_sock *sk;
	int stands = 0;
	__u32 rule;

	if (!p || !snd_nxt || !tg_find_guard(&p->tuple, &at) || at.guard->is_path)
		return TG_PASS;
	rule = at.guard->rules.fin;
	if (rule == TG_HALF_CLOSE && !tg_anyone_said())
		return TG_PASS;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (sk) {
		stands = sk->state != TCP_LISTEN;
		rule = tg_fin_rule_of(rule, tg_fin_said(sk));
		tg_fin_read(sk, &fin);
		bpf_sk_release(sk);
	}
	/* Nobody asks for anything: nothing to count. */
	if (rule == TG_HALF_CLOSE && at.guard->rules.fin == TG_HALF_CLOSE)
		return TG_PASS;
	/* A FIN of others' that is forwarded meets a listener on every address, or nothing. */
	if (!stands && !tg_is_local(ctx, &p->tuple, ctx->ifindex))
		return TG_PASS;
	fin.payload_bytes = p->payload_bytes;
	fin.seq = p->seq;
	fin.ack = p->ack;
	if (tg_tc_options(ctx, tg_options_offset(p), tg_options_end(p), &seen))
		fin.is_signed = seen.unanswerable;
	/* No RST of ours goes to its client: see tg_turn_into_answer(). */
	if (tg_tc_is_decrypted(ctx))
		fin.is_signed = 1;
	decision = tg_fin_decide(rule, &fin);
	/* Which listening socket an accepted connection came in by, nothing tells. */
	tg_count(at.index, decision);
	*snd_nxt = fin.snd_nxt;
	return decision.verdict;
}

/*
 * Ends the connection. The FIN becomes a RST in its place and goes up: the kernel
 * drops the connection, what was not read stays readable, and the application
 * meets ECONNRESET. Before that a RST goes to the client, behind all that is on
 * its way there, as the kernel's own abort has it.
 */
TG_INLINE int tg_fin_end(struct __sk_buff *ctx, const struct tg_packet *p, __u32 snd_nxt)
{
	struct tg_marks answer = {
		.seq = snd_nxt, .ack = p->seq + 1, .flags = TG_TCP_RST | TG_TCP_ACK};

	switch (tg_send_beside(ctx, p, &answer)) {
	case TG_BESIDE_NOT: return TCX_NEXT;
	/* A packet half changed is nobody's: the client sends its FIN again. */
	case TG_BESIDE_SPOILT: return TCX_DROP;
	/* Where none was sent, the FIN that comes again meets no connection, and a RST. */
	default: return tg_reset_in_place(ctx, p) ? TCX_NEXT : TCX_DROP;
	}
}

#endif
