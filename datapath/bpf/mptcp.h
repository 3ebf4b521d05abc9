/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets of MPTCP's (RFC 8684): its listeners and its subflows are TCP's to a program. */
#ifndef TG_MPTCP_H
#define TG_MPTCP_H

#include "layout.h"

#include <bpf/bpf_core_read.h>

/* A kernel without MPTCP has no such field, and none of its sockets is one. */
TG_INLINE int tg_is_mptcp(const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

#endif
