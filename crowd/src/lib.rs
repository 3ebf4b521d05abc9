// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open-loop client emulator: people do not wait for each other's replies.
//!
//! Starts are scheduled ahead, whatever the server does. A response time counts from the start
//! that was *intended*, so a generator or a server that falls behind cannot flatter itself, and
//! every attempt ends in exactly one way.
//!
//! Attempts are carried by the kernel's sockets or by packets of our own ([`Driver`]). The latter
//! can be clients of any system ([`Os`]), from addresses that nobody configured, behind a network
//! of any length ([`Network`]), half a million a second on one processor. Clients may come one
//! attempt each, or with a browser, to visit pages ([`Browsing`]).
//!
//! ```no_run
//! # fn main() -> Result<(), tidegate_crowd::CrowdError> {
//! use std::time::Duration;
//! use tidegate_crowd::{Load, Plan, run};
//!
//! let plan = Plan {
//!     targets: vec!["10.0.0.1:80".parse().unwrap()],
//!     load: Load::Poisson { per_s: 3000.0 },
//!     duration: Duration::from_secs(8),
//!     ..Plan::default()
//! };
//! let outcome = run(&plan)?;
//! println!("{} replies/s", outcome.replies_per_s);
//! # Ok(())
//! # }
//! ```

mod attempt;
mod carrier;
mod class;
mod error;
mod limits;
mod network;
mod plan;
mod progress;
mod raw;
mod schedule;
mod sockets;
mod sources;
mod visits;
pub mod wheel;

use std::sync::atomic::AtomicBool;

pub use carrier::Carrier;
pub use class::{Browsing, Class};
pub use error::CrowdError;
pub use ipnet::IpNet;
pub use limits::allow_descriptors;
pub use network::{Delay, Network};
pub use plan::{Driver, Load, Plan};
pub use tidegate_client::{
    Arrivals, Browser, Close, Errors, LateStarts, Os, Outcome, Progress, Segments, Step, SynClass,
    Times, Trace, Visits,
};

/// Sends a crowd from the calling thread's network namespace and says what became of it.
///
/// It returns when the load and every attempt and visit that counts have ended: at most the longest
/// [`Class::timeout`] after the load, where clients visit pages the longest visit. What began
/// in the cool-down may be cut short then.
///
/// # Errors
/// What [`Plan::check`] finds, and whatever keeps the driver from its work.
pub fn run(plan: &Plan) -> Result<Outcome, CrowdError> {
    run_watched(plan, &mut |_| {})
}

/// As [`run`], telling how it goes: first when the load begins, by the clock that counts, and then about
/// four times a second.
///
/// # Errors
/// As [`run`].
pub fn run_watched(plan: &Plan, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, CrowdError> {
    run_until(plan, &AtomicBool::new(false), watch)
}

/// As [`run_watched`], until it is told to stop: then it is over within a quarter of a second, leaves
/// the interface as it was, and tells nothing of what became of it. It listens while it sends: not before, while it
/// looks for its neighbour, nor at its end, when it takes its leave.
///
/// # Errors
/// As [`run`], and [`CrowdError::Stopped`].
pub fn run_until(
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Outcome, CrowdError> {
    plan.check()?;
    match plan.driver {
        Driver::Sockets => sockets::run(plan, stop, watch),
        Driver::Raw => raw::run(plan, stop, watch),
    }
}
