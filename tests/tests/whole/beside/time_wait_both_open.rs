// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faber, Table 1: both ends open at once. One end is the kernel's, the other is raw, and sends
//! its SYN when it has seen the kernel's.

use std::io::ErrorKind;
use std::net::IpAddr;

use tidegate_tests::waits::guard;
use tidegate_tests::wire::{ACK, RST, SYN, Segment};
use tidegate_tests::{RawEnd, Stage, our_option, skip_without_root};

const PEER_ISN: u32 = 50_000;
/// Those that tell the segments of a handshake apart.
const HANDSHAKE: u8 = SYN | ACK | RST;

/// The option that names an address; none is no option.
fn option(address: Option<IpAddr>) -> Vec<u8> {
    let octets = match address {
        None => return Vec::new(),
        Some(IpAddr::V4(v4)) => v4.octets().to_vec(),
        Some(IpAddr::V6(v6)) => v6.octets().to_vec(),
    };
    [vec![253, 4 + octets.len() as u8, b'T', b'W'], octets].concat()
}

/// Whom each of the two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Kernel,
    Raw,
    Nobody,
}

/// The rows of Table 1. The raw end has the larger address in both families.
const ROWS: [(Names, Names, Names); 6] = [
    (Names::Kernel, Names::Nobody, Names::Nobody),
    (Names::Nobody, Names::Raw, Names::Nobody),
    (Names::Kernel, Names::Kernel, Names::Kernel),
    (Names::Raw, Names::Raw, Names::Raw),
    (Names::Kernel, Names::Raw, Names::Raw),
    (Names::Raw, Names::Kernel, Names::Raw),
];

#[test]
fn both_ends_go_on_with_what_table_1_says() {
    if skip_without_root("both_ends_go_on_with_what_table_1_says") {
        return;
    }
    for (kernel, raw, used) in ROWS {
        for insist in [false, true] {
            // Whoever names nobody has nothing to insist on, and is told so.
            if insist && kernel == Names::Nobody {
                continue;
            }
            let stage = Stage::new("both-open");
            let names = match kernel {
                Names::Kernel => "client",
                Names::Raw => "server",
                Names::Nobody => "off",
            };
            let config = format!(
                "[time_wait]\nnegotiate = \"{names}\"\ninsist = {insist}\nclose_swap = true\n"
            );
            let guard = guard(&stage.server, &config);
            for (own_port, ipv6) in [(5000, false), (5001, true)] {
                let meeting = RawEnd::of(&stage, ipv6, own_port, 8080);
                let what = format!("{kernel:?} and {raw:?}, {}, insist {insist}", meeting.own);
                let value_of = |segment: &Segment| our_option(segment).unwrap_or_default();
                let value = |names| match names {
                    Names::Kernel => option(Some(meeting.own.ip())),
                    Names::Raw => option(Some(meeting.peer.ip())),
                    Names::Nobody => option(None),
                };
                let connecting = meeting.connecting(&stage, |_| ());
                let syn = meeting.next_with("a SYN", HANDSHAKE, SYN);
                assert_eq!(value_of(&syn), value(kernel), "{what}");
                meeting.send(SYN, PEER_ISN, 0, value(raw), b"");
                if insist && used == Names::Raw && kernel == Names::Kernel {
                    // The one end that disagrees with the conclusion.
                    let reset = meeting.next_with("a RST", HANDSHAKE, RST | ACK);
                    assert_eq!(reset.ack, PEER_ISN + 1, "{what}");
                    let refused = connecting.join().expect("a thread").expect_err("it is reset");
                    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{what}");
                    continue;
                }
                let syn_ack = meeting.next_with("a SYN/ACK", HANDSHAKE, SYN | ACK);
                assert_eq!(value_of(&syn_ack), value(used), "{what}");
                assert_eq!((syn_ack.seq, syn_ack.ack), (syn.seq, PEER_ISN + 1));
                meeting.send(SYN | ACK, PEER_ISN, syn.seq.wrapping_add(1), value(used), b"");
                connecting.join().expect("a thread").expect("it connects");
            }
            let counts = guard.status()["time_wait"]["counts"].clone();
            let expected = match (used, insist && kernel == Names::Kernel) {
                (Names::Raw, true) => "refused",
                (Names::Raw, false) => "agreed_there",
                (Names::Kernel, _) => "agreed_here",
                (Names::Nobody, _) if kernel == Names::Nobody => "none",
                (Names::Nobody, _) => "unspoken",
            };
            if expected != "none" {
                assert_eq!(counts[expected], 2, "{kernel:?} and {raw:?}: {counts:#}");
            }
            guard.stop();
        }
    }
}
