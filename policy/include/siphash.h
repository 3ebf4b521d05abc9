/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SipHash (Aumasson and Bernstein, INDOCRYPT 2012) over 64-bit words and a tail of none or
 * four bytes. SipHash-2-4, as proposed, wherever somebody sees what it says: the numbers of
 * SYN/ACKs, cookies and refusals. What is only looked up by it, or drawn, does with SipHash-1-3, as
 * the kernel's own tables do (hsiphash, 4.11): five rounds for a short message in place of eight.
 */
#ifndef TG_SIPHASH_H
#define TG_SIPHASH_H

#include "types.h"

struct tg_key {
	__u64 k0, k1;
};

struct tg_siphash {
	__u64 v0, v1, v2, v3;
};

#define TG_ROTL64(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))

TG_INLINE void tg_siphash_round(struct tg_siphash *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = TG_ROTL64(s->v1, 13) ^ s->v0;
	s->v3 = TG_ROTL64(s->v3, 16) ^ s->v2;
	s->v0 = TG_ROTL64(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = TG_ROTL64(s->v1, 17) ^ s->v2;
	s->v3 = TG_ROTL64(s->v3, 21) ^ s->v0;
	s->v2 = TG_ROTL64(s->v2, 32);
}

TG_INLINE void tg_siphash_init(struct tg_siphash *s, const struct tg_key *key)
{
	s->v0 = key->k0 ^ 0x736f6d6570736575ull;
	s->v1 = key->k1 ^ 0x646f72616e646f6dull;
	s->v2 = key->k0 ^ 0x6c7967656e657261ull;
	s->v3 = key->k1 ^ 0x7465646279746573ull;
}

TG_INLINE void tg_siphash_word(struct tg_siphash *s, __u64 word)
{
	s->v3 ^= word;
	tg_siphash_round(s);
	tg_siphash_round(s);
	s->v0 ^= word;
}

/* The tail, in its low half, and the message's length close it. */
TG_INLINE __u64 tg_siphash_end(struct tg_siphash *s, __u32 tail, __u32 length_bytes)
{
	tg_siphash_word(s, (__u64)length_bytes << 56 | tail);
	s->v2 ^= 0xff;
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

TG_INLINE void tg_siphash13_word(struct tg_siphash *s, __u64 word)
{
	s->v3 ^= word;
	tg_siphash_round(s);
	s->v0 ^= word;
}

/* The hash of a message whose last word, with its length on top, was taken. */
TG_INLINE __u64 tg_siphash13_finish(struct tg_siphash *s)
{
	s->v2 ^= 0xff;
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

#endif
