/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What native.c offers to native callers: the Rust bindings come from this file. */
#ifndef TG_NATIVE_H
#define TG_NATIVE_H

#include "agree.h"

void tg_native_agree(const struct tg_case *c, struct tg_answers *a);
struct tg_decision tg_native_syn(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_syn *syn, struct tg_bucket *refusals);
struct tg_decision tg_native_ack(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_ack *ack);
int tg_native_bucket_take(struct tg_bucket *bucket, __u64 cost_ns, __u64 now_ns);
int tg_native_reservation_stale(const struct tg_rules *rules, const struct tg_queues *queues,
                                __u64 age_ms);
__u64 tg_native_siphash(const struct tg_key *key, const __u64 *words, __u32 count);

#endif
