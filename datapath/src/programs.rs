// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads the programs: one object per hook, every map shared by name.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{ErrorKind, MapCore, MapHandle, Object, ObjectBuilder};

use crate::error::{Error, Result};
use crate::verifier::{self, Refused};
use crate::{counters, shed, time_wait};

macro_rules! object {
    ($name:literal) => {
        ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")))
    };
}

const TC: (&str, &[u8]) = object!("tc");
const XDP: (&str, &[u8]) = object!("xdp");
const PATH: (&str, &[u8]) = object!("path");
const NETFILTER: (&str, &[u8]) = object!("netfilter");
const ITER: (&str, &[u8]) = object!("iter");
const CLOCK: (&str, &[u8]) = object!("clock");
const SOCKOPT: (&str, &[u8]) = object!("sockopt");
const TIME_WAIT: (&str, &[u8]) = object!("time_wait");
const SOCKOPS: (&str, &[u8]) = object!("sockops");
const NOTICE: (&str, &[u8]) = object!("notice");
const AGREE: (&str, &[u8]) = object!("agree");

/// Which objects to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// Only what reads sockets: for `check` and `status`.
    Readers,
    /// The policy alone, to be held against its native build.
    Agreement,
    /// Everything that decides.
    Guard,
    /// What listens to notices on a client's host.
    Agent,
}

impl Objects {
    fn list(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            Objects::Readers => &[ITER],
            Objects::Agreement => &[AGREE],
            Objects::Guard => &[TC, XDP, PATH, NETFILTER, ITER, CLOCK, SOCKOPT, TIME_WAIT, SOCKOPS],
            Objects::Agent => &[NOTICE],
        }
    }
}

/// `.rodata` and `.bss` belong to their object.
fn is_shared(map: &str) -> bool {
    !map.contains('.')
}

/// All maps of a guard. Its objects declare them; to open these takes longer than all that `status` does.
pub(crate) const GUARD_MAPS: [&str; 46] = [
    "accepts",
    "agreements",
    "answered",
    "anyone_said",
    "asking",
    "at_hand",
    "claims",
    "cleaned",
    "closing_ports",
    "config",
    "control",
    "counters",
    "destinations",
    "ended",
    "held_table",
    "held_until_ns",
    "hollow_until_ns",
    "inside",
    "late",
    "leaving",
    "left_in_silence",
    "limit_full_ns",
    "limits",
    "local_routes",
    "log_buckets",
    "manners",
    "overload",
    "preferred",
    "refusals",
    "refused",
    "remembered",
    "resized",
    "said",
    "share",
    "share_cells",
    "shed_monitor",
    "shed_state",
    "shed_table",
    "slots",
    "speaks",
    "time_wait_counts",
    "told",
    "unsettled",
    "waiting",
    "watch_at_hand",
    "watch_until_ns",
];

/// A program that is attached where a plan wants it, and loaded only then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// At a driver.
    Driver,
    /// At a veth's.
    DriverVeth,
    /// At a driver of a host that only forwards.
    Path,
    /// At a veth's of such a host.
    PathVeth,
    /// The IP entry.
    Ip,
    /// The same behind a driver's.
    IpAfterDriver,
    /// The TCP entry.
    Tcp,
    /// The ends of connections, at the IP entry.
    EndsIn,
    /// And on the way out.
    EndsOut,
    /// What sockets agree on in the handshake.
    Sockets,
    /// What applications say of their sockets.
    SetSocketOption,
    /// And what they ask.
    GetSocketOption,
}

impl Program {
    /// Every one of them.
    pub const ALL: [Program; 12] = [
        Program::Driver,
        Program::DriverVeth,
        Program::Path,
        Program::PathVeth,
        Program::Ip,
        Program::IpAfterDriver,
        Program::Tcp,
        Program::EndsIn,
        Program::EndsOut,
        Program::Sockets,
        Program::SetSocketOption,
        Program::GetSocketOption,
    ];

    /// As its object has it, and [`Programs::program`] knows it.
    pub fn name(self) -> &'static str {
        match self {
            Program::Driver => "tidegate_driver",
            Program::DriverVeth => "tidegate_driver_veth",
            Program::Path => "tidegate_path",
            Program::PathVeth => "tidegate_path_veth",
            Program::Ip => "tidegate_ip",
            Program::IpAfterDriver => "tidegate_ip_after_driver",
            Program::Tcp => "tidegate_tcp",
            Program::EndsIn => "tidegate_ends_in",
            Program::EndsOut => "tidegate_ends_out",
            Program::Sockets => "tidegate_sockets",
            Program::SetSocketOption => "tidegate_setsockopt",
            Program::GetSocketOption => "tidegate_getsockopt",
        }
    }

    fn object(self) -> (&'static str, &'static [u8]) {
        match self {
            Program::Driver | Program::DriverVeth => XDP,
            Program::Path | Program::PathVeth => PATH,
            Program::Ip | Program::IpAfterDriver => TC,
            Program::Tcp => NETFILTER,
            Program::EndsIn | Program::EndsOut => TIME_WAIT,
            Program::Sockets => SOCKOPS,
            Program::SetSocketOption | Program::GetSocketOption => SOCKOPT,
        }
    }
}

/// Which programs of an object to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that read for the daemon, which nobody attaches for longer than that takes.
    Readers,
    One(Program),
}

impl Which {
    fn has(self, program: &str) -> bool {
        match self {
            Which::All => true,
            Which::Readers => READERS.contains(&program),
            Which::One(one) => one.name() == program,
        }
    }
}

const READERS: [&str; 5] =
    ["listeners", "stale_requests", "waiting_inside", "speaking_listeners", crate::clock::TICKS];

/// How large the tables are made that are not adopted; they do not grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Blocks of the table of persistent dropping.
    pub shed_blocks: u32,
    /// Blocks of the table of pairs that are held in TIME-WAIT.
    pub held_blocks: u32,
    /// Counter slots, of which every possible processor has its own; `None`: all that there are.
    pub slots: Option<u32>,
}

impl Sizes {
    /// The same for who counts nothing.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Sizes { slots: Some(1), ..self }
    }

    /// The entries of a map that is made; `None` leaves what its declaration says.
    fn of(&self, map: &str) -> Option<u32> {
        match map {
            shed::TABLE => Some(self.shed_blocks.max(1)),
            time_wait::TABLE => Some(self.held_blocks.max(1)),
            counters::MAP => self.slots,
            _ if map == time_wait::ASKING || time_wait::LEAVING.contains(&map) => {
                Some(time_wait::leaving_of(self.held_blocks))
            }
            _ => None,
        }
    }

    /// Whether a map that stands is large enough to be kept.
    pub(crate) fn suits(&self, name: &str, map: &MapHandle) -> bool {
        self.of(name).is_none_or(|entries| map.max_entries() >= entries)
    }
}

/// What a map of a configuration's size is for, and what makes it smaller.
fn table(map: &str) -> Option<(&'static str, &'static str)> {
    match map {
        shed::TABLE => Some(("persistent dropping", "give a smaller arrivals_per_s or oversize")),
        time_wait::TABLE => Some(("TIME-WAIT", "give fewer entries")),
        _ => None,
    }
}

/// What is told of an object that was not loaded, whose tables were to have so many bytes.
fn not_loaded(
    object: &'static str,
    refused: Option<Refused>,
    bytes: &BTreeMap<String, u64>,
    source: libbpf_rs::Error,
) -> Error {
    if let (Some(Refused::Map { name }), ErrorKind::OutOfMemory) = (&refused, source.kind())
        && let (Some((table, fix)), Some(bytes)) = (table(name), bytes.get(name))
    {
        return Error::NoMemory { table, megabytes: bytes.div_ceil(1 << 20), fix };
    }
    Error::Load { object, refused, source }
}

/// An object with those of its programs that were asked for.
struct Loaded {
    object: Object,
    which: Which,
}

/// Loaded programs and their maps.
pub struct Programs {
    objects: Vec<Loaded>,
    maps: BTreeMap<String, MapHandle>,
}

impl Programs {
    /// Loads `objects`. Maps that stand in `adopt` by name are used as they are; the
    /// others are made. That they have the sizes and types of this version is the caller's to know.
    pub fn load(objects: Objects, adopt: BTreeMap<String, MapHandle>) -> Result<Self> {
        Self::load_sized(objects, adopt, Sizes::default())
    }

    /// The same, with tables of these sizes, where they are made and not adopted.
    pub fn load_sized(
        objects: Objects,
        adopt: BTreeMap<String, MapHandle>,
        sizes: Sizes,
    ) -> Result<Self> {
        Self::load_each(objects, adopt, sizes, Which::All)
    }

    /// All maps of a guard, and the programs that read for the daemon. Those that decide are loaded
    /// one by one where they are wanted: a kernel verifies each for tens of milliseconds.
    pub fn load_maps(adopt: BTreeMap<String, MapHandle>, sizes: Sizes) -> Result<Self> {
        Self::load_each(Objects::Guard, adopt, sizes, Which::Readers)
    }

    fn load_each(
        objects: Objects,
        adopt: BTreeMap<String, MapHandle>,
        sizes: Sizes,
        which: Which,
    ) -> Result<Self> {
        let mut programs = Programs { objects: Vec::new(), maps: adopt };
        for (name, bytes) in objects.list() {
            programs.load_object(name, bytes, sizes, which)?;
        }
        Ok(programs)
    }

    /// Loads one more program over the maps that are there already, and nothing where it is loaded.
    pub fn load_one(&mut self, program: Program, sizes: Sizes) -> Result<()> {
        if self.program(program.name()).is_some() {
            return Ok(());
        }
        let (name, bytes) = program.object();
        self.load_object(name, bytes, sizes, Which::One(program))
    }

    /// Maps alone, to be read: no program is loaded.
    pub fn of_maps(maps: BTreeMap<String, MapHandle>) -> Self {
        Programs { objects: Vec::new(), maps }
    }

    fn load_object(
        &mut self,
        object: &'static str,
        bytes: &[u8],
        sizes: Sizes,
        which: Which,
    ) -> Result<()> {
        // What libbpf would print is said, shorter, by the error that is returned.
        verifier::listen();
        let fail = |source| Error::Load { object, refused: verifier::refused(), source };
        let mut open = ObjectBuilder::default().open_memory(bytes).map_err(fail)?;
        let mut table_bytes = BTreeMap::new();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some(shared) = self.maps.get(&name) {
                map.reuse_fd(shared.as_fd()).map_err(fail)?;
            } else if let Some(entries) = sizes.of(&name) {
                map.set_max_entries(entries).map_err(fail)?;
                table_bytes.insert(name, u64::from(entries) * u64::from(map.value_size()));
            }
        }
        for mut program in open.progs_mut() {
            let is_wanted = which.has(&program.name().to_string_lossy());
            program.set_autoload(is_wanted);
        }
        let loaded = open
            .load()
            .map_err(|source| not_loaded(object, verifier::refused(), &table_bytes, source))?;
        for map in loaded.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if is_shared(&name) && !self.maps.contains_key(&name) {
                self.maps.insert(name, MapHandle::try_from(&map).map_err(fail)?);
            }
        }
        self.objects.push(Loaded { object: loaded, which });
        Ok(())
    }

    /// The shared map of that name. Panics where the loaded objects declare none: a
    /// name is this crate's own.
    pub fn map(&self, name: &str) -> &MapHandle {
        self.maps.get(name).unwrap_or_else(|| panic!("no object declares the map {name}"))
    }

    /// Every shared map by name, to be pinned.
    pub fn maps(&self) -> &BTreeMap<String, MapHandle> {
        &self.maps
    }

    /// The descriptor of a loaded program, to attach or test-run it.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.objects
            .iter()
            .filter(|loaded| loaded.which.has(name))
            .flat_map(|loaded| loaded.object.progs())
            .find(|program| program.name() == name)
            // SAFETY: the descriptor stays open as long as its object, which self owns.
            .map(|program| unsafe {
                BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&program.as_fd()))
            })
    }

    /// Instructions that the verifier walked for each program: (name, count).
    pub fn verified_instructions(&self) -> Result<Vec<(String, u32)>> {
        let mut counts = Vec::new();
        for program in self.objects.iter().flat_map(|loaded| loaded.object.progs()) {
            let fd = program.as_fd();
            let info = crate::link::program_info(fd)?;
            counts.push((program.name().to_string_lossy().into_owned(), info.verified_insns));
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::raw::TG_LAYOUT_VERSION;

    use super::*;

    /// They take 1.8 MiB on each possible processor.
    #[test]
    fn who_counts_nothing_makes_no_counters_for_a_thousand_sockets() {
        assert_eq!(Sizes::default().of(counters::MAP), None);
        assert_eq!(Sizes::default().uncounted().of(counters::MAP), Some(1));
    }

    /// The table that a configuration has asked for, and no other map: that is nobody's to make smaller.
    #[test]
    fn a_table_for_which_there_is_no_memory_is_told_with_what_makes_it_smaller() {
        let bytes = BTreeMap::from([("held_table", 1 << 30), ("leaving", 1 << 20)]);
        let bytes = bytes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let told = |map: &str, errno: i32| {
            let refused = Some(Refused::Map { name: map.to_owned() });
            let source = libbpf_rs::Error::from_raw_os_error(errno);
            not_loaded("time_wait", refused, &bytes, source).to_string()
        };
        let told_of_table = told("held_table", libc::ENOMEM);
        assert!(told_of_table.contains("TIME-WAIT takes 1024 MB"), "{told_of_table}");
        assert!(told_of_table.ends_with(": give fewer entries"), "{told_of_table}");
        for (map, errno) in [("held_table", libc::EPERM), ("leaving", libc::ENOMEM)] {
            let told = told(map, errno);
            assert!(told.contains(&format!("did not make the map {map}: ")), "{told}");
        }
    }

    /// The maps that a guard's objects declare, with the bytes of a key and of a value.
    fn declared() -> BTreeSet<(String, u32, u32)> {
        let mut declared = BTreeSet::new();
        for (_, bytes) in Objects::Guard.list() {
            let open = ObjectBuilder::default().open_memory(bytes).unwrap();
            declared.extend(open.maps().map(|map| {
                (map.name().to_string_lossy().into_owned(), map.key_size(), map.value_size())
            }));
        }
        declared.retain(|(name, ..)| is_shared(name));
        declared
    }

    #[test]
    fn the_maps_of_a_guard_are_those_that_its_objects_declare() {
        let declared: BTreeSet<String> = declared().into_iter().map(|(name, ..)| name).collect();
        let named: BTreeSet<String> = GUARD_MAPS.map(str::to_owned).into();
        assert_eq!(declared, named);
    }

    /// FNV-1a.
    fn digest(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// A restarted daemon adopts maps of its own version as they are. Whoever comes by here has changed one:
    /// a new `TG_LAYOUT_VERSION` in layout.h, and its digest here.
    #[test]
    fn another_size_of_a_map_is_another_version_of_the_layout() {
        let maps: String = declared()
            .into_iter()
            .map(|(name, key_bytes, value_bytes)| format!("{name} {key_bytes} {value_bytes}\n"))
            .collect();
        let digest = digest(&maps);
        let is = (TG_LAYOUT_VERSION, digest);
        assert_eq!(is, (36, 0x8f92_5d05_8b6e_5e8e), "the digest is {digest:#x}, of\n{maps}");
    }
}
