/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions of the kernel that are called by name; weak, so that an older one loads us and says no.
 */
#ifndef TG_KFUNCS_H
#define TG_KFUNCS_H

#include <bpf/bpf_helpers.h>

/* Linux 6.2 */
void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;
void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

#endif
