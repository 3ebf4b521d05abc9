/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who holds TIME-WAIT (Faber, Touch and Yue, INFOCOM 1999).
 *
 * TW-Negotiate (section 3): an option in SYN, SYN/ACK and ACK names the end that will hold
 * it, whoever closes first. close_swap (section 4): a client that closed second resets the
 * server's TIME-WAIT and waits itself. Both only move the wait; they never shorten it, and
 * where the ends may not understand each other alike, both wait rather than neither.
 */
#ifndef TG_TIME_WAIT_H
#define TG_TIME_WAIT_H

#include "tuple.h"
#include "types.h"

/*
 * The option: RFC 4727's first experimental kind, shared by RFC 6994's identifier. "TW"; it
 * is not registered with IANA.
 *
 *   kind 253 | length 8 or 20 | 0x54 0x57 | the holder's IPv4 or IPv6 address
 *
 * A SYN of today's systems has 20 of 40 bytes of options left: the longer form just fits.
 */
#define TG_TW_KIND 253
#define TG_TW_EXID_HIGH 0x54
#define TG_TW_EXID_LOW 0x57
#define TG_TW_HEAD_BYTES 4
#define TG_TW_IPV4_BYTES 8
#define TG_TW_IPV6_BYTES 20

/* What the option carries: an address in network byte order; IPv4 in word 0. */
struct tg_tw_value {
	__u32 addr[4];
	__u32 family; /* 0: no option; 4; 6 */
};

struct tg_tw_option {
	__u8 bytes[TG_TW_IPV6_BYTES];
};

/* An end of a connection, or none. */
enum tg_tw_holder {
	TG_TW_NOBODY, /* nothing agreed: TIME-WAIT is where TCP leaves it */
	TG_TW_CLIENT,
	TG_TW_SERVER,
};

/* What an operator wants of connections to or from somewhere. All zero: today's TCP. */
struct tg_tw_rules {
	__u32 negotiate;  /* enum tg_tw_holder: whom we name; nobody: we do not speak it */
	__u32 insist;     /* as a client: reset a connection whose server names another */
	__u32 close_swap; /* as a client, where nothing is agreed */
};

/* The option's bytes, or 0 where the value is none. */
TG_INLINE __u32 tg_tw_write(const struct tg_tw_value *value, struct tg_tw_option *option)
{
	__u32 bytes = value->family == 6 ? TG_TW_IPV6_BYTES : TG_TW_IPV4_BYTES;

	__builtin_memset(option, 0, sizeof(*option));
	if (!value->family)
		return 0;
	option->bytes[0] = TG_TW_KIND;
	option->bytes[1] = (__u8)bytes;
	option->bytes[2] = TG_TW_EXID_HIGH;
	option->bytes[3] = TG_TW_EXID_LOW;
	if (value->family == 6)
		__builtin_memcpy(&option->bytes[TG_TW_HEAD_BYTES], value->addr, 16);
	else
		__builtin_memcpy(&option->bytes[TG_TW_HEAD_BYTES], value->addr, 4);
	return bytes;
}

/* What an option says; none where it is another's, or has no length of ours. */
TG_INLINE void tg_tw_read(const struct tg_tw_option *option, struct tg_tw_value *value)
{
	__builtin_memset(value, 0, sizeof(*value));
	if (option->bytes[0] != TG_TW_KIND || option->bytes[2] != TG_TW_EXID_HIGH ||
	    option->bytes[3] != TG_TW_EXID_LOW)
		return;
	if (option->bytes[1] == TG_TW_IPV4_BYTES) {
		value->family = 4;
		__builtin_memcpy(value->addr, &option->bytes[TG_TW_HEAD_BYTES], 4);
	} else if (option->bytes[1] == TG_TW_IPV6_BYTES) {
		value->family = 6;
		__builtin_memcpy(value->addr, &option->bytes[TG_TW_HEAD_BYTES], 16);
	}
}

/*
 * The end that a value names. An address of neither end was written behind a translator:
 * what the other end means by it cannot be known. Where both ends have one address it
 * names no one. The tuple is the connection's, from the client to the server.
 */
TG_INLINE __u32 tg_tw_named(const struct tg_tuple *tuple, const struct tg_tw_value *value)
{
	__u32 family = tuple->is_ipv6 ? 6 : 4;

	if (value->family != family || !tg_differ(tuple->saddr, tuple->daddr))
		return TG_TW_NOBODY;
	if (!tg_differ(value->addr, tuple->saddr))
		return TG_TW_CLIENT;
	return !tg_differ(value->addr, tuple->daddr) ? TG_TW_SERVER : TG_TW_NOBODY;
}

/* The value that names an end; none where it is nobody, or cannot be told from the other. */
TG_INLINE void tg_tw_name(const struct tg_tuple *tuple, __u32 holder, struct tg_tw_value *value)
{
	__builtin_memset(value, 0, sizeof(*value));
	if (holder == TG_TW_NOBODY || !tg_differ(tuple->saddr, tuple->daddr))
		return;
	value->family = tuple->is_ipv6 ? 6 : 4;
	if (holder == TG_TW_CLIENT)
		__builtin_memcpy(value->addr, tuple->saddr, 16);
	else
		__builtin_memcpy(value->addr, tuple->daddr, 16);
}

/*
 * Step 1, the client's SYN: whom it names, or nobody where it does not speak.
 * can_hold: there is room to remember one more connection here.
 */
TG_INLINE __u32 tg_tw_offer(const struct tg_tw_rules *rules, __u32 can_hold)
{
	if (rules->negotiate == TG_TW_CLIENT && !can_hold)
		return TG_TW_NOBODY;
	return rules->negotiate <= TG_TW_SERVER ? rules->negotiate : TG_TW_NOBODY;
}

/*
 * Step 2, the server's SYN/ACK: its choice, but only to a client that spoke, and was understood.
 * can_hold: there is room, and something is kept of the SYN. Of one that was answered with a SYN
 * cookie nothing is: should the ACK come without its option, the client would count on a server
 * that knows of nothing. A client that is named holds in any case, so it can be named there too:
 * the ACK brings the name back, as the cookie.
 */
TG_INLINE __u32 tg_tw_answer(const struct tg_tw_rules *rules, __u32 offered, __u32 can_hold)
{
	if (offered == TG_TW_NOBODY)
		return TG_TW_NOBODY;
	if (rules->negotiate == TG_TW_SERVER && !can_hold)
		return TG_TW_NOBODY;
	return rules->negotiate <= TG_TW_SERVER ? rules->negotiate : TG_TW_NOBODY;
}

/*
 * Whom an end takes for the holder of what a segment names, or is to name: itself only where its
 * segments are met as its socket has them (is_met). Behind an interface at which no program stands,
 * or where this host changes addresses or ports in between, the pair would be blocked in vain.
 */
TG_INLINE __u32 tg_tw_promise(__u32 us, __u32 named, __u32 is_met)
{
	return named == us && !is_met ? TG_TW_NOBODY : named;
}

/* What the client does with the SYN/ACK. */
enum tg_tw_verdict {
	TG_TW_TODAY, /* no agreement: TCP as it is */
	TG_TW_AGREE, /* the same value in the ACK */
	TG_TW_RESET, /* the choice is not acceptable: RST, as though it failed to synchronize */
};

/*
 * Step 3. offered and answered are whom SYN and SYN/ACK name. A client that said nothing
 * agrees to nothing; a server that says nothing does not speak, which is not a refusal.
 * A client without room cannot take what it did not offer.
 */
TG_INLINE __u32 tg_tw_judge(const struct tg_tw_rules *rules, __u32 offered, __u32 answered,
                            __u32 can_hold)
{
	if (offered == TG_TW_NOBODY || answered == TG_TW_NOBODY)
		return TG_TW_TODAY;
	if (answered == offered)
		return TG_TW_AGREE;
	if (rules->insist || (answered == TG_TW_CLIENT && !can_hold))
		return TG_TW_RESET;
	return TG_TW_AGREE;
}

/*
 * What the end that spoke last but one believes once the handshake is over: us, a server, or
 * either end of a simultaneous open. An ACK without the value it sent may come from one that
 * agreed, and whose option was taken out on the way: then the other counts on us. In doubt we
 * hold what we said that we would, and leave nothing to one that may know nothing of it. Whoever
 * says that we hold has it from us, though our rule be another by now, and counts on us as well;
 * who makes it up has a place of a table that is bounded, as for any connection that it agrees to.
 */
TG_INLINE __u32 tg_tw_settle(__u32 us, __u32 answered, __u32 confirmed)
{
	if (answered == us || confirmed == us)
		return us;
	return confirmed == answered ? answered : TG_TW_NOBODY;
}

/* Network byte order: the first byte in memory is the highest. */
TG_INLINE int tg_tw_larger(const struct tg_tw_value *a, const struct tg_tw_value *b)
{
	if (a->family != b->family)
		return a->family > b->family;
	for (int i = 0; i < 4; i++) {
		__u32 x = __builtin_bswap32(a->addr[i]), y = __builtin_bswap32(b->addr[i]);

		if (x != y)
			return x > y;
	}
	return 0;
}

/*
 * Table 1: both ends opened at once, and each knows both values. Each goes on as a client that
 * got this value from its peer.
 */
TG_INLINE void tg_tw_simultaneous(const struct tg_tw_value *one, const struct tg_tw_value *other,
                                  struct tg_tw_value *use)
{
	__builtin_memset(use, 0, sizeof(*use));
	if (!one->family || !other->family)
		return;
	*use = tg_tw_larger(other, one) ? *other : *one;
}

/* Which close a connection had, as one end saw it. */
enum tg_tw_close {
	TG_TW_PASSIVE, /* the other end's FIN came first: LAST_ACK to CLOSED */
	TG_TW_ACTIVE,  /* ours went first, or both at once: TIME_WAIT */
};

/* What an end does when its connection is over. */
enum tg_tw_end {
	TG_TW_USUAL, /* what the kernel does: TIME_WAIT after an active close, else CLOSED */
	TG_TW_HOLD,  /* CLOSED in the kernel, and the pair blocked in our table for 2 MSL */
	TG_TW_LEAVE, /* CLOSED at once: the other end holds it */
	TG_TW_SWAP,  /* close_swap: RST to the server, and the pair blocked here */
};

/* holder is what was agreed, us the end that asks; both enum tg_tw_holder. */
TG_INLINE __u32 tg_tw_end(__u32 holder, __u32 us, __u32 close, __u32 close_swap)
{
	if (holder == TG_TW_NOBODY)
		return close_swap && us == TG_TW_CLIENT && close == TG_TW_PASSIVE ? TG_TW_SWAP
		                                                                  : TG_TW_USUAL;
	if (holder == us)
		return close == TG_TW_PASSIVE ? TG_TW_HOLD : TG_TW_USUAL;
	return close == TG_TW_ACTIVE ? TG_TW_LEAVE : TG_TW_USUAL;
}

#endif
