/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SYN cookie: a connection's state in the 32 bits of our initial sequence
 * number, so that a SYN is answered and forgotten (Bernstein 1996; Shukla
 * 4.1.5, no-syn-drop). Unlike the kernel's it carries the options in the
 * sequence number itself, so they survive for clients without timestamps too.
 *
 *   bit 31 30 | 29 28 27 | 26 25 24 23 | 22   | 21  | 20 ... 0
 *   epoch mod 4 | MSS index | window scale | SACK | ECN | MAC
 *
 * Window scale 15 says that the client offered none. Timestamps need no bit: a
 * client that agreed on them sends them in its ACK (RFC 7323, section 3.2).
 *
 * A blind attacker's ACK is taken for a cookie with probability 2^-20.4: of 2^32
 * numbers 3072 are good, one for each of 3 epochs, 512 options and 2 keys. Who puts in
 * an epoch that counts gets 2^-20. That is what the options cost: the number of the kernel's own
 * cookies keeps no more than 4 MSS values, for 2 minutes, under a hash over all 32 bits,
 * so that 8 numbers are good, 2^-29. A hash over the upper 11 bits of ours would hide
 * what they say, and leave as many good numbers.
 */
#ifndef TG_COOKIE_H
#define TG_COOKIE_H

#include "siphash.h"
#include "tuple.h"
#include "types.h"

#define TG_COOKIE_MAC_MASK 0x001fffffu
#define TG_COOKIE_NO_WSCALE 15u
/* An epoch is 2^36 ns, 68.7 s; a cookie is good in its own and the next: up to 137.4 s. */
#define TG_COOKIE_EPOCH_SHIFT 36
#define TG_COOKIE_LIFE_NS (2ull << TG_COOKIE_EPOCH_SHIFT)
/* The scale of the windows that we announce: Linux's own for tcp_rmem's 32 MB (its default
 * since 6.16). */
#define TG_COOKIE_RCV_WSCALE 10u

struct tg_cookie_keys {
	struct tg_key current;  /* makes and checks cookies */
	struct tg_key previous; /* checks only: a rotation breaks no handshake */
};

struct tg_cookie_options {
	__u16 mss;   /* bytes; rounded down to a value of the table */
	__u8 wscale; /* 0 to 14, or TG_COOKIE_NO_WSCALE */
	__u8 sack;
	__u8 ecn;
	__u8 padding[3];
};

/*
 * MSS values that paths of today produce: the minimum of RFC 9293, IPv6's
 * minimum MTU, tunnels and VPNs, mobile networks, IPv6 and IPv4 over Ethernet,
 * jumbo frames, and loopback.
 */
TG_INLINE __u32 tg_cookie_mss(__u32 index)
{
	switch (index & 7) {
	case 0: return 536;
	case 1: return 1220;
	case 2: return 1300;
	case 3: return 1380;
	case 4: return 1440;
	case 5: return 1460;
	case 6: return 8940;
	default: return 65475;
	}
}

TG_INLINE __u32 tg_cookie_mss_index(__u32 mss)
{
	if (mss >= 65475)
		return 7;
	if (mss >= 8940)
		return 6;
	if (mss >= 1460)
		return 5;
	if (mss >= 1440)
		return 4;
	if (mss >= 1380)
		return 3;
	if (mss >= 1300)
		return 2;
	if (mss >= 1220)
		return 1;
	return 0;
}

/*
 * The least MSS that a cookie can keep, and what a client has that names none (RFC 9293, section
 * 3.7.1). bpf_sk_assign_tcp_reqsk() lets no smaller one in: 536 by IPv4, 1220 by IPv6, its least
 * MTU less 60 (Linux 6.9).
 */
TG_INLINE __u32 tg_cookie_mss_least(__u32 is_ipv6)
{
	return is_ipv6 ? 1220 : 536;
}

/* What the MAC binds besides the tuple: the whole epoch and the options' bits. */
TG_INLINE __u32 tg_cookie_bound(__u32 epoch, __u32 option_bits)
{
	return (epoch << 9) | (option_bits & 0x1ff);
}

/* clock_ns is the wall clock, which hosts share. */
TG_INLINE __u32 tg_cookie_epoch(__u64 clock_ns)
{
	return (__u32)(clock_ns >> TG_COOKIE_EPOCH_SHIFT);
}

struct tg_cookie {
	__u32 isn;       /* the sequence number of the SYN/ACK */
	__u32 ts_offset; /* a random start for the connection's timestamps */
};

TG_INLINE struct tg_cookie tg_cookie_make(const struct tg_key *key, const struct tg_tuple *tuple,
                                          __u32 client_isn, __u32 epoch,
                                          const struct tg_cookie_options *options)
{
	__u32 bits = tg_cookie_mss_index(options->mss) << 6 | (options->wscale & 15u) << 2 |
	             (options->sack ? 2u : 0) | (options->ecn ? 1u : 0);
	__u64 mac = tg_tuple_mac(key, tuple, client_isn, tg_cookie_bound(epoch, bits));
	struct tg_cookie cookie = {
		.isn = (epoch & 3) << 30 | bits << 21 | ((__u32)mac & TG_COOKIE_MAC_MASK),
		.ts_offset = (__u32)(mac >> 32),
	};

	return cookie;
}

/*
 * Is this a cookie of ours, and fresh? Then its options are in *options. An
 * epoch ahead is taken too: hosts that share keys share their clocks only so
 * far.
 */
TG_INLINE int tg_cookie_open(const struct tg_cookie_keys *keys, const struct tg_tuple *tuple,
                             __u32 client_isn, __u32 cookie, __u32 epoch,
                             struct tg_cookie_options *options)
{
	__u32 bits = (cookie >> 21) & 0x1ff;
	__u32 age = (epoch - (cookie >> 30)) & 3;
	__u32 made, bound;

	if (age == 2)
		return 0;
	made = age == 3 ? epoch + 1 : epoch - age;
	bound = tg_cookie_bound(made, bits);
	if (((__u32)tg_tuple_mac(&keys->current, tuple, client_isn, bound) ^ cookie) &
	            TG_COOKIE_MAC_MASK &&
	    ((__u32)tg_tuple_mac(&keys->previous, tuple, client_isn, bound) ^ cookie) &
	            TG_COOKIE_MAC_MASK)
		return 0;
	options->mss = (__u16)tg_cookie_mss(bits >> 6);
	options->wscale = (bits >> 2) & 15;
	options->sack = (bits >> 1) & 1;
	options->ecn = bits & 1;
	return 1;
}

#endif
