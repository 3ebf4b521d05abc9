/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet at the IP entry, whose bytes may have to be fetched before they are read. */
#ifndef TG_TC_PACKET_H
#define TG_TC_PACKET_H

#include "kfuncs.h"
#include "packet.h"

#include <bpf/bpf_core_read.h>

/* Headers of the packets that concern us: tags, IPv6 with extensions, TCP with options. */
#define TG_PULL_BYTES 256

/*
 * Headers may lie in a fragment of the buffer that is not mapped here yet. Global: a parser has
 * many ways, and the verifier walks them once here, not what follows once for each.
 */
__noinline int tg_tc_pull(struct __sk_buff *ctx, struct tg_packet *p)
{
	__u32 want = ctx->len < TG_PULL_BYTES ? ctx->len : TG_PULL_BYTES;

	if (!p || ctx->data_end - ctx->data >= want || bpf_skb_pull_data(ctx, want))
		return 0;
	return tg_parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, ctx->len, p);
}

/*
 * Did it come through IPsec? A tunnel's packets are received once more, decrypted, by the interface
 * that they came in at (xfrm_input() and gro_cells, Linux 4.x to 6.18): an answer of ours would
 * leave there as it is. What would be answered is left to the kernel.
 */
TG_INLINE int tg_tc_is_decrypted(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (!bpf_core_field_exists(skb->active_extensions) ||
	    !bpf_core_enum_value_exists(enum skb_ext_id, SKB_EXT_SEC_PATH))
		return 0;
	return skb->active_extensions >> bpf_core_enum_value(enum skb_ext_id, SKB_EXT_SEC_PATH) & 1;
}

/* What of a buffer's _nfct says no more than how the packet stands to its connection. */
#define TG_NFCT_INFO 7ul

/*
 * Has NAT of this host's own changed it already? On loopback a packet of the host's keeps the
 * connection that conntrack knows it by, and behind a bridge with br_netfilter any does. An answer
 * that is written over it has that, too: conntrack looks at it no more (nf_conntrack_in(), Linux
 * 4.12 to 6.18), and NAT changes it as it does what the client sends, so that it reaches nobody.
 */
TG_INLINE int tg_tc_is_translated(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	unsigned long status = 0;
	struct nf_conn *known;

	if (!bpf_core_field_exists(skb->_nfct) || !bpf_core_field_exists(struct nf_conn, status))
		return 0;
	/* Not cast: of this type the kernel has two, nf_conn___init beside it. */
	known = (void *)(skb->_nfct & ~TG_NFCT_INFO);
	if (known)
		bpf_core_read(&status, sizeof(status), &known->status);
	return !!(status & (IPS_SRC_NAT | IPS_DST_NAT));
}

/*
 * Is it a VLAN's? The tag that the kernel or the card has taken out stands beside the frame; one
 * that is a priority alone is no VLAN's.
 */
TG_INLINE int tg_tc_is_tagged(struct __sk_buff *ctx, const struct tg_packet *p)
{
	return tg_is_tagged(p) || (ctx->vlan_present && ctx->vlan_tci & TG_VLAN_ID);
}

/* Has the driver's program left it to the IP entry? See tg_driver_leave(). */
TG_INLINE int tg_tc_is_unread(struct __sk_buff *ctx)
{
	__u32 *mark = (void *)(long)ctx->data_meta;

	return (void *)(mark + 1) <= (void *)(long)ctx->data && *mark == TG_UNREAD;
}

TG_INLINE int tg_tc_parse(struct __sk_buff *ctx, struct tg_packet *p)
{
	if (tg_parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, ctx->len, p))
		return 1;
	return tg_tc_pull(ctx, p);
}

__noinline int tg_tc_options(struct __sk_buff *ctx, __u32 offset, __u32 end,
                             struct tg_tcp_options *options)
{
	if (!options)
		return 0;
	tg_read_options((void *)(long)ctx->data, (void *)(long)ctx->data_end, offset, end, options);
	return 1;
}

#endif
