/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SYNs of which the TCP entry is told at the IP entry. */
#ifndef TG_TOLD_H
#define TG_TOLD_H

#include "socket.h"

/*
 * The TCP entry can look nothing up, so it is told of each SYN's socket at the IP entry, by the
 * connection: where NAT changes that in between it is found no more, and not judged. (On the packet
 * itself the socket would stand against NAT: what ip_forward() has to forward it drops if a socket
 * is on it, and a redirected port's listener would be passed by.) Of one SYN, for what was told is
 * taken back where it is heard: a SYN that is sent again, and has a request by then, is none to be
 * judged. On any processor, for a firewall's queue may hand it on from another.
 */
struct tg_told {
	__u64 tp; /* struct tcp_sock *, never followed but through bpf_rdonly_cast() */
	__u64 at_ns;
	__u32 slot;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct tg_tuple);
	__type(value, struct tg_told);
} told SEC(".maps");

/* It is forgotten before the SYN is sent again, a second later. */
#define TG_TOLD_NS 900000000ull

TG_INLINE void tg_tell_tcp_entry(const struct tg_tuple *tuple, const struct tcp_sock *tp,
                                 __u32 slot, __u64 now_ns)
{
	struct tg_told t = {.tp = (__u64)tp, .at_ns = now_ns, .slot = slot};

	bpf_map_update_elem(&told, tuple, &t, BPF_ANY);
}

TG_INLINE int tg_told_at_tcp_entry(const struct tg_tuple *tuple, __u64 now_ns,
                                   struct tg_socket *found)
{
	struct tg_told *t = bpf_map_lookup_elem(&told, tuple);
	struct tcp_sock *tp;
	int is_late;

	if (!t)
		return 0;
	tp = tg_untrusted((void *)t->tp);
	is_late = now_ns - t->at_ns >= TG_TOLD_NS;
	found->slot = t->slot;
	bpf_map_delete_elem(&told, tuple);
	if (is_late || !tg_still_listens(tp, tuple))
		return 0;
	found->tp = tp;
	return 1;
}

#endif
