/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The pairs that are held in TIME-WAIT here. */
#ifndef TG_HELD_TABLE_H
#define TG_HELD_TABLE_H

#include "guard.h"

/* Made by the loader as large as the configuration asks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_held_block);
} held_table SEC(".maps");

/* Until when any pair is held: while none is, SYNs are not looked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} held_until_ns SEC(".maps");

/* The pair of a packet: outgoing, or coming in. */
TG_INLINE void tg_pair_of(const struct tg_tuple *t, int outgoing, struct tg_held *pair)
{
	__builtin_memset(pair, 0, sizeof(*pair));
	if (outgoing) {
		__builtin_memcpy(pair->own, t->saddr, 16);
		__builtin_memcpy(pair->peer, t->daddr, 16);
		pair->own_port = t->sport;
		pair->peer_port = t->dport;
	} else {
		__builtin_memcpy(pair->own, t->daddr, 16);
		__builtin_memcpy(pair->peer, t->saddr, 16);
		pair->own_port = t->dport;
		pair->peer_port = t->sport;
	}
	pair->flags = t->is_ipv6 ? TG_HELD_IPV6 : 0;
}

/* The two blocks that a pair may stand in; 0 where there is no table. */
struct tg_held_blocks {
	struct tg_held_block *one;
	struct tg_held_block *other;
};

TG_INLINE int tg_held_blocks_of(const struct tg_held *pair, struct tg_held_blocks *blocks)
{
	struct tg_control *c = tg_control_of();
	__u32 one, other;
	__u64 hash;

	if (!c || !c->held_blocks)
		return 0;
	hash = tg_held_hash(&c->held_key, pair);
	one = tg_held_index((__u32)hash, c->held_blocks);
	other = tg_held_index((__u32)(hash >> 32), c->held_blocks);
	blocks->one = bpf_map_lookup_elem(&held_table, &one);
	blocks->other = bpf_map_lookup_elem(&held_table, &other);
	return blocks->one && blocks->other;
}

/*
 * Holds a pair for 2 MSL; enum tg_held_put. Global, so that the verifier walks it once and not
 * once for every way that leads here.
 */
__noinline __u32 tg_hold(const struct tg_held *pair, __u32 must)
{
	__u64 now_ns = bpf_ktime_get_ns(), *until_ns;
	struct tg_held_blocks blocks;
	__u32 done, zero = 0;

	if (!pair || !tg_held_blocks_of(pair, &blocks))
		return TG_HELD_NO_ROOM;
	done = tg_held_put(blocks.one, blocks.other, pair, must, now_ns);
	until_ns = bpf_map_lookup_elem(&held_until_ns, &zero);
	if (done != TG_HELD_NO_ROOM && until_ns)
		*until_ns = now_ns + TG_HELD_NS;
	return done;
}

/* Until when any pair may be held; 0 where none ever was. */
TG_INLINE __u64 tg_held_until_ns(void)
{
	__u32 zero = 0;
	__u64 *until_ns = bpf_map_lookup_elem(&held_until_ns, &zero);

	return until_ns ? *until_ns : 0;
}

/* Whether there is room enough to promise that this pair will be held. */
__noinline __u32 tg_can_hold(const struct tg_held *pair)
{
	struct tg_held_blocks blocks;

	return pair && tg_held_blocks_of(pair, &blocks) &&
	       tg_held_can_hold(blocks.one, blocks.other, pair, bpf_ktime_get_ns());
}

/*
 * Numbers that a later segment of this pair is held against. All that was written is sent and
 * acknowledged by now; but where the answer to our FIN comes back at once, on veth, the kernel
 * has not yet moved snd_nxt over it.
 */
TG_INLINE void tg_pair_numbers(struct tcp_sock *tp, struct tg_held *pair)
{
	pair->snd_nxt = tp->write_seq;
	pair->rcv_nxt = tp->rcv_nxt;
	/* The header's usual length tells whether it has time stamps. */
	if (tp->tcp_header_len == sizeof(struct tcphdr) + 12) {
		pair->flags |= TG_HELD_TIMESTAMPS;
		pair->peer_ts = tp->rx_opt.ts_recent;
		/* Our last one, as the other end echoed it. */
		pair->own_ts = tp->rx_opt.rcv_tsecr + tp->tsoffset;
	}
}

#endif
