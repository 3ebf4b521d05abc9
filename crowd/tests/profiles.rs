// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs into silence come when each operating system's profile says, to 5 ms, on the wire.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::wire::{Capture, Captured, SYN, Wire};
use common::{NOBODY, Stage, raw};
use tidegate_client::segment::{OPTIONS_MAX_BYTES, Options, Timestamps};
use tidegate_crowd::{Class, Load, Os, Plan};
use tidegate_lab::skip_without_root;

/// SYNs are looked at for so long; clients wait a little longer.
const LOOKED_AT_MS: u32 = 12_000;
const PATIENCE: Duration = Duration::from_millis(12_500);
const TOLERANCE_MS: f64 = 5.0;
/// Attempts of a profile are told from others' by times that differ by more than this. A single
/// attempt may be late on a busy machine; what is exact is the median of many.
const LIKE_MS: f64 = 150.0;
const ATTEMPTS: u32 = 800;

/// What a SYN shows of its sender: the kinds of its options in order, TTL and window.
type Fingerprint = (Vec<u8>, u8, u16);

#[test]
fn each_profile_repeats_its_syns_on_time() {
    if skip_without_root("each_profile_repeats_its_syns_on_time") {
        return;
    }
    let stage = Stage::new();
    let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
    let class = |os: &&'static Os| Class { os, timeout: PATIENCE, ..Class::default() };
    let plan = raw(&format!("{NOBODY}:80"), f64::from(ATTEMPTS), Class::default());
    let outcome = stage.send(Plan {
        classes: Os::all().iter().map(class).collect(),
        load: Load::Constant { per_s: f64::from(ATTEMPTS) },
        ..plan
    });
    assert_eq!(outcome.errors.timed_out_connecting, u64::from(ATTEMPTS), "{outcome:?}");
    let syns = capture.end();
    assert!(syns.iter().all(|captured| captured.flags == SYN), "only SYNs meet silence");
    assert_eq!(outcome.segments.syn_sent, syns.len() as u64, "on the wire as counted");

    let mut by_attempt: HashMap<_, Vec<Captured>> = HashMap::new();
    for syn in syns {
        by_attempt.entry((syn.from, syn.ports.0)).or_default().push(syn);
    }
    assert_eq!(by_attempt.len(), ATTEMPTS as usize);
    let attempts: Vec<(Fingerprint, Vec<f64>)> =
        by_attempt.values().map(|syns| (shown(&syns[0]), times_ms(syns))).collect();
    for os in Os::all() {
        let expected = expected_ms(os);
        let alike: Vec<&Vec<f64>> = attempts
            .iter()
            .filter(|(shown, times)| *shown == fingerprint(os) && is_like(times, &expected))
            .map(|(_, times)| times)
            .collect();
        let fair = ATTEMPTS as usize / Os::all().len();
        assert!(alike.len() > fair / 2, "{}: {} attempts", os.name, alike.len());
        for (place, expected_ms) in expected.iter().enumerate() {
            let mut seen: Vec<f64> = alike.iter().map(|times| times[place]).collect();
            seen.sort_by(f64::total_cmp);
            let median_ms = seen[seen.len() / 2];
            let apart = (median_ms - expected_ms).abs();
            assert!(apart <= TOLERANCE_MS, "{}: {median_ms} for {expected_ms} ms", os.name);
        }
    }
    for (shown, times) in &attempts {
        let is_of = |os: &&Os| *shown == fingerprint(os) && is_like(times, &expected_ms(os));
        assert!(Os::all().iter().any(is_of), "nobody's: {shown:?} {times:?}");
    }
}

fn expected_ms(os: &Os) -> Vec<f64> {
    let again = os.syn_again_ms.iter().filter(|ms| **ms <= LOOKED_AT_MS);
    std::iter::once(0.0).chain(again.map(|ms| f64::from(*ms))).collect()
}

fn times_ms(syns: &[Captured]) -> Vec<f64> {
    syns.iter().map(|syn| (syn.at - syns[0].at).as_secs_f64() * 1e3).collect()
}

fn is_like(times: &[f64], expected: &[f64]) -> bool {
    times.len() == expected.len()
        && times.iter().zip(expected).all(|(time, expected)| (time - expected).abs() < LIKE_MS)
}

fn shown(syn: &Captured) -> Fingerprint {
    (syn.option_kinds(), syn.ttl, syn.window)
}

fn fingerprint(os: &Os) -> Fingerprint {
    let options = Options {
        mss: Some(os.mss),
        window_scale: os.window_scale,
        sack_permitted: os.sack,
        timestamps: os.timestamp_tick_us.map(|_| Timestamps::default()),
    };
    let mut bytes = [0; OPTIONS_MAX_BYTES];
    let length = options.encode(os.syn_order, &mut bytes);
    let syn = Captured { options: bytes[..length].to_vec(), ..nothing() };
    (syn.option_kinds(), os.ttl, os.syn_window)
}

fn nothing() -> Captured {
    let nobody = std::net::Ipv4Addr::UNSPECIFIED.into();
    Captured {
        at: Duration::ZERO,
        from: nobody,
        to: nobody,
        ports: (0, 0),
        seq: 0,
        ack: 0,
        flags: 0,
        window: 0,
        ttl: 0,
        options: Vec::new(),
        payload: Vec::new(),
    }
}
