/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is kept about the ends of connections, but for the pairs that are held (held_table.h). */
#ifndef TG_ENDS_H
#define TG_ENDS_H

#include "guard.h"

/*
 * Connections that this host closed first and whose TIME-WAIT is the other end's, by the tuple
 * of what comes in, from the first FIN until the kernel's TIME_WAIT is gone. The oldest is
 * forgotten where there are too many: then both ends wait.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, struct tg_tuple);
	__type(value, struct tg_leaving);
} leaving SEC(".maps");

/*
 * Those of them whose TIME_WAIT has begun, by the socket's own word. Where its program was busy
 * with it in that moment, what should end it came too early, and the daemon does.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, struct tg_tuple);
	__type(value, struct tg_leaving);
} late SEC(".maps");

/*
 * SYNs that ask this host to hold, until their connection is accepted: enum tg_tw_syn, by the tuple
 * as the server's socket has it. A SYN/ACK to one that was not met, or is forgotten, promises
 * nothing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, struct tg_tuple);
	__type(value, __u32);
} asking SEC(".maps");

/* Sockets by local port that wait for an ACK which we must see: only then are ACKs looked up. */
struct tg_closing_ports {
	__u32 sockets[65536];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_closing_ports);
} closing_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TG_DESTINATIONS);
	__type(key, struct tg_network);
	__type(value, struct tg_tw_rules);
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_TW_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} time_wait_counts SEC(".maps");

/* What a socket knows of the end of its connection; goes with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tg_agreement);
} agreements SEC(".maps");

TG_INLINE void tg_count_end(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&time_wait_counts, &what);

	if (count)
		(*count)++;
}

/* What is wanted of connections to an address; NULL where nothing is. */
TG_INLINE struct tg_tw_rules *tg_destination_rules(const __u32 *addr, __u32 is_ipv6)
{
	struct tg_control *c = tg_control_of();
	struct tg_network key;

	if (!c)
		return NULL;
	key = tg_network_key(addr, is_ipv6, tg_destination_owner(c->active & 1, is_ipv6));
	return bpf_map_lookup_elem(&destinations, &key);
}

/* A bit of struct sock's flags. */
TG_INLINE int tg_has_flag(const struct tcp_sock *tp, __u32 flag)
{
	return tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> flag & 1;
}

#endif
