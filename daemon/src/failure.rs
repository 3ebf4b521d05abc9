// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator is told when something does not work: one sentence, with the fix.

use std::path::PathBuf;

use libbpf_rs::ErrorKind;
use nix::errno::Errno;
use tidegate_datapath::Error;

use crate::{host, writer};

/// A command's failure.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is wrong.
    #[error("{}:{line}: {what}; {fix}", file.display())]
    Configuration {
        /// The file, or `command line`.
        file: PathBuf,
        /// The line, from 1; 0 on the command line.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// An argument is wrong.
    #[error("{what}; {fix}")]
    Argument {
        /// What is wrong, and where.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// The process may not do what it must.
    #[error(
        "missing {missing}; run as root, or grant it (setcap; in a unit CapabilityBoundingSet= and AmbientCapabilities=)"
    )]
    Privilege {
        /// The capabilities' names.
        missing: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}; {fix}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
        /// What to do about it.
        fix: String,
    },
    /// No queue length can be recommended.
    #[error(transparent)]
    Size {
        /// Why, with the fix.
        #[from]
        source: tidegate_policy::size::NoSize,
    },
    /// The kernel or BPF said no.
    #[error("{source}; `tidegate check` tells what this host can do")]
    Datapath {
        /// What it said.
        source: Error,
    },
}

impl Failure {
    /// A wrong argument.
    pub fn argument(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Failure::Argument { what: what.into(), fix: fix.into() }
    }

    /// What a daemon keeps is there for its own user.
    pub fn anothers() -> Self {
        let missing = "CAP_DAC_OVERRIDE, as another user than the daemon's".to_owned();
        Failure::Privilege { missing }
    }

    /// What is wrong, without the fix where that may name what there is instead, and so become another
    /// while the wrong stays the same.
    pub fn what(&self) -> String {
        match self {
            Failure::Argument { what, .. } => what.clone(),
            Failure::Privilege { missing } => format!("missing {missing}"),
            other => other.to_string(),
        }
    }
}

/// Nobody can pin anything here, whatever its capabilities.
fn no_place(path: PathBuf, source: std::io::Error) -> Failure {
    let fix = "guards are pinned there: mount a bpffs that may be written to (mount -t bpf bpf \
               /sys/fs/bpf), or give a container the host's (-v /sys/fs/bpf:/sys/fs/bpf)";
    Failure::File { path, source, fix: fix.to_owned() }
}

/// Whether pins or maps are another user's, where this process may not look at those (`sees_others`): a
/// security module refuses by the same number, and whoever has the capability is not to be told to get it.
fn is_anothers(error: &Error, sees_others: bool) -> bool {
    if sees_others {
        return false;
    }
    match error {
        Error::Pin { source, .. } => source.raw_os_error() == Some(Errno::EACCES as i32),
        Error::Map { source, .. } => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

fn of_datapath(source: Error, sees_others: bool) -> Failure {
    match source {
        // Whoever made the folder first could make it again, but where bpffs is root's alone.
        Error::NotOurs { ref path, .. } => {
            let fix =
                format!("remove it (rm -r {}), and mount bpffs with mode=0700", path.display());
            Failure::argument(source.to_string(), fix)
        }
        Error::Mount { path, source } => no_place(path, source),
        Error::Pin { path, source } if source.raw_os_error() == Some(Errno::EROFS as i32) => {
            no_place(path, source)
        }
        source if is_anothers(&source, sees_others) => Failure::anothers(),
        source => Failure::Datapath { source },
    }
}

impl From<Error> for Failure {
    fn from(source: Error) -> Self {
        of_datapath(source, host::sees_others())
    }
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Control characters as they are written in quotes: what an operator named may hold some, and what is told of it is
/// one line all the same, and moves no cursor.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// One line on standard error, where someone still reads it.
pub fn tell(text: &str) {
    writer::print_error(format!("tidegate: {}\n", shown(text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_one_line_whatever_was_named() {
        let told = Failure::argument("hook = \"a\u{1b}[2Jb\r\n\u{85}\" is unknown", "write \"ip\"");
        let expected = r#"hook = "a\u{1b}[2Jb\r\n\u{85}" is unknown; write "ip""#;
        assert_eq!(shown(&told.to_string()), expected);
        assert_eq!(shown("é, 雨 and \\ \"as they are\""), "é, 雨 and \\ \"as they are\"");
    }

    #[test]
    fn what_another_user_keeps_is_told_with_what_is_missing() {
        let told = "missing CAP_DAC_OVERRIDE, as another user than the daemon's; run as root, or";
        let pin = |errno: Errno| Error::Pin { path: "/sys/fs/bpf".into(), source: errno.into() };
        assert!(of_datapath(pin(Errno::EACCES), false).to_string().starts_with(told));
        let source = libbpf_rs::Error::from_raw_os_error(Errno::EACCES as i32);
        let map = Error::Map { map: "accepts".to_owned(), source };
        assert!(of_datapath(map, false).to_string().starts_with(told));
        // Such as by a security module's rule.
        for (errno, sees_others) in [(Errno::EPERM, false), (Errno::EACCES, true)] {
            let other = of_datapath(pin(errno), sees_others).to_string();
            assert!(other.starts_with("/sys/fs/bpf: ") && !other.contains("CAP_"), "{other}");
        }
    }

    /// A security module refuses a mount by EACCES, which no capability changes.
    #[test]
    fn where_nobody_can_pin_is_told_with_what_to_do_and_no_capability() {
        let path = || PathBuf::from("/sys/fs/bpf");
        let mount = |errno: Errno| Error::Mount { path: path(), source: errno.into() };
        let read_only = Error::Pin { path: path(), source: Errno::EROFS.into() };
        for error in [mount(Errno::EACCES), mount(Errno::EPERM), read_only] {
            let told = of_datapath(error, false).to_string();
            assert!(told.starts_with("/sys/fs/bpf: ") && !told.contains("CAP_"), "{told}");
            assert!(told.contains("-v /sys/fs/bpf:/sys/fs/bpf"), "{told}");
            assert!(!told.contains("tidegate check"), "which says the same: {told}");
        }
    }
}
