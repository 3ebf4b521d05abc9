// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy as BPF, on inputs of the caller's choosing: what the native build
 * is held against. Attached to nothing; run by BPF_PROG_TEST_RUN.
 */
#include "vmlinux.h"

#include "../../policy/include/agree.h"
#include "../../policy/include/agree_accepts.h"
#include "../../policy/include/agree_notice.h"
#include "../../policy/include/agree_share.h"
#include "../../policy/include/agree_shed.h"
#include "../../policy/include/agree_time_wait.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TG_AGREE_CASES 4096

/* Cases of one type, and their answers, in memory that the caller has mapped. */
#define TG_AGREE_MAP(name, element)                                                                \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, TG_AGREE_CASES);                                               \
		__type(key, __u32);                                                                \
		__type(value, struct element);                                                     \
	} name SEC(".maps")

/*
 * The program `name`, by which tg_<name> does its part of every case. anew: it finds
 * answers that are all zero.
 */
#define TG_AGREE_PROGRAM(name, cases, case_type, answers, answer_type, anew)                       \
	static long name##_one(__u32 index, void *unused)                                          \
	{                                                                                          \
		struct case_type *c = bpf_map_lookup_elem(&cases, &index);                         \
		struct answer_type *a = bpf_map_lookup_elem(&answers, &index);                     \
                                                                                                   \
		if (!c || !a)                                                                      \
			return 1;                                                                  \
		if (anew)                                                                          \
			__builtin_memset(a, 0, sizeof(*a));                                        \
		tg_##name(c, a);                                                                   \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("syscall")                                                                             \
	int name(void *ctx)                                                                        \
	{                                                                                          \
		return bpf_loop(TG_AGREE_CASES, name##_one, NULL, 0) != TG_AGREE_CASES;            \
	}

/* In parts: the verifier would walk every way through one after each through another. */
TG_AGREE_MAP(cases, tg_case);
TG_AGREE_MAP(answers, tg_answers);
TG_AGREE_PROGRAM(agree_source, cases, tg_case, answers, tg_answers, 1)
TG_AGREE_PROGRAM(agree_syn_begin, cases, tg_case, answers, tg_answers, 0)
TG_AGREE_PROGRAM(agree_syn_room, cases, tg_case, answers, tg_answers, 0)
TG_AGREE_PROGRAM(agree_syn_end, cases, tg_case, answers, tg_answers, 0)
TG_AGREE_PROGRAM(agree_rest, cases, tg_case, answers, tg_answers, 0)

TG_AGREE_MAP(shed_cases, tg_shed_case);
TG_AGREE_MAP(shed_answers, tg_shed_answers);
TG_AGREE_PROGRAM(agree_shed, shed_cases, tg_shed_case, shed_answers, tg_shed_answers, 0)

TG_AGREE_MAP(time_wait_cases, tg_tw_case);
TG_AGREE_MAP(time_wait_answers, tg_tw_answers);
TG_AGREE_PROGRAM(agree_time_wait, time_wait_cases, tg_tw_case, time_wait_answers, tg_tw_answers, 0)

TG_AGREE_MAP(notice_cases, tg_notice_case);
TG_AGREE_MAP(notice_answers, tg_notice_answers);
TG_AGREE_PROGRAM(agree_notice, notice_cases, tg_notice_case, notice_answers, tg_notice_answers, 0)

TG_AGREE_MAP(accepts_cases, tg_accepts_case);
TG_AGREE_MAP(accepts_answers, tg_accepts_answers);
TG_AGREE_PROGRAM(agree_accepts, accepts_cases, tg_accepts_case, accepts_answers, tg_accepts_answers,
                 1)

TG_AGREE_MAP(share_cases, tg_share_case);
TG_AGREE_MAP(share_answers, tg_share_answers);
TG_AGREE_PROGRAM(agree_share, share_cases, tg_share_case, share_answers, tg_share_answers, 1)
