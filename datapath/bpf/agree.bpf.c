// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy as BPF, on inputs of the caller's choosing: what the native build
 * is held against. Attached to nothing; run by BPF_PROG_TEST_RUN.
 */
#include "vmlinux.h"

#include "../../policy/include/agree.h"
#include "../../policy/include/agree_notice.h"
#include "../../policy/include/agree_shed.h"
#include "../../policy/include/agree_time_wait.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TG_AGREE_CASES 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_case);
} cases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_answers);
} answers SEC(".maps");

static long tg_agree_syn_one(__u32 index, void *unused)
{
	struct tg_case *c = bpf_map_lookup_elem(&cases, &index);
	struct tg_answers *a = bpf_map_lookup_elem(&answers, &index);

	if (!c || !a)
		return 1;
	__builtin_memset(a, 0, sizeof(*a));
	tg_agree_syn(c, a);
	return 0;
}

static long tg_agree_rest_one(__u32 index, void *unused)
{
	struct tg_case *c = bpf_map_lookup_elem(&cases, &index);
	struct tg_answers *a = bpf_map_lookup_elem(&answers, &index);

	if (!c || !a)
		return 1;
	tg_agree_rest(c, a);
	return 0;
}

/* Two programs: the verifier would walk every way through the second after each through the first.
 */
SEC("syscall")
int agree_syn(void *ctx)
{
	return bpf_loop(TG_AGREE_CASES, tg_agree_syn_one, NULL, 0) != TG_AGREE_CASES;
}

SEC("syscall")
int agree_rest(void *ctx)
{
	return bpf_loop(TG_AGREE_CASES, tg_agree_rest_one, NULL, 0) != TG_AGREE_CASES;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_shed_case);
} shed_cases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_shed_answers);
} shed_answers SEC(".maps");

static long tg_agree_shed_one(__u32 index, void *unused)
{
	struct tg_shed_case *c = bpf_map_lookup_elem(&shed_cases, &index);
	struct tg_shed_answers *a = bpf_map_lookup_elem(&shed_answers, &index);

	if (!c || !a)
		return 1;
	tg_agree_shed(c, a);
	return 0;
}

SEC("syscall")
int agree_shed(void *ctx)
{
	return bpf_loop(TG_AGREE_CASES, tg_agree_shed_one, NULL, 0) != TG_AGREE_CASES;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_tw_case);
} time_wait_cases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_tw_answers);
} time_wait_answers SEC(".maps");

static long tg_agree_time_wait_one(__u32 index, void *unused)
{
	struct tg_tw_case *c = bpf_map_lookup_elem(&time_wait_cases, &index);
	struct tg_tw_answers *a = bpf_map_lookup_elem(&time_wait_answers, &index);

	if (!c || !a)
		return 1;
	tg_agree_time_wait(c, a);
	return 0;
}

SEC("syscall")
int agree_time_wait(void *ctx)
{
	return bpf_loop(TG_AGREE_CASES, tg_agree_time_wait_one, NULL, 0) != TG_AGREE_CASES;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_notice_case);
} notice_cases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_AGREE_CASES);
	__type(key, __u32);
	__type(value, struct tg_notice_answers);
} notice_answers SEC(".maps");

static long tg_agree_notice_one(__u32 index, void *unused)
{
	struct tg_notice_case *c = bpf_map_lookup_elem(&notice_cases, &index);
	struct tg_notice_answers *a = bpf_map_lookup_elem(&notice_answers, &index);

	if (!c || !a)
		return 1;
	tg_agree_notice(c, a);
	return 0;
}

SEC("syscall")
int agree_notice(void *ctx)
{
	return bpf_loop(TG_AGREE_CASES, tg_agree_notice_one, NULL, 0) != TG_AGREE_CASES;
}
