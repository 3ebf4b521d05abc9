/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's types, trimmed to the fields that are read here. Offsets are
 * not taken from this file: the loader relocates every access to the running
 * kernel's BTF (preserve_access_index). The first part is the BPF interface
 * itself, whose layout is fixed.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;

enum {
	false = 0,
	true = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
};

enum {
	BPF_F_CURRENT_NETNS = -1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_CLONE = 512,
	BPF_F_MMAPABLE = 1024,
};

/* Of bpf_redirect() and bpf_clone_redirect(), of bpf_skb_store_bytes(), of sk_storage, of rings. */
enum {
	BPF_F_INGRESS = 1,
	BPF_F_RECOMPUTE_CSUM = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_LOAD_HDR_OPT_TCP_SYN = 1,
	BPF_RB_NO_WAKEUP = 1,
};

/* What a sock_ops program is called for, and the flags by which a socket asks for some of it. */
enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15,
	BPF_SOCK_OPS_STATE_CB_FLAG = 1 << 2,
	BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG = 1 << 4,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
	BPF_WRITE_HDR_TCP_SYNACK_COOKIE = 2,
};

enum {
	SOL_TCP = 6,
	TCP_SAVE_SYN = 27,
	TCP_BPF_SOCK_OPS_CB_FLAGS = 1008, /* Linux 6.12 */
};

enum xdp_action {
	XDP_ABORTED = 0,
	XDP_DROP = 1,
	XDP_PASS = 2,
	XDP_TX = 3,
	XDP_REDIRECT = 4,
};

/* Return values of tcx programs (Linux 6.6); to pass is NEXT, so that others may judge too. */
enum {
	TCX_NEXT = -1,
	TCX_DROP = 2,
	TCX_REDIRECT = 7,
};

enum {
	NF_DROP = 0,
	NF_ACCEPT = 1,
};

enum {
	PACKET_HOST = 0,
};

/* struct sk_buff's ip_summed. */
enum {
	CHECKSUM_PARTIAL = 3,
};

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	TCP_NEW_SYN_RECV = 12,
};

/* Bits of struct sock's flags: no program has it any more, and the other end's FIN has come. */
enum {
	SOCK_DEAD = 0,
	SOCK_DONE = 1,
};

enum {
	AF_INET = 2,
	AF_INET6 = 10,
};

enum {
	BPF_FIB_LKUP_RET_SUCCESS = 0,
	BPF_FIB_LKUP_RET_NOT_FWDED = 4,
	BPF_FIB_LKUP_RET_FWD_DISABLED = 5,
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	};
	__u32 gso_size;
	__u8 tstamp_type;
	__u64 hwtstamp;
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__be16 dst_port;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	__s32 rx_queue_mapping;
};

struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port; /* network byte order, in the lower half */
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	};
};

struct bpf_sockopt {
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	};
	union {
		void *optval;
		__u64 optval_word;
	};
	union {
		void *optval_end;
		__u64 optval_end_word;
	};
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
		__u32 replylong[4];
	};
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port; /* network byte order, in the upper half */
	__u32 local_port;  /* host byte order */
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	union {
		struct bpf_sock *sk;
		__u64 sk_word;
	};
	union {
		void *skb_data;
		__u64 skb_data_word;
	};
	union {
		void *skb_data_end;
		__u64 skb_data_end_word;
	};
	__u32 skb_len;
	__u32 skb_tcp_flags;
	__u64 skb_hwtstamp;
};

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	union {
		__u16 tot_len;
		__u16 mtu_result;
	};
	__u32 ifindex;
	union {
		__u8 tos;
		__be32 flowinfo;
		__u32 rt_metric;
	};
	union {
		__be32 ipv4_src;
		__u32 ipv6_src[4];
	};
	union {
		__be32 ipv4_dst;
		__u32 ipv6_dst[4];
	};
	union {
		struct {
			__be16 h_vlan_proto;
			__be16 h_vlan_TCI;
		};
		__u32 tbid;
	};
	union {
		struct {
			__u32 mark;
		};
		struct {
			__u8 smac[6];
			__u8 dmac[6];
		};
	};
};

struct bpf_tcp_req_attrs {
	u32 rcv_tsval;
	u32 rcv_tsecr;
	u16 mss;
	u8 rcv_wscale;
	u8 snd_wscale;
	u8 ecn_ok;
	u8 wscale_ok;
	u8 sack_ok;
	u8 tstamp_ok;
	u8 usec_ts_ok;
	u8 reserved[3];
};

struct bpf_dynptr {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

struct in6_addr {
	__be32 s6_addr32[4];
};

struct ethhdr {
	__u8 h_dest[6];
	__u8 h_source[6];
	__be16 h_proto;
} __attribute__((packed));

struct iphdr {
	__u8 ihl : 4;
	__u8 version : 4;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 saddr;
	__be32 daddr;
};

struct ipv6hdr {
	__u8 priority : 4;
	__u8 version : 4;
	__u8 flow_lbl[3];
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

struct ipv6_opt_hdr {
	__u8 nexthdr;
	__u8 hdrlen;
};

struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 res1 : 4;
	__u8 doff : 4;
	__u8 flags;
	__be16 window;
	__sum16 check;
	__be16 urg_ptr;
};

/* From here on: the kernel's own structures, relocated at load. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct netns_ipv4 {
	u8 sysctl_tcp_ecn;
	u8 sysctl_tcp_syncookies;
	u8 sysctl_tcp_sack;
	u8 sysctl_tcp_window_scaling;
	u8 sysctl_tcp_timestamps;
	int sysctl_max_syn_backlog;
};

struct bpf_prog_array;

struct netns_bpf {
	struct bpf_prog_array *run_array[2]; /* by enum netns_bpf_attach_type */
};

struct net {
	u64 net_cookie;
	struct netns_ipv4 ipv4;
	struct netns_bpf bpf;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned char skc_reuse : 4;
	unsigned char skc_reuseport : 1;
	unsigned char skc_ipv6only : 1;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
	struct sock *skc_listener;
	unsigned long skc_flags;
	u32 skc_rcv_wnd;
	u32 skc_tw_rcv_nxt;
};

struct inode {
	unsigned long i_ino;
};

struct socket;

/* include/net/sock.h: the socket is its first member. */
struct socket_alloc {
	struct inode vfs_inode;
};

struct bpf_prog;

/* net/core/sock_reuseport.c */
struct sock_reuseport {
	u16 num_socks;
	struct bpf_prog *prog;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	int sk_rcvbuf;
	atomic_t sk_drops;
	struct sock_reuseport *sk_reuseport_cb;
};

struct inet_sock {
	struct sock sk;
};

struct fastopen_queue {
	int max_qlen;
};

struct request_sock_queue {
	u8 rskq_defer_accept;
	atomic_t qlen;
	atomic_t young;
	struct fastopen_queue fastopenq;
};

struct tcp_congestion_ops {
	u32 flags;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	const struct tcp_congestion_ops *icsk_ca_ops;
};

struct tcp_options_received {
	u32 ts_recent;
	u32 rcv_tsecr;
	u16 user_mss;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 rcv_wup;
	u32 rcv_wnd;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 packets_out;
	u64 bytes_received;
	u64 bytes_sent;
	u64 bytes_acked;
	u32 rcv_tstamp;
	u32 data_segs_in;
	u32 window_clamp;
	u8 scaling_ratio;
	u8 repair : 1; /* by its field's relocations alone: kernels have it at different bits */
	bool is_mptcp;
	u16 tcp_header_len;
	u32 tsoffset;
	struct tcp_options_received rx_opt;
};

struct inet_timewait_sock {
	struct sock_common __tw_common;
	volatile unsigned char tw_substate;
};

struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
};

struct request_sock {
	struct sock_common __req_common;
	u8 num_retrans;
	u8 syncookie : 1;
	u8 num_timeout : 7;
};

struct inet_request_sock {
	struct request_sock req;
};

struct tcp_request_sock {
	struct inet_request_sock req;
	u64 snt_synack;
	bool tfo_listener;
	u32 rcv_isn;
	u32 snt_isn;
	u32 rcv_nxt;
};

struct ipv6_devconf {
	int mtu6;
};

struct inet6_dev {
	struct ipv6_devconf cnf;
};

struct net_device {
	unsigned int mtu;
	int ifindex;
	struct inet6_dev *ip6_ptr;
	u8 dev_addr_shadow[32]; /* what dev_addr points at is the same (Linux 5.16) */
};

enum skb_ext_id {
	SKB_EXT_SEC_PATH = 1,
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned long _nfct;
	__be16 protocol;
	__u8 ip_summed : 2;
	__u8 active_extensions;
};

struct xdp_rxq_info {
	struct net_device *dev;
};

struct xdp_buff {
	struct xdp_rxq_info *rxq;
};

/* Bits of struct nf_conn's status: NAT changes where it comes from, or where it goes. */
enum {
	IPS_SRC_NAT = 16,
	IPS_DST_NAT = 32,
};

struct nf_conn {
	unsigned long status;
};

struct nf_hook_state;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

#endif
