// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that an experiment runs, as anyone would run them.

use std::path::PathBuf;

use crate::error::LiveError;

/// Where `tidelab` and `tidegate` are.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(crate) tidelab: PathBuf,
    pub(crate) tidegate: PathBuf,
}

impl Programs {
    /// This program, and `tidegate` beside it or where `TIDEGATE_BIN` says.
    ///
    /// # Errors
    /// [`LiveError::NoTidegate`] where it is not.
    pub fn find() -> Result<Self, LiveError> {
        let tidelab = std::env::current_exe().map_err(LiveError::NoSelf)?;
        let tidegate = match std::env::var_os("TIDEGATE_BIN") {
            Some(path) => PathBuf::from(path),
            None => tidelab.with_file_name("tidegate"),
        };
        if !tidegate.is_file() {
            return Err(LiveError::NoTidegate { path: tidegate });
        }
        Ok(Self { tidelab, tidegate })
    }
}
