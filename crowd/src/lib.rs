// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open-loop client emulator: people do not wait for each other's replies.
//!
//! Starts are scheduled ahead, whatever the server does. A response time counts from the start
//! that was *intended*, so a generator or a server that falls behind cannot flatter itself, and
//! every attempt ends in exactly one way.
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

mod arrivals;
mod attempt;
mod error;
mod limits;
mod outcome;
mod plan;
mod response;
mod sockets;

pub use arrivals::Arrivals;
pub use error::CrowdError;
pub use outcome::{Errors, LateStarts, Outcome, Times};
pub use plan::{Close, Load, Plan};
pub use sockets::run;
