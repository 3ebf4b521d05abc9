/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is this host's own: its addresses, and the routes by which it forwards what is not. */
#ifndef TG_LOCAL_H
#define TG_LOCAL_H

#include "maps.h"
#include "packet.h"

/*
 * The addresses of this host, and the networks that are routed to it (AnyIP). The daemon fills it,
 * for bpf_fib_lookup() does not tell them from what leads nowhere.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TG_LOCAL_ROUTES);
	__type(key, struct tg_network);
	__type(value, __u32);
} local_routes SEC(".maps");

/* The kernel's answer for what comes in at this interface; of *fib the rest is the caller's. */
TG_INLINE long tg_ask_route(void *ctx, struct bpf_fib_lookup *fib, const __u32 *from,
                            const __u32 *to, __u32 is_ipv6, __u32 ifindex)
{
	fib->ifindex = ifindex;
	fib->l4_protocol = TG_IPPROTO_TCP;
	if (is_ipv6) {
		fib->family = AF_INET6;
		__builtin_memcpy(fib->ipv6_src, from, 16);
		__builtin_memcpy(fib->ipv6_dst, to, 16);
	} else {
		fib->family = AF_INET;
		fib->ipv4_src = from[0];
		fib->ipv4_dst = to[0];
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
}

/*
 * Is it none that the host forwards? Its own are not, nor those without a route, broadcast and
 * anycast; where the interface does not forward at all, none is. A function of its own: what it
 * asks the kernel is on the stack only meanwhile. So is the next.
 */
static __noinline int tg_is_kept(void *ctx, const struct tg_tuple *t, __u32 ifindex)
{
	struct bpf_fib_lookup fib = {};
	long answer = tg_ask_route(ctx, &fib, t->saddr, t->daddr, t->is_ipv6, ifindex);

	return answer == BPF_FIB_LKUP_RET_NOT_FWDED || answer == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* Is its destination this host's? Where the daemon could not say, whatever it is. */
static __noinline int tg_is_own(const struct tg_tuple *t)
{
	struct tg_network key = tg_network_key(t->daddr, t->is_ipv6, tg_local_owner(t->is_ipv6));
	struct tg_control *c = tg_control_of();

	return !c || !c->knows_local || bpf_map_lookup_elem(&local_routes, &key);
}

/*
 * Is this packet for the host? A wildcard listener matches also what it forwards or drops, and that
 * is not ours to judge.
 */
TG_INLINE int tg_is_local(void *ctx, const struct tg_tuple *t, __u32 ifindex)
{
	return tg_is_kept(ctx, t, ifindex) && tg_is_own(t);
}

#endif
