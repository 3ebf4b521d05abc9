// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end a process of ours, or have it read its configuration again.

use std::io;
use std::path::PathBuf;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Result};

const ENDING: [i32; 2] = [SIGTERM, SIGINT];

fn failure(source: io::Error) -> Failure {
    Failure::File {
        path: PathBuf::from("signals"),
        source,
        fix: "this kernel should allow signal handlers".to_owned(),
    }
}

/// Of a thread that is to hear or read something beside the others, and could not begin.
pub fn no_thread(source: io::Error) -> Failure {
    Failure::argument(
        format!("no thread could begin: {source}"),
        "have this process start more of them (ulimit -u; TasksMax= in a unit)",
    )
}

/// SIGTERM, SIGINT, and `others`: heard from here on, and no longer what they are by default.
pub fn hear(others: &[i32]) -> Result<Signals> {
    Signals::new([&ENDING[..], others].concat()).map_err(failure)
}
