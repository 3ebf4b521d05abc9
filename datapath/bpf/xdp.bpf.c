// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The driver hook: the SYN stage before the kernel has spent anything on the
 * packet. Everything but a SYN passes after a few loads.
 */
#include "vmlinux.h"

#include "cookie_reply.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TG_INLINE __u32 tg_xdp_mtu(struct xdp_md *ctx)
{
	struct xdp_buff *xdp = bpf_cast_to_kern_ctx(ctx);

	return xdp->rxq->dev->mtu;
}

/* Cuts the frame to the reply's length and writes it. */
TG_INLINE int tg_xdp_answer(struct xdp_md *ctx, const struct tg_packet *p, const struct tg_reply *r)
{
	long now_bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	/* Else the compiler folds the sum below into one that the verifier forbids. */
	barrier_var(now_bytes);
	if (bpf_xdp_adjust_tail(ctx, (int)tg_reply_bytes(p, r) - now_bytes))
		return 0;
	return tg_write_reply((void *)(long)ctx->data, (void *)(long)ctx->data_end, p, r, 0);
}

__noinline int tg_xdp_options(struct xdp_md *ctx, __u32 offset, __u32 end,
                              struct tg_tcp_options *options)
{
	if (!options)
		return 0;
	tg_read_options((void *)(long)ctx->data, (void *)(long)ctx->data_end, offset, end, options);
	return 1;
}

/*
 * tc is told whether a frame is for this host; here a bridge port or a
 * promiscuous interface shows what is for others, and where the host does not
 * forward, no look-up tells them apart.
 */
TG_INLINE int tg_xdp_for_this_host(struct xdp_md *ctx)
{
	struct xdp_buff *xdp = bpf_cast_to_kern_ctx(ctx);
	struct net_device *dev = xdp->rxq->dev;
	const __u16 *own = (const __u16 *)dev->dev_addr_shadow;
	const __u16 *to = (void *)(long)ctx->data;

	if ((void *)(to + 3) > (void *)(long)ctx->data_end)
		return 0;
	return to[0] == own[0] && to[1] == own[1] && to[2] == own[2];
}

/*
 * Finds the guard and the listening socket of a SYN that is to be judged here.
 * Returns 0 for every other packet.
 */
TG_INLINE int tg_xdp_syn(struct xdp_md *ctx, struct tg_syn_stage *s)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	/* A SYN whose data lies in further buffers of the driver is left to the kernel. */
	if (!tg_parse(data, data_end, data_end - data, s->packet) || !tg_is_syn(s->packet) ||
	    !tg_unicast(&s->packet->tuple))
		return 0;
	if (!tg_find_guard(&s->packet->tuple, &s->at))
		return 0;
	if (s->at.guard->hook != TG_HOOK_AUTO && s->at.guard->hook != TG_HOOK_DRIVER)
		return 0;
	if (!tg_xdp_for_this_host(ctx))
		return 0;
	s->now_ns = bpf_ktime_get_coarse_ns();
	return tg_find_listener(ctx, &s->packet->tuple, ctx->ingress_ifindex, s->now_ns,
	                        s->at.index, &s->socket);
}

TG_INLINE int tg_xdp_run(struct xdp_md *ctx, int transmit)
{
	struct tg_packet packet = {};
	struct tg_syn_stage s = {.packet = &packet};
	struct tg_reply r = {};

	if (!tg_xdp_syn(ctx, &s))
		return XDP_PASS;
	if (tg_syn_assess(ctx, &s, 1) &&
	    tg_xdp_options(ctx, tg_options_offset(&packet), tg_options_end(&packet), &s.options))
		s.syn.cookie_usable = tg_syn_cookie_usable(&s);
	switch (tg_syn_conclude(&s)) {
	case TG_DROP: return XDP_DROP;
	case TG_RESET: tg_reply_reset(&packet, &r); break;
	case TG_COOKIE: tg_reply_cookie(&s, tg_xdp_mtu(ctx), &r); break;
	default: return XDP_PASS;
	}
	if (!tg_xdp_answer(ctx, &packet, &r))
		return XDP_DROP;
	return transmit == XDP_TX ? XDP_TX : bpf_redirect(ctx->ingress_ifindex, 0);
}

SEC("xdp.frags")
int tidegate_driver(struct xdp_md *ctx)
{
	return tg_xdp_run(ctx, XDP_TX);
}

/*
 * For veth: XDP_TX there needs an XDP program on the peer and otherwise stalls
 * silently; a redirect to the own interface is satisfied by GRO on the peer.
 */
SEC("xdp.frags")
int tidegate_driver_veth(struct xdp_md *ctx)
{
	return tg_xdp_run(ctx, XDP_REDIRECT);
}
