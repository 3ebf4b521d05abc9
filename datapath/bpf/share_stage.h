/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fair share for each network of clients: what is counted, looked up for policy/include/share.h.
 * Global functions, as tg_shed is.
 */
#ifndef TG_SHARE_STAGE_H
#define TG_SHARE_STAGE_H

#include "../../policy/include/share.h"
#include "guard.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_share);
} share SEC(".maps");

/* Of all listening sockets together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SHARE_ROWS *TG_SHARE_CELLS);
	__type(key, __u32);
	__type(value, struct tg_share_cell);
} share_cells SEC(".maps");

TG_INLINE struct tg_share_cell *tg_share_cell_of(__u64 hash, __u32 row)
{
	__u32 index = tg_share_cell_index(hash, row);

	return bpf_map_lookup_elem(&share_cells, &index);
}

/* Changes the limit where it is time to; whether shares are kept. Where all have room it costs a
 * look-up. */
__noinline int tg_share_turn_step(__u32 active, __u32 index, __u32 slot, __u64 now_ns)
{
	struct tg_share *s = bpf_map_lookup_elem(&share, &slot);
	struct tg_config *conf;

	if (!s || !tg_share_is_on(s, now_ns))
		return 0;
	conf = bpf_map_lookup_elem(&config, &active);
	if (!conf)
		return 0;
	tg_share_look(s, &conf->guards[index & (TG_GUARDS - 1)].rules, now_ns);
	return 1;
}

/* An enum tg_source, where shares are kept. */
__noinline __u32 tg_share_source(struct tg_packet *packet, __u32 active, __u32 index, __u32 slot,
                                 __u64 now_ns)
{
	struct tg_share *s = bpf_map_lookup_elem(&share, &slot);
	struct tg_share_cell *one, *other;
	struct tg_config *conf;
	__u64 hash;

	if (!packet || !s)
		return TG_SOURCE_ANY;
	conf = bpf_map_lookup_elem(&config, &active);
	if (!conf)
		return TG_SOURCE_ANY;
	hash = tg_share_hash(&conf->shed_key, &packet->tuple,
	                     &conf->guards[index & (TG_GUARDS - 1)].rules, slot);
	one = tg_share_cell_of(hash, 0);
	other = tg_share_cell_of(hash, 1);
	if (!one || !other)
		return TG_SOURCE_ANY;
	return tg_share_ask(s, one, other, bpf_get_prandom_u32(), now_ns);
}

/* Once a SYN that was let on is judged, for this reason. */
__noinline int tg_share_part(__u32 slot, __u32 source, __u32 reason, __u64 now_ns)
{
	struct tg_share *s = bpf_map_lookup_elem(&share, &slot);

	if (s)
		tg_share_end(s, source, reason, now_ns);
	return 0;
}

#endif
