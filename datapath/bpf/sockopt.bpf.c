// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The private socket option TG_SOCKET_CLOSE, by which an application itself says how
 * its connections end (Shukla, thesis, section 4.2.1, footnote 29: "the listening
 * socket and all the sockets derived from it"). It stands at the root of the
 * host's cgroups and speaks for the sockets of one network namespace.
 */
#include "vmlinux.h"

#include "cgroup.h"
#include "maps.h"
#include "packet.h"
#include "said.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ENOMEM 12
#define EINVAL 22

/* The kernel copies this much of an option's value for us; of a longer one it keeps the original.
 */
#define TG_OPTION_BYTES 4096

TG_INLINE int tg_is_ours(struct bpf_sockopt *ctx)
{
	struct tg_control *c;

	if (ctx->level != SOL_TCP || ctx->optname != TG_SOCKET_CLOSE ||
	    ctx->sk->protocol != TG_IPPROTO_TCP)
		return 0;
	c = tg_control_of();
	return c && bpf_get_netns_cookie(ctx) == c->netns_cookie;
}

/* Somebody else's option. */
TG_INLINE int tg_leave(struct bpf_sockopt *ctx)
{
	/* Else the kernel complains that what it copied is not all of it. */
	if (ctx->optlen > TG_OPTION_BYTES)
		ctx->optlen = 0;
	return TG_GO_ON;
}

TG_INLINE int tg_fail(int error)
{
	bpf_set_retval(-error);
	return TG_REFUSE;
}

SEC("cgroup/setsockopt")
int tidegate_setsockopt(struct bpf_sockopt *ctx)
{
	__u32 zero = 0, *anyone;
	struct tg_said *about;
	int *value;

	if (!tg_is_ours(ctx))
		return tg_leave(ctx);
	value = ctx->optval;
	/* There is room for more than was given: its own length tells. */
	if ((void *)(value + 1) > ctx->optval_end || ctx->optlen < (int)sizeof(*value) ||
	    *value < TG_AS_CONFIGURED || *value > TG_RST_FIN_STRICT)
		return tg_fail(EINVAL);
	about = bpf_sk_storage_get(&said, ctx->sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	anyone = bpf_map_lookup_elem(&anyone_said, &zero);
	if (!about || !anyone)
		return tg_fail(ENOMEM);
	about->fin = *value - TG_AS_CONFIGURED;
	*anyone = 1;
	/* Done: the kernel need not look at it. */
	ctx->optlen = -1;
	return TG_GO_ON;
}

/* The kernel has answered that it knows no such option. */
SEC("cgroup/getsockopt")
int tidegate_getsockopt(struct bpf_sockopt *ctx)
{
	struct tg_said *about;
	int *value;

	if (!tg_is_ours(ctx))
		return tg_leave(ctx);
	value = ctx->optval;
	if ((void *)(value + 1) > ctx->optval_end)
		return tg_fail(EINVAL);
	about = bpf_sk_storage_get(&said, ctx->sk, NULL, 0);
	*value = (about ? about->fin : 0) + TG_AS_CONFIGURED;
	ctx->optlen = sizeof(*value);
	bpf_set_retval(0);
	return TG_GO_ON;
}
