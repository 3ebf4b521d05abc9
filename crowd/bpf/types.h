/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the crowd's one program needs: all of them fixed by
 * the kernel's user interface or by the wire.
 */
#ifndef CROWD_TYPES_H
#define CROWD_TYPES_H

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_XSKMAP = 17,
};

enum xdp_action {
	XDP_DROP = 1,
	XDP_PASS = 2,
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 protocol;
} __attribute__((packed));

struct ipv4 {
	__u8 version_and_words;
	__u8 tos;
	__be16 total_bytes;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u8 source[4];
	__u8 destination[4];
} __attribute__((packed));

struct ipv6 {
	__be32 version_class_flow;
	__be16 payload_bytes;
	__u8 next_header;
	__u8 hop_limit;
	__u8 source[16];
	__u8 destination[16];
} __attribute__((packed));

/* The ports are where TCP's header begins. */
struct tcp_ports {
	__be16 source;
	__be16 destination;
} __attribute__((packed));

#endif
