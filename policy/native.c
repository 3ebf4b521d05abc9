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

struct tg_decision tg_native_fin(__u32 rule, const struct tg_fin *fin)
{
	return tg_fin_decide(rule, fin);
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

void tg_native_agree_shed(const struct tg_shed_case *c, struct tg_shed_answers *a)
{
	tg_agree_shed(c, a);
}

struct tg_decision tg_native_shed(const struct tg_shed_rules *rules, const struct tg_key *key,
                                  const struct tg_tuple *tuple, const struct tg_shed_syn *syn,
                                  const struct tg_auto_queue *queue, struct tg_shed_block *table,
                                  struct tg_shed_state *state, struct tg_shed_monitor *monitor,
                                  struct tg_bucket *refusals, __u32 refusal_cost_ns)
{
	struct tg_shed_work work = {0};
	struct tg_shed_block *block = (void *)0;
	struct tg_decision d;

	if (rules->is_auto)
		tg_auto_begin(rules, &state->control, queue, syn->now_ns);
	tg_shed_begin(&work, rules, state, key, tuple, syn);
	if (work.wants_block && table && rules->blocks)
		block = &table[tg_shed_block_index(&work, rules)];
	d = tg_shed_decide(&work, rules, syn, block, state, monitor);
	if (tg_shed_answers(rules, d))
		d = tg_shed_refuse(rules, d, refusals, refusal_cost_ns, syn->now_ns);
	if (rules->is_auto)
		tg_auto_end(&state->control, queue, d.verdict == TG_PASS);
	return d;
}

__u64 tg_native_shed_hash(const struct tg_key *key, const struct tg_tuple *tuple, __u32 kind,
                          __u32 question, __u32 number)
{
	struct tg_shed_work work = {0};

	tg_shed_absorb(&work, key, tuple, kind);
	return tg_shed_hash(&work, question, number);
}

__u32 tg_native_syn_room(const struct tg_rules *rules, const struct tg_queues *queues, __u32 random)
{
	return tg_syn_room(rules, queues, random);
}

struct tg_auto_queue tg_native_auto_view(const struct tg_queues *queues, __u32 reason)
{
	return tg_auto_view(queues, reason);
}

__u64 tg_native_auto_root(__u64 p_x32, __u32 attempts)
{
	return tg_auto_root(p_x32, attempts);
}

__u64 tg_native_siphash(const struct tg_key *key, const __u64 *words, __u32 count)
{
	struct tg_siphash s;

	tg_siphash_init(&s, key);
	for (__u32 i = 0; i < count; i++)
		tg_siphash_word(&s, words[i]);
	return tg_siphash_end(&s, 0, count * 8);
}
