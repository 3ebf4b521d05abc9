// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a guard is pinned, and what becomes of it when another takes its place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags};
use tidegate_datapath::array::{read_one, write_one};
use tidegate_datapath::configuration::Configuration;
use tidegate_datapath::guard::{Guard, Plan};
use tidegate_datapath::pins::{Pins, namespace_name};
use tidegate_datapath::plain::from_bytes;
use tidegate_datapath::programs::Sizes;
use tidegate_datapath::raw::{TG_LAYOUT_VERSION, tg_control, tg_resized};
use tidegate_datapath::resized;

use crate::common::scene::in_a_namespace;

const BACKLOG: tg_resized = tg_resized { before: 64, ours: 512 };
const SOCKET: u64 = 7;

fn pinned(map: &str) -> PathBuf {
    let namespace = namespace_name().unwrap();
    Path::new("/sys/fs/bpf/tidegate").join(namespace).join("maps").join(map)
}

/// Takes over what stands, and stands with this attached.
fn stand(plan: &Plan) -> Guard {
    let mut guard = Guard::load(Pins::here().unwrap(), Sizes::default()).unwrap();
    guard.stand(&Configuration::default(), plan).unwrap();
    guard
}

/// One that knows a backlog, whose daemon has ended.
fn left_with_a_backlog() {
    let guard = stand(&Plan::default());
    resized::keep(guard.programs(), SOCKET, &BACKLOG).unwrap();
}

/// What `tidegate stop` would put back.
fn to_put_back() -> BTreeMap<u64, (u32, u32)> {
    let opened = Guard::open_to_put_back(&Pins::here().unwrap()).unwrap();
    let known = opened.map(|programs| resized::all(&programs)).unwrap_or_default();
    known.into_iter().map(|(cookie, known)| (cookie, (known.before, known.ours))).collect()
}

fn known() -> BTreeMap<u64, (u32, u32)> {
    BTreeMap::from([(SOCKET, (BACKLOG.before, BACKLOG.ours))])
}

/// Who is killed meanwhile, at whatever moment, leaves it to the next.
#[test]
fn what_is_known_of_backlogs_is_pinned_throughout_while_another_version_takes_over() {
    in_a_namespace("what_is_known_of_backlogs_is_pinned_throughout", |_| {
        left_with_a_backlog();
        let pin = || fs::metadata(pinned("resized")).unwrap().ino();
        let control = || fs::metadata(pinned("control")).unwrap().ino();
        let (before, control_before) = (pin(), control());
        let mut other = Guard::load(Pins::here().unwrap(), Sizes::default()).unwrap();
        let mut record: tg_control = read_one(other.programs(), "control", 0).unwrap();
        record.layout_version = TG_LAYOUT_VERSION - 1;
        write_one(other.programs(), "control", 0, &record).unwrap();
        drop(other);
        other = stand(&Plan::default());
        assert_ne!(control(), control_before, "all else is new");
        assert_eq!(pin(), before, "it is the pin that there was");
        assert_eq!(to_put_back(), known());
        other.remove().unwrap();
        assert!(!pinned("resized").exists());
    });
}

/// As where a start was killed before the map was pinned by which a guard is known.
#[test]
fn a_backlog_is_put_back_where_nothing_else_of_a_guard_is_left() {
    in_a_namespace("a_backlog_is_put_back_where_nothing_else_of_a_guard_is_left", |_| {
        assert_eq!(to_put_back(), BTreeMap::new(), "nothing stands");
        left_with_a_backlog();
        let maps = pinned("resized");
        for map in fs::read_dir(maps.parent().unwrap()).unwrap() {
            let map = map.unwrap();
            if map.file_name() != "resized" {
                fs::remove_file(map.path()).unwrap();
            }
        }
        assert_eq!(to_put_back(), known());
    });
}

#[test]
fn what_is_known_of_backlogs_and_cannot_be_read_is_not_taken_for_nothing() {
    in_a_namespace("what_is_known_of_backlogs_and_cannot_be_read", |_| {
        left_with_a_backlog();
        fs::remove_file(pinned("resized")).unwrap();
        assert_eq!(to_put_back(), BTreeMap::new(), "nothing is known");
        fs::create_dir(pinned("resized")).unwrap();
        assert!(Guard::open_to_put_back(&Pins::here().unwrap()).is_err());
    });
}

/// Sockets that were counted may end while the program is not there that is told of it.
#[test]
fn sockets_that_close_are_counted_anew_where_nobody_was_told_of_them_meanwhile() {
    in_a_namespace("sockets_that_close_are_counted_anew", |_| {
        let ends = BTreeMap::from([(1, "lo".to_owned())]);
        let plan = Plan { ends, ..Plan::default() };
        let guard = stand(&plan);
        let count = |guard: &Guard, sockets: u32| {
            let ports = vec![sockets; 65_536];
            let bytes: Vec<u8> = ports.into_iter().flat_map(u32::to_ne_bytes).collect();
            let map = guard.programs().map("closing_ports");
            map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
        };
        let counted = |guard: &Guard| {
            let map = guard.programs().map("closing_ports");
            let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
            from_bytes::<u32>(&bytes)
        };
        count(&guard, 3);
        drop(guard);
        let guard = stand(&plan);
        assert_eq!(counted(&guard), 3, "the program stood all the while");
        drop(guard);
        let guard = stand(&Plan::default());
        drop(guard);
        let guard = stand(&plan);
        assert_eq!(counted(&guard), 0);
        guard.remove().unwrap();
    });
}
