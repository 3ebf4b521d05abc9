// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every program passes the kernel's verifier, with room to spare.

use libbpf_rs::{MapHandle, MapType};
use libbpf_sys::bpf_map_create_opts;
use tidegate_datapath::programs::{Objects, Programs};
use tidegate_lab::skip_without_root;

/// The verifier gives up after this many instructions walked (Linux 5.2).
const KERNEL_LIMIT: u32 = 1_000_000;

/// Instructions that the verifier may walk for each program: about one and a half times what it
/// walked on Linux 6.18 with clang 14 when the bound was set, or with clang 17, 18, 19 or 22 or on 7.3
/// where that was more. Whoever passes it should know why.
const BOUNDS: [(&str, u32); 20] = [
    ("tidegate_ip", 190_000),
    ("tidegate_ip_after_driver", 190_000),
    ("tidegate_driver", 165_000),
    ("tidegate_driver_veth", 165_000),
    ("tidegate_path", 52_000),
    ("tidegate_path_veth", 52_000),
    ("tidegate_tcp", 55_000),
    ("tidegate_ends_in", 67_000),
    ("tidegate_ends_out", 31_000),
    ("tidegate_sockets", 20_000),
    ("speaking_listeners", 460),
    ("listeners", 300),
    ("stale_requests", 3_750),
    ("waiting_inside", 1_900),
    ("tidegate_ticks", 20),
    ("tidegate_setsockopt", 150),
    ("tidegate_getsockopt", 110),
    ("tidegate_hear", 720),
    ("tidegate_connect4", 100),
    ("tidegate_connect6", 160),
];

/// The same for the policy alone. (Linux 7.3 walks more of it than there is room for.)
const POLICY_BOUNDS: [(&str, u32); 10] = [
    ("agree_source", 300),
    ("agree_syn_begin", 28_000),
    ("agree_syn_room", 110_000),
    ("agree_syn_end", 45_000),
    ("agree_rest", 190_000),
    ("agree_shed", 60_000),
    ("agree_time_wait", 32_000),
    ("agree_notice", 300),
    ("agree_accepts", 1_100),
    ("agree_share", 2_200),
];

fn keep_their_bounds(objects: &[Objects], bounds: &[(&str, u32)]) {
    let mut counts = Vec::new();
    for objects in objects {
        let programs = Programs::load(*objects, Default::default()).unwrap();
        counts.extend(programs.verified_instructions().unwrap());
    }
    println!("{:<26} {:>9} {:>9}", "program", "walked", "bound");
    for (program, walked) in &counts {
        let bound = bounds.iter().find(|(name, _)| name == program).map(|(_, bound)| *bound);
        println!("{program:<26} {walked:>9} {:>9}", bound.unwrap_or_default());
    }
    assert_eq!(counts.len(), bounds.len(), "a program has come or gone: {counts:?}");
    for (program, walked) in counts {
        let (_, bound) = bounds.iter().find(|(name, _)| *name == program).expect("has a bound");
        assert!(walked > 0, "{program}: the kernel tells no count");
        assert!(walked <= *bound, "{program}: {walked} instructions walked, bound {bound}");
        assert!(*bound < KERNEL_LIMIT / 2, "{program}: near the kernel's limit");
    }
}

#[test]
fn every_program_passes_the_verifier_within_its_bound() {
    if skip_without_root("every_program_passes_the_verifier_within_its_bound") {
        return;
    }
    keep_their_bounds(&[Objects::Guard, Objects::Agent], &BOUNDS);
}

#[test]
fn so_does_the_policy_alone() {
    if skip_without_root("so_does_the_policy_alone") {
        return;
    }
    keep_their_bounds(&[Objects::Agreement], &POLICY_BOUNDS);
}

#[test]
fn what_it_says_of_a_program_that_it_refuses_is_told() {
    if skip_without_root("what_it_says_of_a_program_that_it_refuses_is_told") {
        return;
    }
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
    let small = MapHandle::create(MapType::Array, Some("refusals"), 4, 4, 1, &options).unwrap();
    let refused = Programs::load(Objects::Guard, [("refusals".to_owned(), small)].into()).err();
    let told = refused.expect("a map with too small values").to_string();
    let why =
        "the kernel's verifier refused tidegate_ip: invalid access to map value, value_size=4 ";
    assert!(told.starts_with(why), "{told}");
}
