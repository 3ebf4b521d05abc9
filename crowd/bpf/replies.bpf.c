/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hands the targets' TCP segments to the crowd's socket, before the kernel's
 * TCP sees them: it knows nothing of the crowd's connections and would reset
 * them. Whatever else arrives is the kernel's.
 */
#include "types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPV4_FRAGMENT 0x3fff /* more to come, or not the first */
#define TARGETS_MAX 1024

/* Where a segment comes from; an IPv4 address fills the first four bytes. */
struct target {
	__u8 address[16];
	__be16 port;
	__be16 protocol;
};

/* By queue; as many as the interface has, which is said before it is made. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, struct target);
	__type(value, __u8);
} targets SEC(".maps");

/* With fragments: what TCP hands down in one piece may arrive so. */
SEC("xdp.frags")
int replies(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethernet *eth = data;
	struct tcp_ports *ports;
	struct target from = {};

	if ((void *)(eth + 1) > data_end)
		return XDP_PASS;
	if (eth->protocol == bpf_htons(ETH_P_IP)) {
		struct ipv4 *ip = (void *)(eth + 1);
		__u32 header_bytes;

		if ((void *)(ip + 1) > data_end)
			return XDP_PASS;
		if (ip->protocol != IPPROTO_TCP || (ip->fragment & bpf_htons(IPV4_FRAGMENT)))
			return XDP_PASS;
		header_bytes = (ip->version_and_words & 0x0f) * 4;
		if (header_bytes < sizeof(*ip))
			return XDP_PASS;
		__builtin_memcpy(from.address, ip->source, sizeof(ip->source));
		ports = (void *)ip + header_bytes;
	} else if (eth->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6 *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > data_end || ip->next_header != IPPROTO_TCP)
			return XDP_PASS;
		__builtin_memcpy(from.address, ip->source, sizeof(ip->source));
		ports = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	if ((void *)(ports + 1) > data_end)
		return XDP_PASS;
	from.port = ports->source;
	from.protocol = eth->protocol;
	if (!bpf_map_lookup_elem(&targets, &from))
		return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
