// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The count of the kernel's ticks, for the loader: see clock.h. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("syscall")
int tidegate_ticks(__u64 *count)
{
	*count = bpf_jiffies64();
	return 0;
}
