// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments as data: one TOML file that every world runs, and the claims it puts to the test.
//!
//! A [`Scenario`] says which server, which clients, which load and which mechanisms; a
//! [`Setting`] is one of its curves with everything resolved. Rates are multiples of a capacity
//! that is measured first, so a scenario means the same on any machine.

mod arrivals;
mod browsing;
mod capacity;
mod claim;
mod clients;
mod curve;
mod error;
mod factor;
mod fin;
mod groups;
mod load;
mod networks;
mod options;
mod pages;
mod precedence;
mod scenario;
mod server;
mod shed;
mod shelf;
mod steps;
mod systems;
mod time_wait;
mod trace;
mod view;

pub use arrivals::Arrivals;
pub use browsing::Browsing;
pub use capacity::{CAPACITY_CLIENTS, CAPACITY_PHASES};
pub use claim::{Claim, TCPS, Take};
pub use clients::{Clients, Delay, Driver};
pub use curve::{Peer, ServerUse, Setting, Treatment};
pub use error::{Place, ScenarioError};
pub use factor::Combination;
pub use fin::Fin;
pub use groups::{
    CPU, ErrorKind, GUARD_DROPS, KERNEL_DROPS, NO_PORT_ERRNO, NO_PORT_FREE, NUMBERS, OTHER_ERRORS,
    PLOTTED_ERRORS, SECONDS, SEGMENTS, SERVING, SUMLESS, SUMS, SYN_STAGE_DROPS, TIME_WAIT,
    TIMED_OUT, TIMES, TURNED_AWAY, VISITS,
};
pub use load::{Form, Load, Phases};
pub use networks::{Group, NETWORK_BITS, Networks, SERVER, network};
pub use options::{Auto, Options, Reserv};
pub use pages::{Asked, Computed};
pub use precedence::{Limit, Policed, Precedence};
pub use scenario::{Network, Part, Scenario};
pub use server::{AcceptLimit, Events, Page, Server, ServerKind};
pub use shed::{Shed, ShedPlace, ShedShare};
pub use shelf::{named, shelf};
pub use steps::{Step, scheduled};
pub use systems::Systems;
pub use time_wait::TimeWait;
pub use trace::{read_scalable_trace, read_trace};
pub use view::{Bars, Column, Panel, Table};
