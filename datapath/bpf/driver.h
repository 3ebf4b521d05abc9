/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every program at a driver does: it finds the SYNs that concern it, and answers. */
#ifndef TG_DRIVER_H
#define TG_DRIVER_H

#include "clock.h"
#include "guard.h"
#include "hand.h"
#include "hollow_reply.h"
#include "kfuncs.h"

#include <bpf/bpf_core_read.h>

/*
 * tc is told whether a frame is for this host; here a bridge port or a
 * promiscuous interface shows what is for others, and where the host does not
 * forward, no look-up tells them apart.
 */
TG_INLINE int tg_driver_concerns(struct xdp_md *ctx)
{
	struct xdp_buff *xdp = bpf_cast_to_kern_ctx(ctx);
	struct net_device *dev = xdp->rxq->dev;
	/* At once, since every load by a pointer that the kernel cannot vouch for is watched. */
	__u64 own = *(const __u64 *)((const char *)dev +
	                             bpf_core_field_offset(struct net_device, dev_addr_shadow));
	const __u64 *to = (void *)(long)ctx->data;

	/* Behind the six bytes that are compared follow two of the sender's. */
	if ((void *)(to + 1) > (void *)(long)ctx->data_end)
		return 0;
	return !((*to ^ own) << 16);
}

/*
 * Of a frame that lies in several of the driver's buffers only the first is read here, and a driver
 * may put nothing into that (mlx5 with striding receive queues, at a jumbo MTU): it is left to the
 * IP entry, where what is wanted can be fetched. What says so stands before the frame, where the
 * driver has room for it (bpf_xdp_adjust_meta(), Linux 4.15). But a segment that is no SYN needs
 * no mark: GRO joins only those that have the same. Global, as tg_tc_pull is. No packet pointer is
 * good behind it.
 */
__noinline int tg_driver_leave(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 bytes = bpf_xdp_get_buff_len(ctx);
	struct tg_packet packet;
	__u32 *mark;

	if (bytes <= (__u64)(data_end - data) ||
	    (tg_parse(data, data_end, bytes, &packet) && !tg_is_syn(&packet)) ||
	    bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
		return 0;
	mark = (void *)(long)ctx->data_meta;
	if ((void *)(mark + 1) > (void *)(long)ctx->data)
		return 0;
	*mark = TG_UNREAD;
	return 1;
}

/* Returns 0 where the frame is none to be judged here; it is left then. */
TG_INLINE int tg_driver_parse(struct xdp_md *ctx, struct tg_packet *packet)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	if (tg_parse(data, data_end, data_end - data, packet))
		return 1;
	tg_driver_leave(ctx);
	return 0;
}

/*
 * Is it a VLAN's? A tag that is a priority alone (VID 0) is none: what comes so is the interface's
 * own. Of two tags nobody looks at both.
 */
TG_INLINE int tg_driver_is_tagged(struct xdp_md *ctx, const struct tg_packet *packet)
{
	struct tg_vlan *tag = (void *)(long)ctx->data + sizeof(struct ethhdr);

	if (!tg_is_tagged(packet) || (void *)(tag + 1) > (void *)(long)ctx->data_end)
		return 0;
	return packet->l3_offset > sizeof(struct ethhdr) + sizeof(*tag) ||
	       tag->tci & bpf_htons(TG_VLAN_ID);
}

/* Is it to a guard that decides here? Then *at is where. */
TG_INLINE int tg_driver_meets(struct xdp_md *ctx, const struct tg_packet *packet,
                              struct tg_place *at)
{
	if (!tg_find_guard(&packet->tuple, at))
		return 0;
	if (at->guard->hook != TG_HOOK_AUTO && at->guard->hook != TG_HOOK_DRIVER)
		return 0;
	return tg_driver_concerns(ctx);
}

/* Is it a SYN to be judged here? */
TG_INLINE int tg_driver_syn(struct xdp_md *ctx, const struct tg_packet *packet, struct tg_place *at)
{
	return tg_is_syn(packet) && tg_unicast(&packet->tuple, ctx->ingress_ifindex) &&
	       tg_driver_meets(ctx, packet, at);
}

/* Cuts the frame to the reply's length and writes it. */
TG_INLINE int tg_driver_write(struct xdp_md *ctx, const struct tg_packet *p,
                              const struct tg_reply *r)
{
	long now_bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	/* Else the compiler folds the sum below into one that the verifier forbids. */
	barrier_var(now_bytes);
	if (bpf_xdp_adjust_tail(ctx, (int)tg_reply_bytes(p, r) - now_bytes))
		return 0;
	return tg_write_reply((void *)(long)ctx->data, (void *)(long)ctx->data_end, p, r, 0);
}

/*
 * How an answer leaves. On veth XDP_TX needs an XDP program on the peer and otherwise stalls
 * silently; a redirect to the own interface is satisfied by GRO on the peer.
 */
#define TG_DRIVER_TRANSMIT 1

TG_INLINE int tg_driver_answer(struct xdp_md *ctx, const struct tg_packet *p,
                               const struct tg_reply *r, __u32 how)
{
	if (!tg_driver_write(ctx, p, r))
		return XDP_DROP;
	return how & TG_DRIVER_TRANSMIT ? XDP_TX : bpf_redirect(ctx->ingress_ifindex, 0);
}

/* Refuses what has no hand yet. */
TG_INLINE int tg_driver_refuse(struct xdp_md *ctx, const struct tg_packet *p,
                               const struct tg_place *at, __u32 verdict, __u32 is_of_one, __u32 how)
{
	struct tg_hand *hand = tg_hand_take();
	struct tg_reply *r;
	int action;

	if (!hand)
		return XDP_PASS;
	r = tg_hand_reply(hand);
	tg_reply_at_once(p, at, verdict, is_of_one, r);
	action = tg_driver_answer(ctx, p, r, how);
	tg_hand_put(hand);
	return action;
}

#endif
