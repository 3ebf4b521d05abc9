/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a refusal says beyond itself: why, and when to come back; and what a client's host
 * makes of that (Shukla, thesis, 4.1.5 and chapter 6: connect() fails with an error that tells of
 * an overloaded server).
 *
 * Why: the payload of draft-ietf-tcpm-rst-diagnostic-payload-02, section 4.1.
 *
 *   magic 0x33aa, 16 bits | reason 10, resource exceeded, 16 bits | enterprise number 0, 32 bits
 *
 * When: an option of RFC 4727's first experimental kind, shared by RFC 6994's identifier, "TB";
 * it is not registered with IANA. It stands first, and behind it two NOPs.
 *
 *   kind 253 | length 6 | 0x54 0x42 | hundredths of a second, 16 bits
 */
#ifndef TG_NOTICE_H
#define TG_NOTICE_H

#include "listener.h"
#include "sequence.h"
#include "tuple.h"
#include "verdict.h"

#define TG_NOTICE_MAGIC 0x33aau
#define TG_NOTICE_RESOURCE_EXCEEDED 10u
#define TG_NOTICE_PAYLOAD_BYTES 8u
#define TG_NOTICE_KIND 253u
#define TG_NOTICE_OPTION_BYTES 6u
#define TG_NOTICE_EXID 0x5442u
/* With what fills its last word. */
#define TG_NOTICE_OPTION_ROOM 8u
#define TG_NOTICE_TICK_NS 10000000ull
#define TG_NOTICE_TICKS_MOST 65535u

/* Both parts, as they lie in a segment, but in host byte order. */
#define TG_NOTICE_PAYLOAD_0 (TG_NOTICE_MAGIC << 16 | TG_NOTICE_RESOURCE_EXCEEDED)
#define TG_NOTICE_PAYLOAD_1 0u
#define TG_NOTICE_OPTION_0 (TG_NOTICE_KIND << 24 | TG_NOTICE_OPTION_BYTES << 16 | TG_NOTICE_EXID)

TG_INLINE __u32 tg_notice_option_1(__u32 ticks)
{
	return ticks << 16 | 0x0101;
}

_Static_assert(TG_REASONS <= 64, "a reason is a bit of a word");

/* What a refusal carries. */
enum tg_notice_parts {
	TG_NOTICE_BARE,     /* it is a RST like any other */
	TG_NOTICE_WHY,      /* the payload alone */
	TG_NOTICE_WHY_WHEN, /* the payload and the option */
};

/*
 * Is a SYN refused though there is room, by lot, or for its network's rate or share? (Who is shed
 * is, too, before room is looked for.) Without a branch, as the next: see tg_less().
 */
TG_INLINE __u32 tg_notice_is_of_one(__u32 reason)
{
	const __u64 of_one = 1ull << TG_EARLY_RANDOM | 1ull << TG_POLICED | 1ull << TG_BEYOND_SHARE;

	return of_one >> (reason & 63) & 1;
}

/*
 * 0 where no time is named. Such a refusal is of one connection, and the next may be let through at
 * once; but a time is heeded for the whole server. is_of_one is 0 or 1.
 */
TG_INLINE __u32 tg_notice_come_back(const struct tg_rules *rules, __u32 is_of_one)
{
	return rules->come_back_ticks & (is_of_one - 1);
}

/*
 * spare_bytes: so many more has the segment that is refused than a bare RST. The answer is never
 * longer than the question: its sender may be somebody else.
 */
TG_INLINE __u32 tg_notice_parts(const struct tg_rules *rules, __u32 is_of_one, __u32 spare_bytes)
{
	if (!rules->notice || spare_bytes < TG_NOTICE_PAYLOAD_BYTES)
		return TG_NOTICE_BARE;
	if (!tg_notice_come_back(rules, is_of_one) ||
	    spare_bytes < TG_NOTICE_PAYLOAD_BYTES + TG_NOTICE_OPTION_ROOM)
		return TG_NOTICE_WHY;
	return TG_NOTICE_WHY_WHEN;
}

/* A RST that has come, and the socket that it has come to. Words are in host byte order. */
struct tg_notice_rst {
	__u32 is_connecting; /* the socket is in SYN-SENT, and its SYN is under way */
	__u32 has_ack;
	__u32 ack;
	__u32 snd_una;
	__u32 write_seq; /* behind the SYN, and the data in it */
	__u32 payload_bytes;
	__u32 payload[2];
	__u32 option[2]; /* the first words of its options, or zero */
};

/* What a host that listens to notices makes of a RST. */
enum tg_notice_verdict {
	TG_NOTICE_NONE,       /* it is none */
	TG_NOTICE_UNBELIEVED, /* one, but not to a connection that is being opened, or it may be
	                         forged */
	TG_NOTICE_UNTIMED,    /* one that does not say when to come back */
	TG_NOTICE_TIMED,
};

/*
 * RFC 9293, section 3.10.7.3: in SYN-SENT a RST is acceptable where it acknowledges the SYN. Who is
 * not on the path has one chance in 2^32 to know that number. Of an established connection a RST
 * says nothing about whether the server takes the next one.
 */
TG_INLINE __u32 tg_notice_hear(const struct tg_notice_rst *rst)
{
	if (rst->payload_bytes != TG_NOTICE_PAYLOAD_BYTES ||
	    rst->payload[0] != TG_NOTICE_PAYLOAD_0 || rst->payload[1] != TG_NOTICE_PAYLOAD_1)
		return TG_NOTICE_NONE;
	if (!rst->is_connecting || !rst->has_ack ||
	    !tg_acks_syn(rst->ack, rst->snd_una, rst->write_seq))
		return TG_NOTICE_UNBELIEVED;
	if (rst->option[0] != TG_NOTICE_OPTION_0 || !(rst->option[1] >> 16))
		return TG_NOTICE_UNTIMED;
	return TG_NOTICE_TIMED;
}

TG_INLINE __u32 tg_notice_ticks(const struct tg_notice_rst *rst)
{
	return rst->option[1] >> 16;
}

/*
 * Until when a destination is left alone that has said so now: for as long as it asked and up to
 * half as long again, by lot, so that those who were told together do not come back together. It is
 * obeyed for no more than longest_ms, and half of that again. What it has said before stands
 * where that is late enough: else many refusals at once would make the longest of their lots.
 */
TG_INLINE __u64 tg_notice_until(__u64 stands_ns, __u32 ticks, __u32 longest_ms, __u32 random,
                                __u64 now_ns)
{
	__u64 asked_ns = ticks * TG_NOTICE_TICK_NS, longest_ns = longest_ms * 1000000ull;

	if (asked_ns > longest_ns)
		asked_ns = longest_ns;
	if (stands_ns >= now_ns + asked_ns)
		return stands_ns;
	return now_ns + asked_ns + ((asked_ns >> 1) * (random >> 16) >> 16);
}

/* Where connections go: an address in network byte order, IPv4 in word 0; and a port. */
struct tg_target {
	__u32 addr[4];
	__u32 is_ipv6;
	__u32 port; /* host byte order */
};

/* To a socket for both families it may be an IPv4 address that is mapped. */
TG_INLINE void tg_target_unmap(struct tg_target *t)
{
	if (!t->is_ipv6 || !tg_is_mapped(t->addr))
		return;
	t->addr[0] = t->addr[3];
	t->addr[2] = 0;
	t->addr[3] = 0;
	t->is_ipv6 = 0;
}

#endif
