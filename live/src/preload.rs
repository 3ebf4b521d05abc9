// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TIME-WAIT blocks that a server holds before a point begins (Faber, Touch and Yue, section 5.1).

use std::time::{Duration, Instant};

use tidegate_lab::Sockets;
use tidegate_scenarios::Setting;

use crate::crowd::Crowd;
use crate::error::LiveError;
use crate::ground::Ground;

/// Blocks last for a minute: what takes longer never comes about.
const PATIENCE: Duration = Duration::from_secs(50);

/// Connects, asks and lets the server close, as fast as it can, until it holds as many as the setting
/// says.
///
/// # Errors
/// [`LiveError::NotLoaded`] when it never does.
pub(crate) fn load(ground: &Ground, setting: &Setting) -> Result<(), LiveError> {
    let wanted = u64::from(setting.server.time_waits);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let held = Sockets::of(&ground.server)?.time_waits;
        if held >= wanted {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(LiveError::NotLoaded { held, wanted });
        }
        Crowd::for_time_waits(setting)?.send(ground)?.wait(|_| ())?;
    }
}
