// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the daemon reads of the host's TCP sockets: every listening socket with
 * both of its queues (sock_diag tells only one), the half-open requests
 * that have held a reservation for too long, and the connections that wait inside an application.
 */
#include "vmlinux.h"

#include "../../policy/include/overload_inside.h"
#include "../../policy/include/room.h"
#include "claims.h"
#include "guard.h"
#include "socket.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A kernel without IPv6 has no addresses of its, and no socket that is one. */
TG_INLINE int tg_is_ipv6(const struct sock_common *sk)
{
	return bpf_core_field_exists(sk->skc_v6_rcv_saddr) && sk->skc_family == AF_INET6;
}

/* SOCK_INODE() */
TG_INLINE __u64 tg_inode_of(struct sock *sk)
{
	struct socket_alloc *of = (void *)BPF_CORE_READ(sk, sk_socket);

	return of ? BPF_CORE_READ(of, vfs_inode.i_ino) : 0;
}

SEC("iter/tcp")
int listeners(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk_common = ctx->sk_common;
	struct tg_listener_row row = {};
	struct tcp_sock *tp;
	struct sock *sk;

	if (!sk_common)
		return 0;
	/*
	 * The iterator walks the listening sockets first. By 1 it is told that they are through:
	 * the kernel ends the read there, or with EAGAIN where it has nothing to give
	 * (bpf_iter_run_prog()), and a million connections are not walked.
	 */
	if (sk_common->skc_state != TCP_LISTEN)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk_common);
	if (!tp)
		return 0;
	sk = &tp->inet_conn.icsk_inet.sk;
	row.socket_cookie = bpf_get_socket_cookie(tp);
	row.inode = tg_inode_of(sk);
	row.is_ipv6 = tg_is_ipv6(sk_common);
	if (row.is_ipv6)
		BPF_CORE_READ_INTO(&row.addr, sk_common, skc_v6_rcv_saddr);
	else
		row.addr[0] = sk_common->skc_rcv_saddr;
	row.port = sk_common->skc_num;
	row.listen_len = sk->sk_ack_backlog;
	row.listen_max = sk->sk_max_ack_backlog;
	row.syn_len = tp->inet_conn.icsk_accept_queue.qlen.counter;
	row.syn_young = tp->inet_conn.icsk_accept_queue.young.counter;
	row.kernel_drops = sk->sk_drops.counter;
	row.ipv6_only = sk_common->skc_ipv6only;
	row.chosen = tg_is_chosen(tp);
	row.bound_ifindex = sk_common->skc_bound_dev_if;
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/* By whose ends, from the client's side, a connection or the request for one is known. */
TG_INLINE void tg_tuple_of(struct sock_common *sk, struct tg_tuple *t)
{
	t->is_ipv6 = tg_is_ipv6(sk);
	t->sport = sk->skc_dport;
	t->dport = bpf_htons(sk->skc_num);
	t->saddr[0] = sk->skc_daddr;
	t->daddr[0] = sk->skc_rcv_saddr;
	if (t->is_ipv6) {
		BPF_CORE_READ_INTO(&t->saddr, sk, skc_v6_daddr);
		BPF_CORE_READ_INTO(&t->daddr, sk, skc_v6_rcv_saddr);
		tg_unmap(t);
	}
}

/* snt_synack is the time of the first SYN/ACK in microseconds (Linux 4.13). */
SEC("iter/tcp")
int stale_requests(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tg_request_row row = {};
	struct tcp_request_sock *req;
	struct tcp_sock *listener;
	struct tg_place at = {};
	struct tg_queues queues;
	__u64 now_us;

	if (!sk || sk->skc_state != TCP_NEW_SYN_RECV)
		return 0;
	req = bpf_skc_to_tcp_request_sock(sk);
	tg_tuple_of(sk, &row.tuple);
	if (!req || !tg_find_guard(&row.tuple, &at))
		return 0;
	row.guard = at.index;
	listener = tg_untrusted(req->req.req.__req_common.skc_listener);
	tg_read_queues(listener, &queues);
	queues.claimed = tg_claimed(at.guard->claims_index);
	now_us = bpf_ktime_get_ns() / 1000;
	/* 0 until the SYN/ACK is made. */
	row.age_ms =
		req->snt_synack && now_us > req->snt_synack ? (now_us - req->snt_synack) / 1000 : 0;
	if (!tg_reservation_stale(&at.guard->rules, &queues, row.age_ms))
		return 0;
	row.bound_ifindex = sk->skc_bound_dev_if;
	/* It has none before somebody asks. */
	row.socket_cookie = bpf_get_socket_cookie(sk);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/*
 * What came of its client last, were it an ACK alone, is so old that an application that has time
 * has noticed it. rcv_tstamp is in ticks, the lower half of jiffies.
 */
TG_INLINE int tg_is_due(const struct tcp_sock *tp, const struct tg_control *c)
{
	__u32 ticks = (__u32)bpf_jiffies64() - tp->rcv_tstamp;

	return (__u64)ticks * c->tick_ns >= TG_INSIDE_UNHEEDED_NS;
}

/* Accepted, and its client has said something and has heard nothing yet. */
TG_INLINE int tg_waits_inside(struct tcp_sock *tp)
{
	return tp->bytes_received && !tp->bytes_sent &&
	       BPF_CORE_READ(&tp->inet_conn.icsk_inet.sk, sk_socket);
}

SEC("iter/tcp")
int waiting_inside(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tg_control *c = tg_control_of();
	struct tg_inside_row row = {};
	struct tg_tuple tuple = {};
	struct tg_place at = {};
	struct tcp_sock *tp;

	if (!sk || !c || (sk->skc_state != TCP_ESTABLISHED && sk->skc_state != TCP_CLOSE_WAIT))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !tg_waits_inside(tp))
		return 0;
	tg_tuple_of(sk, &tuple);
	if (!tg_find_guard(&tuple, &at) || !at.guard->rules.is_auto)
		return 0;
	row.guard = at.index;
	if (tg_is_due(tp, c)) {
		row.is_gone = sk->skc_state == TCP_CLOSE_WAIT;
		row.is_unread = !row.is_gone && tp->copied_seq != tp->rcv_nxt;
	}
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}
