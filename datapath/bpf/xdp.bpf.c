// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The driver hook: the SYN stage before the kernel has spent anything on the
 * packet. Everything but a SYN passes after a few loads; but for what answers a
 * hollow SYN/ACK, while there are any.
 */
#include "vmlinux.h"

#include "ack_stage.h"
#include "cookie_reply.h"
#include "driver.h"
#include "police_stage.h"
#include "shed_stage.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TG_INLINE __u32 tg_xdp_mtu(struct xdp_md *ctx, const struct tg_packet *p)
{
	struct xdp_buff *xdp = bpf_cast_to_kern_ctx(ctx);

	return tg_mtu_of(xdp->rxq->dev, p->tuple.is_ipv6);
}

__noinline int tg_xdp_options(struct xdp_md *ctx, __u32 offset, __u32 end,
                              struct tg_tcp_options *options)
{
	if (!options)
		return 0;
	tg_read_options((void *)(long)ctx->data, (void *)(long)ctx->data_end, offset, end, options);
	return 1;
}

/* MPTCP: does it add a subflow to a connection that stands? */
TG_INLINE int tg_xdp_joins(struct xdp_md *ctx, const struct tg_packet *p)
{
	struct tg_tcp_options seen = {};

	tg_xdp_options(ctx, tg_options_offset(p), tg_options_end(p), &seen);
	return tg_adds_subflow(&seen);
}

/* Global, as the next: what is known of the route is walked here alone. */
__noinline int tg_xdp_way_back(struct xdp_md *ctx, struct tg_packet *packet,
                               struct tg_way_back *way)
{
	return packet && way &&
	       tg_find_way_back(ctx, (void *)(long)ctx->data, (void *)(long)ctx->data_end,
	                        &packet->tuple, ctx->ingress_ifindex, way);
}

/*
 * Finds the listening socket, or 0 where none listens. Global, as tg_shed is: what the
 * verifier learns of a packet here would have it walk all that follows once more.
 */
__noinline int tg_xdp_find(struct xdp_md *ctx, struct tg_packet *packet, struct tg_shed_call *call)
{
	if (!packet || !call ||
	    !tg_shed_find(ctx, packet, ctx->ingress_ifindex, tg_driver_is_tagged(ctx, packet),
	                  call))
		return 0;
	if (call->is_mptcp)
		call->joins = tg_xdp_joins(ctx, packet);
	return 1;
}

/*
 * Where the listener has a say. Apart: with what is asked and told the caller would need more than
 * 512 bytes of stack.
 */
static __noinline __u32 tg_xdp_shed_listener(struct xdp_md *ctx, struct tg_packet *packet,
                                             const struct tg_place *at, __u64 now_ns, __u32 decided)
{
	struct tg_shed_call call = {};

	tg_shed_call(&call, at, now_ns);
	if (!at->guard->is_path && !tg_xdp_find(ctx, packet, &call))
		return TG_PASS;
	return tg_shed_judge(ctx, packet, at, &call, decided);
}

/* In its caller: a call is a tenth of the whole where a processor pays for each return (SRSO). */
TG_INLINE __u32 tg_xdp_shed(struct xdp_md *ctx, struct tg_packet *packet, const struct tg_place *at,
                            __u64 now_ns)
{
	__u32 decided = tg_shed_ahead(packet, at, ctx->ingress_ifindex, now_ns);

	if (tg_shed_is_done(at->guard, decided))
		return tg_decision_unpack(decided).verdict;
	return tg_xdp_shed_listener(ctx, packet, at, now_ns, decided);
}

/*
 * How the answer leaves; above that, what is known of where the SYN comes from; and above that,
 * the verdict where it is made already.
 */
#define TG_XDP_SOURCE_SHIFT 1
#define TG_XDP_SOURCE_MASK 3
#define TG_XDP_VERDICT_SHIFT 3

TG_INLINE int tg_xdp_refuse(struct xdp_md *ctx, struct tg_syn_stage *s, __u32 verdict, __u32 how)
{
	struct tg_reply *r = tg_hand_reply(s->hand);

	/* A cookie has its listener, which the verifier cannot know. */
	if (verdict == TG_COOKIE && s->socket.tp)
		tg_reply_cookie(s, tg_xdp_mtu(ctx, s->packet), r);
	else
		tg_reply_at_once(s->packet, s->at, verdict, tg_syn_is_of_one(s), r);
	return tg_driver_answer(ctx, s->packet, r, how & TG_DRIVER_TRANSMIT);
}

/* Looks for room, and answers; or answers at once, where shed is the verdict. */
TG_INLINE int tg_xdp_judge(struct xdp_md *ctx, struct tg_syn_stage *s, __u64 now_ns, __u32 how)
{
	__u32 verdict = how >> TG_XDP_VERDICT_SHIFT;
	struct tg_packet *packet = s->packet;

	if (verdict)
		goto refuse;
	tg_hand_begin(s->hand, how >> TG_XDP_SOURCE_SHIFT & TG_XDP_SOURCE_MASK, now_ns);
	if (!tg_find_listener(ctx, &packet->tuple, ctx->ingress_ifindex,
	                      tg_driver_is_tagged(ctx, packet), now_ns, s->at->index, &s->socket))
		return XDP_PASS;
	if (tg_is_mptcp(s->socket.tp))
		s->hand->joins = tg_xdp_joins(ctx, packet);
	if (tg_syn_assess(ctx, s, 1) && tg_xdp_options(ctx, tg_options_offset(packet),
	                                               tg_options_end(packet), &s->hand->options))
		s->hand->syn.cookie_usable =
			tg_syn_cookie_usable(s, 1) && tg_xdp_way_back(ctx, packet, &s->hand->way);
	verdict = tg_syn_conclude(s);
	switch (verdict) {
	case TG_DROP: return XDP_DROP;
	case TG_RESET:
	case TG_HOLLOW:
	case TG_COOKIE: break;
	default: return XDP_PASS;
	}
refuse:
	return tg_xdp_refuse(ctx, s, verdict, how);
}

/* A function of its own: together with shedding it would need more than 512 bytes of stack. */
static __noinline int tg_xdp_room(struct xdp_md *ctx, struct tg_packet *packet, struct tg_place *at,
                                  __u64 now_ns, __u32 how)
{
	struct tg_syn_stage stage = {.packet = packet, .at = at, .hand = tg_hand_take()};
	int action;

	if (!stage.hand)
		return XDP_PASS;
	action = tg_xdp_judge(ctx, &stage, now_ns, how);
	tg_hand_put(stage.hand);
	return action;
}

/*
 * What answers a hollow SYN/ACK is answered where its SYN was: left to the entry of IP it costs
 * more than the SYN. A connection may stand on these addresses, and these numbers by chance.
 */
static __noinline int tg_xdp_hollow(struct xdp_md *ctx, struct tg_packet *packet, __u64 *until_ns,
                                    __u32 how)
{
	struct tg_ack_stage stage = {.packet = packet}, *s = &stage;
	struct tg_decision decision = {};
	struct tcp_sock *listener;
	struct bpf_sock *sk;

	if (!until_ns || !tg_driver_meets(ctx, packet, &s->at))
		return XDP_PASS;
	s->now_ns = tg_now_ns(s->at.control);
	if (tg_is_over(until_ns, s->now_ns))
		return XDP_PASS;
	if (!tg_answers_hollow(s))
		return XDP_PASS;
	sk = tg_lookup(ctx, &packet->tuple, packet->tuple.sport);
	if (!sk)
		return XDP_PASS;
	listener = sk->state == TCP_LISTEN ? bpf_skc_to_tcp_sock(sk) : NULL;
	if (listener)
		decision = tg_ack_hollow(s, listener, tg_just_answered(s));
	bpf_sk_release(sk);
	if (decision.verdict == TG_DROP)
		return XDP_DROP;
	if (decision.verdict != TG_RESET)
		return XDP_PASS;
	return tg_driver_refuse(ctx, packet, &s->at, TG_RESET, tg_hollow_is_of_one(s->at.guard),
	                        how);
}

/* Until when it may be such an answer, or NULL where it is none. */
TG_INLINE __u64 *tg_xdp_hollow_until(const struct tg_packet *packet)
{
	__u32 zero = 0;
	__u64 *until_ns = bpf_map_lookup_elem(&hollow_until_ns, &zero);

	if (!until_ns || !*until_ns)
		return NULL;
	return (packet->flags & (TG_TCP_ACK | TG_TCP_SYN | TG_TCP_RST)) == TG_TCP_ACK ? until_ns
	                                                                              : NULL;
}

/*
 * The same word, of which the verifier knows nothing any more: what it cannot know hides what is
 * added to it. Else it would walk all that follows once for each value.
 */
TG_INLINE __u32 tg_forget(__u32 word, __u64 unknown)
{
	__u64 sum = word + unknown;

	barrier_var(sum);
	return (__u32)(sum - unknown);
}

/* how stays a constant of each program until the end: clang 19 has no place for it on the stack. */
TG_INLINE int tg_xdp_run(struct xdp_md *ctx, __u32 how)
{
	struct tg_packet packet;
	__u64 now_ns, *hollow;
	struct tg_place at;
	__u32 source, found;

	if (!tg_driver_parse(ctx, &packet))
		return XDP_PASS;
	hollow = tg_xdp_hollow_until(&packet);
	if (hollow)
		return tg_xdp_hollow(ctx, &packet, hollow, how);
	if (!tg_driver_syn(ctx, &packet, &at))
		return XDP_PASS;
	now_ns = tg_now_ns(at.control);
	source = tg_source_before(ctx, &packet, &at, ctx->ingress_ifindex);
	found = source << TG_XDP_SOURCE_SHIFT;
	if (tg_shed_concerns(&at.guard->shed, source)) {
		__u32 verdict = tg_xdp_shed(ctx, &packet, &at, now_ns);

		if (verdict == TG_DROP)
			return XDP_DROP;
		if (verdict == TG_RESET || verdict == TG_HOLLOW)
			found |= verdict << TG_XDP_VERDICT_SHIFT;
	}
	found = tg_forget(found, now_ns);
	/* A path: what is behind it is another host's to say. */
	if (at.guard->is_path && !(found >> TG_XDP_VERDICT_SHIFT))
		return XDP_PASS;
	return tg_xdp_room(ctx, &packet, &at, now_ns, found | how);
}

SEC("xdp.frags")
int tidegate_driver(struct xdp_md *ctx)
{
	return tg_xdp_run(ctx, TG_DRIVER_TRANSMIT);
}

SEC("xdp.frags")
int tidegate_driver_veth(struct xdp_md *ctx)
{
	return tg_xdp_run(ctx, 0);
}
