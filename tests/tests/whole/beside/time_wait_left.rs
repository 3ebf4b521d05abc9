// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An end that closed first and leaves TIME-WAIT to the other (Faber, Touch and Yue, 1999, section
//! 3): what it sends is what it sends today, and what is kept of it is nothing.

use std::time::Duration;

use tidegate_tests::waits::{guard, settled, time_wait};
use tidegate_tests::wire::{ACK, FIN, RST, SYN, Segment, timestamps};
use tidegate_tests::{RawEnd, Stage, kernel_time_wait, our_option, skip_without_root};

const OWN_PORT: u16 = 5000;
const PEER_PORT: u16 = 8080;
const PEER_ISN: u32 = 50_000;
const PEER_TS: u32 = 7_000;

/// How the raw end answers the kernel's FIN.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answers {
    /// With its own at once, which acknowledges it.
    AtOnce,
    /// With an ACK, and with its own later: nothing is left then but a TIME_WAIT in FIN_WAIT2.
    Apart,
    /// The same, and in between somebody sends a RST who does not know where they are.
    ApartAndForged,
}

/// The time stamp that a segment has of its sender, and that which it echoes.
fn stamps(segment: &Segment) -> Option<(u32, u32)> {
    let options = &segment.options;
    let at = options.windows(2).position(|pair| pair == [8, 10])? + 2;
    let word = |at: usize| u32::from_be_bytes(options[at..at + 4].try_into().expect("four bytes"));
    Some((word(at), word(at + 4)))
}

/// The segment that answers the raw end's FIN, the kernel's FIN before it, and how many segments
/// came after both; the raw end agrees to hold TIME-WAIT, or does not know what it was asked.
fn last_ack(
    stage: &Stage,
    raw: &RawEnd,
    agrees: bool,
    answers: Answers,
) -> (Segment, Segment, usize) {
    let connecting = raw.connecting(stage, |_| ());
    let syn = raw.next("a SYN");
    let stamped = |age: u32, of: &Segment| match stamps(&syn) {
        Some(_) => timestamps(PEER_TS + age, stamps(of).expect("it has some").0),
        None => Vec::new(),
    };
    let mut options = stamped(0, &syn);
    if agrees {
        options.extend(our_option(&syn).expect("the kernel's end speaks it"));
    }
    raw.send(SYN | ACK, PEER_ISN, syn.seq + 1, options, b"");
    raw.next("an ACK");
    drop(connecting.join().expect("a thread").expect("it connects"));
    let fin = raw.next_with("a FIN", FIN, FIN);
    if answers != Answers::AtOnce {
        raw.send(ACK, PEER_ISN + 1, fin.seq + 1, stamped(5, &fin), b"");
        let no_program_has_it = || {
            let states = stage.server.command("ss -Htn state fin-wait-2");
            !stage.server.output(states).expect("ss").is_empty()
        };
        settled("the kernel waits for a FIN", no_program_has_it);
    }
    if answers == Answers::ApartAndForged {
        raw.send(RST, PEER_ISN + 1_000_000, 0, Vec::new(), b"");
        assert_eq!(raw.next("what it expects").flags, ACK);
    }
    raw.send(FIN | ACK, PEER_ISN + 1, fin.seq + 1, stamped(9, &fin), b"");
    let last = raw.next("the last ACK");
    let more = raw.wire.collect(raw.peer, Duration::from_millis(300)).len();
    (last, fin, more)
}

#[test]
fn the_last_fin_is_acknowledged_as_today_and_nothing_is_kept() {
    if skip_without_root("the_last_fin_is_acknowledged_as_today_and_nothing_is_kept") {
        return;
    }
    for (ipv6, stamped) in [(false, true), (true, true), (false, false), (true, false)] {
        let stage = Stage::new("left");
        stage.server.sysctl("net.ipv4.tcp_timestamps", u8::from(stamped)).expect("a sysctl");
        let guard = guard(&stage.server, "[time_wait]\nnegotiate = \"server\"\n");
        let agreed = [Answers::AtOnce, Answers::Apart, Answers::ApartAndForged];
        let wires = [(false, Answers::AtOnce)].into_iter().chain(agreed.map(|how| (true, how)));
        for (port, (agrees, answers)) in (OWN_PORT..).zip(wires) {
            let raw = RawEnd::of(&stage, ipv6, port, PEER_PORT);
            let case = format!("{}, stamped: {stamped}, agrees: {agrees}, {answers:?}", raw.own);
            let (last, fin, more) = last_ack(&stage, &raw, agrees, answers);
            assert_eq!(more, 0, "{case}: nothing comes after it");
            assert_eq!((last.flags, last.payload.len()), (ACK, 0), "{case}");
            assert_eq!((last.seq, last.ack), (fin.seq + 1, PEER_ISN + 2), "{case}");
            assert_ne!(last.window, 0, "{case}");
            let echoed = stamps(&last).map(|(_, echoed)| echoed);
            assert_eq!(echoed, stamped.then_some(PEER_TS + 9), "{case}");
            if let (Some((then, _)), Some((now, _))) = (stamps(&fin), stamps(&last)) {
                assert!(now.wrapping_sub(then) < 10_000, "{case}: {then} and then {now}");
            }
            // The first of them waits as today.
            assert_eq!(kernel_time_wait(&stage.server).len(), 1, "{case}");
        }
        assert_eq!(time_wait(&stage.server)["counts"]["left"], 3);
        guard.stop();
    }
}
