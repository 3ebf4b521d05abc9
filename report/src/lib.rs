// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results: one schema, statistics, claims, and a page that a person can read.
//!
//! A run appends each [`Point`] with a [`Writer`]; [`Results::read`] takes any set of such files;
//! [`judge`] puts a paper's claims to them; [`page`] makes one HTML file that needs nothing
//! beside it, and [`Summary`] the same in brief for a terminal.

mod claims;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(test)]
mod example;
mod judge;
mod number;
mod operating;
mod page;
mod point;
mod results;
mod statistics;
mod text;
mod watcher;

#[cfg(feature = "parquet")]
pub use columns::write_parquet;
pub use judge::{Judgement, Verdict, judge, judge_all};
pub use number::{grouped, milliseconds};
pub use operating::{HeldByServer, OperatingPoint};
pub use page::{Host, Study, page};
pub use point::{Point, SynClass, Times, World};
pub use results::{Results, ResultsError, Writer};
pub use statistics::{Cell, Estimate, next_seed};
pub use text::{Summary, one_line};
pub use watcher::Watcher;
