// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mount namespaces: what is pinned in one is not seen from another. `ip netns exec` makes one for each command,
//! with a /sys of its own, and so with a bpffs that goes with the command.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::PathBuf;

use tidegate_datapath::pins::Pins;

use crate::failure::{Failure, Result};
use crate::instance::{self, Role};

/// The mount namespace of a process, where this one may look.
fn of(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// Nothing is said of what cannot be looked at.
fn differ(one: Option<PathBuf>, other: Option<PathBuf>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

/// What an operator is told of pins that go with the daemon, and with them the guard.
pub fn short_lived() -> Option<Failure> {
    let pins = Pins::here().ok()?;
    // The host's first process may not be looked at in a container; who started this one may.
    let others = ["1".to_owned(), parent_id().to_string()];
    let is_ours_alone =
        pins.are_on_our_mount() && others.iter().any(|other| differ(of("self"), of(other)));
    is_ours_alone.then(|| {
        Failure::argument(
            "the guard does not outlive its daemon here: /sys/fs/bpf is this mount namespace's \
             own, as behind `ip netns exec`",
            "start it by `nsenter --net=/run/netns/NAME tidegate run ...`",
        )
    })
}

/// Fails where the daemon of this network namespace has its guard's pins in another mount namespace. One that
/// begins or ends has none.
pub fn require_those_of_the_daemon(pins: &Pins) -> Result<()> {
    match instance::running(Role::Guard)? {
        Some(pid) if !pins.exist() && pins.exist_for(pid) => Err(Failure::argument(
            format!("process {pid} guards here, and its pins are in another mount namespace"),
            format!("ask by `nsenter --target {pid} --mount --net tidegate ...`"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_differ_only_where_both_are_seen() {
        let seen = |name: &str| Some(PathBuf::from(name));
        assert!(differ(seen("mnt:[1]"), seen("mnt:[2]")));
        assert!(!differ(seen("mnt:[1]"), seen("mnt:[1]")));
        assert!(!differ(seen("mnt:[1]"), None) && !differ(None, seen("mnt:[1]")));
        assert!(of("self").is_some() && !differ(of("self"), of("thread-self")));
        assert_eq!(of("nobody"), None);
    }
}
