/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers written over the packet that they answer: RST, and the SYN/ACK that
 * carries a cookie. Never longer than what came in. The link layer's addresses
 * are swapped, VLAN tags stay; IP options and extension headers are left out.
 */
#ifndef TG_REPLY_H
#define TG_REPLY_H

#include "../../policy/include/notice.h"
#include "marks.h"

/* In a SYN/ACK behind which there is nothing. Linux announces it at first: 44 segments of 1460
 * bytes. */
#define TG_SYN_ACK_WINDOW 64240

/* Options, and the payload behind them. */
#define TG_REPLY_WORDS 5

struct tg_reply {
	struct tg_marks marks;
	__u32 window;
	__u32 option_words;
	__u32 payload_words;
	__u32 words[TG_REPLY_WORDS]; /* network byte order */
	__u16 next_hop[3];           /* where the frame goes; 0: back to who sent it */
	__u16 padding;
};

TG_INLINE __u32 tg_reply_ip_bytes(const struct tg_packet *p)
{
	return p->tuple.is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/* word is in host byte order. Options come before the payload. */
TG_INLINE void tg_reply_option(struct tg_reply *r, __u32 word)
{
	__u32 n = r->option_words;

	barrier_var(n);
	if (n < TG_REPLY_WORDS) {
		r->words[n] = bpf_htonl(word);
		r->option_words = n + 1;
	}
}

/* The TCP segment's length. */
TG_INLINE __u32 tg_reply_tcp_bytes(const struct tg_reply *r)
{
	return sizeof(struct tcphdr) + (r->option_words + r->payload_words) * 4;
}

/* The frame's length with this reply in it. */
TG_INLINE __u32 tg_reply_bytes(const struct tg_packet *p, const struct tg_reply *r)
{
	return p->l3_offset + tg_reply_ip_bytes(p) + tg_reply_tcp_bytes(r);
}

TG_INLINE __u16 tg_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

/* RFC 9293 section 3.1, RFC 8200 section 8.1. Addresses commute, so either direction serves. */
TG_INLINE __u64 tg_pseudo_sum(const struct tg_tuple *t, __u32 tcp_bytes)
{
	__u64 sum = bpf_htons(TG_IPPROTO_TCP) + bpf_htons((__u16)tcp_bytes);

	sum += t->saddr[0];
	sum += t->daddr[0];
	if (t->is_ipv6) {
		sum += t->saddr[1];
		sum += t->saddr[2];
		sum += t->saddr[3];
		sum += t->daddr[1];
		sum += t->daddr[2];
		sum += t->daddr[3];
	}
	return sum;
}

TG_INLINE void tg_write_ipv4(struct iphdr *ip, const struct tg_tuple *t, __u32 tcp_bytes)
{
	__u32 *word = (__u32 *)ip;
	__u64 sum;

	word[0] = bpf_htonl(0x45000000 | (sizeof(*ip) + tcp_bytes)); /* version, IHL, length */
	word[1] = bpf_htonl(0x00004000);                             /* don't fragment */
	word[2] = bpf_htonl(0x40060000);                             /* TTL 64, TCP */
	ip->saddr = t->daddr[0];
	ip->daddr = t->saddr[0];
	sum = word[0];
	sum += word[1];
	sum += word[2];
	sum += ip->saddr;
	sum += ip->daddr;
	ip->check = ~tg_fold(sum);
}

TG_INLINE void tg_write_ipv6(struct ipv6hdr *ip, const struct tg_tuple *t, __u32 tcp_bytes)
{
	__u32 *word = (__u32 *)ip;

	word[0] = bpf_htonl(0x60000000);
	word[1] = bpf_htonl(tcp_bytes << 16 | TG_IPPROTO_TCP << 8 | 64);
	__builtin_memcpy(&ip->saddr, t->daddr, 16);
	__builtin_memcpy(&ip->daddr, t->saddr, 16);
}

TG_INLINE int tg_swap_link(void *data, void *data_end)
{
	__u16 *half = data;

	if (data + sizeof(struct ethhdr) > data_end)
		return 0;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		__u16 was = half[i];

		half[i] = half[3 + i];
		half[3 + i] = was;
	}
	return 1;
}

/*
 * Writes the reply. pseudo_only: the device will finish the checksum, and
 * wants the pseudo header's sum in its place (ip_summed is CHECKSUM_PARTIAL).
 * Returns 0 where the frame is too short, which the caller's trim rules out.
 */
TG_INLINE int tg_write_reply(void *data, void *data_end, const struct tg_packet *p,
                             const struct tg_reply *r, int pseudo_only)
{
	__u32 tcp_bytes = tg_reply_tcp_bytes(r), header_words = sizeof(struct tcphdr) / 4;
	__u64 sum = tg_pseudo_sum(&p->tuple, tcp_bytes);
	struct tcphdr *tcp;
	__u32 *word;
	void *l3;

	/* What the parser yields at most; the verifier has lost sight of it by now. */
	if (p->l3_offset > sizeof(struct ethhdr) + TG_VLAN_TAGS * sizeof(struct tg_vlan))
		return 0;
	l3 = data + p->l3_offset;
	if (p->tuple.is_ipv6) {
		tcp = l3 + sizeof(struct ipv6hdr);
		if ((void *)(tcp + 1) > data_end)
			return 0;
		tg_write_ipv6(l3, &p->tuple, tcp_bytes);
	} else {
		tcp = l3 + sizeof(struct iphdr);
		if ((void *)(tcp + 1) > data_end)
			return 0;
		tg_write_ipv4(l3, &p->tuple, tcp_bytes);
	}
	if (!tg_swap_link(data, data_end))
		return 0;
	if (r->next_hop[0] | r->next_hop[1] | r->next_hop[2])
		__builtin_memcpy(data, r->next_hop, sizeof(r->next_hop));

	word = (__u32 *)tcp;
	word[0] = p->tuple.dport | (__u32)p->tuple.sport << 16; /* as they lie in memory */
	word[1] = bpf_htonl(r->marks.seq);
	word[2] = bpf_htonl(r->marks.ack);
	header_words += r->option_words;
	word[3] = bpf_htonl(header_words << 28 | r->marks.flags << 16 | r->window);
	word[4] = 0;
#pragma unroll
	for (int i = 0; i < TG_REPLY_WORDS; i++) {
		if (i >= r->option_words + r->payload_words)
			break;
		if ((void *)(word + 6 + i) > data_end)
			return 0;
		word[5 + i] = r->words[i];
		sum += r->words[i];
	}
	if (!pseudo_only) {
		sum += word[0];
		sum += word[1];
		sum += word[2];
		sum += word[3];
		tcp->check = ~tg_fold(sum);
	} else {
		tcp->check = tg_fold(tg_pseudo_sum(&p->tuple, tcp_bytes));
	}
	return 1;
}

/* The RST that answers a segment without a connection. */
TG_INLINE void tg_reply_reset(const struct tg_packet *p, struct tg_reply *r)
{
	tg_reset_marks(p, &r->marks);
	r->window = 0;
	r->option_words = 0;
	r->payload_words = 0;
}

/* How many bytes more the packet has, from the IP header on, than a bare RST. */
TG_INLINE __u32 tg_reply_spare_bytes(const struct tg_packet *p)
{
	__u32 came = p->l4_offset - p->l3_offset + p->tcp_header_bytes + p->payload_bytes;

	return came - tg_reply_ip_bytes(p) - sizeof(struct tcphdr);
}

/* The RST by which a listener refuses, with what its rules have it say. */
TG_INLINE void tg_reply_refuse(const struct tg_packet *p, const struct tg_rules *rules,
                               __u32 is_of_one, struct tg_reply *r)
{
	__u32 parts = tg_notice_parts(rules, is_of_one, tg_reply_spare_bytes(p));

	tg_reply_reset(p, r);
	if (parts == TG_NOTICE_BARE)
		return;
	if (parts == TG_NOTICE_WHY_WHEN) {
		r->words[0] = bpf_htonl(TG_NOTICE_OPTION_0);
		r->words[1] = bpf_htonl(tg_notice_option_1(rules->come_back_ticks));
		r->words[2] = bpf_htonl(TG_NOTICE_PAYLOAD_0);
		r->words[3] = bpf_htonl(TG_NOTICE_PAYLOAD_1);
		r->option_words = 2;
	} else {
		r->words[0] = bpf_htonl(TG_NOTICE_PAYLOAD_0);
		r->words[1] = bpf_htonl(TG_NOTICE_PAYLOAD_1);
	}
	r->payload_words = 2;
}

#endif
