// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a world begins with.

use tidegate_client::{Arrivals, Close, Os, Person};
use tidegate_policy::police::Limited;
use tidegate_policy::raw::{tg_rules, tg_tw_rules};
use tidegate_policy::time_wait::ENTRIES;
use tidegate_servers::AcceptLimit;

use crate::hook::Hook;
use crate::machine::{Machine, Program};
use crate::network::Way;
use crate::pages::Pages;
use crate::shed::Shed;
use crate::stack::Kernel;

/// A server, its clients, and what lies between.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server's machine.
    pub machine: Machine,
    /// What its administrator set.
    pub kernel: Kernel,
    /// What serves.
    pub program: Program,
    /// Threads that hold connections, of a Knot: as many as Knot-C has, and at most as many as
    /// Knot-A begins.
    pub threads: u32,
    /// The listen queue that the application asks for.
    pub backlog: u32,
    /// How many connections it accepts in a row.
    pub accept_limit: AcceptLimit,
    /// Work for each request beside serving it, in ns.
    pub cost_ns: u64,
    /// What it serves.
    pub pages: Pages,
    /// What its listener wants of TIME-WAIT; all zero: it negotiates nothing. What clients want is
    /// their [`Person`]'s.
    pub time_wait: tg_tw_rules,
    /// Pairs that there is room to hold, at the server and at all clients together, where they are
    /// asked to.
    pub held_entries: u32,
    /// A mechanism's rules, and where it looks at SYNs.
    pub guard: Option<(tg_rules, Hook)>,
    /// What it says of networks of clients; the longest counts.
    pub limits: Vec<Limited>,
    /// Persistent dropping, before all that.
    pub shed: Option<Shed>,
    /// The way between.
    pub way: Way,
    /// The clients.
    pub crowd: Crowd,
    /// Chooses everything that is left to chance.
    pub seed: u64,
}

impl Setup {
    /// One-packet requests, one a connection, at a machine's own server; `None` is the kernel alone.
    #[must_use]
    pub fn one_packet(machine: Machine, guard: Option<(tg_rules, Hook)>, os: &'static Os) -> Self {
        let pages = Pages::one_packet();
        let crowd = Crowd {
            person: Person {
                os,
                mss: 1460,
                timeout_ns: 10_000_000_000,
                close: Close::Fin,
                time_wait: tg_tw_rules::default(),
                requests: pages.requests("h"),
            },
            requests: 1.0,
            ports: None,
            systems: Vec::new(),
            networks: Vec::new(),
            load: Load::Closed { clients: 1 },
            warm_up_ns: 0,
            duration_ns: 1_000_000_000,
            cool_down_ns: 0,
        };
        Self {
            machine,
            kernel: Kernel::of(machine.profile),
            program: machine.userver,
            threads: 1000,
            backlog: 128,
            accept_limit: AcceptLimit::INF,
            cost_ns: 0,
            pages,
            time_wait: tg_tw_rules::default(),
            held_entries: ENTRIES,
            guard,
            limits: Vec::new(),
            shed: None,
            way: Way { wire_ns: machine.wire_ns, ..Way::default() },
            crowd,
            seed: 1,
        }
    }
}

/// The clients, and when they come.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// What they have in common. Its requests are those of [`Setup::pages`].
    pub person: Person,
    /// Requests over one connection, on average (a geometric distribution); 1 is exactly one.
    pub requests: f64,
    /// How many pairs of an address and a port they have, if these can be short. One is not used
    /// again while its client holds it in TIME-WAIT; the server may hold it still.
    pub ports: Option<u32>,
    /// The operating systems that they have, by how often: a weight for each, up to 256. None: all have
    /// the person's.
    pub systems: Vec<(&'static Os, f64)>,
    /// The networks that they come from, by how often: a weight for each. None: every client has an
    /// address of its own.
    pub networks: Vec<f64>,
    /// How starts come about.
    pub load: Load,
    /// How long load is applied before anything counts, in ns.
    pub warm_up_ns: u64,
    /// How long attempts are counted by their start, in ns; more than 0.
    pub duration_ns: u64,
    /// How long load goes on afterwards, in ns.
    pub cool_down_ns: u64,
}

/// How starts come about.
#[derive(Clone, Debug)]
pub enum Load {
    /// At these times, whatever becomes of others.
    Open(Arrivals),
    /// So many clients, each starting again when its attempt has ended.
    Closed {
        /// Clients at work at any time.
        clients: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Profile;
    use crate::world::World;

    /// `tux_max_backlog` is 2,048, and Shukla's figures of TUX have it so.
    #[test]
    fn a_listen_queue_is_cut_for_applications_and_not_for_tux_in_the_kernel() {
        let given = |profile, program| {
            let machine = Machine { profile, ..Machine::xeon() };
            let usual = Setup::one_packet(machine, None, Os::linux());
            World::new(Setup { program, backlog: 2048, ..usual }).host.listener.backlog
        };
        assert_eq!(given(Profile::Linux24, Program::Tux), 2048);
        assert_eq!(given(Profile::Linux24, Program::PapersUserver), 128);
        assert_eq!(given(Profile::Bsd, Program::PapersUserver), 128);
        assert_eq!(given(Profile::Windows, Program::PapersUserver), 200);
        assert_eq!(given(Profile::Linux6, Program::Tux), 2048);
    }
}
