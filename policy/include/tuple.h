/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A connection by its addresses and ports: how it is written, and how it is named by a keyed hash.
 */
#ifndef TG_TUPLE_H
#define TG_TUPLE_H

#include "siphash.h"
#include "types.h"

/* A connection as the client sees it, in network byte order; of IPv4 word 0, the others are 0. */
struct tg_tuple {
	__u32 saddr[4];
	__u32 daddr[4];
	__u16 sport;
	__u16 dport;
	__u32 is_ipv6;
};

/* A socket for both families writes an IPv4 address so, in word 3 (RFC 4291, section 2.5.5.2). */
TG_INLINE int tg_is_mapped(const __u32 *addr)
{
	return !addr[0] && !addr[1] && addr[2] == __builtin_bswap32(0xffff);
}

/*
 * A MAC (SipHash-2-4) of addresses, ports, the client's initial sequence number, and of what the
 * caller binds besides. Apart: in its caller, with clang 17 and 18, the driver's program would need
 * more than 512 bytes of stack.
 */
TG_ONCE __u64 tg_tuple_mac(const struct tg_key *key, const struct tg_tuple *tuple, __u32 client_isn,
                           __u32 bound)
{
	struct tg_siphash s;
	__u32 length_bytes = 20;

	if (!key || !tuple)
		return 0;
	tg_siphash_init(&s, key);
	if (tuple->is_ipv6) {
		tg_siphash_word(&s, tuple->saddr[0] | (__u64)tuple->saddr[1] << 32);
		tg_siphash_word(&s, tuple->saddr[2] | (__u64)tuple->saddr[3] << 32);
		tg_siphash_word(&s, tuple->daddr[0] | (__u64)tuple->daddr[1] << 32);
		tg_siphash_word(&s, tuple->daddr[2] | (__u64)tuple->daddr[3] << 32);
		length_bytes = 44;
	} else {
		tg_siphash_word(&s, tuple->saddr[0] | (__u64)tuple->daddr[0] << 32);
	}
	tg_siphash_word(&s, tuple->sport | (__u64)tuple->dport << 16 | (__u64)client_isn << 32);
	return tg_siphash_end(&s, bound, length_bytes);
}

#endif
