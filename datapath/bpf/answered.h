/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Clients whose ACK was answered, or left in silence, and what they say behind it. */
#ifndef TG_ANSWERED_H
#define TG_ANSWERED_H

#include "../../policy/include/ack.h"
#include "guard.h"

/* A segment in hand. */
struct tg_ack_stage {
	struct tg_packet *packet;
	struct tg_place at;
	__u64 now_ns;
};

/*
 * Clients whose ACK was answered a moment ago, and who may have said something behind it.
 *
 * A second segment of one whose cookie was let in is in the same batch of the driver: TCP has not
 * yet seen the first. It must pass as it is, behind the first, and finds the connection; a second
 * request for the same connection would cost the client this segment and a retransmission.
 *
 * One whose ACK of a hollow SYN/ACK met a RST had sent what it has to say before that came.
 */
#define TG_ANSWERED 256
#define TG_ANSWERED_NS 8000000ull

struct tg_answered {
	__u64 client; /* the cookie and the ports: names the connection well enough */
	__u64 at_ns;  /* but for the lowest bit: it was told, by a RST */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_ANSWERED);
	__type(key, __u32);
	__type(value, struct tg_answered);
} answered SEC(".maps");

TG_INLINE __u64 tg_answered_name(const struct tg_packet *p)
{
	return (__u64)p->ack << 32 | (__u32)p->tuple.sport << 16 | p->tuple.dport;
}

TG_INLINE struct tg_answered *tg_answered_entry(const struct tg_packet *p)
{
	__u32 index = p->ack & (TG_ANSWERED - 1);

	return bpf_map_lookup_elem(&answered, &index);
}

TG_INLINE __u64 tg_noted_since_ns(const struct tg_answered *a, const struct tg_ack_stage *s)
{
	return (s->now_ns | 1) - a->at_ns;
}

/* Is this client noted there, no longer ago than that? */
TG_INLINE int tg_is_noted(const struct tg_answered *a, const struct tg_ack_stage *s, __u64 life_ns)
{
	return a && a->client == tg_answered_name(s->packet) && tg_noted_since_ns(a, s) < life_ns;
}

TG_INLINE void tg_note(struct tg_answered *a, const struct tg_ack_stage *s, __u32 is_told)
{
	if (a) {
		a->client = tg_answered_name(s->packet);
		a->at_ns = (s->now_ns & ~1ull) | is_told;
	}
}

TG_INLINE int tg_just_answered(const struct tg_ack_stage *s)
{
	return tg_is_noted(tg_answered_entry(s->packet), s, TG_ANSWERED_NS);
}

TG_INLINE void tg_note_answered(const struct tg_ack_stage *s, __u32 is_told)
{
	tg_note(tg_answered_entry(s->packet), s, is_told);
}

/*
 * Clients who brought a cookie and found no room: what they say further is known by their
 * connection (TG_LEFT_NS). auto's who were left in silence; and whoever was told with its ACK,
 * until the next that it says. Any processor may meet it.
 */
#define TG_LEFT 65536

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_LEFT);
	__type(key, __u32);
	__type(value, struct tg_answered);
} left_in_silence SEC(".maps");

TG_INLINE struct tg_answered *tg_left_entry(const struct tg_packet *p)
{
	__u32 index = (__u32)(tg_answered_name(p) * 0x9e3779b97f4a7c15ull >> 48);

	return bpf_map_lookup_elem(&left_in_silence, &index);
}

_Static_assert(TG_LEFT == 1 << 16, "tg_left_entry yields sixteen bits");

TG_INLINE int tg_is_left(const struct tg_ack_stage *s)
{
	const struct tg_answered *a = tg_left_entry(s->packet);

	return s->at.guard->rules.is_auto && tg_is_noted(a, s, TG_LEFT_NS) && !(a->at_ns & 1) &&
	       tg_ack_is_behind(tg_noted_since_ns(a, s), s->packet->flags & TG_TCP_FIN);
}

/* Has the ACK that it sent before met a RST? */
TG_INLINE int tg_is_told(const struct tg_ack_stage *s)
{
	const struct tg_answered *a = tg_left_entry(s->packet);

	return tg_is_noted(a, s, TG_LEFT_NS) && a->at_ns & 1;
}

/*
 * Keeps what the next segment of one who brought a cookie is to be known by. Of what a client says
 * before it hears the RST the first segment alone brings the cookie; where one comes again, the RST
 * was lost.
 */
TG_INLINE void tg_ack_keep(const struct tg_ack_stage *s, const struct tg_ack *ack,
                           struct tg_decision decision)
{
	struct tg_answered *a = tg_left_entry(s->packet);

	if (tg_ack_leaves(&s->at.guard->rules, ack, decision))
		tg_note(a, s, 0);
	else if (tg_ack_tells(ack, decision))
		tg_note(a, s, 1);
	else if (a && ack->was_told)
		a->client = 0;
}

/* Is it what a client says behind an ACK that met a RST? Several segments, without GRO. */
TG_INLINE int tg_is_behind_hollow(const struct tg_ack_stage *s)
{
	const struct tg_answered *a = tg_answered_entry(s->packet);

	return s->packet->payload_bytes && tg_is_noted(a, s, TG_ANSWERED_NS) && a->at_ns & 1;
}

#endif
