// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The IP entry, tc ingress: the ACK and FIN stages for every guard, and the SYN
 * stage for those that are decided here. For guards at the TCP entry the listening
 * socket is looked up here, by the kernel's own rule, and told of (told.h).
 */
#include "vmlinux.h"

#include "ack_stage.h"
#include "clock.h"
#include "cookie_reply.h"
#include "fin_stage.h"
#include "hollow_reply.h"
#include "police_stage.h"
#include "shed_stage.h"
#include "tc_packet.h"
#include "told.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TG_INLINE int tg_tc_answer(struct __sk_buff *ctx, const struct tg_packet *p,
                           const struct tg_reply *r)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	int partial = skb->ip_summed == CHECKSUM_PARTIAL;
	__u32 bytes = tg_reply_bytes(p, r);

	/* The device would finish the checksum where the old TCP header was. */
	if ((partial && !p->direct) || tg_tc_is_decrypted(ctx) || tg_tc_is_translated(ctx))
		return TCX_NEXT;
	/*
	 * Where GRO has noted the TCP header's place, a buffer is not cut before it; what then
	 * is left of long extension headers is padding of the link.
	 */
	if (bpf_skb_change_tail(ctx, bytes, 0) &&
	    (p->l4_offset <= bytes || bpf_skb_change_tail(ctx, p->l4_offset, 0)))
		return TCX_NEXT;
	if (!tg_write_reply((void *)(long)ctx->data, (void *)(long)ctx->data_end, p, r, partial))
		return TCX_DROP;
	return bpf_redirect(ctx->ifindex, 0);
}

TG_INLINE __u32 tg_tc_mtu(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	return tg_mtu_of(skb->dev, p->tuple.is_ipv6);
}

/* MPTCP: does it add a subflow to a connection that stands? */
TG_INLINE int tg_tc_joins(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_tcp_options seen = {};

	tg_tc_options(ctx, tg_options_offset(p), tg_options_end(p), &seen);
	return tg_adds_subflow(&seen);
}

/*
 * Tells the TCP entry of the listening socket: see netfilter.bpf.c. Returns 0 for what is judged
 * here instead: a SO_REUSEPORT socket, since which of its group gets a connection depends on the
 * client; and a SYN that finds TIME-WAIT, behind which there is a listener to be looked up.
 */
TG_INLINE int tg_tc_leave_to_tcp(struct __sk_buff *ctx, const struct tg_packet *p, __u32 guard)
{
	struct bpf_sock *sk = tg_lookup(ctx, &p->tuple, p->tuple.sport);
	struct tcp_sock *tp;
	int leaves = 1;

	if (!sk)
		return 1;
	tp = sk->state == TCP_LISTEN ? bpf_skc_to_tcp_sock(sk) : NULL;
	if (sk->state == TCP_TIME_WAIT ||
	    (tp && tp->inet_conn.icsk_inet.sk.__sk_common.skc_reuseport))
		leaves = 0;
	else if (tp && !tg_is_bound_below(tp, tg_tc_is_tagged(ctx, p)) &&
	         tg_is_local(ctx, &p->tuple, ctx->ifindex) &&
	         !(tg_is_mptcp(tp) && tg_tc_joins(ctx, p)))
		tg_tell_tcp_entry(&p->tuple, tp, tg_slot_of(tp, guard), bpf_ktime_get_ns());
	bpf_sk_release(sk);
	return leaves;
}

TG_INLINE int tg_tc_refuse(struct __sk_buff *ctx, struct tg_syn_stage *s, __u32 verdict)
{
	struct tg_reply *r = tg_hand_reply(s->hand);

	/* A cookie has its listener, which the verifier cannot know. */
	if (verdict == TG_COOKIE && s->socket.tp)
		tg_reply_cookie(s, tg_tc_mtu(ctx, s->packet), r);
	else
		tg_reply_at_once(s->packet, s->at, verdict, tg_syn_is_of_one(s), r);
	return tg_tc_answer(ctx, s->packet, r);
}

/* Global, as the next: what is known of the route is walked here alone. */
__noinline int tg_tc_way_back(struct __sk_buff *ctx, struct tg_packet *packet,
                              struct tg_way_back *way)
{
	return packet && way &&
	       tg_find_way_back(ctx, (void *)(long)ctx->data, (void *)(long)ctx->data_end,
	                        &packet->tuple, ctx->ifindex, way);
}

/*
 * Finds the listening socket, or 0 where none listens. Global, as tg_shed is: what the
 * verifier learns of a packet here would have it walk all that follows once more.
 */
__noinline int tg_tc_find(struct __sk_buff *ctx, struct tg_packet *packet,
                          struct tg_shed_call *call)
{
	if (!packet || !call ||
	    !tg_shed_find(ctx, packet, ctx->ifindex, tg_tc_is_tagged(ctx, packet), call))
		return 0;
	if (call->is_mptcp)
		call->joins = tg_tc_joins(ctx, packet);
	return 1;
}

/* Apart: with what is asked and told the caller would need more than 512 bytes of stack. */
static __noinline __u32 tg_tc_shed(struct __sk_buff *ctx, struct tg_packet *packet,
                                   const struct tg_place *at)
{
	struct tg_shed_call call = {};
	__u32 decided;

	tg_shed_call(&call, at, tg_now_ns(at->control));
	decided = tg_shed_ahead(packet, at, ctx->ifindex, call.now_ns);
	if (tg_shed_is_done(at->guard, decided))
		return tg_decision_unpack(decided).verdict;
	if (!at->guard->is_path && !tg_tc_find(ctx, packet, &call))
		return TG_PASS;
	return tg_shed_judge(ctx, packet, at, &call, decided);
}

/* Looks for room, and answers; or answers at once, where shed is the verdict. */
TG_INLINE int tg_tc_judge(struct __sk_buff *ctx, struct tg_syn_stage *s, __u32 shed, __u32 source)
{
	struct tg_packet *packet = s->packet;
	__u32 verdict = shed;

	if (shed)
		goto refuse;
	if (s->at->guard->hook == TG_HOOK_TCP) {
		if (tg_tc_leave_to_tcp(ctx, packet, s->at->index))
			return TCX_NEXT;
		source = tg_source_before(ctx, packet, s->at, ctx->ifindex);
	}
	tg_hand_begin(s->hand, source, tg_now_ns(s->at->control));
	if (!tg_find_listener(ctx, &packet->tuple, ctx->ifindex, tg_tc_is_tagged(ctx, packet),
	                      s->hand->syn.now_ns, s->at->index, &s->socket))
		return TCX_NEXT;
	if (tg_is_mptcp(s->socket.tp))
		s->hand->joins = tg_tc_joins(ctx, packet);
	if (tg_syn_assess(ctx, s, 1) && tg_tc_options(ctx, tg_options_offset(packet),
	                                              tg_options_end(packet), &s->hand->options))
		s->hand->syn.cookie_usable =
			tg_syn_cookie_usable(s, 0) && tg_tc_way_back(ctx, packet, &s->hand->way);
	verdict = tg_syn_conclude(s);
	switch (verdict) {
	case TG_DROP: return TCX_DROP;
	case TG_RESET:
	case TG_HOLLOW:
	case TG_COOKIE: break;
	default: return TCX_NEXT;
	}
refuse:
	return tg_tc_refuse(ctx, s, verdict);
}

/* The stages are functions of their own: each needs most of the 512 bytes of stack. */
static __noinline int tg_tc_room(struct __sk_buff *ctx, struct tg_packet *packet,
                                 struct tg_place *at, __u32 shed, __u32 source)
{
	struct tg_syn_stage stage = {.packet = packet, .at = at, .hand = tg_hand_take()};
	int action;

	if (!stage.hand)
		return TCX_NEXT;
	action = tg_tc_judge(ctx, &stage, shed, source);
	tg_hand_put(stage.hand);
	return action;
}

TG_INLINE int tg_tc_syn(struct __sk_buff *ctx, struct tg_packet *packet, int after_driver)
{
	__u32 source = TG_SOURCE_ANY;
	struct tg_place at = {};

	if (!tg_find_guard(&packet->tuple, &at))
		return TCX_NEXT;
	/* The TCP entry decides for its own whatever comes before. */
	if (at.guard->hook != TG_HOOK_TCP) {
		if (after_driver && at.guard->hook != TG_HOOK_IP)
			return TCX_NEXT;
		source = tg_source_before(ctx, packet, &at, ctx->ifindex);
		if (tg_shed_concerns(&at.guard->shed, source)) {
			__u32 verdict = tg_tc_shed(ctx, packet, &at);

			if (verdict == TG_DROP)
				return TCX_DROP;
			if (verdict == TG_RESET || verdict == TG_HOLLOW)
				return tg_tc_room(ctx, packet, &at, verdict, source);
		}
	}
	/* A path: what is behind it is another host's to say. */
	if (at.guard->is_path)
		return TCX_NEXT;
	return tg_tc_room(ctx, packet, &at, 0, source);
}

/*
 * abort: the kernel itself refuses, and drops its request, when the ACK has the
 * SYN bit set: tcp_check_req() answers a SYN in the window with RST (RFC 793's
 * fourth check; Linux 4.10 to 6.18). The segment moves to the window's left edge,
 * where the SYN itself does not lead out of it; the RST does not tell.
 */
TG_INLINE int tg_tc_abort(struct __sk_buff *ctx, const struct tg_packet *p, __u32 rcv_nxt)
{
	__u32 seq_at = p->l4_offset + __builtin_offsetof(struct tcphdr, seq);
	__u32 flags_at = p->l4_offset + __builtin_offsetof(struct tcphdr, flags) - 1;
	__u32 check_at = p->l4_offset + __builtin_offsetof(struct tcphdr, check);
	__be32 was_seq = bpf_htonl(p->seq), seq = bpf_htonl(rcv_nxt);
	__u16 was, is;

	if (bpf_skb_load_bytes(ctx, flags_at, &was, sizeof(was)))
		return TCX_NEXT;
	is = was | bpf_htons(TG_TCP_SYN);
	if (seq != was_seq) {
		if (bpf_l4_csum_replace(ctx, check_at, was_seq, seq, sizeof(seq)))
			return TCX_NEXT;
		bpf_skb_store_bytes(ctx, seq_at, &seq, sizeof(seq), 0);
	}
	if (bpf_l4_csum_replace(ctx, check_at, was, is, sizeof(is)))
		return TCX_NEXT;
	bpf_skb_store_bytes(ctx, flags_at, &is, sizeof(is), 0);
	return TCX_NEXT;
}

/*
 * Whoever has signed a segment has signed its number and its flags: tcp_inbound_hash() drops one
 * that was changed before any request is asked. (So it is with options that cannot be read.)
 */
TG_INLINE int tg_tc_is_signed(struct __sk_buff *ctx, const struct tg_packet *p)
{
	struct tg_tcp_options seen = {};

	tg_tc_options(ctx, tg_options_offset(p), tg_options_end(p), &seen);
	return seen.unanswerable;
}

TG_INLINE int tg_tc_ack_request(struct __sk_buff *ctx, struct bpf_sock *sk,
                                const struct tg_ack_stage *s)
{
	struct tcp_request_sock *req = bpf_skc_to_tcp_request_sock(sk);
	struct tg_decision decision;
	struct tcp_sock *listener;
	struct tg_ack ack = {};

	if (!req)
		return TCX_NEXT;
	listener = tg_untrusted(req->req.req.__req_common.skc_listener);
	if (listener->inet_conn.icsk_inet.sk.__sk_common.skc_state != TCP_LISTEN)
		return TCX_NEXT;
	tg_read_request(req, listener, s->packet, &ack);
	if (s->at.guard->rules.is_auto)
		tg_ack_hear_deferred(s, listener, &ack);
	if (s->at.guard->rules.ack == TG_ACK_RESET)
		ack.is_signed = tg_tc_is_signed(ctx, s->packet);
	decision = tg_ack_judge(s, listener, &ack);
	return decision.verdict == TG_RESET ? tg_tc_abort(ctx, s->packet, req->rcv_nxt) : TCX_NEXT;
}

TG_INLINE int tg_tc_ack_listener(struct __sk_buff *ctx, struct bpf_sock *sk,
                                 const struct tg_ack_stage *s, struct tg_decision *decision)
{
	struct tcp_sock *listener = bpf_skc_to_tcp_sock(sk);
	struct tg_cookie_options options = {};
	struct tg_tcp_options seen = {};
	struct tg_ack ack = {};
	int is_second;

	/* A segment of a connection of others' that is forwarded meets a listener on every address.
	 */
	if (!listener || tg_is_chosen(listener) ||
	    tg_is_bound_below(listener, tg_tc_is_tagged(ctx, s->packet)) ||
	    !tg_is_local(ctx, &s->packet->tuple, ctx->ifindex))
		return TCX_NEXT;
	is_second = tg_just_answered(s);
	if (tg_answers_hollow(s)) {
		*decision = tg_ack_hollow(s, listener, is_second);
		return TCX_NEXT;
	}
	if (is_second)
		return TCX_NEXT;
	ack.bare = tg_is_bare(s->packet);
	if (s->at.control->cookies_work && s->at.guard->takes_cookies &&
	    tg_open_cookie(s, &options))
		ack.cookie = TG_ACK_COOKIE;
	else if (tg_brings_kernel_cookie(s->packet))
		ack.cookie = TG_ACK_KERNEL_COOKIE;
	else if (tg_is_left(s))
		ack.cookie = TG_ACK_BEHIND;
	ack.was_told = tg_ack_brings_cookie(&ack) && tg_is_told(s);
	*decision = tg_ack_judge(s, listener, &ack);
	tg_ack_keep(s, &ack, *decision);
	if (decision->reason == TG_HANDSHAKE)
		tg_note_answered(s, 0);
	if (decision->verdict != TG_ADMIT)
		return TCX_NEXT;
	tg_tc_options(ctx, tg_options_offset(s->packet), tg_options_end(s->packet), &seen);
	if (tg_admit(ctx, listener, &options, &seen))
		tg_note_answered(s, 0);
	return TCX_NEXT;
}

TG_INLINE void tg_tc_hear(struct bpf_sock *sk, const struct tg_ack_stage *s)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (tp)
		tg_ack_hear(s, tp);
}

TG_INLINE int tg_tc_reset(struct __sk_buff *ctx, const struct tg_ack_stage *s, __u32 reason)
{
	__u32 is_of_one = reason == TG_HOLLOW_ANSWERED && tg_hollow_is_of_one(s->at.guard);
	struct tg_hand *hand = tg_hand_take();
	struct tg_reply *r;
	int action;

	if (!hand)
		return TCX_NEXT;
	r = tg_hand_reply(hand);
	tg_reply_refuse(s->packet, &s->at.guard->rules, is_of_one, r);
	action = tg_tc_answer(ctx, s->packet, r);
	tg_hand_put(hand);
	return action;
}

static __noinline int tg_tc_ack(struct __sk_buff *ctx, struct tg_packet *packet)
{
	struct tg_ack_stage stage = {.packet = packet}, *s = &stage;
	struct tg_decision decision = {};
	__u64 *until_ns;
	struct bpf_sock *sk;
	int action = TCX_NEXT;

	if (!tg_find_guard(&s->packet->tuple, &s->at))
		return TCX_NEXT;
	until_ns = bpf_map_lookup_elem(&watch_until_ns, &s->at.index);
	if (!until_ns)
		return TCX_NEXT;
	s->now_ns = tg_now_ns(s->at.control);
	if (tg_is_over(until_ns, s->now_ns))
		return TCX_NEXT;
	sk = tg_lookup(ctx, &s->packet->tuple, s->packet->tuple.sport);
	if (!sk)
		return TCX_NEXT;
	if (sk->state == TCP_NEW_SYN_RECV)
		action = tg_tc_ack_request(ctx, sk, s);
	else if (sk->state == TCP_LISTEN)
		action = tg_tc_ack_listener(ctx, sk, s, &decision);
	else if (sk->state == TCP_ESTABLISHED && s->at.guard->rules.is_auto)
		tg_tc_hear(sk, s);
	bpf_sk_release(sk);
	if (decision.verdict == TG_DROP)
		return TCX_DROP;
	return decision.verdict == TG_RESET ? tg_tc_reset(ctx, s, decision.reason) : action;
}

TG_INLINE int tg_tc_run(struct __sk_buff *ctx, int after_driver)
{
	struct tg_packet packet = {};
	__u32 snd_nxt = 0;

	if (ctx->pkt_type != PACKET_HOST)
		return TCX_NEXT;
	/* Asked before anything is fetched: what stands before a frame may not outlast that. */
	if (after_driver && tg_tc_is_unread(ctx))
		after_driver = 0;
	if (!tg_tc_parse(ctx, &packet))
		return TCX_NEXT;
	if (tg_is_syn(&packet) && tg_unicast(&packet.tuple, ctx->ifindex))
		return tg_tc_syn(ctx, &packet, after_driver);
	if ((packet.flags & (TG_TCP_ACK | TG_TCP_SYN | TG_TCP_RST)) != TG_TCP_ACK)
		return TCX_NEXT;
	if (packet.flags & TG_TCP_FIN) {
		__u32 verdict = tg_fin_stage(ctx, &packet, &snd_nxt);

		if (verdict == TG_RESET)
			return tg_fin_end(ctx, &packet, snd_nxt);
	}
	return tg_looks_up_acks(&packet.tuple) ? tg_tc_ack(ctx, &packet) : TCX_NEXT;
}

SEC("tcx/ingress")
int tidegate_ip(struct __sk_buff *ctx)
{
	return tg_tc_run(ctx, 0);
}

/* On an interface whose driver decides first. */
SEC("tcx/ingress")
int tidegate_ip_after_driver(struct __sk_buff *ctx)
{
	return tg_tc_run(ctx, 1);
}
