// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The policy for native callers: the simulator, and the tests. */
#include "include/native.h"

void tg_native_agree(const struct tg_case *c, struct tg_answers *a)
{
	tg_agree_source(c, a);
	tg_agree_syn_begin(c, a);
	tg_agree_syn_room(c, a);
	tg_agree_syn_end(c, a);
	tg_agree_rest(c, a);
}

struct tg_judged tg_native_syn(const struct tg_rules *rules, const struct tg_queues *queues,
                               const struct tg_syn *syn, struct tg_bucket *refusals)
{
	struct tg_judged judged = {.reason = tg_syn_reason(rules, queues, syn)};

	if (tg_syn_takes_over(rules, queues, syn, judged.reason))
		judged.reason = tg_syn_room_of_taken(syn);
	judged.decision = tg_syn_decide(rules, judged.reason, syn, refusals);
	return judged;
}

struct tg_judged tg_native_judge(const struct tg_rules *rules, struct tg_queues *queues,
                                 const struct tg_syn *syn, struct tg_bucket *refusals,
                                 const struct tg_crowd *crowd)
{
	struct tg_judging judging = {0};
	struct tg_judged judged = {0};
	struct tg_syn asked = *syn;

	tg_syn_judge_begin(rules, queues, &asked, crowd, &judging);
	tg_syn_judge_room(rules, queues, &asked, crowd, &judging);
	judged.decision = tg_syn_judge_end(rules, &asked, refusals, crowd, &judging);
	judged.reason = judging.reason;
	return judged;
}

void tg_native_accepts(struct tg_accepts *accepts, const struct tg_rules *rules,
                       const struct tg_queues *queues, struct tg_judged judged, __u64 now_ns)
{
	__u32 reason = tg_syn_of_room(judged.reason, judged.decision);

	if (tg_accepts_asks(accepts, reason, now_ns))
		tg_accepts_look(accepts, rules, queues, reason, now_ns);
}

int tg_native_accepts_admits(const struct tg_rules *rules, __u32 reason)
{
	return tg_accepts_admits(rules, reason);
}

void tg_native_accepts_take(struct tg_accepts *accepts)
{
	tg_accepts_take(accepts);
}

void tg_native_agree_accepts(const struct tg_accepts_case *c, struct tg_accepts_answers *a)
{
	tg_agree_accepts(c, a);
}

/* cells are the table's. */
__u32 tg_native_share_ask(struct tg_share *share, struct tg_share_cell *cells,
                          const struct tg_key *key, const struct tg_tuple *tuple,
                          const struct tg_rules *rules, __u32 random, __u64 now_ns)
{
	__u64 hash = tg_share_hash(key, tuple, rules, 0);

	return tg_share_step(share, rules, &cells[tg_share_cell_index(hash, 0)],
	                     &cells[tg_share_cell_index(hash, 1)], random, now_ns);
}

void tg_native_share_end(struct tg_share *share, const struct tg_rules *rules, __u32 source,
                         struct tg_judged judged, __u64 now_ns)
{
	if (tg_share_concerns(rules, source))
		tg_share_end(share, source, tg_syn_lack(judged.reason, judged.decision), now_ns);
}

int tg_native_share_is_on(const struct tg_share *share, __u64 now_ns)
{
	return tg_share_is_on(share, now_ns);
}

__u64 tg_native_share_hash(const struct tg_key *key, const struct tg_tuple *tuple,
                           const struct tg_rules *rules, __u32 owner)
{
	return tg_share_hash(key, tuple, rules, owner);
}

__u32 tg_native_share_cell(__u64 hash, __u32 row)
{
	return tg_share_cell_index(hash, row);
}

void tg_native_agree_share(const struct tg_share_case *c, struct tg_share_answers *a)
{
	tg_agree_share(c, a);
}

__u64 tg_native_waiting_name(const struct tg_key *key, const struct tg_tuple *tuple, __u32 isn)
{
	return tg_waiting_name(key, tuple, isn);
}

__u32 tg_native_waiting_block(__u64 name)
{
	return tg_waiting_block_index(name);
}

__u64 tg_native_manners_name(const struct tg_key *key, const struct tg_tuple *tuple,
                             __u32 sends_again)
{
	return tg_manners_name(key, tuple, sends_again);
}

__u32 tg_native_manners_block(__u64 name)
{
	return tg_manners_block_index(name);
}

__u32 tg_native_system_sends_again(__u32 hops, __u32 tcp_header_bytes)
{
	return tg_system_sends_again(hops, tcp_header_bytes);
}

__u32 tg_native_overload_phase(const struct tg_overload *overload, __u64 now_ns)
{
	return tg_overload_phase(overload, now_ns);
}

void tg_native_overload_meet_ack(struct tg_overload *overload, const struct tg_ack *ack,
                                 struct tg_decision decision, __u32 seq, __u64 now_ns)
{
	tg_overload_meet_ack(overload, ack, decision, seq, now_ns);
}

__u32 tg_native_overload_places(const struct tg_overload *overload, __u64 now_ns)
{
	return tg_overload_places_now(overload, now_ns);
}

void tg_native_speaks_see(struct tg_speaks *speaks, int answers)
{
	tg_speaks_see(speaks, answers);
}

int tg_native_speaks_first(const struct tg_speaks *speaks)
{
	return tg_speaks_first(speaks);
}

int tg_native_overload_silences_ack(const struct tg_overload *overload, __u64 now_ns)
{
	return tg_overload_silences_ack(overload, now_ns);
}

struct tg_decision tg_native_ack(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_ack *ack)
{
	return tg_ack_decide(rules, queues, ack);
}

int tg_native_ack_is_behind(__u64 since_ns, int has_fin)
{
	return tg_ack_is_behind(since_ns, has_fin);
}

int tg_native_ack_leaves(const struct tg_rules *rules, const struct tg_ack *ack,
                         struct tg_decision decision)
{
	return tg_ack_leaves(rules, ack, decision);
}

int tg_native_ack_tells(const struct tg_ack *ack, struct tg_decision decision)
{
	return tg_ack_tells(ack, decision);
}

struct tg_decision tg_native_fin(__u32 rule, const struct tg_fin *fin)
{
	return tg_fin_decide(rule, fin);
}

__u32 tg_native_limit_take(const struct tg_limit *limit, __u64 *full_ns, __u64 now_ns)
{
	return tg_limit_take(limit, full_ns, now_ns);
}

int tg_native_bucket_take(struct tg_bucket *bucket, __u64 cost_ns, __u64 now_ns)
{
	return tg_bucket_take(bucket, cost_ns, now_ns);
}

int tg_native_is_refusal(struct tg_decision decision)
{
	return tg_is_refusal(decision);
}

int tg_native_lets_in(struct tg_decision decision)
{
	return tg_lets_in(decision);
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
                                  struct tg_bucket *refusals, __u32 refusal_cost_ns,
                                  int is_answered, int is_taken)
{
	struct tg_shed_work work = {0};
	struct tg_shed_block *block = (void *)0;

	if (rules->is_auto)
		tg_auto_begin(rules, &state->control, queue, syn->now_ns);
	tg_shed_begin(&work, rules, state, key, tuple, syn);
	if (work.wants_block && table && rules->blocks)
		block = &table[tg_shed_block_index(&work, rules)];
	return tg_shed_step(&work, rules, syn, queue, block, state, monitor, refusals,
	                    refusal_cost_ns, is_answered, is_taken);
}

int tg_native_shed_concerns(const struct tg_shed_rules *rules, __u32 source)
{
	return tg_shed_concerns(rules, source);
}

int tg_native_shed_counts(struct tg_decision decision, __u32 is_path)
{
	return tg_shed_counts(decision, is_path);
}

__u64 tg_native_shed_hash(const struct tg_key *key, const struct tg_tuple *tuple, __u32 kind,
                          __u32 question, __u32 number)
{
	struct tg_shed_work work = {0};

	tg_shed_absorb(&work, key, tuple, kind);
	return tg_shed_hash(&work, question, number);
}

__u32 tg_native_shed_block(const struct tg_shed_rules *rules, const struct tg_key *key,
                           const struct tg_tuple *tuple, __u32 isn)
{
	const struct tg_shed_syn syn = {.isn = isn};
	struct tg_shed_work work = {0};

	tg_shed_absorb(&work, key, tuple, rules->key);
	tg_shed_find_place(&work, rules, &syn);
	return tg_shed_block_index(&work, rules);
}

__u64 tg_native_shed_count(const struct tg_shed_block *blocks, __u64 count, __u64 now_ns)
{
	__u32 tick = tg_shed_tick(now_ns);
	__u64 stamps = 0;

	for (__u64 i = 0; i < count; i++)
		stamps += tg_shed_count(&blocks[i], tick);
	return stamps;
}

__u32 tg_native_shed_policy_now(const struct tg_shed_rules *rules,
                                const struct tg_shed_state *state)
{
	return tg_shed_policy_now(rules, state);
}

__u32 tg_native_syn_room(const struct tg_rules *rules, const struct tg_queues *queues, __u32 random)
{
	return tg_syn_room(rules, queues, queues->places, random);
}

__u64 tg_native_syn_watch_ns(struct tg_decision decision, const struct tg_queues *queues,
                             __u32 phase)
{
	return tg_syn_watch_ns(decision, queues, phase);
}

struct tg_auto_queue tg_native_auto_view(const struct tg_rules *rules,
                                         const struct tg_queues *queues, __u32 reason)
{
	return tg_auto_view(rules, queues, reason);
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

__u64 tg_native_siphash13(const struct tg_key *key, const __u64 *words, __u32 count)
{
	struct tg_siphash s;

	tg_siphash_init(&s, key);
	for (__u32 i = 0; i < count; i++)
		tg_siphash13_word(&s, words[i]);
	tg_siphash13_word(&s, (__u64)count * 8 << 56);
	return tg_siphash13_finish(&s);
}

void tg_native_agree_time_wait(const struct tg_tw_case *c, struct tg_tw_answers *a)
{
	tg_agree_time_wait(c, a);
}

__u32 tg_native_tw_write(const struct tg_tw_value *value, struct tg_tw_option *option)
{
	return tg_tw_write(value, option);
}

void tg_native_tw_read(const struct tg_tw_option *option, struct tg_tw_value *value)
{
	tg_tw_read(option, value);
}

__u32 tg_native_tw_named(const struct tg_tuple *tuple, const struct tg_tw_value *value)
{
	return tg_tw_named(tuple, value);
}

void tg_native_tw_name(const struct tg_tuple *tuple, __u32 holder, struct tg_tw_value *value)
{
	tg_tw_name(tuple, holder, value);
}

__u32 tg_native_tw_offer(const struct tg_tw_rules *rules, __u32 can_hold)
{
	return tg_tw_offer(rules, can_hold);
}

__u32 tg_native_tw_answer(const struct tg_tw_rules *rules, __u32 offered, __u32 can_hold)
{
	return tg_tw_answer(rules, offered, can_hold);
}

__u32 tg_native_tw_promise(__u32 us, __u32 named, __u32 is_met)
{
	return tg_tw_promise(us, named, is_met);
}

__u32 tg_native_tw_judge(const struct tg_tw_rules *rules, __u32 offered, __u32 answered,
                         __u32 can_hold)
{
	return tg_tw_judge(rules, offered, answered, can_hold);
}

__u32 tg_native_tw_settle(__u32 us, __u32 answered, __u32 confirmed)
{
	return tg_tw_settle(us, answered, confirmed);
}

void tg_native_tw_simultaneous(const struct tg_tw_value *one, const struct tg_tw_value *other,
                               struct tg_tw_value *use)
{
	tg_tw_simultaneous(one, other, use);
}

__u32 tg_native_tw_end(__u32 holder, __u32 us, __u32 close, __u32 close_swap)
{
	return tg_tw_end(holder, us, close, close_swap);
}

/* The two blocks of a table that a pair may stand in. */
struct tg_native_blocks {
	struct tg_held_block *one;
	struct tg_held_block *other;
};

static struct tg_native_blocks tg_native_blocks_of(const struct tg_held_block *table, __u32 blocks,
                                                   const struct tg_key *key,
                                                   const struct tg_held *pair)
{
	struct tg_held_block *first = (struct tg_held_block *)table;
	__u64 hash = tg_held_hash(key, pair);
	struct tg_native_blocks of = {
		.one = &first[tg_held_index((__u32)hash, blocks)],
		.other = &first[tg_held_index((__u32)(hash >> 32), blocks)],
	};

	return of;
}

__u32 tg_native_held_put(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                         const struct tg_held *pair, __u32 must, __u64 now_ns)
{
	struct tg_native_blocks of = tg_native_blocks_of(table, blocks, key, pair);

	return tg_held_put(of.one, of.other, pair, must, now_ns);
}

__u32 tg_native_held_judge(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                           const struct tg_held *pair, const struct tg_held_segment *segment,
                           __u64 now_ns)
{
	struct tg_native_blocks of = tg_native_blocks_of(table, blocks, key, pair);
	struct tg_held *cell = tg_held_get(of.one, of.other, pair, now_ns);
	__u32 verdict = cell ? tg_held_judge(cell, segment) : TG_HELD_PASS;

	if (verdict == TG_HELD_REOPEN)
		cell->flags |= TG_HELD_REOPENED;
	return verdict;
}

__u32 tg_native_held_can_hold(const struct tg_held_block *table, __u32 blocks,
                              const struct tg_key *key, const struct tg_held *pair, __u64 now_ns)
{
	struct tg_native_blocks of = tg_native_blocks_of(table, blocks, key, pair);

	return tg_held_can_hold(of.one, of.other, pair, now_ns);
}

__u64 tg_native_held_until(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                           const struct tg_held *pair, __u64 now_ns)
{
	struct tg_native_blocks of = tg_native_blocks_of(table, blocks, key, pair);
	struct tg_held *cell = tg_held_get(of.one, of.other, pair, now_ns);

	return cell ? cell->until_ns : 0;
}

void tg_native_agree_notice(const struct tg_notice_case *c, struct tg_notice_answers *a)
{
	tg_agree_notice(c, a);
}

__u32 tg_native_notice_is_of_one(__u32 reason)
{
	return tg_notice_is_of_one(reason);
}

__u32 tg_native_notice_parts(const struct tg_rules *rules, __u32 is_of_one, __u32 spare_bytes)
{
	return tg_notice_parts(rules, is_of_one, spare_bytes);
}

__u32 tg_native_notice_hear(const struct tg_notice_rst *rst)
{
	return tg_notice_hear(rst);
}

__u64 tg_native_notice_until(__u64 stands_ns, __u32 ticks, __u32 longest_ms, __u32 random,
                             __u64 now_ns)
{
	return tg_notice_until(stands_ns, ticks, longest_ms, random, now_ns);
}

void tg_native_target_unmap(struct tg_target *target)
{
	tg_target_unmap(target);
}
