/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packet at hand: what is found out of it on the way to its decision, and the answer.
 *
 * Of what lies in a map the verifier keeps no account, as it does of the stack: what follows it
 * walks once, not once for all that may have been found out before. And the stack has no room.
 */
#ifndef TG_HAND_H
#define TG_HAND_H

#include "../../policy/include/syn.h"
#include "way_back.h"

struct tg_hand {
	struct tg_syn syn;
	struct tg_queues queues;
	struct tg_tcp_options options;
	struct tg_way_back way; /* of a cookie */
	__u32 reason;           /* enum tg_reason */
	__u32 joins;            /* MPTCP: it adds a subflow to a connection that stands */
	__u32 is_full;          /* what stands before is a SYN's, and emptied for each */
	struct tg_reply reply;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_hand);
} at_hand SEC(".maps");

/*
 * A processor's hand, or NULL where there is a packet in it already: under PREEMPT_RT one that is
 * taken in may give way to another's (softirqs without a lock of the processor's, Linux 6.18). That
 * other is left to the kernel. Put down what you have taken up.
 */
TG_INLINE struct tg_hand *tg_hand_take(void)
{
	__u32 zero = 0;
	struct tg_hand *hand = bpf_map_lookup_elem(&at_hand, &zero);

	if (!hand || hand->is_full)
		return NULL;
	hand->is_full = 1;
	TG_IN_TURN();
	return hand;
}

TG_INLINE void tg_hand_put(struct tg_hand *hand)
{
	TG_IN_TURN();
	hand->is_full = 0;
}

/* Nothing is known of the SYN but whence it comes, and when. */
TG_INLINE void tg_hand_begin(struct tg_hand *hand, __u32 source, __u64 now_ns)
{
	__builtin_memset(hand, 0, __builtin_offsetof(struct tg_hand, is_full));
	hand->syn.source = source;
	hand->syn.now_ns = now_ns;
}

/* The answer, empty yet. */
TG_INLINE struct tg_reply *tg_hand_reply(struct tg_hand *hand)
{
	__builtin_memset(&hand->reply, 0, sizeof(hand->reply));
	return &hand->reply;
}

#endif
