/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TW-Negotiate in the handshake (Faber, Touch and Yue, section 3), as a sock_ops program has it:
 * which option a segment gets, and what the options that came in amount to.
 */
#ifndef TG_NEGOTIATE_H
#define TG_NEGOTIATE_H

#include "ends.h"
#include "held_table.h"

/*
 * The connection from the client to the server, of which this socket is the end `us`. Global, as
 * is what else is long here: the verifier walks it once.
 */
__noinline int tg_ops_tuple(struct bpf_sock_ops *ctx, __u32 us, struct tg_tuple *t)
{
	__u32 own[4] = {}, peer[4] = {};
	__u16 own_port = bpf_htons((__u16)ctx->local_port);
	__u16 peer_port = (__u16)(ctx->remote_port >> 16);

	if (!t)
		return 0;
	t->is_ipv6 = 0;
	if (ctx->family == AF_INET6) {
		own[0] = ctx->local_ip6[0];
		own[1] = ctx->local_ip6[1];
		own[2] = ctx->local_ip6[2];
		own[3] = ctx->local_ip6[3];
		peer[0] = ctx->remote_ip6[0];
		peer[1] = ctx->remote_ip6[1];
		peer[2] = ctx->remote_ip6[2];
		peer[3] = ctx->remote_ip6[3];
		t->is_ipv6 = 1;
	} else {
		own[0] = ctx->local_ip4;
		peer[0] = ctx->remote_ip4;
	}
	if (us == TG_TW_CLIENT) {
		__builtin_memcpy(t->saddr, own, 16);
		__builtin_memcpy(t->daddr, peer, 16);
		t->sport = own_port;
		t->dport = peer_port;
	} else {
		__builtin_memcpy(t->saddr, peer, 16);
		__builtin_memcpy(t->daddr, own, 16);
		t->sport = peer_port;
		t->dport = own_port;
	}
	tg_unmap(t);
	return 1;
}

TG_INLINE struct tg_agreement *tg_agreement_of(struct bpf_sock_ops *ctx, __u64 flags)
{
	struct bpf_sock *sk = ctx->sk;

	return sk ? bpf_sk_storage_get(&agreements, sk, NULL, flags) : NULL;
}

/* The value of our option in a packet: the SYN that a listener's request came from, or this one. */
TG_INLINE __u32 tg_ops_named(struct bpf_sock_ops *ctx, const struct tg_tuple *t, __u64 from)
{
	struct tg_tw_option option = {
		.bytes = {TG_TW_KIND, TG_TW_HEAD_BYTES, TG_TW_EXID_HIGH, TG_TW_EXID_LOW},
	};
	struct tg_tw_value value;

	if (bpf_load_hdr_opt(ctx, &option, sizeof(option), from) <= 0)
		return TG_TW_NOBODY;
	tg_tw_read(&option, &value);
	return tg_tw_named(t, &value);
}

/* Room to hold one more, which only the end that is to hold needs: looking for it is dear. */
TG_INLINE __u32 tg_room_for(const struct tg_tuple *t, __u32 us, __u32 holder)
{
	struct tg_held pair;

	if (holder != us)
		return 1;
	tg_pair_of(t, us == TG_TW_CLIENT, &pair);
	return tg_can_hold(&pair);
}

/*
 * Whether the IP entry has met a SYN that asks us to hold as its socket has it: it has met it
 * before TCP, or will not. That, and what its SYN/ACK is about to say, is noted for
 * tg_ops_accepted. What one has said stands, whatever the next one says: the client may have heard
 * the first.
 */
TG_INLINE __u32 tg_syn_is_met(struct bpf_sock_ops *ctx, const struct tg_tuple *t, __u32 has_room)
{
	__u32 *syn = bpf_map_lookup_elem(&asking, t), unmet = TG_TW_SYN_UNMET;

	if (!syn) {
		bpf_map_update_elem(&asking, t, &unmet, BPF_ANY);
		return 0;
	}
	if (*syn == TG_TW_SYN_UNMET)
		return 0;
	if (*syn == TG_TW_SYN_TOLD)
		return 1;
	if (!has_room)
		*syn = TG_TW_SYN_NO_ROOM;
	else if (ctx->op == BPF_SOCK_OPS_WRITE_HDR_OPT_CB)
		*syn = TG_TW_SYN_TOLD;
	return 1;
}

/* Whether a SYN/ACK may have said that we hold, which is asked once. What is forgotten may. */
TG_INLINE __u32 tg_syn_may_be_told(const struct tg_tuple *t)
{
	__u32 *syn = bpf_map_lookup_elem(&asking, t), said = syn ? *syn : TG_TW_SYN_TOLD;

	bpf_map_delete_elem(&asking, t);
	if (said == TG_TW_SYN_NO_ROOM)
		tg_count_end(TG_TW_NO_ROOM);
	return said == TG_TW_SYN_TOLD;
}

TG_INLINE void tg_ask_for(struct bpf_sock_ops *ctx, __u32 flags)
{
	__u32 others = ctx->bpf_sock_ops_cb_flags &
	               ~(BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG |
	                 BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);

	bpf_sock_ops_cb_flags_set(ctx, others | flags);
}

/* Step 1: a socket connects, and maybe not for the first time. */
__noinline int tg_ops_connect(struct bpf_sock_ops *ctx)
{
	struct tg_agreement *a = tg_agreement_of(ctx, 0);
	struct tg_tw_rules *rules;
	struct tg_tuple t;
	__u32 offered = TG_TW_NOBODY, has_room;

	if (a) {
		__builtin_memset(a, 0, sizeof(*a));
		tg_ask_for(ctx, 0);
	}
	tg_ops_tuple(ctx, TG_TW_CLIENT, &t);
	rules = tg_destination_rules(t.daddr, t.is_ipv6);
	if (!rules || (!rules->negotiate && !rules->close_swap))
		return 0;
	/* Of two ends with one address none can be named. */
	if (tg_differ(t.saddr, t.daddr)) {
		has_room = tg_room_for(&t, TG_TW_CLIENT, rules->negotiate);
		if (!has_room)
			tg_count_end(TG_TW_NO_ROOM);
		offered = tg_tw_offer(rules, has_room);
	}
	a = tg_agreement_of(ctx, BPF_SK_STORAGE_GET_F_CREATE);
	if (!a)
		return 0;
	a->us = TG_TW_CLIENT;
	a->offered = offered;
	a->close_swap = rules->close_swap;
	if (offered)
		tg_ask_for(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	return 0;
}

/* Step 2: the SYN/ACK of a listener's request; whom it names. */
TG_INLINE __u32 tg_ops_answer(struct bpf_sock_ops *ctx, struct tg_tuple *t)
{
	/* Nothing is kept of a SYN that the kernel answers with a cookie of its own. */
	__u32 keeps = ctx->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE;
	const struct tg_tw_rules *rules;
	struct tg_place at = {};
	__u32 offered, can_hold, is_met;

	tg_ops_tuple(ctx, TG_TW_SERVER, t);
	if (!tg_find_guard(t, &at) || !at.guard->time_wait.negotiate)
		return TG_TW_NOBODY;
	rules = &at.guard->time_wait;
	offered = tg_ops_named(ctx, t, BPF_LOAD_HDR_OPT_TCP_SYN);
	if (!offered)
		return TG_TW_NOBODY;
	can_hold = keeps && tg_room_for(t, TG_TW_SERVER, rules->negotiate);
	/* Only the server that is to hold need meet it. */
	is_met = rules->negotiate != TG_TW_SERVER || (keeps && tg_syn_is_met(ctx, t, can_hold));
	return tg_tw_promise(TG_TW_SERVER, tg_tw_answer(rules, offered, can_hold), is_met);
}

/* The option for a segment that is about to go out; 0 where it carries none. */
__noinline __u32 tg_ops_option(struct bpf_sock_ops *ctx, struct tg_tw_option *option)
{
	__u32 flags = ctx->skb_tcp_flags;
	struct tg_tw_value value = {}, own = {};
	struct tg_agreement *a;
	struct tg_tuple t;

	if (!option)
		return 0;
	if (!ctx->is_fullsock) {
		__u32 holder = tg_ops_answer(ctx, &t);

		if (holder)
			tg_tw_name(&t, holder, &value);
		return tg_tw_write(&value, option);
	}
	a = tg_agreement_of(ctx, 0);
	if (!a)
		return 0;
	tg_ops_tuple(ctx, a->us, &t);
	if ((flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_SYN) {
		tg_tw_name(&t, a->offered, &value);
	} else if (flags & TG_TCP_SYN) {
		/* Both opened at once: the SYN/ACK has what Table 1 says. */
		tg_tw_name(&t, a->offered, &own);
		tg_tw_simultaneous(&own, &a->peer, &value);
	} else if (a->writing) {
		tg_tw_name(&t, a->holder, &value);
	}
	return tg_tw_write(&value, option);
}

/* The client's handshake is over. */
__noinline int tg_ops_opened(struct bpf_sock_ops *ctx)
{
	struct tg_agreement *a = tg_agreement_of(ctx, 0);
	struct tg_tw_rules *rules;
	__u32 answered, verdict = TG_TW_TODAY, taken;
	struct tg_tuple t;

	if (!a)
		return 0;
	tg_ops_tuple(ctx, TG_TW_CLIENT, &t);
	rules = tg_destination_rules(t.daddr, t.is_ipv6);
	answered = tg_tw_promise(TG_TW_CLIENT, tg_ops_named(ctx, &t, 0), a->is_met);
	/* There was room for what it offered itself. */
	taken = answered == a->offered ? TG_TW_NOBODY : answered;
	if (rules)
		verdict = tg_tw_judge(rules, a->offered, answered,
		                      tg_room_for(&t, TG_TW_CLIENT, taken));
	if (verdict == TG_TW_AGREE) {
		a->holder = answered;
		/* Until the server is heard again, and so has seen a segment that says so. */
		a->writing = 1;
		tg_ask_for(ctx, BPF_SOCK_OPS_STATE_CB_FLAG |
		                        BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG |
		                        BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		tg_count_end(answered == TG_TW_CLIENT ? TG_TW_AGREED_HERE : TG_TW_AGREED_THERE);
		return 0;
	}
	/* A choice that is not acceptable was reset at the IP entry, where that stands. */
	if (a->offered)
		tg_count_end(TG_TW_UNSPOKEN);
	tg_ask_for(ctx, a->close_swap ? BPF_SOCK_OPS_STATE_CB_FLAG : 0);
	return 0;
}

/* Both opened at once: the peer's SYN/ACK has the value of Table 1, or none. */
TG_INLINE void tg_ops_met(struct bpf_sock_ops *ctx, struct tg_agreement *a)
{
	struct tg_tw_value own, use;
	struct tg_tuple t;

	tg_ops_tuple(ctx, TG_TW_CLIENT, &t);
	tg_tw_name(&t, a->offered, &own);
	tg_tw_simultaneous(&own, &a->peer, &use);
	a->holder = tg_tw_settle(TG_TW_CLIENT, tg_tw_named(&t, &use), tg_ops_named(ctx, &t, 0));
	a->writing = 0;
	tg_ask_for(ctx, a->holder || a->close_swap ? BPF_SOCK_OPS_STATE_CB_FLAG : 0);
	if (a->holder)
		tg_count_end(a->holder == TG_TW_CLIENT ? TG_TW_AGREED_HERE : TG_TW_AGREED_THERE);
	else if (a->offered)
		tg_count_end(TG_TW_UNSPOKEN);
}

/* The server's handshake is over: the ACK, and with a choice of "server" the SYN, are at hand. */
__noinline int tg_ops_accepted(struct bpf_sock_ops *ctx)
{
	__u32 answered, confirmed, holder;
	struct tg_place at = {};
	struct tg_agreement *a = tg_agreement_of(ctx, 0);
	struct tg_tuple t;

	if (a && a->us == TG_TW_CLIENT) {
		tg_ops_met(ctx, a);
		return 0;
	}
	tg_ops_tuple(ctx, TG_TW_SERVER, &t);
	answered = tg_find_guard(&t, &at) ? at.guard->time_wait.negotiate : TG_TW_NOBODY;
	/* Else of a listener that another address's guard, or one before, had ask. */
	if (!answered && !(ctx->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		return 0;
	/* Fast Open: the handshake is not over, and its client gets a SYN/ACK without our option.
	 */
	confirmed = ctx->skb_tcp_flags & TG_TCP_SYN ? TG_TW_NOBODY : tg_ops_named(ctx, &t, 0);
	/* A client that never spoke is not held for, nor one that no SYN/ACK can have told so. */
	if (answered == TG_TW_SERVER)
		answered = tg_tw_promise(TG_TW_SERVER, answered, tg_syn_may_be_told(&t));
	if (confirmed != answered && answered == TG_TW_SERVER &&
	    !tg_ops_named(ctx, &t, BPF_LOAD_HDR_OPT_TCP_SYN))
		answered = TG_TW_NOBODY;
	holder = tg_tw_settle(TG_TW_SERVER, answered, confirmed);
	a = holder ? tg_agreement_of(ctx, BPF_SK_STORAGE_GET_F_CREATE) : NULL;
	if (!a) {
		tg_ask_for(ctx, 0);
		return 0;
	}
	a->us = TG_TW_SERVER;
	a->holder = holder;
	tg_ask_for(ctx, BPF_SOCK_OPS_STATE_CB_FLAG);
	tg_count_end(holder == TG_TW_SERVER ? TG_TW_AGREED_HERE : TG_TW_AGREED_THERE);
	return 0;
}

#endif
