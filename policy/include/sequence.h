/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP's sequence numbers, which wrap: RFC 9293, section 3.4. */
#ifndef TG_SEQUENCE_H
#define TG_SEQUENCE_H

#include "types.h"

TG_INLINE int tg_before(__u32 a, __u32 b)
{
	return a - b > 0x7fffffff;
}

#endif
