// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever started a daemon and looks after it: systemd, with `Type=notify`.

use sd_notify::NotifyState;

/// Says that the daemon stands, where it was asked to (`NOTIFY_SOCKET`, sd_notify(3)). It stands whether that
/// is heard or not.
pub fn stands() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}
