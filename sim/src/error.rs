// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps a scenario from being simulated, in one sentence.

use tidegate_scenarios::{Peer, ServerKind};

/// Why a scenario, or one curve of it, could not be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A mechanism that is none.
    #[error(transparent)]
    Mechanism(#[from] tidegate_policy::mechanism::NoMechanism),
    /// A server that is not modelled.
    #[error("the simulator has no {}: leave the curve out, or run it live", kind.name())]
    Server {
        /// Which.
        kind: ServerKind,
    },
    /// A way to learn of work that is not modelled.
    #[error("the simulator has no io_uring: leave the curve out, or run it live")]
    IoUring,
    /// Connections in TIME-WAIT from before, which a simulated host has no trouble with.
    #[error(
        "the simulator's servers hold no connections from before: leave time_waits out, or run it live"
    )]
    TimeWaits,
    /// A peer that is not modelled.
    #[error("the simulator has no {}: leave the curve out, or run it live", peer.name())]
    Peer {
        /// Which.
        peer: Peer,
    },
    /// A peer that changes nothing of what this TCP does.
    #[error(
        "{} changes nothing on {whose}: leave the curve out, or take a machine with another profile",
        peer.name()
    )]
    PeerAlike {
        /// Which.
        peer: Peer,
        /// The name of the machine's profile.
        whose: &'static str,
    },
    /// A hook where the mechanism cannot be carried out.
    #[error("hook \"{given}\" is not auto, driver, ip or tcp: give one of them")]
    Hook {
        /// What was given.
        given: String,
    },
    /// `auto` before a TCP whose rules are not today's: it measures the queues, of which it is shown
    /// what stands for the kernel's answer.
    #[error(
        "the simulator has auto before today's TCP alone, not before {whose}: leave the curve out, or \
         take a machine whose profile is \"linux-6\""
    )]
    AutoBeforeOthers {
        /// The name of the machine's profile.
        whose: &'static str,
    },
    /// A machine's file.
    #[error("{what}; docs/simulator.md has every key of a machine")]
    Machine {
        /// What is wrong, and where.
        what: String,
    },
    /// Clients that browse.
    #[error("the simulator's clients do not browse yet: leave the browser out, or run it live")]
    Browsing,
    /// Clients behind a few addresses.
    #[error(
        "the simulator's clients have an address each: leave addresses out, or run it live (addresses with ports are simulated where neither auto nor shed decides)"
    )]
    Addresses,
    /// A recorded trace that cannot be played.
    #[error(transparent)]
    Trace(#[from] tidegate_scenarios::ScenarioError),
    /// The server's capacity is not to be had.
    #[error("the server answered nothing while its capacity was measured: give it a lower cost_us")]
    NoCapacity,
    /// A live run that no machine explains.
    #[error("{what}; calibrate again while nothing else uses this machine")]
    Uncalibrated {
        /// What is missing or contradicts itself.
        what: String,
    },
    /// Whoever watches could not take a point.
    #[error(transparent)]
    Watcher(#[from] tidegate_report::ResultsError),
}
