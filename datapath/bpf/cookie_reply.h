/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The SYN/ACK that carries our cookie. */
#ifndef TG_COOKIE_REPLY_H
#define TG_COOKIE_REPLY_H

#include "reply.h"
#include "syn_stage.h"

/* tcp_congestion_ops' flag, of DCTCP and its like. */
#define TG_TCP_CONG_NEEDS_ECN 2

/*
 * tcp_ecn_create_request(): a SYN that asks for ECN has both bits, and no codepoint in IP (RFC
 * 3168, section 6.1.1), but where the listener's congestion control lives by it (RFC 8257,
 * section 3.1).
 */
TG_INLINE int tg_cookie_agrees_ecn(const struct tg_syn_stage *s, const struct net *net)
{
	const struct tcp_congestion_ops *control = s->socket.tp->inet_conn.icsk_ca_ops;

	if ((s->packet->flags & (TG_TCP_ECE | TG_TCP_CWR)) != (TG_TCP_ECE | TG_TCP_CWR))
		return 0;
	return (!s->packet->ecn_capable && net->ipv4.sysctl_tcp_ecn) ||
	       control->flags & TG_TCP_CONG_NEEDS_ECN;
}

/* What this SYN's options come to, as far as the host's sysctls allow them. */
TG_INLINE void tg_cookie_agree_options(const struct tg_syn_stage *s, struct tg_cookie_options *o)
{
	struct net *net = s->socket.tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net;
	const struct tg_tcp_options *offered = &s->hand->options;

	__builtin_memset(o, 0, sizeof(*o));
	o->mss = tg_has_option(offered, TG_OPTION_MSS)
	                 ? tg_syn_mss_clamp(s, offered->mss)
	                 : tg_cookie_mss_least(s->packet->tuple.is_ipv6);
	o->wscale = tg_has_option(offered, TG_OPTION_WSCALE) && net->ipv4.sysctl_tcp_window_scaling
	                    ? offered->wscale
	                    : TG_COOKIE_NO_WSCALE;
	o->sack = tg_has_option(offered, TG_OPTION_SACK) && net->ipv4.sysctl_tcp_sack;
	o->ecn = tg_cookie_agrees_ecn(s, net);
}

/*
 * tcp_full_space(): what of the receive buffer is window. Since Linux 6.6 the socket knows; before
 * that it is half by default.
 */
TG_INLINE __u32 tg_full_space(const struct tcp_sock *tp)
{
	__u64 bytes = tp->inet_conn.icsk_inet.sk.sk_rcvbuf;

	return bpf_core_field_exists(tp->scaling_ratio) ? bytes * tp->scaling_ratio >> 8
	                                                : bytes / 2;
}

/*
 * As tcp_select_initial_window() will have it when the cookie comes back: what is said beyond that
 * would be dropped.
 */
TG_INLINE __u32 tg_cookie_window(const struct tcp_sock *tp, __u32 mss)
{
	__u32 space = tg_full_space(tp), clamp = tp->window_clamp;

	if (clamp && clamp < space)
		space = clamp;
	if (space > mss)
		space -= space % mss;
	return space < 65535 ? space : 65535;
}

/* What a packet may have at this interface. IPv6 has its own, from routers too
 * (ip6_default_advmss()). */
TG_INLINE __u32 tg_mtu_of(const struct net_device *dev, __u32 is_ipv6)
{
	const struct inet6_dev *in6;
	__u32 mtu = dev->mtu, mtu6;

	if (!is_ipv6 || !bpf_core_field_exists(dev->ip6_ptr))
		return mtu;
	in6 = dev->ip6_ptr;
	if (!in6)
		return mtu;
	mtu6 = in6->cnf.mtu6;
	return mtu6 && mtu6 < mtu ? mtu6 : mtu;
}

/*
 * Only options that the SYN itself carried, so the answer is never longer than
 * the question. mtu is the interface's.
 */
TG_INLINE void tg_cookie_write_options(const struct tg_syn_stage *s,
                                       const struct tg_cookie_options *o, __u32 ts_offset,
                                       __u32 mtu, struct tg_reply *r)
{
	struct net *net = s->socket.tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net;
	__u32 headers = tg_reply_ip_bytes(s->packet) + sizeof(struct tcphdr);
	__u32 mss = mtu > headers + 536 ? mtu - headers : 536;

	r->option_words = 0;
	if (tg_has_option(&s->hand->options, TG_OPTION_MSS))
		tg_reply_option(r,
		                2 << 24 | 4 << 16 | tg_syn_mss_clamp(s, mss > 65535 ? 65535 : mss));
	if (tg_has_option(&s->hand->options, TG_OPTION_TIMESTAMPS) &&
	    net->ipv4.sysctl_tcp_timestamps) {
		/* SACK permitted takes the place of the padding before the timestamps. */
		tg_reply_option(r, (o->sack ? 4 << 24 | 2 << 16 : 1 << 24 | 1 << 16) | 8 << 8 | 10);
		/* 2^20 ns a tick: within the 1 ms to 1 s of RFC 7323, section 5.4. */
		tg_reply_option(r, (__u32)(s->hand->syn.now_ns >> 20) + ts_offset);
		tg_reply_option(r, s->hand->options.tsval);
	} else if (o->sack) {
		tg_reply_option(r, 1 << 24 | 1 << 16 | 4 << 8 | 2);
	}
	if (o->wscale != TG_COOKIE_NO_WSCALE)
		tg_reply_option(r, 1 << 24 | 3 << 16 | 3 << 8 | TG_COOKIE_RCV_WSCALE);
}

TG_INLINE __u32 tg_cookie_clock_epoch(const struct tg_syn_stage *s)
{
	return tg_cookie_epoch(s->hand->syn.now_ns + s->at->control->clock_offset_ns);
}

TG_INLINE void tg_reply_cookie(const struct tg_syn_stage *s, __u32 mtu, struct tg_reply *r)
{
	struct tg_cookie_options options;
	struct tg_cookie cookie;

	tg_cookie_agree_options(s, &options);
	cookie = tg_cookie_make(&s->at->config->keys.current, &s->packet->tuple, s->packet->seq,
	                        tg_cookie_clock_epoch(s), &options);
	tg_cookie_write_options(s, &options, cookie.ts_offset, mtu, r);
	r->marks.seq = cookie.isn;
	r->marks.ack = s->packet->seq + 1;
	r->marks.flags = TG_TCP_SYN | TG_TCP_ACK | (options.ecn ? TG_TCP_ECE : 0);
	r->window = tg_cookie_window(s->socket.tp, tg_cookie_mss(tg_cookie_mss_index(options.mss)));
	__builtin_memcpy(r->next_hop, s->hand->way.next_hop, sizeof(r->next_hop));
}

#endif
