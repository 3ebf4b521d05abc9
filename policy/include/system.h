/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a SYN tells of the system that it is from. */
#ifndef TG_SYSTEM_H
#define TG_SYSTEM_H

#include "types.h"

/* Hops that packets of Unix systems have before them at most, and those of Windows. */
#define TG_SYSTEM_HOPS_UNIX 64
#define TG_SYSTEM_HOPS_WINDOWS 128
/* A SYN with an MSS and timestamps is longer: 20 bytes, and options of 4 and 10, padded. */
#define TG_SYSTEM_BYTES_NO_CLOCKS 32

/*
 * Does it send its SYN again on a RST? Windows does, every half second; its packets have 128 hops
 * before them at first, and no timestamps (the fingerprints of p0f 3, M. Zalewski). Who looks like
 * it and is not is found out by its address: manners.h. hops: those left, the time to live of IPv4.
 */
TG_INLINE __u32 tg_system_sends_again(__u32 hops, __u32 tcp_header_bytes)
{
	return hops > TG_SYSTEM_HOPS_UNIX && hops <= TG_SYSTEM_HOPS_WINDOWS &&
	       tcp_header_bytes <= TG_SYSTEM_BYTES_NO_CLOCKS;
}

#endif
