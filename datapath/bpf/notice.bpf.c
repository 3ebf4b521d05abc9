// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * On a client's host: what overloaded servers say in their refusals is heard, and a connect()
 * to one of them fails at once for as long as it said. Attached at the root of the cgroups, so
 * it is called for every socket of the host; those of other network namespaces are left alone.
 *
 * A refusal is heard where TCP hands a segment to its socket: behind the host's firewall, with
 * the checksum verified, and with the very socket at hand (tcp_filter(), Linux 6.18).
 */
#include "vmlinux.h"

#include "../../policy/include/notice.h"
#include "cgroup.h"
#include "layout.h"
#include "mptcp.h"
#include "packet.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SOCK_STREAM 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_agent);
} agent SEC(".maps");

/* The destinations whose notices are obeyed. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TG_OBEYED);
	__type(key, struct tg_network);
	__type(value, struct tg_obeyed);
} obeyed SEC(".maps");

/* Where connect() fails, and until when. What finds no room takes the place of the oldest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TG_AVOIDED);
	__type(key, struct tg_target);
	__type(value, struct tg_avoided);
} avoided SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_AGENT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} notice_counts SEC(".maps");

TG_INLINE void tg_count_notice(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&notice_counts, &what);

	if (count)
		(*count)++;
}

TG_INLINE int tg_is_our_namespace(__u64 netns_cookie)
{
	__u32 zero = 0;
	struct tg_agent *a = bpf_map_lookup_elem(&agent, &zero);

	return a && a->netns_cookie == netns_cookie;
}

/* What is to be obeyed of a destination; what is said of its port goes before its network's. */
static __noinline struct tg_obeyed *tg_obeyed_of(const struct tg_target *t)
{
	struct tg_network key =
		tg_network_key(t->addr, t->is_ipv6, tg_obeyed_owner(t->port, t->is_ipv6));
	struct tg_obeyed *found = bpf_map_lookup_elem(&obeyed, &key);

	if (found)
		return found;
	key.owner = tg_obeyed_owner(0, t->is_ipv6);
	return bpf_map_lookup_elem(&obeyed, &key);
}

/* A segment that has come, from the network header on. */
struct tg_came {
	struct tg_target from;
	__u32 l4_offset;
	__u32 tcp_header_bytes;
};

/*
 * Is it a RST that could be a notice? All others leave here. Behind extension headers none is
 * looked for: ours are written without.
 */
TG_INLINE int tg_came_rst(struct __sk_buff *ctx, struct tg_came *c, struct tg_notice_rst *rst)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp;
	__u32 bytes;

	if (ctx->protocol == bpf_htons(TG_ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > data_end || ip->protocol != TG_IPPROTO_TCP || ip->ihl != 5)
			return 0;
		c->from.addr[0] = ip->saddr;
		c->l4_offset = sizeof(*ip);
		bytes = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	} else if (ctx->protocol == bpf_htons(TG_ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > data_end || ip->nexthdr != TG_IPPROTO_TCP)
			return 0;
		__builtin_memcpy(c->from.addr, &ip->saddr, 16);
		c->from.is_ipv6 = 1;
		c->l4_offset = sizeof(*ip);
		bytes = bpf_ntohs(ip->payload_len);
	} else {
		return 0;
	}
	tcp = data + c->l4_offset;
	if ((void *)(tcp + 1) > data_end || !(tcp->flags & TG_TCP_RST))
		return 0;
	c->from.port = bpf_ntohs(tcp->source);
	c->tcp_header_bytes = tcp->doff * 4;
	rst->has_ack = tcp->flags & TG_TCP_ACK;
	rst->ack = bpf_ntohl(tcp->ack_seq);
	rst->payload_bytes = bytes - c->tcp_header_bytes;
	return rst->payload_bytes == TG_NOTICE_PAYLOAD_BYTES;
}

/* Two words at this place, which may lie in a fragment of the buffer. */
TG_INLINE void tg_came_words(struct __sk_buff *ctx, __u32 offset, __u32 *words)
{
	__be32 both[2] = {};

	bpf_skb_load_bytes(ctx, offset, both, sizeof(both));
	words[0] = bpf_ntohl(both[0]);
	words[1] = bpf_ntohl(both[1]);
}

/* The socket that it came to, where it is one of this namespace: else 0. */
TG_INLINE int tg_came_to(struct __sk_buff *ctx, struct tg_notice_rst *rst)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	struct sock_common *common;
	__u32 is_syn_sent;

	if (!tp)
		return 0;
	common = &tp->inet_conn.icsk_inet.sk.__sk_common;
	if (!tg_is_our_namespace(common->skc_net.net->net_cookie))
		return 0;
	/*
	 * TCP_FASTOPEN_CONNECT puts the SYN off until the first write, and no number acknowledges
	 * it before: one that is small by chance would be guessed. It is counted when the numbers
	 * are set (tcp_connect(), Linux 4.11 to 6.18), and so looked at first.
	 */
	is_syn_sent = (__u32)tg_less(common->skc_state ^ TCP_SYN_SENT, 1);
	rst->is_connecting = is_syn_sent * tp->packets_out;
	TG_IN_TURN();
	rst->snd_una = tp->snd_una;
	rst->write_seq = tp->write_seq;
	return 1;
}

TG_INLINE void tg_avoid(const struct tg_target *from, __u32 ticks, __u32 longest_ms)
{
	struct tg_avoided *stands = bpf_map_lookup_elem(&avoided, from);
	struct tg_avoided fresh = {};
	/* With the time asleep: a server's word is of the time that passes there. */
	__u64 now_ns = bpf_ktime_get_boot_ns(), until_ns;

	until_ns = tg_notice_until(stands ? stands->until_ns : 0, ticks, longest_ms,
	                           bpf_get_prandom_u32(), now_ns);
	if (stands) {
		stands->until_ns = until_ns;
		return;
	}
	fresh.until_ns = until_ns;
	bpf_map_update_elem(&avoided, from, &fresh, BPF_ANY);
}

SEC("cgroup_skb/ingress")
int tidegate_hear(struct __sk_buff *ctx)
{
	struct tg_notice_rst rst = {};
	struct tg_came came = {};
	struct tg_obeyed *rules;
	__u32 verdict;

	if (!tg_came_rst(ctx, &came, &rst) || !tg_came_to(ctx, &rst))
		return TG_GO_ON;
	rules = tg_obeyed_of(&came.from);
	if (!rules)
		return TG_GO_ON;
	tg_came_words(ctx, came.l4_offset + came.tcp_header_bytes, rst.payload);
	if (came.tcp_header_bytes >= sizeof(struct tcphdr) + TG_NOTICE_OPTION_ROOM)
		tg_came_words(ctx, came.l4_offset + sizeof(struct tcphdr), rst.option);
	verdict = tg_notice_hear(&rst);
	if (verdict == TG_NOTICE_TIMED)
		tg_avoid(&came.from, tg_notice_ticks(&rst), rules->longest_ms);
	tg_count_notice(verdict);
	/* It is for the socket all the same. */
	return TG_GO_ON;
}

/* Whether connect() to this place fails now. */
TG_INLINE int tg_fails(const struct tg_target *to, __u64 netns_cookie)
{
	struct tg_avoided *a = bpf_map_lookup_elem(&avoided, to);

	if (!a || !tg_is_our_namespace(netns_cookie) || bpf_ktime_get_boot_ns() >= a->until_ns)
		return 0;
	__sync_fetch_and_add(&a->failed, 1);
	tg_count_notice(TG_CONNECTS_FAILED);
	bpf_set_retval(-TG_AVOIDED_ERRNO);
	return 1;
}

/*
 * TCP_REPAIR, a bit of a byte in every kernel. (BPF_CORE_READ_BITFIELD() would ask for its size,
 * and the verifier walk each answer.)
 */
TG_INLINE int tg_is_repaired(const struct tcp_sock *tp)
{
	__u32 at = __builtin_preserve_field_info(tp->repair, BPF_FIELD_BYTE_OFFSET);
	__u64 bit = *((const __u8 *)tp + at);

	bit <<= __builtin_preserve_field_info(tp->repair, BPF_FIELD_LSHIFT_U64);
	return !!(bit >> __builtin_preserve_field_info(tp->repair, BPF_FIELD_RSHIFT_U64));
}

/*
 * Is there no program behind it that opens a connection? MPTCP's own sockets, the first and those
 * that it adds, are TCP's, and the kernel connects them as a program would. Each says what it is
 * from the beginning (subflow_ulp_init()). And with TCP_REPAIR a connection that stands already has
 * its socket made anew: no SYN is sent (tcp_connect(), Linux 3.5 to 6.18).
 */
TG_INLINE int tg_is_none_of_a_programs(const struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	/* Without a branch: the verifier would walk all that follows once more. */
	return tp && (tg_is_mptcp(tp) | tg_is_repaired(tp));
}

TG_INLINE int tg_connects(const struct bpf_sock_addr *ctx)
{
	return ctx->type == SOCK_STREAM && ctx->protocol == TG_IPPROTO_TCP &&
	       !tg_is_none_of_a_programs(ctx);
}

SEC("cgroup/connect4")
int tidegate_connect4(struct bpf_sock_addr *ctx)
{
	struct tg_target to = {};

	if (!tg_connects(ctx))
		return TG_GO_ON;
	to.addr[0] = ctx->user_ip4;
	to.port = bpf_ntohs((__be16)ctx->user_port);
	return tg_fails(&to, bpf_get_netns_cookie(ctx)) ? TG_REFUSE : TG_GO_ON;
}

SEC("cgroup/connect6")
int tidegate_connect6(struct bpf_sock_addr *ctx)
{
	struct tg_target to = {.is_ipv6 = 1};

	if (!tg_connects(ctx))
		return TG_GO_ON;
	to.addr[0] = ctx->user_ip6[0];
	to.addr[1] = ctx->user_ip6[1];
	to.addr[2] = ctx->user_ip6[2];
	to.addr[3] = ctx->user_ip6[3];
	to.port = bpf_ntohs((__be16)ctx->user_port);
	tg_target_unmap(&to);
	return tg_fails(&to, bpf_get_netns_cookie(ctx)) ? TG_REFUSE : TG_GO_ON;
}
