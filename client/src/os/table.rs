// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The systems there are. Where their numbers are from is said above the module.

use super::{OnRefusal, Os};
use crate::segment::OptionKind::{self, End, Mss, Nop, SackPermitted, Timestamps, WindowScale};

pub(super) static ALL: &[&Os] = &[
    &LINUX,
    &LINUX_PRE_6_5,
    &MACOS,
    &FREEBSD,
    &WINDOWS,
    &LINUX_2_4,
    &FREEBSD_5_3,
    &MACOS_10_3,
    &WINDOWS_NT,
    &WINDOWS_2000,
    &WIN_EMU,
    &JAMJOOM_FREEBSD,
    &JAMJOOM_LINUX_2_4,
    &HP_UX_11,
    &SOLARIS_2_7,
];

const LINUX_ORDER: &[OptionKind] = &[Mss, SackPermitted, Timestamps, Nop, WindowScale];
const BSD_ORDER: &[OptionKind] = &[Mss, Nop, WindowScale, Nop, Nop, Timestamps];
const WINDOWS_2000_ORDER: &[OptionKind] = &[Mss, Nop, Nop, SackPermitted];

pub(super) const LINUX: Os = Os {
    name: "linux",
    syn_again_ms: &[1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000, 67_000],
    connect_gives_up_ms: 131_000,
    on_refusal: OnRefusal::Fail,
    mss: 1460,
    window_scale: Some(10),
    sack: true,
    timestamp_tick_us: Some(1000),
    syn_order: LINUX_ORDER,
    syn_window: 64_240,
    window: 64_512,
    ttl: 64,
    rto_min_ms: 200,
    rto_initial_ms: 3000,
    rto_max_ms: 120_000,
    data_again_max: 15,
    orphan_again_max: 8,
    tail_loss_probe: true,
    fin_waits: true,
    quick_acks: 16,
    delayed_ack_ms: 40,
    fin_wait_2_ms: 60_000,
    resets_unread: true,
};

const LINUX_PRE_6_5: Os = Os {
    name: "linux-pre-6.5",
    syn_again_ms: &[1000, 3000, 7000, 15_000, 31_000, 63_000],
    connect_gives_up_ms: 127_000,
    window_scale: Some(7),
    window: 64_256,
    fin_waits: false,
    ..LINUX
};

const MACOS: Os = Os {
    name: "macos",
    syn_again_ms: &[1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000, 67_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(6),
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, Timestamps, SackPermitted, End, End],
    syn_window: 65_535,
    window: 131_712,
    ..BSD
};

/// What today's BSDs have in common.
const BSD: Os = Os {
    name: "",
    rto_min_ms: 230,
    rto_initial_ms: 1000,
    rto_max_ms: 64_000,
    data_again_max: 12,
    orphan_again_max: 12,
    tail_loss_probe: false,
    fin_waits: false,
    quick_acks: 0,
    delayed_ack_ms: 40,
    ..LINUX
};

const FREEBSD: Os = Os {
    name: "freebsd",
    // Doubling from 1 s, and 0.2 s of slop on every step but the first.
    syn_again_ms: &[1000, 3200, 7400, 15_600, 31_800, 64_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(6),
    syn_order: &[Mss, Nop, WindowScale, SackPermitted, Timestamps],
    syn_window: 65_535,
    window: 65_664,
    ..BSD
};

const WINDOWS: Os = Os {
    name: "windows",
    syn_again_ms: &[1000, 3000, 7000, 15_000],
    connect_gives_up_ms: 21_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 500, times: 4 },
    window_scale: Some(8),
    timestamp_tick_us: None,
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, SackPermitted],
    syn_window: 64_240,
    window: 262_656,
    ttl: 128,
    rto_min_ms: 300,
    rto_initial_ms: 1000,
    data_again_max: 5,
    orphan_again_max: 5,
    tail_loss_probe: true,
    fin_waits: false,
    quick_acks: 0,
    ..LINUX
};

const LINUX_2_4: Os = Os {
    name: "linux-2.4",
    syn_again_ms: &[3000, 9000, 21_000, 45_000, 93_000],
    connect_gives_up_ms: 189_000,
    window_scale: Some(0),
    timestamp_tick_us: Some(10_000),
    syn_window: 5840,
    window: 5840,
    tail_loss_probe: false,
    fin_waits: false,
    ..LINUX
};

/// Shukla's emulation of Windows: it "retransmits SYNs up to 3 times after receiving a RST", at
/// once.
const WIN_EMU: Os =
    Os { name: "win-emu", on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 3 }, ..LINUX_2_4 };

const JAMJOOM_LINUX_2_4: Os = Os {
    name: "jamjoom-linux-2.4",
    syn_again_ms: &[3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 93_000,
    ..LINUX_2_4
};

const FREEBSD_5_3: Os = Os {
    name: "freebsd-5.3",
    syn_again_ms: &[3000, 6200, 9400, 12_600, 15_800, 22_000, 34_200, 58_400],
    connect_gives_up_ms: 75_000,
    window_scale: Some(1),
    sack: true,
    timestamp_tick_us: Some(1000),
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, Timestamps, SackPermitted, End],
    syn_window: 65_535,
    window: 65_534,
    delayed_ack_ms: 100,
    rto_initial_ms: 3000,
    ..BSD
};

const JAMJOOM_FREEBSD: Os = Os {
    name: "jamjoom-freebsd",
    syn_again_ms: &[3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: Some(10_000),
    syn_order: BSD_ORDER,
    syn_window: 57_344,
    window: 57_344,
    ..FREEBSD_5_3
};

const MACOS_10_3: Os = Os {
    name: "macos-10.3",
    syn_again_ms: &[3000, 6000, 9000, 12_000, 15_000, 21_000, 33_000, 57_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: Some(500_000),
    syn_order: BSD_ORDER,
    syn_window: 32_768,
    window: 33_304,
    ..FREEBSD_5_3
};

const WINDOWS_NT: Os = Os {
    name: "windows-nt",
    syn_again_ms: &[3000, 9000, 21_000],
    connect_gives_up_ms: 45_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 3 },
    window_scale: None,
    sack: false,
    syn_order: &[Mss],
    syn_window: 8192,
    window: 8760,
    rto_initial_ms: 3000,
    tail_loss_probe: false,
    delayed_ack_ms: 200,
    ..WINDOWS
};

const WINDOWS_2000: Os = Os {
    name: "windows-2000",
    syn_again_ms: &[3000, 9000],
    connect_gives_up_ms: 21_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 2 },
    sack: true,
    syn_order: WINDOWS_2000_ORDER,
    syn_window: 16_384,
    window: 17_520,
    ..WINDOWS_NT
};

const HP_UX_11: Os = Os {
    name: "hp-ux-11",
    syn_again_ms: &[2000, 3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: None,
    syn_order: &[Mss, WindowScale, Nop],
    syn_window: 32_768,
    window: 32_768,
    rto_min_ms: 500,
    rto_initial_ms: 3000,
    delayed_ack_ms: 50,
    ..BSD
};

const SOLARIS_2_7: Os = Os {
    name: "solaris-2.7",
    syn_again_ms: &[3400, 10_100, 23_600, 50_600, 104_600, 164_600],
    connect_gives_up_ms: 180_000,
    window_scale: None,
    sack: false,
    timestamp_tick_us: None,
    syn_order: &[Mss],
    syn_window: 8760,
    window: 8760,
    ttl: 255,
    rto_min_ms: 400,
    rto_initial_ms: 3000,
    delayed_ack_ms: 50,
    ..BSD
};
