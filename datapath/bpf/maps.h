/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps that several stages share, or the daemon with them. Allocated at load, none grows. No
 * program has a part in three of them: cleaned, ended and resized are the daemon's memory, and
 * stand here to outlive it.
 */
#ifndef TG_MAPS_H
#define TG_MAPS_H

#include "layout.h"

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_control);
} control SEC(".maps");

TG_INLINE struct tg_control *tg_control_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct tg_config);
} config SEC(".maps");

/*
 * Until when a guard's ACKs are looked up: one may overflow, or bring a cookie.
 * Apart from what the programs count, so that the daemon may write it too.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, __u64);
} watch_until_ns SEC(".maps");

/*
 * Until when what answers a hollow SYN/ACK may come, at whichever guard. One word: at the driver it
 * is all that is looked at of every segment that is no SYN.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hollow_until_ns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_claims);
} claims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_counters);
} counters SEC(".maps");

/* Each processor has its share of a guard's allowance of refusals. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_bucket);
} refusals SEC(".maps");

/* Those who wait in silence for an auto listener: see policy/include/waiting.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	/* Mapped, a block begins where a cache line does. */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_WAITING_BLOCKS);
	__type(key, __u32);
	__type(value, struct tg_waiting_block);
} waiting SEC(".maps");

/* Who speaks first behind a guard's handshakes: see policy/include/speaks.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_speaks);
} speaks SEC(".maps");

TG_INLINE struct tg_speaks *tg_speaks_of(__u32 guard)
{
	return bpf_map_lookup_elem(&speaks, &guard);
}

/* How those whom an auto listener has told took it: see policy/include/manners.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_MANNERS_BLOCKS);
	__type(key, __u32);
	__type(value, struct tg_manners_block);
} manners SEC(".maps");

_Static_assert(sizeof(struct tg_waiting_block) == 64, "a block is a cache line");

/* What auto has seen of a listening socket, by its counter slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_overload);
} overload SEC(".maps");

/* Who waits inside the application behind it, as the daemon has counted them last, likewise. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_inside);
} inside SEC(".maps");

/* Reservations that the daemon cleaned, per guard. No program reads it; it outlives the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, __u64);
} cleaned SEC(".maps");

/*
 * What a guard's listening sockets that are gone had counted. No program reads or writes it: what
 * is added to a slot in which they count is what it was a moment ago.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_counters);
} ended SEC(".maps");

/*
 * Listening sockets by cookie whose backlog the daemon changed. No program reads it; it
 * outlives the daemon, so that the next one can put the application's own back.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u64);
	__type(value, struct tg_resized);
} resized SEC(".maps");

/* A listening socket under a guard -> its counter slot. The daemon fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_SLOTS);
	__type(key, struct tg_slot_key);
	__type(value, __u32);
} slots SEC(".maps");

#endif
