// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command answers, on standard output.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Writes a text. Whoever reads may have seen enough, and gone: no failure.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(Failure::File {
            path: "standard output".into(),
            source,
            fix: "have it go where there is room".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The same for programs that read, as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    print(&format!("{text}\n"))
}
