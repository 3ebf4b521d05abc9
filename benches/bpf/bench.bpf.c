// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the measurements need in the kernel: programs that do nothing, to be
 * subtracted; programs that put the question back over the last answer before
 * they hand the packet on; and a generator of SYNs with its sink.
 */
#include "vmlinux.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The datapath has none of these, and so its trimmed vmlinux.h does not name them. */
#define BPF_MAP_TYPE_PROG_ARRAY 3

/* A SYN over IPv4 with Linux's options: 14 + 20 + 40. */
#define QUESTION_BYTES 74

struct question {
	__u64 words[10];
	__u32 out_ifindex; /* the generator's */
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct question);
} question SEC(".maps");

/* What runs after the question was put back. A program array holds one type. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next_xdp SEC(".maps"), next_tc SEC(".maps");

static __always_inline int write_question(void *data, void *data_end, const struct question *q)
{
	__u64 *to = data;

	if (data + QUESTION_BYTES > data_end)
		return 0;
#pragma unroll
	for (int i = 0; i < QUESTION_BYTES / 8; i++)
		to[i] = q->words[i];
	*(__u16 *)(to + QUESTION_BYTES / 8) = q->words[QUESTION_BYTES / 8];
	return 1;
}

static __always_inline struct question *get_question(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&question, &zero);
}

static __always_inline int restore_xdp(struct xdp_md *ctx, const struct question *q)
{
	long now_bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	barrier_var(now_bytes);
	if (bpf_xdp_adjust_tail(ctx, QUESTION_BYTES - (int)now_bytes))
		return 0;
	return write_question((void *)(long)ctx->data, (void *)(long)ctx->data_end, q);
}

SEC("xdp.frags")
int empty_xdp(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tcx/ingress")
int empty_tc(struct __sk_buff *ctx)
{
	return TCX_NEXT;
}

SEC("xdp.frags")
int fresh_xdp(struct xdp_md *ctx)
{
	struct question *q = get_question();

	if (q && restore_xdp(ctx, q))
		bpf_tail_call(ctx, &next_xdp, 0);
	return XDP_ABORTED;
}

SEC("tcx/ingress")
int fresh_tc(struct __sk_buff *ctx)
{
	struct question *q = get_question();

	if (q && !bpf_skb_change_tail(ctx, QUESTION_BYTES, 0) &&
	    write_question((void *)(long)ctx->data, (void *)(long)ctx->data_end, q))
		bpf_tail_call(ctx, &next_tc, 0);
	return TCX_DROP;
}

/*
 * A SYN from another source each time. What varies is made good for in fields
 * that a SYN does not use, so that every checksum stays as it is: x + ~x is
 * nothing in ones' complement.
 */
SEC("xdp.frags")
int generate(struct xdp_md *ctx)
{
	struct question *q = get_question();
	__u32 random = bpf_get_prandom_u32();
	__u16 host = random, port = random >> 16;
	__u16 *half;

	if (!q || !restore_xdp(ctx, q))
		return XDP_ABORTED;
	half = (void *)(long)ctx->data;
	if ((void *)half + QUESTION_BYTES > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	half[14] = host; /* the source address's second half */
	half[9] = ~host; /* the IP identification */
	half[17] = port;
	half[21] = ~host; /* the acknowledgment number */
	half[22] = ~port;
	return bpf_redirect(q->out_ifindex, 0);
}

SEC("xdp.frags")
int sink(struct xdp_md *ctx)
{
	return XDP_DROP;
}
