// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs into silence come when each operating system's profile says, to 5 ms, on the wire.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::wire::{Capture, Captured, SYN, Wire};
use crate::common::{NOBODY, Stage, raw};
use tidegate_client::segment::{OPTIONS_MAX_BYTES, Options, Timestamps};
use tidegate_crowd::{Class, Load, Os, Plan};
use tidegate_lab::skip_without_root;

/// SYNs are looked at for so long; clients wait a little longer.
const LOOKED_AT_MS: u32 = 13_000;
const PATIENCE: Duration = Duration::from_millis(14_000);
const TOLERANCE_MS: f64 = 5.0;
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
    let fair = ATTEMPTS as usize / Os::all().len();
    for os in Os::all() {
        let own: Vec<&Vec<f64>> =
            attempts.iter().filter(|one| is_nearest(os, one)).map(|(_, times)| times).collect();
        assert!(own.len() > fair / 2, "{}: {} attempts", os.name, own.len());
        // A busy machine makes single ones late; what is exact is the median of many.
        for (place, expected_ms) in expected_ms(os).into_iter().enumerate() {
            let mut seen: Vec<f64> = own.iter().map(|times| times[place]).collect();
            seen.sort_by(f64::total_cmp);
            let median_ms = seen[seen.len() / 2];
            let apart = (median_ms - expected_ms).abs();
            assert!(apart <= TOLERANCE_MS, "{}: {median_ms} for {expected_ms} ms", os.name);
        }
    }
}

/// How far an attempt is from what a system would send: nothing where it does not look like this,
/// or repeats its SYN more or less often.
fn apart_ms(os: &Os, (seen, times): &(Fingerprint, Vec<f64>)) -> Option<f64> {
    let expected = expected_ms(os);
    let is_alike = fingerprint(os) == *seen && expected.len() == times.len();
    is_alike.then(|| times.iter().zip(expected).map(|(time, due)| (time - due).abs()).sum())
}

/// Whether no system is nearer to an attempt; some systems send the same.
fn is_nearest(os: &Os, attempt: &(Fingerprint, Vec<f64>)) -> bool {
    let nearest = Os::all().iter().filter_map(|os| apart_ms(os, attempt)).min_by(f64::total_cmp);
    let nearest = nearest.unwrap_or_else(|| panic!("nobody's: {attempt:?}"));
    apart_ms(os, attempt) == Some(nearest)
}

fn expected_ms(os: &Os) -> Vec<f64> {
    let again = os.syn_again_ms.iter().filter(|ms| **ms <= LOOKED_AT_MS);
    std::iter::once(0.0).chain(again.map(|ms| f64::from(*ms))).collect()
}

fn times_ms(syns: &[Captured]) -> Vec<f64> {
    syns.iter().map(|syn| (syn.at - syns[0].at).as_secs_f64() * 1e3).collect()
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
        time_wait: None,
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
