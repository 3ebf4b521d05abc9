// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time of the processor, by what it went to (Shukla, table 4.4).

/// Time of one piece of work, or of many, by component, in ns. The kernel's memory management, which a
/// profile of a live server has as `mm`, is with what needs the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Interrupts, frames, transmission.
    pub driver_ns: u64,
    /// Buffers and what else is the same for all protocols.
    pub other_ns: u64,
    /// IP.
    pub ip_ns: u64,
    /// TCP.
    pub tcp_ns: u64,
    /// The socket API.
    pub socket_ns: u64,
    /// Asking for events, waking.
    pub kernel_ns: u64,
    /// The application.
    pub application_ns: u64,
    /// A mechanism before TCP.
    pub guard_ns: u64,
}

impl Took {
    /// All of it.
    #[inline]
    #[must_use]
    pub fn whole_ns(&self) -> u64 {
        self.parts().iter().sum()
    }

    /// More of it.
    #[inline]
    pub(crate) fn add(&mut self, more: &Self) {
        self.driver_ns += more.driver_ns;
        self.other_ns += more.other_ns;
        self.ip_ns += more.ip_ns;
        self.tcp_ns += more.tcp_ns;
        self.socket_ns += more.socket_ns;
        self.kernel_ns += more.kernel_ns;
        self.application_ns += more.application_ns;
        self.guard_ns += more.guard_ns;
    }

    /// So many 65,536ths of it.
    pub(crate) fn times_x65536(&self, times: u64) -> Self {
        // The product of a file's longest times has more than 64 bits.
        let times = |ns: u64| ((u128::from(ns) * u128::from(times)) >> 16) as u64;
        Self {
            driver_ns: times(self.driver_ns),
            other_ns: times(self.other_ns),
            ip_ns: times(self.ip_ns),
            tcp_ns: times(self.tcp_ns),
            socket_ns: times(self.socket_ns),
            kernel_ns: times(self.kernel_ns),
            application_ns: times(self.application_ns),
            guard_ns: times(self.guard_ns),
        }
    }

    fn parts(&self) -> [u64; 8] {
        [
            self.driver_ns,
            self.other_ns,
            self.ip_ns,
            self.tcp_ns,
            self.socket_ns,
            self.kernel_ns,
            self.application_ns,
            self.guard_ns,
        ]
    }

    /// Each with its name in results.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = [
            "driver",
            "net-other",
            "net-ip",
            "net-tcp",
            "net-socket",
            "other-kernel",
            "application",
            "guard",
        ];
        names.into_iter().zip(self.parts())
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            driver_ns: self.driver_ns - earlier.driver_ns,
            other_ns: self.other_ns - earlier.other_ns,
            ip_ns: self.ip_ns - earlier.ip_ns,
            tcp_ns: self.tcp_ns - earlier.tcp_ns,
            socket_ns: self.socket_ns - earlier.socket_ns,
            kernel_ns: self.kernel_ns - earlier.kernel_ns,
            application_ns: self.application_ns - earlier.application_ns,
            guard_ns: self.guard_ns - earlier.guard_ns,
        }
    }
}

/// What the processors did, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Packets and timers.
    pub softirq_ns: u64,
    /// System calls.
    pub system_ns: u64,
    /// The application itself.
    pub user_ns: u64,
    /// All of it by component.
    pub by_component: Took,
}

impl Spent {
    /// More of it.
    pub(crate) fn add(&mut self, more: &Self) {
        self.softirq_ns += more.softirq_ns;
        self.system_ns += more.system_ns;
        self.user_ns += more.user_ns;
        self.by_component.add(&more.by_component);
    }

    /// What was spent since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            softirq_ns: self.softirq_ns - earlier.softirq_ns,
            system_ns: self.system_ns - earlier.system_ns,
            user_ns: self.user_ns - earlier.user_ns,
            by_component: self.by_component.since(&earlier.by_component),
        }
    }
}
