/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a program at a cgroup returns: whether the segment, or the system call, goes on. */
#ifndef TG_CGROUP_H
#define TG_CGROUP_H

#define TG_GO_ON 1
#define TG_REFUSE 0

#endif
