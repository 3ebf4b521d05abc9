// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The driver hook of a host that only forwards, where every guard is a path. No socket is asked
 * for, so there is stack enough to shed in place: a call is a tenth of the whole where a processor
 * pays for each return (SRSO).
 */
#include "vmlinux.h"

#include "driver.h"
#include "police_stage.h"
#include "shed_stage.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Apart: seldom needed. */
static __noinline int tg_path_refuse(struct xdp_md *ctx, const struct tg_packet *packet,
                                     const struct tg_place *at, __u32 verdict, __u32 how)
{
	return tg_driver_refuse(ctx, packet, at, verdict, 1, how);
}

/* The control of p*, where the rules have one: by a queue that is counted. */
static __noinline void tg_path_control(const struct tg_place *at, __u64 now_ns, __u32 what)
{
	struct tg_shed_call call = {};

	tg_shed_call(&call, at, now_ns);
	tg_shed_control(&call, what);
}

TG_INLINE struct tg_decision tg_path_shed(struct tg_packet *packet, const struct tg_place *at)
{
	__u64 now_ns = tg_now_ns(at->control);
	struct tg_decision d;

	if (at->guard->shed.is_auto)
		tg_path_control(at, now_ns, TG_CONTROL_BEGIN);
	d = tg_shed_here(packet, at->config, at->index & (TG_GUARDS - 1),
	                 tg_shed_prefers(packet, at), now_ns, at->control->clock_offset_ns);
	if (at->guard->shed.is_auto)
		tg_path_control(at, now_ns, tg_shed_outcome(d));
	return d;
}

TG_INLINE int tg_path_run(struct xdp_md *ctx, __u32 how)
{
	struct tg_packet packet;
	struct tg_place at;
	struct tg_decision d;

	/* Between two configurations a listener's guard may stand here for a moment: the kernel's.
	 */
	if (!tg_driver_parse(ctx, &packet) || !tg_driver_syn(ctx, &packet, &at) ||
	    !at.guard->is_path || !tg_shed_concerns(&at.guard->shed, tg_source_of(&packet, &at)))
		return XDP_PASS;
	d = tg_path_shed(&packet, &at);
	switch (d.verdict) {
	case TG_DROP: return XDP_DROP;
	case TG_RESET:
	case TG_HOLLOW: return tg_path_refuse(ctx, &packet, &at, d.verdict, how);
	default: return XDP_PASS;
	}
}

SEC("xdp.frags")
int tidegate_path(struct xdp_md *ctx)
{
	return tg_path_run(ctx, TG_DRIVER_TRANSMIT);
}

SEC("xdp.frags")
int tidegate_path_veth(struct xdp_md *ctx)
{
	return tg_path_run(ctx, 0);
}
