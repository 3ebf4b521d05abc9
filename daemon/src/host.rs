// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this host can do: capabilities, kernel features, sysctls.

use std::fs;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::btf::{Btf, types};
use libbpf_rs::set_print;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use tidegate_datapath::control::LetsIn;

use crate::failure::{Failure, Result};

/// linux/capability.h: what loading, attaching, reading through pointers and pinning need.
const NEEDED: [(&str, u32); 4] =
    [("CAP_BPF", 39), ("CAP_PERFMON", 38), ("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// The user namespace with which a host begins (linux/proc_ns.h, PROC_USER_INIT_INO). In that alone a capability is
/// one to load and attach.
const HOSTS_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// What `resize` needs: to find the socket in /proc/PID/fd of a process of another user, and to take
/// its descriptor (pidfd_getfd).
const TO_RESIZE: [(&str, u32); 2] = [("CAP_SYS_PTRACE", 19), ("CAP_DAC_READ_SEARCH", 2)];
const TO_SEE_OTHERS: [(&str, u32); 1] = [("CAP_DAC_OVERRIDE", 1)];

/// The processors that this process may run on, and so, as a rule, what it guards. How much of their time its
/// control group may take is another thing, and no matter to SYNs, which are dropped by the kernel.
pub fn processors() -> u64 {
    let count = |set: CpuSet| (0..CpuSet::count()).filter(|n| set.is_set(*n) == Ok(true)).count();
    match sched_getaffinity(Pid::from_raw(0)).map(count) {
        Ok(mine) => mine as u64,
        // More than such a set holds.
        Err(_) => std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
    }
}

fn missing(needed: &[(&'static str, u32)]) -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    needed.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect()
}

/// Whether this process is in another user namespace than the host's, as far as /proc shows it.
fn is_in_another_user_namespace() -> bool {
    let namespace = fs::metadata("/proc/self/ns/user");
    namespace.is_ok_and(|namespace| namespace.ino() != HOSTS_USER_NAMESPACE)
}

/// The same of those that changing an application's backlog needs.
pub fn missing_to_resize() -> Vec<&'static str> {
    missing(&TO_RESIZE)
}

/// Whether this process may look at what is another user's.
pub fn sees_others() -> bool {
    missing(&TO_SEE_OTHERS).is_empty()
}

/// Fails with the names of the capabilities that are missing, or where those that are there are of no use.
pub fn require_capabilities() -> Result<()> {
    if is_in_another_user_namespace() {
        return Err(Failure::argument(
            "this is a user namespace of its own, as of a rootless container, and its capabilities \
             count in it alone",
            "run as the host's root, or in a container that the host's root has started, with \
             --userns=host",
        ));
    }
    let missing = missing(&NEEDED);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Privilege { missing: missing.join(", ") })
}

/// What the running kernel offers, read from its BTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Kernel {
    /// It describes its own types (CONFIG_DEBUG_INFO_BTF).
    pub btf: bool,
    /// bpf_rdonly_cast, Linux 6.2: live queue lengths.
    pub casts: bool,
    /// tcx, Linux 6.6: the IP entry.
    pub tcx: bool,
    /// BPF at netfilter hooks, Linux 6.4: the TCP entry, and exact reserv.
    pub netfilter: bool,
    /// bpf_sk_assign_tcp_reqsk, Linux 6.9: no-syn-drop.
    pub cookies: bool,
    /// The same by IPv6, which must be no module for it (CONFIG_IPV6=y).
    pub cookies_ipv6: bool,
}

impl Kernel {
    /// Whom it lets in by a cookie of ours.
    pub fn lets_in(&self) -> LetsIn {
        match (self.cookies, self.cookies_ipv6) {
            (false, _) => LetsIn::Nobody,
            (true, false) => LetsIn::ByIpv4,
            (true, true) => LetsIn::All,
        }
    }
}

/// Reads what the kernel offers.
pub fn kernel() -> Kernel {
    // What libbpf would print is said, in one line, by who asks.
    set_print(None);
    let Ok(btf) = Btf::from_vmlinux() else {
        return Kernel {
            btf: false,
            casts: false,
            tcx: false,
            netfilter: false,
            cookies: false,
            cookies_ipv6: false,
        };
    };
    let function = |name: &str| btf.type_by_name::<types::Func<'_>>(name).is_some();
    let structure = |name: &str| btf.type_by_name::<types::Struct<'_>>(name).is_some();
    let cookies = function("bpf_sk_assign_tcp_reqsk");
    Kernel {
        btf: true,
        casts: function("bpf_rdonly_cast"),
        tcx: structure("tcx_link") || function("tcx_link_attach"),
        netfilter: structure("bpf_nf_ctx"),
        cookies,
        // Of IPv6 as a module the kernel itself has no function.
        cookies_ipv6: cookies && function("cookie_v6_check"),
    }
}

/// A sysctl of the calling thread's network namespace, e.g. `net/ipv4/tcp_syncookies`.
pub fn sysctl(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

/// The most that listen() grants here as backlog.
pub fn somaxconn() -> u32 {
    sysctl("net/core/somaxconn").and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use nix::sched::sched_setaffinity;

    use super::*;

    #[test]
    fn who_is_let_in_by_a_cookie_goes_by_what_the_kernel_has_built_in() {
        let kernel = kernel();
        for (cookies, cookies_ipv6, lets_in) in [
            (false, false, LetsIn::Nobody),
            (true, false, LetsIn::ByIpv4),
            (true, true, LetsIn::All),
        ] {
            assert_eq!(Kernel { cookies, cookies_ipv6, ..kernel }.lets_in(), lets_in);
        }
    }

    #[test]
    fn the_processors_are_those_that_this_thread_may_run_on() {
        let this = Pid::from_raw(0);
        let alone = std::thread::spawn(move || {
            let all = sched_getaffinity(this).unwrap();
            let first = (0..CpuSet::count()).find(|n| all.is_set(*n).unwrap()).unwrap();
            let mut one = CpuSet::new();
            one.set(first).unwrap();
            sched_setaffinity(this, &one).unwrap();
            processors()
        });
        assert_eq!(alone.join().unwrap(), 1);
    }
}
