// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this process may build a testbed at all.

use std::fs;
use std::path::Path;

use crate::error::LabError;

/// Capabilities without which no testbed can be built, with their bits in `CapEff`.
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21), ("CAP_BPF", 39)];

/// Says whether this process can build namespaces, and if not, what it lacks.
///
/// # Errors
/// [`LabError::Privilege`] naming the capabilities missing, [`LabError::MissingProgram`] for `ip`.
pub fn require_root() -> Result<(), LabError> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(LabError::Privilege { missing: missing.join(", ") });
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| is_file(&folder.join("ip"))) {
        return Err(LabError::MissingProgram {
            program: "ip".to_owned(),
            package: "iproute2".to_owned(),
        });
    }
    Ok(())
}

/// For tests: true when the test cannot run here, having said what is lacking.
///
/// # Panics
/// When `CI` is `true`, where a test that does not run is a failure.
#[must_use]
pub fn skip_without_root(test: &str) -> bool {
    let Err(lacking) = require_root() else {
        return false;
    };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} cannot run: {lacking}");
    eprintln!("{test} skipped: {lacking}");
    true
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    NEEDED.iter().filter(|(_, bit)| effective & (1 << bit) == 0).map(|(name, _)| *name).collect()
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::missing_capabilities;

    #[test]
    fn missing_capabilities_are_named() {
        assert!(missing_capabilities("CapEff:\t000001fffeffffff\n").is_empty());
        assert_eq!(missing_capabilities("CapEff:\t0000000000201000\n"), ["CAP_BPF"]);
        assert_eq!(missing_capabilities("").len(), 3);
    }
}
