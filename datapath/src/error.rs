// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong between userspace and the kernel.

use std::path::PathBuf;

use crate::verifier::Refused;

/// An error of the datapath. Its text is one sentence; the fix is in it where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A BPF object could not be opened or loaded.
    #[error("{}", refusal(object, refused.as_ref(), source))]
    Load {
        /// Which object: `tc`, `xdp`, `netfilter`, `iter` or `sockopt`, for example.
        object: &'static str,
        /// Which program or map of it, where libbpf has named one.
        refused: Option<Refused>,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A map operation failed.
    #[error("BPF map {map}: {source}")]
    Map {
        /// The map's name.
        map: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A program could not be attached.
    #[error("cannot attach {program} to {place}: {source}")]
    Attach {
        /// The program's name.
        program: String,
        /// Interface or hook.
        place: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The driver of an interface takes no program at all.
    #[error("the driver of {place} takes no XDP program: choose hook = \"ip\" or \"auto\"")]
    NoDriver {
        /// The interface.
        place: String,
    },
    /// A driver that was asked for took no program.
    #[error("{why}; until then SYNs are judged at the IP entry of {place}")]
    DriverLeft {
        /// The interface.
        place: String,
        /// Why it took none, and what to do.
        why: String,
    },
    /// Another process looks after the guard of this network namespace.
    #[error(
        "{} is another tidegate's, whose /run is not this one: end it where it was started, in its \
         container, for example", path.display()
    )]
    Held {
        /// The guard's folder.
        path: PathBuf,
    },
    /// A folder of pins belongs to another user, who may have made it first where everybody may make some.
    #[error("{} belongs to user {owner}, who may take away what is pinned there", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// A pinned object could not be made, read or removed.
    #[error("{}: {source}", path.display())]
    Pin {
        /// The path in bpffs.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// There is no bpffs, and none could be mounted.
    #[error("cannot mount bpffs at {}: {source}", path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Something that is read from the host could not be read.
    #[error("cannot read {what}: {source}")]
    Read {
        /// What was to be read.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The guard that stands was made by another version, with other types in its maps.
    #[error("the guard that stands is another version's: ask that one, or `tidegate run` this one")]
    OtherVersion,
    /// Destinations were changed in part, and could not be written back.
    #[error("the destinations were taken up in part: {source}; start the agent anew")]
    InPart {
        /// Why not all.
        source: Box<Error>,
    },
    /// A table is too small for a configuration; none grows while it stands.
    #[error(
        "the table of {table} has {limit} blocks since the start and this asks for {asked}: stop tidegate and start it again"
    )]
    TableSize {
        /// What it is for.
        table: &'static str,
        /// Blocks asked for.
        asked: u32,
        /// Blocks that it has.
        limit: u32,
    },
    /// A table for which there is no memory.
    #[error("the table of {table} takes {megabytes} MB, which this host has not: {fix}")]
    NoMemory {
        /// What it is for.
        table: &'static str,
        /// Its size.
        megabytes: u64,
        /// What makes it smaller.
        fix: &'static str,
    },
    /// More was asked for than the maps hold.
    #[error("{what}: {asked} asked for, {limit} is the most")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// What was asked for.
        asked: usize,
        /// The limit.
        limit: usize,
    },
}

/// What may help where the verifier has refused: of a helper it says what this kernel allows, and not what it knows.
fn advice(why: &str) -> &'static str {
    if why.contains("bpf_probe_read") {
        ": under lockdown=confidentiality no kernel gives it to a program"
    } else if why.contains("cannot use helper") || why.starts_with("unknown func") {
        ""
    } else {
        ": Linux 6.12, 6.18 and 7.3 are known to take it"
    }
}

fn refusal(object: &str, refused: Option<&Refused>, source: &libbpf_rs::Error) -> String {
    match refused {
        Some(Refused::Program { name, why }) => {
            let advice = advice(why);
            format!("the kernel's verifier refused {name}: {why} ({source}){advice}")
        }
        Some(Refused::Map { name }) => format!("the kernel did not make the map {name}: {source}"),
        None => format!("the kernel refused the {object} programs: {source}"),
    }
}

/// What libbpf said of an operation on the map of this name.
pub(crate) fn map_error(map: &str) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Error::Map { map: map.to_owned(), source }
}

/// The result of a datapath operation.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_is_refused_is_none_of_the_kernels_age() {
        let told = |why: &str| {
            let refused = Refused::Program { name: "listeners".to_owned(), why: why.to_owned() };
            refusal("iter", Some(&refused), &libbpf_rs::Error::from_raw_os_error(libc::EINVAL))
        };
        let (known, lockdown) = ("are known to take it", "lockdown=confidentiality");
        for (why, is_known, is_lockdown) in [
            ("combined stack size of 3 calls is 528. Too large", true, false),
            ("program of this type cannot use helper bpf_probe_read_kernel#113", false, true),
            // In whose place libbpf puts the older one.
            ("unknown func bpf_probe_read#4", false, true),
            ("program of this type cannot use helper bpf_sk_fullsock#95", false, false),
        ] {
            let told = told(why);
            assert!(told.contains(why), "{told}");
            assert_eq!(told.contains(known), is_known, "{told}");
            assert_eq!(told.contains(lockdown), is_lockdown, "{told}");
        }
    }
}
