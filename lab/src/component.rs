// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's functions sorted into the components of Shukla's Table 4.4.

/// BPF programs, whosever they are.
pub(crate) const GUARD: &str = "guard";
/// What programs are called begins so, and goes on with a tag, eight bytes in hexadecimal, and the name
/// (bpf_prog_ksym_set_name() of Linux 6.18). Functions of the kernel begin so, too.
const PROGRAM: &str = "bpf_prog_";
const TAG_DIGITS: usize = 16;

/// Beginnings of function names: the longest that fits decides. Today's names; a function that none
/// fits is other-kernel. Buffers are the sockets', as in the table.
const BEGINNINGS: &[(&str, &[&str])] = &[
    (
        "idle",
        &[
            "pv_native_safe_halt",
            "default_idle",
            "native_safe_halt",
            "acpi_idle",
            "intel_idle",
            "mwait_idle",
            "cpuidle",
            "do_idle",
            "cpu_startup_entry",
            "poll_idle",
            "cpu_idle",
            "pvm_safe_halt",
            "kvm_safe_halt",
            "xen_safe_halt",
            "kvm_halt",
        ],
    ),
    (
        "net-tcp",
        &[
            "tcp_",
            "__tcp_",
            "inet_csk_",
            "inet_reqsk_",
            "reqsk_",
            "__reqsk_",
            "inet_ehash",
            "__inet_",
            "inet_twsk",
            "inet_hash",
            "inet_unhash",
            "inet_bind",
            "inet_put_port",
            "cookie_",
            "syncookie",
            "secure_tcp",
            "bictcp_",
            "cubictcp_",
            "inet_lookup",
            "tcp4_",
            "tcp6_",
            "inet_child",
            "inet_timewait",
        ],
    ),
    (
        "net-socket",
        &[
            "sock_",
            "__sock",
            "sk_",
            "__sk_",
            "skb_",
            "__skb",
            "kfree_skb",
            "alloc_skb",
            "__alloc_skb",
            "napi_alloc_skb",
            "napi_build_skb",
            "napi_consume_skb",
            "napi_skb_",
            "__napi_kfree_skb",
            "consume_skb",
            "sockfs",
            "sys_accept",
            "__sys_accept",
            "do_accept",
            "__sys_send",
            "__sys_recv",
            "sys_recv",
            "sys_send",
            "release_sock",
            "lock_sock",
            "__release_sock",
            "sendmsg",
            "recvmsg",
            "inet_recv",
            "inet_send",
            "inet_accept",
            "sys_shutdown",
            "__x64_sys_accept",
            "simple_copy",
            "csum_",
        ],
    ),
    (
        "driver",
        &[
            "veth_",
            "__veth",
            "napi_",
            "__napi",
            "net_rx_action",
            "process_backlog",
            "gro_",
            "dev_gro",
            "virtnet",
            "e1000",
            "xdp_",
            "__xdp",
            "enqueue_to_backlog",
            "rps_",
            "get_rps_cpu",
            "handle_softirqs",
            "__do_softirq",
            "net_rps",
            "virtqueue",
            "eth_",
        ],
    ),
    (
        "net-ip",
        &[
            "ip_",
            "__ip_",
            "ip4_",
            "ip6_",
            "ipv6_",
            "ipv4_",
            "fib_",
            "__fib",
            "rt_",
            "inet_",
            "icmp",
            "nf_",
            "nft_",
            "neigh_",
            "__neigh",
            "arp_",
            "dst_",
            "raw_local",
            "rt6_",
            "fib6",
        ],
    ),
    (
        "net-other",
        &[
            "dev_",
            "__dev",
            "netif_",
            "__netif",
            "netdev",
            "sch_",
            "tcf_",
            "tcx_",
            "qdisc",
            "validate_xmit",
            "loopback",
            "dql",
            "bpf_",
            "__bpf",
        ],
    ),
    (
        "mm",
        &[
            "kmem_",
            "__kmem",
            "kmalloc",
            "__kmalloc",
            "kfree",
            "__kfree",
            "slab_",
            "__slab",
            "___slab",
            "alloc_pages",
            "__alloc_pages",
            "__alloc_frozen",
            "free_",
            "__free",
            "get_page",
            "page_",
            "__page",
            "mem_cgroup",
            "memset",
            "memcpy",
            "clear_page",
            "obj_cgroup",
            "__memcg",
            "vm_",
            "handle_mm",
            "do_user_addr",
            "refill",
            "try_charge",
            "copy_page",
        ],
    ),
    (
        "event notification",
        &[
            "ep_",
            "epoll",
            "do_epoll",
            "__x64_sys_epoll",
            "sys_epoll",
            "select_estimate_accuracy",
            "do_select",
            "core_sys_select",
            "poll_",
            "do_poll",
            "__pollwait",
            "do_sys_poll",
            "eventpoll",
        ],
    ),
];

/// The component that a kernel function belongs to; `None` when the processor is idle in it.
pub(crate) fn component(function: &str) -> Option<&'static str> {
    if is_program(function) {
        return Some(GUARD);
    }
    let longest = |(part, beginnings): &(&'static str, &[&str])| {
        let fits = beginnings.iter().filter(|beginning| function.starts_with(**beginning));
        fits.map(|beginning| (beginning.len(), *part)).max()
    };
    match BEGINNINGS.iter().filter_map(longest).max() {
        Some((_, "idle")) => None,
        Some((_, part)) => Some(part),
        None => Some("other-kernel"),
    }
}

/// Whether a function is a BPF program, or a part of one.
pub(crate) fn is_program(function: &str) -> bool {
    let tag = function.strip_prefix(PROGRAM).and_then(|rest| rest.get(..TAG_DIGITS));
    tag.is_some_and(|tag| tag.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::{BEGINNINGS, component, is_program};

    #[test]
    fn functions_belong_to_the_table_s_components() {
        for (function, part) in [
            ("tcp_v4_rcv", "net-tcp"),
            ("inet_csk_accept", "net-tcp"),
            ("ip_rcv_finish", "net-ip"),
            ("inet_sendmsg", "net-socket"),
            ("veth_poll", "driver"),
            ("sock_def_readable", "net-socket"),
            ("skb_release_data", "net-socket"),
            ("napi_alloc_skb", "net-socket"),
            ("napi_complete_done", "driver"),
            ("__netif_receive_skb_core", "net-other"),
            ("kmem_cache_alloc_noprof", "mm"),
            ("bpf_prog_6deef7357e7b4530_tidegate_ip", "guard"),
            ("bpf_prog_6deef7357e7b4530", "guard"),
            ("bpf_prog_run_generic_xdp", "net-other"),
            ("ep_poll_callback", "event notification"),
            ("schedule", "other-kernel"),
            ("select_task_rq_fair", "other-kernel"),
        ] {
            assert_eq!(component(function), Some(part), "{function}");
        }
        assert_eq!(component("pv_native_safe_halt"), None);
        assert!(!is_program("bpf_prog_put") && !is_program("bpf_prog_test_run_xdp"));
    }

    #[test]
    fn every_beginning_decides_where_it_stands() {
        for (part, beginnings) in BEGINNINGS {
            for beginning in *beginnings {
                let of = component(beginning).unwrap_or("idle");
                assert_eq!(of, *part, "{beginning}");
            }
        }
    }
}
