/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What applications have said of their sockets, by the option of sockopt.bpf.c.
 * It stands with the socket and goes with it; a connection has it from the
 * listening socket that it came in by, as it stood then (BPF_F_CLONE).
 */
#ifndef TG_SAID_H
#define TG_SAID_H

#include "layout.h"

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct tg_said);
} said SEC(".maps");

/* Whether any ever did: until then no connection is looked up for it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} anyone_said SEC(".maps");

TG_INLINE int tg_anyone_said(void)
{
	__u32 zero = 0, *anyone = bpf_map_lookup_elem(&anyone_said, &zero);

	return anyone && *anyone;
}

/* As tg_fin_rule_of() wants it. */
TG_INLINE __u32 tg_fin_said(struct bpf_sock *sk)
{
	struct tg_said *about = bpf_sk_storage_get(&said, sk, NULL, 0);

	return about ? about->fin : 0;
}

#endif
