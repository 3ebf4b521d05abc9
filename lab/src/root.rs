// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this process may build a testbed at all.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
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
    require_program("ip", "iproute2")
}

/// Whether a program of this name is in `PATH`.
#[must_use]
pub fn is_installed(program: impl AsRef<Path>) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(&program).is_file())
}

/// For tests: true when the test cannot run here, having said what is lacking.
///
/// # Panics
/// When `CI` is `true`, where a test that does not run is a failure.
#[must_use]
pub fn skip_without_root(test: &str) -> bool {
    skip_without(test, &[])
}

/// As [`skip_without_root`], for a test that needs these programs too, each with the Debian package
/// that has it.
///
/// # Panics
/// When `CI` is `true`, where a test that does not run is a failure.
#[must_use]
pub fn skip_without(test: &str, programs: &[(&str, &str)]) -> bool {
    let has = |(program, package): &(&str, &str)| require_program(program, package);
    let Err(lacking) = require_root().and_then(|()| programs.iter().try_for_each(has)) else {
        return false;
    };
    say_skipped(test, &lacking);
    true
}

/// Says that a test, or a part of one, does not run, and what it lacks.
///
/// # Panics
/// When `CI` is `true`, where a test that does not run is a failure.
pub fn say_skipped(test: &str, lacking: &dyn Display) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} cannot run: {lacking}");
    // eprintln! would be heard of a test that fails, and of no other.
    let _ = writeln!(io::stderr(), "{test} skipped: {lacking}");
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    NEEDED.iter().filter(|(_, bit)| effective & (1 << bit) == 0).map(|(name, _)| *name).collect()
}

fn require_program(program: &str, package: &str) -> Result<(), LabError> {
    if is_installed(program) {
        return Ok(());
    }
    Err(LabError::MissingProgram { program: program.to_owned(), package: package.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{is_installed, missing_capabilities, require_program};

    #[test]
    fn missing_capabilities_are_named() {
        assert!(missing_capabilities("CapEff:\t000001fffeffffff\n").is_empty());
        assert_eq!(missing_capabilities("CapEff:\t0000000000201000\n"), ["CAP_BPF"]);
        assert_eq!(missing_capabilities("").len(), 3);
    }

    #[test]
    fn a_program_that_is_missing_is_told_with_its_package() {
        assert!(is_installed("sh") && require_program("sh", "dash").is_ok());
        // A folder is no program.
        assert!(!is_installed("."));
        let told = require_program("no-such-program", "nowhere").unwrap_err().to_string();
        assert_eq!(told, "`no-such-program` is not in PATH: install it (nowhere)");
    }
}
