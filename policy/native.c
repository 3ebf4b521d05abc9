// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The policy for native callers: the simulator, and the tests. */
#include "include/native.h"

void tg_native_agree(const struct tg_case *c, struct tg_answers *a)
{
	tg_agree(c, a);
}

struct tg_decision tg_native_syn(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_syn *syn, struct tg_bucket *refusals)
{
	return tg_syn_decide(rules, tg_syn_room(rules, queues, syn->random), syn, refusals);
}

struct tg_decision tg_native_ack(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_ack *ack)
{
	return tg_ack_decide(rules, queues, ack);
}

int tg_native_bucket_take(struct tg_bucket *bucket, __u64 cost_ns, __u64 now_ns)
{
	return tg_bucket_take(bucket, cost_ns, now_ns);
}

int tg_native_reservation_stale(const struct tg_rules *rules, const struct tg_queues *queues,
                                __u64 age_ms)
{
	return tg_reservation_stale(rules, queues, age_ms);
}

__u64 tg_native_siphash(const struct tg_key *key, const __u64 *words, __u32 count)
{
	struct tg_siphash s;

	tg_siphash_init(&s, key);
	for (__u32 i = 0; i < count; i++)
		tg_siphash_word(&s, words[i]);
	return tg_siphash_end(&s, 0, count * 8);
}
