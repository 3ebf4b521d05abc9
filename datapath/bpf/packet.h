/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP segment as the wire has it: Ethernet, up to two VLAN tags, IPv4 or
 * IPv6 with extension headers, TCP. Whatever is not that is not judged.
 */
#ifndef TG_PACKET_H
#define TG_PACKET_H

#include "../../policy/include/cookie.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TG_ETH_P_IP 0x0800
#define TG_ETH_P_IPV6 0x86dd
#define TG_ETH_P_8021Q 0x8100
#define TG_ETH_P_8021AD 0x88a8
#define TG_IPPROTO_TCP 6

#define TG_TCP_FIN 0x01
#define TG_TCP_SYN 0x02
#define TG_TCP_RST 0x04
#define TG_TCP_ACK 0x10
#define TG_TCP_ECE 0x40
#define TG_TCP_CWR 0x80

#define TG_VLAN_TAGS 2
/* Of a tag: which VLAN; 0 is none, and the tag a priority (IEEE 802.1Q, 9.6). */
#define TG_VLAN_ID 0xfff
/* Hop-by-hop, destination, routing, destination again: RFC 8200, section 4.1. */
#define TG_IPV6_EXTENSIONS 4
/* Options of a segment that are read; no client of today sends as many, padding included. */
#define TG_OPTIONS_READ 16
/* Options that end behind this offset are not read: only long extension headers lead there. */
#define TG_OPTIONS_REACH 512

struct tg_packet {
	struct tg_tuple tuple;
	__u32 l3_offset;
	__u32 l4_offset;
	__u32 seq; /* host byte order, as is ack */
	__u32 ack;
	__u32 tcp_header_bytes;
	__u32 payload_bytes; /* as the IP header says, not as the frame was padded */
	__u8 flags;
	__u8 direct;      /* the TCP header follows the fixed IP header at once */
	__u8 ecn_capable; /* the IP header carries an ECN codepoint, which a SYN may not */
	__u8 hops;        /* that it has left: IPv4's time to live */
};

struct tg_vlan {
	__be16 tci;
	__be16 proto;
};

/*
 * What stands before a frame, in its metadata, that a driver's program could not read: it is judged
 * at the IP entry. Any number that no other program writes there by chance.
 */
#define TG_UNREAD 0x74675550

/* Skips tags; returns the EtherType in host order and moves *offset, or 0. */
TG_INLINE __u32 tg_parse_l2(void *data, void *data_end, __u32 *offset)
{
	struct ethhdr *eth = data;
	__u32 proto;

	if ((void *)(eth + 1) > data_end)
		return 0;
	/* Broadcast and multicast frames open no connection. */
	if (eth->h_dest[0] & 1)
		return 0;
	proto = bpf_ntohs(eth->h_proto);
	*offset = sizeof(*eth);
#pragma unroll
	for (int i = 0; i < TG_VLAN_TAGS; i++) {
		struct tg_vlan *tag = data + *offset;

		if (proto != TG_ETH_P_8021Q && proto != TG_ETH_P_8021AD)
			break;
		if ((void *)(tag + 1) > data_end)
			return 0;
		proto = bpf_ntohs(tag->proto);
		*offset += sizeof(*tag);
	}
	return proto;
}

/* Fills addresses and the length behind the header; returns L4's offset, or 0. */
TG_INLINE __u32 tg_parse_ipv4(void *data, void *data_end, struct tg_packet *p, __u32 *l4_bytes)
{
	struct iphdr *ip = data + p->l3_offset;
	__u32 header_bytes, total_bytes;

	if ((void *)(ip + 1) > data_end || ip->version != 4 || ip->protocol != TG_IPPROTO_TCP)
		return 0;
	/* A fragment, first or later: more-fragments bit or an offset. */
	if (ip->frag_off & bpf_htons(0x3fff))
		return 0;
	header_bytes = ip->ihl * 4;
	total_bytes = bpf_ntohs(ip->tot_len);
	if (header_bytes < sizeof(*ip) || total_bytes < header_bytes)
		return 0;
	p->tuple = (struct tg_tuple){.saddr = {ip->saddr}, .daddr = {ip->daddr}};
	p->direct = header_bytes == sizeof(*ip);
	p->ecn_capable = ip->tos & 3;
	p->hops = ip->ttl;
	*l4_bytes = total_bytes - header_bytes;
	return p->l3_offset + header_bytes;
}

/*
 * How long an extension header of this kind is whose first four bytes are here; 0 where we leave
 * it. Hop-by-hop 0 (first or not at all), routing 43, destination 60; not fragments, nor the rest.
 */
TG_INLINE __u32 tg_extension_bytes(const __u8 *ext, __u32 kind, int is_first)
{
	if ((kind != 0 || !is_first) && kind != 43 && kind != 60)
		return 0;
	/* Segments left: it travels on, and its checksum is another destination's. */
	if (kind == 43 && ext[3])
		return 0;
	return (ext[1] + 1) * 8;
}

TG_INLINE __u32 tg_parse_ipv6(void *data, void *data_end, struct tg_packet *p, __u32 *l4_bytes)
{
	struct ipv6hdr *ip = data + p->l3_offset;
	__u32 offset = p->l3_offset + sizeof(*ip);
	__u32 left, next;

	if ((void *)(ip + 1) > data_end || ip->version != 6)
		return 0;
	__builtin_memcpy(p->tuple.saddr, &ip->saddr, 16);
	__builtin_memcpy(p->tuple.daddr, &ip->daddr, 16);
	p->tuple.is_ipv6 = 1;
	p->ecn_capable = (ip->flow_lbl[0] >> 4) & 3;
	p->hops = ip->hop_limit;
	left = bpf_ntohs(ip->payload_len);
	next = ip->nexthdr;
	p->direct = next == TG_IPPROTO_TCP;
#pragma unroll
	for (int i = 0; i < TG_IPV6_EXTENSIONS; i++) {
		struct ipv6_opt_hdr *ext = data + offset;
		__u32 bytes;

		if (next == TG_IPPROTO_TCP)
			break;
		if ((void *)(ext + 1) + 2 > data_end)
			return 0;
		bytes = tg_extension_bytes((__u8 *)ext, next, !i);
		if (!bytes || bytes > left)
			return 0;
		left -= bytes;
		offset += bytes;
		next = ext->nexthdr;
	}
	if (next != TG_IPPROTO_TCP)
		return 0;
	*l4_bytes = left;
	return offset;
}

/* The loopback interface's, in every network namespace (LOOPBACK_IFINDEX, Linux 2.6.24). */
#define TG_LOOPBACK_IFINDEX 1

/* Addresses that no connection has: a forged one would make us answer to a crowd. */
TG_INLINE int tg_unicast_ipv4(__be32 addr, __u32 is_loopback)
{
	__u32 first = bpf_ntohl(addr) >> 24;

	/* From elsewhere the kernel takes it for a martian, but where route_localnet is set. */
	if (first == 127)
		return is_loopback;
	/*
	 * 0/8 "this host", 224/4 multicast, and broadcast: RFC 6890. The rest of 240/4 is reserved,
	 * but the kernel takes it as any other (ip_route_input_slow()).
	 */
	return first != 0 && (first < 224 || (first >= 240 && addr != 0xffffffff));
}

TG_INLINE int tg_unicast_ipv6(const __be32 *addr, __u32 is_loopback)
{
	if ((bpf_ntohl(addr[0]) >> 24) == 0xff)
		return 0;
	if (addr[0] || addr[1] || addr[2])
		return 1;
	/* ::, and ::1, which comes from nowhere else: RFC 4291, section 2.5.3. */
	return addr[3] == bpf_htonl(1) ? is_loopback : addr[3] != 0;
}

/* Have both ends an address that a frame may have which came in at this interface? */
TG_INLINE int tg_unicast(const struct tg_tuple *t, __u32 ifindex)
{
	__u32 is_loopback = ifindex == TG_LOOPBACK_IFINDEX;

	if (t->is_ipv6)
		return tg_unicast_ipv6(t->saddr, is_loopback) &&
		       tg_unicast_ipv6(t->daddr, is_loopback);
	return tg_unicast_ipv4(t->saddr[0], is_loopback) &&
	       tg_unicast_ipv4(t->daddr[0], is_loopback);
}

/*
 * Returns 0 where the frame is no whole TCP segment that we understand; else all of *p is set.
 * frame_bytes is its length on the wire, of which data to data_end may be a part.
 */
TG_INLINE int tg_parse(void *data, void *data_end, __u32 frame_bytes, struct tg_packet *p)
{
	__u32 l4_bytes = 0;
	struct tcphdr *tcp;

	switch (tg_parse_l2(data, data_end, &p->l3_offset)) {
	case TG_ETH_P_IP: p->l4_offset = tg_parse_ipv4(data, data_end, p, &l4_bytes); break;
	case TG_ETH_P_IPV6: p->l4_offset = tg_parse_ipv6(data, data_end, p, &l4_bytes); break;
	default: return 0;
	}
	if (!p->l4_offset || p->l4_offset + l4_bytes > frame_bytes)
		return 0;
	tcp = data + p->l4_offset;
	if ((void *)(tcp + 1) > data_end)
		return 0;
	p->tcp_header_bytes = tcp->doff * 4;
	if (p->tcp_header_bytes < sizeof(*tcp) || p->tcp_header_bytes > l4_bytes)
		return 0;
	p->payload_bytes = l4_bytes - p->tcp_header_bytes;
	/* In one: two halves that are read as a whole soon after would wait for each other. */
	__builtin_memcpy(&p->tuple.sport, &tcp->source, 4);
	p->seq = bpf_ntohl(tcp->seq);
	p->ack = bpf_ntohl(tcp->ack_seq);
	p->flags = tcp->flags;
	/* Of a SYN with bits beside the old flags the kernel does not mind (AccECN, Linux 5.2). */
	if (tcp->res1)
		p->ecn_capable = 0;
	return 1;
}

/* Does a tag stand in the frame? */
TG_INLINE int tg_is_tagged(const struct tg_packet *p)
{
	return p->l3_offset != sizeof(struct ethhdr);
}

/* The first segment of a connection, and nothing else. */
TG_INLINE int tg_is_syn(const struct tg_packet *p)
{
	return (p->flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST | TG_TCP_FIN)) == TG_TCP_SYN;
}

/* The kinds of TCP options that matter here. */
enum {
	TG_OPTION_END = 0,
	TG_OPTION_NOP = 1,
	TG_OPTION_MSS = 2,
	TG_OPTION_WSCALE = 3,
	TG_OPTION_SACK = 4,
	TG_OPTION_TIMESTAMPS = 8,
	TG_OPTION_MD5 = 19, /* RFC 2385 */
	TG_OPTION_AO = 29,  /* RFC 5925 */
	TG_OPTION_MPTCP = 30,
};

/* RFC 8684, sections 3.1 and 3.2: one begins a connection, the other adds a subflow to one. */
#define TG_MPTCP_CAPABLE 0
#define TG_MPTCP_JOIN 1
/* In a SYN; in a SYN/ACK and an ACK it is longer. */
#define TG_MPTCP_JOIN_BYTES 12
/* Noted by the low bits of their kind; the other by those of a kind that is not read. */
#define TG_OPTION_MP_JOIN (TG_OPTION_MPTCP & 15)
#define TG_OPTION_MP_CAPABLE (TG_OPTION_MP_JOIN + 1)

/* IPv4 on a socket that takes both has mapped addresses there, and not on the wire. */
TG_INLINE void tg_unmap(struct tg_tuple *t)
{
	if (!t->is_ipv6 || !tg_is_mapped(t->saddr))
		return;
	t->saddr[0] = t->saddr[3];
	t->daddr[0] = t->daddr[3];
	t->saddr[2] = t->saddr[3] = t->daddr[2] = t->daddr[3] = 0;
	t->is_ipv6 = 0;
}

/* What a client offers in its SYN, or says in a later segment's options. */
struct tg_tcp_options {
	__u32 tsval;
	__u32 tsecr;
	__u32 seen; /* a bit for each kind that is read here and came with the right length */
	__u16 mss;
	__u8 wscale;
	__u8 unanswerable; /* malformed, signed, or more of them than are read */
};

TG_INLINE int tg_has_option(const struct tg_tcp_options *o, __u32 kind)
{
	return (o->seen >> kind) & 1;
}

/*
 * Does this SYN add a subflow to a connection that stands? With MP_CAPABLE beside it, MP_JOIN says
 * nothing to the kernel, which makes an ordinary connection (subflow_check_req()); and it reads on
 * where we have stopped.
 */
TG_INLINE int tg_adds_subflow(const struct tg_tcp_options *o)
{
	return tg_has_option(o, TG_OPTION_MP_JOIN) && !tg_has_option(o, TG_OPTION_MP_CAPABLE) &&
	       !o->unanswerable;
}

/* The bit of one of MPTCP's options, or 0. */
TG_INLINE __u32 tg_mptcp_bit(const __u8 *option, __u32 bytes, void *data_end)
{
	if ((void *)(option + 3) > data_end)
		return 0;
	switch (option[2] >> 4) {
	case TG_MPTCP_CAPABLE: return 1u << TG_OPTION_MP_CAPABLE;
	/* One of another length the kernel passes over (mptcp_parse_option(), Linux 6.8). */
	case TG_MPTCP_JOIN: return (bytes == TG_MPTCP_JOIN_BYTES) << TG_OPTION_MP_JOIN;
	default: return 0;
	}
}

/* One option whose bytes are all there. */
TG_INLINE void tg_read_option(const __u8 *option, __u32 bytes, void *data_end,
                              struct tg_tcp_options *o)
{
	__u32 kind = option[0];

	if (kind == TG_OPTION_MSS && bytes == 4 && (void *)(option + 4) <= data_end)
		o->mss = option[2] << 8 | option[3];
	else if (kind == TG_OPTION_WSCALE && bytes == 3 && (void *)(option + 3) <= data_end)
		/* RFC 7323, section 2.3: more than 14 is read as 14. */
		o->wscale = option[2] > 14 ? 14 : option[2];
	else if (kind == TG_OPTION_TIMESTAMPS && bytes == 10 && (void *)(option + 10) <= data_end) {
		o->tsval = (__u32)option[2] << 24 | option[3] << 16 | option[4] << 8 | option[5];
		o->tsecr = (__u32)option[6] << 24 | option[7] << 16 | option[8] << 8 | option[9];
	} else if (kind == TG_OPTION_MPTCP) {
		o->seen |= tg_mptcp_bit(option, bytes, data_end);
		return;
	} else if (kind != TG_OPTION_SACK || bytes != 2)
		return;
	/* Made from the packet's byte, so that the verifier need not tell the cases apart. */
	o->seen |= 1u << (kind & 15);
}

/*
 * RFC 9293 section 3.2. Read in place: an option may stand at any offset. The
 * hooks wrap this in a global function, which the verifier walks once and not
 * once for every way that leads there.
 */
TG_INLINE void tg_read_options(void *data, void *data_end, __u64 offset, __u64 end,
                               struct tg_tcp_options *o)
{
	__builtin_memset(o, 0, sizeof(*o));
	for (int i = 0; i < TG_OPTIONS_READ; i++) {
		__u8 *option;
		__u32 bytes;

		if (offset >= end)
			return;
		/* The verifier wants to see the bound on the very value that is added. */
		if (offset >= TG_OPTIONS_REACH)
			break;
		barrier_var(offset);
		offset &= TG_OPTIONS_REACH - 1;
		option = data + offset;
		if ((void *)(option + 1) > data_end)
			break;
		if (option[0] == TG_OPTION_END)
			return;
		if (option[0] == TG_OPTION_NOP) {
			offset++;
			continue;
		}
		if ((void *)(option + 2) > data_end)
			break;
		bytes = option[1];
		if (bytes < 2 || offset + bytes > end)
			break;
		/* An answer to a signed SYN must be signed. */
		if (option[0] == TG_OPTION_MD5 || option[0] == TG_OPTION_AO)
			break;
		tg_read_option(option, bytes, data_end, o);
		offset += bytes;
	}
	o->unanswerable = offset < end;
}

TG_INLINE __u32 tg_options_offset(const struct tg_packet *p)
{
	return p->l4_offset + sizeof(struct tcphdr);
}

TG_INLINE __u32 tg_options_end(const struct tg_packet *p)
{
	return p->l4_offset + p->tcp_header_bytes;
}

#endif
