/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a packet to the listening socket that the kernel would give it to, and
 * to the live length of that socket's queues.
 *
 * The kernel's own look-up is the truth. Its answer is remembered for a few
 * milliseconds, per processor, as an untrusted pointer: memory that is read
 * with faults caught, and never believed before the socket itself says that it
 * still listens on this port and address. So a SYN under overload costs a few
 * loads and no look-up, and a listener that went away is noticed at once.
 */
#ifndef TG_SOCKET_H
#define TG_SOCKET_H

#include "kfuncs.h"
#include "local.h"
#include "maps.h"
#include "packet.h"

#include <bpf/bpf_core_read.h>

/* A remembered answer is asked for again after this long. */
#define TG_REMEMBER_NS 4000000ull
#define TG_REMEMBERED 256

struct tg_remembered {
	__u32 daddr[4];
	__u32 dport_family; /* port in network order, family above it */
	__u32 ifindex;
	__u64 asked_ns;
	__u32 slot;
	__u32 padding;
	__u64 tp; /* struct tcp_sock *, never followed but through bpf_rdonly_cast() */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_REMEMBERED);
	__type(key, __u32);
	__type(value, struct tg_remembered);
} remembered SEC(".maps");

/* Reads through this pointer are caught where the memory is gone (Linux 6.2). */
TG_INLINE struct tcp_sock *tg_untrusted(const void *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* A listening socket, found. */
struct tg_socket {
	struct tcp_sock *tp;
	__u32 slot; /* of its counters */
	__u32 padding;
};

TG_INLINE void tg_fill_tuple(struct bpf_sock_tuple *key, const struct tg_tuple *t, __u16 sport)
{
	if (t->is_ipv6) {
		__builtin_memcpy(key->ipv6.saddr, t->saddr, 16);
		__builtin_memcpy(key->ipv6.daddr, t->daddr, 16);
		key->ipv6.sport = sport;
		key->ipv6.dport = t->dport;
	} else {
		key->ipv4.saddr = t->saddr[0];
		key->ipv4.daddr = t->daddr[0];
		key->ipv4.sport = sport;
		key->ipv4.dport = t->dport;
	}
}

/* The kernel's look-up, for a client's port: may return any kind of TCP socket. Release it. */
TG_INLINE struct bpf_sock *tg_lookup(void *ctx, const struct tg_tuple *tuple, __u16 sport)
{
	struct bpf_sock_tuple key = {};

	tg_fill_tuple(&key, tuple, sport);
	if (tuple->is_ipv6)
		return bpf_skc_lookup_tcp(ctx, &key, sizeof(key.ipv6), BPF_F_CURRENT_NETNS, 0);
	return bpf_skc_lookup_tcp(ctx, &key, sizeof(key.ipv4), BPF_F_CURRENT_NETNS, 0);
}

/*
 * The state of what stands on a client's addresses and ports, or listens there; 0: nothing. A
 * function of its own: its key is on the stack only meanwhile.
 */
static __noinline __u32 tg_state_of(void *ctx, const struct tg_tuple *tuple)
{
	struct bpf_sock *sk = tg_lookup(ctx, tuple, tuple->sport);
	__u32 state;

	if (!sk)
		return 0;
	state = sk->state;
	bpf_sk_release(sk);
	return state;
}

/*
 * Does something stand there that is no listener? It gets what is said to it. By a mask, as the
 * next: after a branch the verifier would walk all that follows once more.
 */
TG_INLINE __u32 tg_is_taken(__u32 state)
{
	return ~(1u | 1u << TCP_LISTEN) >> (state & 31) & 1;
}

/*
 * Is a SYN on these addresses and ports one that the kernel has its answer to? A half-open request
 * gets its SYN/ACK repeated, and so does a connection by TCP Fast Open, which the application may
 * be serving (RFC 7413, section 4.2.2); one that stands answers with a challenge ACK (RFC 5961,
 * section 4.2).
 */
TG_INLINE __u32 tg_is_answered(__u32 state)
{
	return ~(1u | 1u << TCP_LISTEN | 1u << TCP_TIME_WAIT) >> (state & 31) & 1;
}

TG_INLINE __u32 tg_dport_family(const struct tg_tuple *t)
{
	return t->dport | (t->is_ipv6 ? AF_INET6 : AF_INET) << 16;
}

TG_INLINE __u32 tg_remember_index(const struct tg_tuple *t, __u32 ifindex)
{
	__u32 mix = t->daddr[0] ^ t->dport ^ ifindex;

	if (t->is_ipv6)
		mix ^= t->daddr[1] ^ t->daddr[2] ^ t->daddr[3];
	mix *= 0x9e3779b1u;
	return mix >> 24;
}

_Static_assert(TG_REMEMBERED == 1 << 8, "tg_remember_index yields eight bits");

TG_INLINE int tg_remembers(const struct tg_remembered *r, const struct tg_tuple *t, __u32 ifindex,
                           __u64 now_ns)
{
	__u32 listener = (r->dport_family ^ tg_dport_family(t)) | (r->ifindex ^ ifindex);

	return !(listener | tg_differ(r->daddr, t->daddr)) && now_ns - r->asked_ns < TG_REMEMBER_NS;
}

TG_INLINE void tg_remember(struct tg_remembered *r, const struct tg_tuple *t, __u32 ifindex,
                           const struct tcp_sock *tp, __u32 slot, __u64 now_ns)
{
	__builtin_memcpy(r->daddr, t->daddr, 16);
	r->dport_family = tg_dport_family(t);
	r->ifindex = ifindex;
	r->asked_ns = now_ns;
	r->slot = slot;
	r->tp = (__u64)tp;
}

/* The memory behind a remembered pointer may be another socket's by now. */
TG_INLINE int tg_still_listens(struct tcp_sock *tp, const struct tg_tuple *t)
{
	struct sock_common *sk = &tp->inet_conn.icsk_inet.sk.__sk_common;

	return sk->skc_state == TCP_LISTEN && sk->skc_num == bpf_ntohs(t->dport);
}

TG_INLINE struct tg_remembered *tg_remembered_at(const struct tg_tuple *t, __u32 ifindex)
{
	__u32 index = tg_remember_index(t, ifindex);

	return bpf_map_lookup_elem(&remembered, &index);
}

TG_INLINE int tg_recall(const struct tg_remembered *r, const struct tg_tuple *t, __u32 ifindex,
                        __u64 now_ns, struct tg_socket *found)
{
	struct tcp_sock *tp;

	if (!tg_remembers(r, t, ifindex, now_ns))
		return 0;
	tp = tg_untrusted((void *)r->tp);
	if (!r->tp || !tg_still_listens(tp, t))
		return 0;
	found->tp = tp;
	found->slot = r->slot;
	return 1;
}

TG_INLINE __u32 tg_slot_of(struct tcp_sock *tp, __u32 guard)
{
	struct tg_slot_key key = {
		.socket_cookie = tp->inet_conn.icsk_inet.sk.__sk_common.skc_cookie.counter,
		.guard = guard,
	};
	__u32 *slot = key.socket_cookie ? bpf_map_lookup_elem(&slots, &key) : NULL;

	/* A socket that the daemon has not seen yet is counted with its guard. */
	return slot ? *slot : guard;
}

/*
 * Is it one of a SO_REUSEPORT group from which a program of its own chooses? The kernel runs that
 * on a packet, and there is none in bpf_skc_lookup_tcp() (reuseport_select_sock(), Linux 4.6
 * to 6.18): it finds any member.
 */
TG_INLINE int tg_is_chosen(struct tcp_sock *tp)
{
	struct sock_reuseport *group = tp->inet_conn.icsk_inet.sk.sk_reuseport_cb;

	return group && group->prog;
}

/*
 * A VLAN's frames are met at the interface below it, too, and its listeners looked up as that
 * one's. A socket that is bound to that one (SO_BINDTODEVICE) is found so, but not by the kernel,
 * which looks when the frame has come to the VLAN.
 */
TG_INLINE int tg_is_bound_below(struct tcp_sock *tp, int is_tagged)
{
	return is_tagged && tp->inet_conn.icsk_inet.sk.__sk_common.skc_bound_dev_if;
}

/* enum netns_bpf_attach_type's: BPF_SK_LOOKUP (Linux 5.9). */
#define TG_NETNS_BPF_SK_LOOKUP 1

/*
 * Does a program of this network namespace's choose listeners (BPF_PROG_TYPE_SK_LOOKUP)? It may go
 * by the client, and one's is then not another's.
 */
TG_INLINE int tg_is_client_chosen(struct tcp_sock *tp)
{
	struct net *net = tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net;

	return bpf_core_field_exists(net->bpf) && net->bpf.run_array[TG_NETNS_BPF_SK_LOOKUP];
}

/* The members of its SO_REUSEPORT group; 0: it is in none. */
TG_INLINE __u16 tg_group_members(struct tcp_sock *tp)
{
	struct sock_reuseport *group = tp->inet_conn.icsk_inet.sk.sk_reuseport_cb;

	return group ? group->num_socks : 0;
}

/*
 * The listening socket for a SYN that came in at this interface. A SO_REUSEPORT group is not
 * remembered, nor what a program has chosen: which socket gets a connection depends on the client.
 */
TG_INLINE int tg_find_listener_at(void *ctx, const struct tg_tuple *tuple, __u32 ifindex,
                                  __u64 now_ns, __u32 guard, struct tg_socket *found)
{
	struct tg_remembered *r = tg_remembered_at(tuple, ifindex);
	int in_time_wait = 0;
	struct bpf_sock *sk;
	struct tcp_sock *tp;

	if (!r)
		return 0;
	if (tg_recall(r, tuple, ifindex, now_ns, found))
		return 1;

	sk = tg_lookup(ctx, tuple, tuple->sport);
	if (sk && sk->state == TCP_TIME_WAIT) {
		/* The kernel goes on to the listener; no client has port 0, so this finds it. */
		bpf_sk_release(sk);
		sk = tg_lookup(ctx, tuple, 0);
		in_time_wait = 1;
	}
	if (!sk)
		return 0;
	tp = sk->state == TCP_LISTEN ? bpf_skc_to_tcp_sock(sk) : NULL;
	/* Of a SO_REUSEPORT group that look-up finds a member, but not the client's. */
	if (!tp || !tg_is_local(ctx, tuple, ifindex) ||
	    (in_time_wait && tp->inet_conn.icsk_inet.sk.__sk_common.skc_reuseport) ||
	    tg_is_chosen(tp)) {
		bpf_sk_release(sk);
		return 0;
	}
	found->slot = tg_slot_of(tp, guard);
	/* Listening sockets are freed after an RCU grace period, which this program is inside of.
	 */
	found->tp = tg_untrusted(tp);
	r->tp = 0;
	if (!tp->inet_conn.icsk_inet.sk.__sk_common.skc_reuseport &&
	    !tg_is_client_chosen(found->tp))
		tg_remember(r, tuple, ifindex, tp, found->slot, now_ns);
	bpf_sk_release(sk);
	return 1;
}

/* The same, of one that goes on to a VLAN where is_tagged says so. */
TG_INLINE int tg_find_listener(void *ctx, const struct tg_tuple *tuple, __u32 ifindex,
                               int is_tagged, __u64 now_ns, __u32 guard, struct tg_socket *found)
{
	return tg_find_listener_at(ctx, tuple, ifindex, now_ns, guard, found) &&
	       !tg_is_bound_below(found->tp, is_tagged);
}

TG_INLINE void tg_read_queues(struct tcp_sock *tp, struct tg_queues *q)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct net *net = sk->__sk_common.skc_net.net;

	q->listen_len = sk->sk_ack_backlog;
	q->listen_max = sk->sk_max_ack_backlog;
	q->syn_len = tp->inet_conn.icsk_accept_queue.qlen.counter;
	q->syn_max = net->ipv4.sysctl_max_syn_backlog;
	q->syncookies = net->ipv4.sysctl_tcp_syncookies;
	q->claimed = 0;
	q->members = tg_group_members(tp);
	q->places = 0;
	q->shut = TG_OPEN;
}

#endif
