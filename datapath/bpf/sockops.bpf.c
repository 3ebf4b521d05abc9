// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sockets' side of who holds TIME-WAIT: TW-Negotiate in the handshake, and what becomes
 * of a pair whose socket closed second. Attached at the root of the cgroups, so it is called
 * for every socket of the host; those of other network namespaces are left alone.
 */
#include "vmlinux.h"

#include "negotiate.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * One more socket, or one less, whose next ACK must be seen. The count began anew with this
 * program's link, and a socket of before is in none.
 */
TG_INLINE void tg_closing_port(__u32 port, __u32 add)
{
	struct tg_closing_ports *ports;
	__u32 zero = 0, *sockets;

	ports = bpf_map_lookup_elem(&closing_ports, &zero);
	if (!ports)
		return;
	sockets = &ports->sockets[port & 0xffff];
	if (!__sync_fetch_and_add(sockets, add) && add != 1)
		__sync_fetch_and_add(sockets, 1);
}

TG_INLINE void tg_leave(struct bpf_sock_ops *ctx, const struct tg_tuple *t,
                        const struct tg_agreement *a, void *map)
{
	struct bpf_sock *sk = ctx->sk;
	struct tg_leaving leaving_now = {
		.socket_cookie = bpf_get_socket_cookie(ctx),
		.fin_seq = a->fin_seq,
		.bound_ifindex = sk ? sk->bound_dev_if : 0,
	};
	struct tg_tuple in = *t;

	bpf_map_update_elem(map, &in, &leaving_now, BPF_ANY);
}

TG_INLINE void tg_ops_hold(struct bpf_sock_ops *ctx, const struct tg_tuple *in)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	struct tg_held pair;

	if (!tp)
		return;
	tg_pair_of(in, 0, &pair);
	tg_pair_numbers(tp, &pair);
	/* tcp_close() with a request unread, say: it sends RST behind this. */
	if (tp->snd_una != tp->write_seq)
		pair.flags |= TG_HELD_GIVEN_UP;
	if (tg_hold(&pair, 1) == TG_HELD_EVICTED)
		tg_count_end(TG_TW_FORGOTTEN);
	tg_count_end(TG_TW_HELD);
}

/*
 * Whether CLOSED of a socket means that TIME_WAIT has taken its place: it has seen the other
 * end's FIN. Without, it is FIN_WAIT2 that went on without a socket.
 */
TG_INLINE int tg_ops_waits(struct bpf_sock_ops *ctx, __u32 was)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (was == TCP_CLOSING)
		return 1;
	return was == TCP_FIN_WAIT2 && tp && tg_has_flag(tp, SOCK_DONE);
}

/*
 * This end closes: its FIN comes behind all that was written. tcp_close_state() calls us before
 * tcp_send_fin() counts the FIN in write_seq, and a segment may come in between: what acknowledges
 * all of write_seq then need not acknowledge a FIN.
 */
TG_INLINE void tg_ops_closes(struct bpf_sock_ops *ctx, struct tg_agreement *a)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (tp)
		a->fin_seq = tp->write_seq;
}

/* The state changes of a socket about whose end something is known. */
__noinline int tg_ops_state(struct bpf_sock_ops *ctx)
{
	__u32 was = ctx->args[0], is = ctx->args[1], active, passive;
	struct tg_agreement *a = tg_agreement_of(ctx, 0);
	struct tg_tuple in;

	if (!a)
		return 0;
	active = tg_tw_end(a->holder, a->us, TG_TW_ACTIVE, a->close_swap);
	passive = tg_tw_end(a->holder, a->us, TG_TW_PASSIVE, a->close_swap);
	/* As what comes in has it. */
	tg_ops_tuple(ctx, TG_TW_SERVER, &in);
	if (is == TCP_FIN_WAIT1 || is == TCP_LAST_ACK)
		tg_ops_closes(ctx, a);
	if (is == TCP_FIN_WAIT1 && active == TG_TW_LEAVE) {
		tg_leave(ctx, &in, a, &leaving);
	} else if (is == TCP_CLOSING && active == TG_TW_LEAVE) {
		/* Its TIME_WAIT begins with an ACK like any other. */
		a->closing = 1;
		tg_closing_port(ctx->local_port, 1);
	} else if (is == TCP_LAST_ACK && passive == TG_TW_SWAP) {
		a->closing = 1;
		tg_closing_port(ctx->local_port, 1);
	} else if (is == TCP_CLOSE) {
		if (a->closing) {
			a->closing = 0;
			tg_closing_port(ctx->local_port, (__u32)-1);
		}
		/* Whatever ended LAST_ACK: the other end counts on us. */
		if (was == TCP_LAST_ACK && passive == TG_TW_HOLD)
			tg_ops_hold(ctx, &in);
		else if (active == TG_TW_LEAVE && tg_ops_waits(ctx, was))
			tg_leave(ctx, &in, a, &late);
	}
	return 0;
}

/* What the guards of a port negotiate, all together: a bit for each enum tg_tw_holder. */
__noinline __u32 tg_port_negotiates(__u32 port)
{
	struct tg_place at = {};
	__u32 next, wishes = 0;

	if (!tg_enter(&at))
		return 0;
	next = at.config->port_guard[port & 0xffff];
	for (int i = 0; i < TG_GUARDS_A_PORT; i++) {
		struct tg_guard *g;

		if (!next || next > TG_GUARDS)
			break;
		g = &at.config->guards[(next - 1) & (TG_GUARDS - 1)];
		if (g->time_wait.negotiate)
			wishes |= 1u << (g->time_wait.negotiate & 3);
		next = g->next;
	}
	return wishes;
}

/*
 * A listener's SYNs are kept where in doubt this end would hold: see tg_ops_accepted. How the
 * application itself has them kept, with the link's header (2), say, stays.
 */
TG_INLINE void tg_keep_syns(void *listener, __u32 wishes)
{
	int kept = 0, one = 1;

	if (wishes & 1u << TG_TW_SERVER &&
	    !bpf_getsockopt(listener, SOL_TCP, TCP_SAVE_SYN, &kept, sizeof(kept)) && !kept)
		bpf_setsockopt(listener, SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one));
}

/* A listener begins: its requests ask about their SYN/ACKs. */
__noinline int tg_ops_listen(struct bpf_sock_ops *ctx)
{
	__u32 wishes = tg_port_negotiates(ctx->local_port);

	if (!wishes)
		return 0;
	tg_ask_for(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	tg_keep_syns(ctx, wishes);
	return 0;
}

SEC("sockops")
int tidegate_sockets(struct bpf_sock_ops *ctx)
{
	struct tg_control *c = tg_control_of();
	struct tg_tw_option option;
	__u32 bytes;

	if (!c || c->netns_cookie != bpf_get_netns_cookie(ctx))
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB: tg_ops_connect(ctx); break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB: tg_ops_listen(ctx); break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		bytes = tg_ops_option(ctx, &option);
		if (bytes)
			bpf_reserve_hdr_opt(ctx, bytes, 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		bytes = tg_ops_option(ctx, &option);
		if (bytes == TG_TW_IPV4_BYTES)
			bpf_store_hdr_opt(ctx, &option, TG_TW_IPV4_BYTES, 0);
		else if (bytes == TG_TW_IPV6_BYTES)
			bpf_store_hdr_opt(ctx, &option, TG_TW_IPV6_BYTES, 0);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: tg_ops_opened(ctx); break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: tg_ops_accepted(ctx); break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB: {
		struct tg_agreement *a = tg_agreement_of(ctx, 0);

		if (a && a->writing) {
			a->writing = 0;
			tg_ask_for(ctx, BPF_SOCK_OPS_STATE_CB_FLAG);
		}
		break;
	}
	case BPF_SOCK_OPS_STATE_CB: tg_ops_state(ctx); break;
	}
	return 1;
}

/* Listeners that stood before us: what tg_ops_listen does, for each that is guarded (Linux 6.12).
 */
SEC("iter/tcp")
int speaking_listeners(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct tcp_sock *tp;
	int flags = 0;
	__u32 wishes;

	if (!sk)
		return 0;
	/* The listening sockets come first: see iter.bpf.c. */
	if (sk->skc_state != TCP_LISTEN)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	wishes = tg_port_negotiates(sk->skc_num);
	if (!tp || !wishes)
		return 0;
	tg_keep_syns(tp, wishes);
	if (bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)) ||
	    (flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		return 0;
	flags |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	return 0;
}
