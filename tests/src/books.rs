// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel counted of a server, held against what its guard did.

use tidegate_lab::Counters;

use crate::counted::Counted;
use crate::listener::until;
use crate::stage::Stage;

/// The kernel's counts of a stage's server since its guard stands, held against ours.
pub struct Books {
    before: Counters,
}

/// What both sides counted, by the kernel's names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// TcpExtListenDrops.
    pub listen_drops: i64,
    /// TcpExtListenOverflows.
    pub listen_overflows: i64,
    /// TcpExtTCPReqQFullDrop.
    pub queue_full_drop: i64,
    /// TcpExtTCPReqQFullDoCookies.
    pub queue_full_cookies: i64,
    /// TcpExtEmbryonicRsts.
    pub embryonic_resets: i64,
    /// sk_drops of the listening socket.
    pub on_the_socket: i64,
}

impl Books {
    /// Opens them.
    pub fn open(stage: &Stage) -> Self {
        Books { before: Counters::of(&stage.server).expect("the kernel's counters") }
    }

    /// Asserts that both sides counted the same, and returns what.
    pub fn balance(&self, stage: &Stage, what: &str) -> Drops {
        let (told, theirs, ours) = self.both(stage);
        assert_eq!(told, theirs, "{what}: ours and the kernel's, of {ours}");
        theirs
    }

    /// What we counted by the kernel's names, what the kernel did, and all that we did.
    pub fn both(&self, stage: &Stage) -> (Drops, Drops, Counted) {
        let read = || Counters::of(&stage.server).expect("the kernel's counters");
        // Clients send again: both are of one moment only where nothing came between.
        let (mut now, mut ours) = (read(), Counted::of(&stage.server));
        until("nothing comes while it is counted", || {
            let after = read();
            let is_quiet = after == now;
            if !is_quiet {
                (now, ours) = (after, Counted::of(&stage.server));
            }
            is_quiet
        });
        let since = now.since(&self.before).expect("the same counters");
        let kernel = |name: &str| since.get(name).expect("a counter of this kernel");
        let counted = |reason: &str, verdict: &str| ours.packets(reason, verdict) as i64;
        let overflows = |verdict: &str| {
            counted("ListenQOverflow SYN/ACK ACK", verdict)
                + counted("ListenQOverflow other", verdict)
        };
        let theirs = Drops {
            listen_drops: kernel("TcpExtListenDrops"),
            listen_overflows: kernel("TcpExtListenOverflows"),
            queue_full_drop: kernel("TcpExtTCPReqQFullDrop"),
            queue_full_cookies: kernel("TcpExtTCPReqQFullDoCookies"),
            embryonic_resets: kernel("TcpExtEmbryonicRsts"),
            on_the_socket: ours.kernel_drops() as i64,
        };
        let full = counted("ListenQFullAtSyn", "pass") + overflows("pass");
        let dropped = full + counted("SynQFull", "pass") + counted("SynQ3/4Full", "pass");
        let told = Drops {
            listen_drops: dropped,
            listen_overflows: full,
            queue_full_drop: counted("SynQFull", "pass"),
            queue_full_cookies: counted("KernelCookie", "pass"),
            embryonic_resets: overflows("reset"),
            // The kernel counts a segment that it drops for want of a place twice on the
            // socket, in tcp_v4_syn_recv_sock() and again in tcp_v4_rcv(), and one that makes
            // it refuse a request once.
            on_the_socket: dropped + overflows("pass") + overflows("reset"),
        };
        (told, theirs, ours)
    }
}
