/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What native.c offers to native callers: the Rust bindings come from this file. */
#ifndef TG_NATIVE_H
#define TG_NATIVE_H

#include "accepts.h"
#include "agree.h"
#include "agree_accepts.h"
#include "agree_notice.h"
#include "agree_share.h"
#include "agree_shed.h"
#include "agree_time_wait.h"
#include "held.h"
#include "notice.h"
#include "share.h"
#include "speaks.h"
#include "system.h"
#include "time_wait.h"

void tg_native_agree(const struct tg_case *c, struct tg_answers *a);
struct tg_judged tg_native_syn(const struct tg_rules *rules, const struct tg_queues *queues,
                               const struct tg_syn *syn, struct tg_bucket *refusals);
/* With what auto knows; other rules do not look at it. *queues is left as auto has seen them. */
struct tg_judged tg_native_judge(const struct tg_rules *rules, struct tg_queues *queues,
                                 const struct tg_syn *syn, struct tg_bucket *refusals,
                                 const struct tg_crowd *crowd);
/* After a SYN was judged: see accepts.h. */
void tg_native_accepts(struct tg_accepts *accepts, const struct tg_rules *rules,
                       const struct tg_queues *queues, struct tg_judged judged, __u64 now_ns);
int tg_native_accepts_admits(const struct tg_rules *rules, __u32 reason);
void tg_native_accepts_take(struct tg_accepts *accepts);
void tg_native_agree_accepts(const struct tg_accepts_case *c, struct tg_accepts_answers *a);
/* A fair share (share.h). An enum tg_source; cells are all of the table. */
__u32 tg_native_share_ask(struct tg_share *share, struct tg_share_cell *cells,
                          const struct tg_key *key, const struct tg_tuple *tuple,
                          const struct tg_rules *rules, __u32 random, __u64 now_ns);
/* After a SYN of this source was judged. Of whom shares do not concern nothing is counted. */
void tg_native_share_end(struct tg_share *share, const struct tg_rules *rules, __u32 source,
                         struct tg_judged judged, __u64 now_ns);
int tg_native_share_is_on(const struct tg_share *share, __u64 now_ns);
__u64 tg_native_share_hash(const struct tg_key *key, const struct tg_tuple *tuple,
                           const struct tg_rules *rules, __u32 owner);
__u32 tg_native_share_cell(__u64 hash, __u32 row);
void tg_native_agree_share(const struct tg_share_case *c, struct tg_share_answers *a);
__u64 tg_native_waiting_name(const struct tg_key *key, const struct tg_tuple *tuple, __u32 isn);
__u32 tg_native_waiting_block(__u64 name);
__u64 tg_native_manners_name(const struct tg_key *key, const struct tg_tuple *tuple,
                             __u32 sends_again);
__u32 tg_native_manners_block(__u64 name);
__u32 tg_native_system_sends_again(__u32 hops, __u32 tcp_header_bytes);
/* An enum tg_phase. */
__u32 tg_native_overload_phase(const struct tg_overload *overload, __u64 now_ns);
__u32 tg_native_overload_places(const struct tg_overload *overload, __u64 now_ns);
int tg_native_overload_silences_ack(const struct tg_overload *overload, __u64 now_ns);
void tg_native_speaks_see(struct tg_speaks *speaks, int answers);
int tg_native_speaks_first(const struct tg_speaks *speaks);
void tg_native_overload_meet_ack(struct tg_overload *overload, const struct tg_ack *ack,
                                 struct tg_decision decision, __u32 seq, __u64 now_ns);
struct tg_decision tg_native_ack(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_ack *ack);
int tg_native_ack_is_behind(__u64 since_ns, int has_fin);
int tg_native_ack_leaves(const struct tg_rules *rules, const struct tg_ack *ack,
                         struct tg_decision decision);
int tg_native_ack_tells(const struct tg_ack *ack, struct tg_decision decision);
struct tg_decision tg_native_fin(__u32 rule, const struct tg_fin *fin);
int tg_native_bucket_take(struct tg_bucket *bucket, __u64 cost_ns, __u64 now_ns);
/* An enum tg_source. */
__u32 tg_native_limit_take(const struct tg_limit *limit, __u64 *full_ns, __u64 now_ns);
int tg_native_is_refusal(struct tg_decision decision);
int tg_native_lets_in(struct tg_decision decision);
int tg_native_reservation_stale(const struct tg_rules *rules, const struct tg_queues *queues,
                                __u64 age_ms);
void tg_native_agree_shed(const struct tg_shed_case *c, struct tg_shed_answers *a);
/*
 * table has every block that the rules name, or is NULL. is_taken: something of this client's
 * stands here; is_answered: and has TCP's own answer to its SYN.
 */
struct tg_decision tg_native_shed(const struct tg_shed_rules *rules, const struct tg_key *key,
                                  const struct tg_tuple *tuple, const struct tg_shed_syn *syn,
                                  const struct tg_auto_queue *queue, struct tg_shed_block *table,
                                  struct tg_shed_state *state, struct tg_shed_monitor *monitor,
                                  struct tg_bucket *refusals, __u32 refusal_cost_ns,
                                  int is_answered, int is_taken);
int tg_native_shed_concerns(const struct tg_shed_rules *rules, __u32 source);
int tg_native_shed_counts(struct tg_decision decision, __u32 is_path);
/* A question to the keyed hash: enum tg_shed_question, and the number that goes with it. */
__u64 tg_native_shed_hash(const struct tg_key *key, const struct tg_tuple *tuple, __u32 kind,
                          __u32 question, __u32 number);
/* The block of the table that has this SYN's stamp, where a policy asks for one. */
__u32 tg_native_shed_block(const struct tg_shed_rules *rules, const struct tg_key *key,
                           const struct tg_tuple *tuple, __u32 isn);
/* Stamps that stand, of so many blocks. */
__u64 tg_native_shed_count(const struct tg_shed_block *blocks, __u64 count, __u64 now_ns);
__u32 tg_native_shed_policy_now(const struct tg_shed_rules *rules,
                                const struct tg_shed_state *state);
__u32 tg_native_syn_room(const struct tg_rules *rules, const struct tg_queues *queues,
                         __u32 random);
__u64 tg_native_syn_watch_ns(struct tg_decision decision, const struct tg_queues *queues,
                             __u32 phase);
struct tg_auto_queue tg_native_auto_view(const struct tg_rules *rules,
                                         const struct tg_queues *queues, __u32 reason);
__u64 tg_native_auto_root(__u64 p_x32, __u32 attempts);
__u64 tg_native_siphash(const struct tg_key *key, const __u64 *words, __u32 count);
__u64 tg_native_siphash13(const struct tg_key *key, const __u64 *words, __u32 count);

void tg_native_agree_time_wait(const struct tg_tw_case *c, struct tg_tw_answers *a);
/* Who holds TIME-WAIT: the functions of time_wait.h, each as it is there. */
__u32 tg_native_tw_write(const struct tg_tw_value *value, struct tg_tw_option *option);
void tg_native_tw_read(const struct tg_tw_option *option, struct tg_tw_value *value);
__u32 tg_native_tw_named(const struct tg_tuple *tuple, const struct tg_tw_value *value);
void tg_native_tw_name(const struct tg_tuple *tuple, __u32 holder, struct tg_tw_value *value);
__u32 tg_native_tw_offer(const struct tg_tw_rules *rules, __u32 can_hold);
__u32 tg_native_tw_answer(const struct tg_tw_rules *rules, __u32 offered, __u32 can_hold);
__u32 tg_native_tw_promise(__u32 us, __u32 named, __u32 is_met);
__u32 tg_native_tw_judge(const struct tg_tw_rules *rules, __u32 offered, __u32 answered,
                         __u32 can_hold);
__u32 tg_native_tw_settle(__u32 us, __u32 answered, __u32 confirmed);
void tg_native_tw_simultaneous(const struct tg_tw_value *one, const struct tg_tw_value *other,
                               struct tg_tw_value *use);
__u32 tg_native_tw_end(__u32 holder, __u32 us, __u32 close, __u32 close_swap);
/* The pairs held here: a table of so many blocks, which must be one at least. */
__u32 tg_native_held_put(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                         const struct tg_held *pair, __u32 must, __u64 now_ns);
/* The verdict on a segment of this pair, enum tg_held_verdict; TG_HELD_PASS where it is not held.
 */
__u32 tg_native_held_judge(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                           const struct tg_held *pair, const struct tg_held_segment *segment,
                           __u64 now_ns);
/* Whether there is room enough to offer to hold this pair. */
__u32 tg_native_held_can_hold(const struct tg_held_block *table, __u32 blocks,
                              const struct tg_key *key, const struct tg_held *pair, __u64 now_ns);
/* Until when a pair is held; 0 where it is not. */
__u64 tg_native_held_until(struct tg_held_block *table, __u32 blocks, const struct tg_key *key,
                           const struct tg_held *pair, __u64 now_ns);

void tg_native_agree_notice(const struct tg_notice_case *c, struct tg_notice_answers *a);
/* Notices: the functions of notice.h, each as it is there. */
__u32 tg_native_notice_is_of_one(__u32 reason);
__u32 tg_native_notice_parts(const struct tg_rules *rules, __u32 is_of_one, __u32 spare_bytes);
__u32 tg_native_notice_hear(const struct tg_notice_rst *rst);
__u64 tg_native_notice_until(__u64 stands_ns, __u32 ticks, __u32 longest_ms, __u32 random,
                             __u64 now_ns);
void tg_native_target_unmap(struct tg_target *target);

#endif
