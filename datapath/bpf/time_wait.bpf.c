// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The packets' side of who holds TIME-WAIT, at the IP entry and exit. A program here can do
 * what no socket's can: end the kernel's TIME_WAIT, reset the other end's, and block a pair.
 *
 * Looked at: SYNs and RSTs while any pair is held, FINs, and ACKs to a port that waits for one
 * of them. All else leaves after one load.
 */
#include "vmlinux.h"

#include "beside.h"
#include "ends.h"
#include "held_table.h"
#include "socket.h"
#include "tc_packet.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * What follows is global, so that the verifier walks each once and not once for every way that
 * leads there. It says what is left to do with the packet, which is done where the stack is empty.
 */
enum tg_end_left {
	TG_END_NOTHING,
	TG_END_SWAP,   /* the other end need not wait: we do */
	TG_END_LEAVE,  /* the other end waits: we need not */
	TG_END_REFUSE, /* this connection is not to be */
};

/* A FIN to a socket that closed first, and whose TIME-WAIT is the other end's. */
__noinline int tg_end_fin(struct __sk_buff *ctx, const struct tg_packet *p)
{
	int last = 0, is_orphan = 1;
	struct tcp_timewait_sock *tw;
	struct tg_leaving *l;
	struct tcp_sock *tp;
	struct bpf_sock *sk;

	l = p ? bpf_map_lookup_elem(&leaving, &p->tuple) : NULL;
	/* With our own FIN acknowledged: else both closed at once, and an ACK is to come. */
	if (!l || p->ack != l->fin_seq + 1)
		return TG_END_NOTHING;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (!sk)
		return TG_END_NOTHING;
	if (sk->state == TCP_TIME_WAIT) {
		tw = bpf_skc_to_tcp_timewait_sock(sk);
		last = tw && tw->tw_sk.tw_substate == TCP_FIN_WAIT2 &&
		       tw->tw_sk.__tw_common.skc_tw_rcv_nxt == p->seq;
	} else if (sk->state == TCP_FIN_WAIT1 || sk->state == TCP_FIN_WAIT2) {
		tp = bpf_skc_to_tcp_sock(sk);
		last = tp && tp->rcv_nxt == p->seq;
		/* Else a program has it, and is to read that the connection is over. */
		is_orphan = last && tg_has_flag(tp, SOCK_DEAD);
	}
	bpf_sk_release(sk);
	if (!last)
		return TG_END_NOTHING;
	if (is_orphan && !p->payload_bytes)
		return TG_END_LEAVE;
	tg_end_behind(ctx, p);
	return TG_END_NOTHING;
}

/* A RST on a pair that is leaving: ours, from tg_end_behind, or one from the wire. */
__noinline int tg_end_rst(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_control *c = tg_control_of();
	struct tcp_timewait_sock *tw;
	struct tg_leaving *l, copy;
	struct bpf_sock *sk;
	__u32 state = 0;
	int ends = 1;

	if (!p || !c)
		return TCX_NEXT;
	l = bpf_map_lookup_elem(&leaving, &p->tuple);
	if (!l)
		return TCX_NEXT;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (sk) {
		state = sk->state;
		if (state == TCP_TIME_WAIT) {
			/*
			 * No other ends TIME_WAIT, and anyone may have sent it
			 * (tcp_timewait_state_process(); of FIN_WAIT2 any of the window does,
			 * and then what we know of it stays until it is the oldest).
			 */
			tw = bpf_skc_to_tcp_timewait_sock(sk);
			ends = tw && tw->tw_sk.__tw_common.skc_tw_rcv_nxt == p->seq;
		}
		bpf_sk_release(sk);
	}
	/* The program that has the socket is busy with it, and both segments wait for it there. */
	if (!ends || (state && state != TCP_TIME_WAIT && state != TCP_LISTEN))
		return TCX_NEXT;
	if (state == TCP_TIME_WAIT && c->rfc1337) {
		copy = *l;
		bpf_map_update_elem(&late, &p->tuple, &copy, BPF_ANY);
	} else {
		bpf_map_delete_elem(&late, &p->tuple);
	}
	bpf_map_delete_elem(&leaving, &p->tuple);
	if (state == TCP_TIME_WAIT && !c->rfc1337)
		tg_count_end(TG_TW_LEFT);
	return TCX_NEXT;
}

/* An ACK to a port at which a socket waits for one that ends it. */
__noinline int tg_end_ack(struct __sk_buff *ctx, const struct tg_packet *p)
{
	__u32 ending = TG_TW_USUAL;
	struct tg_agreement *a;
	struct tg_held pair;
	struct tcp_sock *tp;
	struct bpf_sock *sk;

	if (!p)
		return TG_END_NOTHING;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (!sk)
		return TG_END_NOTHING;
	if (sk->state != TCP_LAST_ACK && sk->state != TCP_CLOSING) {
		bpf_sk_release(sk);
		return TG_END_NOTHING;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	a = bpf_sk_storage_get(&agreements, sk, NULL, 0);
	if (tp && a && tp->rcv_nxt == p->seq && p->ack == a->fin_seq + 1) {
		__u32 close = sk->state == TCP_LAST_ACK ? TG_TW_PASSIVE : TG_TW_ACTIVE;

		ending = tg_tw_end(a->holder, a->us, close, a->close_swap);
		tg_pair_of(&p->tuple, 0, &pair);
		tg_pair_numbers(tp, &pair);
		pair.flags |= TG_HELD_SWAPPED;
	}
	bpf_sk_release(sk);
	if (ending == TG_TW_LEAVE)
		tg_end_behind(ctx, p);
	/* Through IPsec no RST of ours goes back, and the pair would be held in vain. */
	if (ending != TG_TW_SWAP || tg_tc_is_decrypted(ctx))
		return TG_END_NOTHING;
	if (tg_hold(&pair, 0) != TG_HELD_NO_ROOM)
		return TG_END_SWAP;
	tg_count_end(TG_TW_NO_ROOM);
	return TG_END_NOTHING;
}

/* A segment with SYN or RST on a pair that may be held; enum tg_held_verdict. */
__noinline __u32 tg_end_judge(struct __sk_buff *ctx, const struct tg_packet *p, int outgoing)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct tg_held_segment segment = {};
	struct tg_tcp_options options = {};
	struct tg_held_blocks blocks;
	struct tg_held pair, *cell;
	__u32 verdict;

	if (!p || tg_held_until_ns() < now_ns)
		return TG_HELD_PASS;
	tg_pair_of(&p->tuple, outgoing, &pair);
	if (!tg_held_blocks_of(&pair, &blocks))
		return TG_HELD_PASS;
	cell = tg_held_get(blocks.one, blocks.other, &pair, now_ns);
	if (!cell)
		return TG_HELD_PASS;
	segment.seq = p->seq;
	segment.outgoing = outgoing;
	segment.syn = !!(p->flags & TG_TCP_SYN);
	segment.ack = !!(p->flags & TG_TCP_ACK);
	segment.rst = !!(p->flags & TG_TCP_RST);
	tg_tc_options(ctx, tg_options_offset(p), tg_options_end(p), &options);
	segment.has_ts = tg_has_option(&options, TG_OPTION_TIMESTAMPS);
	segment.ts = options.tsval;
	verdict = tg_held_judge(cell, &segment);
	if (verdict == TG_HELD_REOPEN) {
		/* Once: the SYN/ACK is as safe as the SYN, and either may come again. */
		if (!(cell->flags & TG_HELD_REOPENED))
			tg_count_end(TG_TW_REOPENED);
		cell->flags |= TG_HELD_REOPENED;
	} else if (verdict == TG_HELD_BLOCK) {
		tg_count_end(TG_TW_BLOCKED);
	}
	return verdict;
}

/* Our option among a segment's; the same bounds as tg_read_options. */
__noinline int tg_find_tw_option(struct __sk_buff *ctx, const struct tg_packet *p,
                                 struct tg_tw_value *value)
{
	struct tg_tw_option option = {};
	__u8 head[TG_TW_HEAD_BYTES];
	__u32 offset, end;

	if (!p || !value)
		return 0;
	offset = tg_options_offset(p);
	end = tg_options_end(p);
#pragma clang loop unroll(disable)
	for (int i = 0; i < TG_OPTIONS_READ; i++) {
		if (offset + TG_TW_HEAD_BYTES > end ||
		    bpf_skb_load_bytes(ctx, offset, head, sizeof(head)))
			return 0;
		if (head[0] == TG_OPTION_END)
			return 0;
		if (head[0] == TG_OPTION_NOP) {
			offset++;
			continue;
		}
		if (head[1] < 2)
			return 0;
		if (head[0] == TG_TW_KIND && offset + head[1] <= end) {
			if (head[1] == TG_TW_IPV4_BYTES)
				bpf_skb_load_bytes(ctx, offset, &option, TG_TW_IPV4_BYTES);
			else if (head[1] == TG_TW_IPV6_BYTES)
				bpf_skb_load_bytes(ctx, offset, &option, TG_TW_IPV6_BYTES);
			tg_tw_read(&option, value);
			if (value->family)
				return 1;
		}
		offset += head[1];
	}
	return 0;
}

/*
 * A SYN that asks whom to hold, to a guard that would. What comes on that pair is met here: if its
 * socket has it by the same addresses and ports, a SYN/ACK may say that we hold. Through IPsec ours
 * would not be met on their way out. One that comes again does not undo what its SYN/ACK has said.
 */
__noinline int tg_end_ask(struct __sk_buff *ctx, const struct tg_packet *p)
{
	__u32 met = TG_TW_SYN_MET, *syn;
	struct tg_tw_value value = {};
	struct tg_place at = {};

	if (!p || !tg_find_guard(&p->tuple, &at) || at.guard->time_wait.negotiate != TG_TW_SERVER ||
	    tg_tc_is_decrypted(ctx) || !tg_find_tw_option(ctx, p, &value))
		return 0;
	syn = bpf_map_lookup_elem(&asking, &p->tuple);
	if (!syn || *syn != TG_TW_SYN_TOLD)
		bpf_map_update_elem(&asking, &p->tuple, &met, BPF_ANY);
	return 0;
}

/*
 * Step 3 of the negotiation, at a client: a choice that is not acceptable ends the connection
 * as though it failed to synchronize. The same where both opened at once, by Table 1. *snd_nxt is
 * then our next sequence number.
 */
__noinline int tg_end_syn(struct __sk_buff *ctx, const struct tg_packet *p, __u32 *snd_nxt)
{
	struct tg_tw_value value = {}, own, use;
	__u32 verdict = TG_TW_TODAY, ack, decrypted;
	struct tg_tw_rules *rules;
	struct tg_tuple t = {};
	struct tg_agreement *a;
	struct tcp_sock *tp;
	struct bpf_sock *sk;

	if (!p || !snd_nxt)
		return TG_END_NOTHING;
	ack = p->flags & TG_TCP_ACK;
	t.is_ipv6 = p->tuple.is_ipv6;
	rules = tg_destination_rules(p->tuple.saddr, t.is_ipv6);
	if (!rules || !rules->negotiate || !tg_find_tw_option(ctx, p, &value))
		return TG_END_NOTHING;
	sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	if (!sk)
		return TG_END_NOTHING;
	a = sk->state == TCP_SYN_SENT ? bpf_sk_storage_get(&agreements, sk, NULL, 0) : NULL;
	tp = a ? bpf_skc_to_tcp_sock(sk) : NULL;
	/* Through IPsec we do not hold; and there who opens at once with us has said nothing. */
	decrypted = tg_tc_is_decrypted(ctx);
	if (a && tp && (ack ? tg_acks_syn(p->ack, tp->snd_una, tp->write_seq) : !decrypted)) {
		a->is_met = !decrypted;
		*snd_nxt = tp->write_seq;
		__builtin_memcpy(t.saddr, p->tuple.daddr, 16);
		__builtin_memcpy(t.daddr, p->tuple.saddr, 16);
		use = value;
		if (!ack) {
			a->peer = value;
			tg_tw_name(&t, a->offered, &own);
			tg_tw_simultaneous(&own, &value, &use);
		}
		verdict = tg_tw_judge(rules, a->offered, tg_tw_named(&t, &use), 1);
	}
	bpf_sk_release(sk);
	if (verdict != TG_TW_RESET)
		return TG_END_NOTHING;
	tg_count_end(TG_TW_REFUSED);
	return TG_END_REFUSE;
}

/*
 * The last FIN of a connection that nobody here has any more, and that waits at the other end: the
 * ACK to it, which is all that our TIME-WAIT would have sent, and what is left of the socket ends
 * with a RST in the FIN's place. One segment comes up instead of two, and no TIME-WAIT is made.
 */
TG_INLINE int tg_end_leave(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_marks ack = {.seq = p->ack, .ack = p->seq + 1, .flags = TG_TCP_ACK};
	__u32 done = tg_send_beside(ctx, p, &ack);

	if (done == TG_BESIDE_SPOILT)
		return TCX_DROP;
	if (done != TG_BESIDE_SENT) {
		tg_end_behind(ctx, p);
		return TCX_NEXT;
	}
	if (!tg_reset_in_place(ctx, p))
		return TCX_DROP;
	bpf_map_delete_elem(&leaving, &p->tuple);
	tg_count_end(TG_TW_LEFT);
	return TCX_NEXT;
}

/* The RST that answers a segment, beside it; enum tg_beside. */
static __noinline __u32 tg_answer_beside(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_marks answer;

	tg_reset_marks(p, &answer);
	return tg_send_beside(ctx, p, &answer);
}

/* close_swap: the server acknowledged our FIN, and waits. It need not: this pair is held here. */
TG_INLINE int tg_end_swap(struct __sk_buff *ctx, const struct tg_packet *p)
{
	__u32 done = tg_answer_beside(ctx, p);

	/* Lost, or not to be sent: both wait, as after a simultaneous close. */
	tg_count_end(done == TG_BESIDE_SENT ? TG_TW_SWAPPED : TG_TW_HELD);
	return done == TG_BESIDE_SPOILT ? TCX_DROP : TCX_NEXT;
}

/* A RST to the other end, whose request is gone; and one up, where connect() fails. */
TG_INLINE int tg_end_connect(struct __sk_buff *ctx, const struct tg_packet *p, __u32 snd_nxt)
{
	/* No more than it acknowledges: data that went with the SYN may not have left. */
	struct tg_marks up = {.ack = p->flags & TG_TCP_ACK ? p->ack : snd_nxt,
	                      .flags = TG_TCP_RST | TG_TCP_ACK};

	if (tg_answer_beside(ctx, p) == TG_BESIDE_SPOILT)
		return TCX_DROP;
	tg_set_marks(ctx, p->l4_offset, &up);
	return TCX_NEXT;
}

TG_INLINE __u32 tg_port_waits(const struct tg_packet *p)
{
	struct tg_closing_ports *ports;
	__u32 zero = 0;

	ports = bpf_map_lookup_elem(&closing_ports, &zero);
	return ports && ports->sockets[tg_port_place(p->tuple.dport)];
}

SEC("tcx/ingress")
int tidegate_ends_in(struct __sk_buff *ctx)
{
	struct tg_packet packet = {};
	__u32 snd_nxt = 0;

	if (ctx->pkt_type != PACKET_HOST || !tg_tc_parse(ctx, &packet))
		return TCX_NEXT;
	if (packet.flags & TG_TCP_SYN) {
		if (tg_end_judge(ctx, &packet, 0) == TG_HELD_BLOCK)
			return TCX_DROP;
		if (tg_is_syn(&packet))
			tg_end_ask(ctx, &packet);
		if (tg_end_syn(ctx, &packet, &snd_nxt) == TG_END_REFUSE)
			return tg_end_connect(ctx, &packet, snd_nxt);
		return TCX_NEXT;
	}
	if (packet.flags & TG_TCP_RST)
		return tg_end_rst(ctx, &packet);
	if (packet.flags & TG_TCP_FIN) {
		if (tg_end_fin(ctx, &packet) == TG_END_LEAVE)
			return tg_end_leave(ctx, &packet);
		return TCX_NEXT;
	}
	if (packet.flags & TG_TCP_ACK && tg_port_waits(&packet) &&
	    tg_end_ack(ctx, &packet) == TG_END_SWAP)
		return tg_end_swap(ctx, &packet);
	return TCX_NEXT;
}

/* A SYN of our own on a held pair: connect() learns at once that these addresses are taken. */
static __noinline int tg_end_refuse(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_turned turned = {};
	struct tg_marks answer;

	tg_reset_marks(p, &answer);
	if (tg_turn_into_answer(ctx, p, &answer, &turned) != TG_BESIDE_SENT)
		return TCX_DROP;
	return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
}

SEC("tcx/egress")
int tidegate_ends_out(struct __sk_buff *ctx)
{
	struct tg_packet packet = {};

	/* Most hosts never hold one: then it ends here, before the clock is read. */
	if (!tg_held_until_ns() || !tg_tc_parse(ctx, &packet) ||
	    !(packet.flags & (TG_TCP_SYN | TG_TCP_RST)))
		return TCX_NEXT;
	if (tg_end_judge(ctx, &packet, 1) != TG_HELD_BLOCK)
		return TCX_NEXT;
	return tg_is_syn(&packet) ? tg_end_refuse(ctx, &packet) : TCX_DROP;
}
