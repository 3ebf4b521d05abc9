// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A testbed of network namespaces that leaves nothing behind, whatever ends a run.
//!
//! A [`Namespace`] is anonymous: it lives as long as the thread that made it, so even a `SIGKILL`
//! of the program takes the namespace, its devices, its private bpffs and its children with it.
//!
//! ```no_run
//! # fn main() -> Result<(), tidegate_lab::LabError> {
//! use tidegate_lab::{Counters, Link, Namespace};
//!
//! let server = Namespace::new("server")?;
//! let clients = Namespace::new("clients")?;
//! let link = Link::between(&server, "srv0", &clients, "cli0")?;
//! link.a().add_address("10.0.0.1/24")?;
//! link.b().add_address("10.0.0.2/24")?;
//! link.up()?;
//!
//! let before = Counters::of(&server)?;
//! let _nginx = server.spawn(server.command("nginx"))?;
//! // … load …
//! let during = Counters::of(&server)?.since(&before)?;
//! println!("{} SYNs dropped", during.get("TcpExtListenDrops")?);
//! # Ok(())
//! # }
//! ```

mod child;
mod component;
mod counters;
mod error;
mod family;
mod foreign;
mod link;
mod mounts;
mod namespace;
mod placement;
mod processor;
mod profile;
mod ready;
mod root;
mod sockets;

pub use child::{Child, is_dead};
pub use counters::Counters;
pub use error::LabError;
pub use family::family;
pub use foreign::ForeignTime;
pub use link::{End, Link, Losses};
pub use namespace::Namespace;
pub use placement::{allowed_cpus, pin_command, pin_thread};
pub use processor::ProcessorTime;
pub use profile::{Profile, Profiled, Samples};
pub use root::{is_installed, require_root, say_skipped, skip_without, skip_without_root};
pub use sockets::{SocketBytes, Sockets};
