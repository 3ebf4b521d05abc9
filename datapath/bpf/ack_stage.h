/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK stage: a segment that may complete a handshake. It stands at the IP
 * entry, for that is where the kernel takes a finished request from BPF; but for what
 * answers a hollow SYN/ACK, which the driver answers where it judges SYNs.
 */
#ifndef TG_ACK_STAGE_H
#define TG_ACK_STAGE_H

#include "../../policy/include/ack.h"
#include "../../policy/include/sequence.h"
#include "accepts.h"
#include "answered.h"
#include "guard.h"
#include "kernel_cookie.h"
#include "log.h"
#include "overload_stage.h"
#include "police_stage.h"
#include "socket.h"

int bpf_sk_assign_tcp_reqsk(struct __sk_buff *s, struct sock *sk, struct bpf_tcp_req_attrs *attrs,
                            int attrs__sz) __ksym __weak;

/*
 * While a guard is calm no ACK can overflow and no cookie is out: then this is
 * all that is done for a segment, so it stands before anything that costs more.
 */
TG_INLINE int tg_looks_up_acks(const struct tg_tuple *tuple)
{
	__u64 *until_ns;
	struct tg_place at;
	__u32 index;

	if (!tg_find_guard(tuple, &at))
		return 0;
	/* A copy, so that no more than this of the place need be in memory. */
	index = at.index;
	until_ns = bpf_map_lookup_elem(&watch_until_ns, &index);
	return until_ns && *until_ns;
}

/* Is what was expected until then over? Another processor may be prolonging it. */
TG_INLINE int tg_is_over(__u64 *until_ns, __u64 now_ns)
{
	__u64 last_ns = *until_ns;

	if (now_ns <= last_ns)
		return 0;
	__sync_val_compare_and_swap(until_ns, last_ns, 0);
	return 1;
}

/* The kernel's tcp_in_window(), on the request's own window. */
TG_INLINE int tg_in_window(__u32 seq, __u32 end_seq, __u32 from, __u32 to)
{
	if (seq == from)
		return 1;
	if (tg_before(from, end_seq) && tg_before(seq, to))
		return 1;
	return seq == to && seq == end_seq;
}

/* A SYN/ACK ACK, and no more. */
TG_INLINE int tg_is_bare(const struct tg_packet *p)
{
	return !p->payload_bytes && !(p->flags & TG_TCP_FIN);
}

/* What tcp_check_req() tests before it looks at the listen queue. */
TG_INLINE void tg_read_request(struct tcp_request_sock *req, struct tcp_sock *listener,
                               const struct tg_packet *p, struct tg_ack *ack)
{
	__u32 fin = !!(p->flags & TG_TCP_FIN);
	__u32 end_seq = p->seq + p->payload_bytes + fin;
	__u32 window = req->req.req.__req_common.skc_rcv_wnd;

	ack->is_request = 1;
	ack->bare = tg_is_bare(p);
	ack->acceptable = !req->tfo_listener && p->ack == req->snt_isn + 1 &&
	                  tg_in_window(p->seq, end_seq, req->rcv_nxt, req->rcv_nxt + window);
	ack->deferred =
		end_seq == req->rcv_isn + 1 &&
		req->req.req.num_timeout < listener->inet_conn.icsk_accept_queue.rskq_defer_accept;
}

/* The clock of ticks is too coarse for a round trip. */
TG_INLINE void tg_ack_meet(struct tg_overload *o, const struct tg_ack *ack,
                           struct tg_decision decision, const struct tg_ack_stage *s)
{
	__u32 seq = s->packet->seq;
	__u64 now_ns = tg_pace_tells(o, seq, s->now_ns) ? bpf_ktime_get_ns() : s->now_ns;

	tg_overload_meet_ack(o, ack, decision, seq, now_ns);
}

/*
 * A client's first data of a connection that stands: has the server said something before? Once
 * for each connection, and only of what TCP will take: nobody is to decide for all the others.
 */
TG_INLINE void tg_ack_hear(const struct tg_ack_stage *s, const struct tcp_sock *tp)
{
	struct tg_speaks *speaks = tg_speaks_of(s->at.index);

	if (!speaks || !s->packet->payload_bytes || tp->bytes_received || tp->data_segs_in ||
	    s->packet->seq != tp->rcv_nxt ||
	    s->packet->ack - tp->snd_una > tp->snd_nxt - tp->snd_una)
		return;
	tg_speaks_see(speaks, s->packet->ack != tp->snd_una - (__u32)tp->bytes_acked);
}

/*
 * And the first data to a request, which the server has not seen: behind TCP_DEFER_ACCEPT no
 * connection stands before that.
 */
TG_INLINE void tg_ack_hear_deferred(const struct tg_ack_stage *s, const struct tcp_sock *listener,
                                    const struct tg_ack *ack)
{
	struct tg_speaks *speaks = tg_speaks_of(s->at.index);

	if (speaks && ack->acceptable && s->packet->payload_bytes &&
	    listener->inet_conn.icsk_accept_queue.rskq_defer_accept)
		tg_speaks_see(speaks, 0);
}

/* auto: what becomes of it where it finds no room. */
TG_INLINE void tg_ack_ask(const struct tg_overload *o, const struct tg_ack_stage *s,
                          struct tg_ack *ack)
{
	struct tg_speaks *speaks = tg_speaks_of(s->at.index);

	ack->silent = tg_overload_silences_ack(o, s->now_ns);
	ack->speaks_first = speaks && tg_speaks_first(speaks);
}

/* Decides for a segment to this listening socket, and counts it with the socket. */
TG_INLINE struct tg_decision tg_ack_judge(const struct tg_ack_stage *s, struct tcp_sock *listener,
                                          struct tg_ack *ack)
{
	const struct tg_rules *rules = &s->at.guard->rules;
	__u32 slot = tg_slot_of(listener, s->at.index);
	struct tg_overload *o = rules->is_auto ? tg_overload_of(slot) : NULL;
	struct tg_decision decision;
	struct tg_queues queues;

	tg_read_queues(listener, &queues);
	if (s->at.guard->has_limits && tg_listen_queue_full(&queues))
		ack->exempt = tg_is_exempt(s->packet, s->at.active, s->at.index);
	if (o)
		tg_ack_ask(o, s, ack);
	decision = tg_ack_decide(rules, &queues, ack);
	tg_count(slot, decision);
	tg_accepts_admit(rules, slot, decision.reason);
	if (o)
		tg_ack_meet(o, ack, decision, s);
	tg_log_refusal(s->packet, s->at.index, rules, decision, s->now_ns);
	return decision;
}

TG_INLINE int tg_open_cookie(const struct tg_ack_stage *s, struct tg_cookie_options *options)
{
	__u32 epoch = tg_cookie_epoch(s->now_ns + s->at.control->clock_offset_ns);

	return tg_cookie_open(&s->at.config->keys, &s->packet->tuple, s->packet->seq - 1,
	                      s->packet->ack - 1, epoch, options);
}

/* Does it answer a hollow SYN/ACK? What the client says first is numbered as its ACK is. */
TG_INLINE int tg_answers_hollow(const struct tg_ack_stage *s)
{
	const struct tg_packet *p = s->packet;

	if (!s->at.guard->rules.is_auto)
		return 0;
	return tg_is_behind_hollow(s) ||
	       p->ack - 1 == tg_shed_answer(&s->at.config->shed_key, &p->tuple, p->seq - 1);
}

/* What answers a hollow SYN/ACK. is_second: its ACK was answered a moment ago. */
TG_INLINE struct tg_decision tg_ack_hollow(const struct tg_ack_stage *s, struct tcp_sock *listener,
                                           int is_second)
{
	struct tg_ack ack = {.cookie = TG_ACK_HOLLOW, .was_told = is_second};
	struct tg_decision decision;

	ack.bare = tg_is_bare(s->packet);
	decision = tg_ack_judge(s, listener, &ack);
	if (ack.bare)
		tg_note_answered(s, 1);
	return decision;
}

/* Hands the kernel a finished request (Linux 6.9). */
TG_INLINE int tg_admit(struct __sk_buff *ctx, struct tcp_sock *listener,
                       const struct tg_cookie_options *options, const struct tg_tcp_options *seen)
{
	struct bpf_tcp_req_attrs attrs = {};

	if (!bpf_ksym_exists(bpf_sk_assign_tcp_reqsk))
		return 0;
	attrs.mss = options->mss;
	attrs.sack_ok = options->sack;
	attrs.ecn_ok = options->ecn;
	if (options->wscale != TG_COOKIE_NO_WSCALE) {
		attrs.wscale_ok = 1;
		attrs.snd_wscale = options->wscale;
		attrs.rcv_wscale = TG_COOKIE_RCV_WSCALE;
	}
	if (tg_has_option(seen, TG_OPTION_TIMESTAMPS)) {
		attrs.tstamp_ok = 1;
		attrs.rcv_tsval = seen->tsval;
		attrs.rcv_tsecr = seen->tsecr;
	}
	return bpf_sk_assign_tcp_reqsk(ctx, &listener->inet_conn.icsk_inet.sk, &attrs,
	                               sizeof(attrs)) == 0;
}

#endif
