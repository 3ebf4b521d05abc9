// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `auto` learns of an address by how its clients take a refusal, while a crowd stays before a
//! server that takes nobody. Programs that connect again as soon as they are refused are told later.
//! Where a client sent its SYN again after a RST, the next ones are answered at once, by a SYN/ACK
//! behind which there is nothing, until the address has shown that they stop.

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_tests::wire::{RST, SYN, Segment, WINDOWS_OPTIONS, WIRE_V4, Wire, usual_options};
use tidegate_tests::{
    Answer, Guard, SERVER_V4, Spoofed, Stage, Stalled, fetch, fill, guard_of, packets,
    packets_with, skip_without_root, until,
};

const BACKLOG: i32 = 8;
/// Linux lets a queue hold one more than its backlog.
const PLACES: usize = BACKLOG as usize + 1;
/// Between two clients of the crowd: some come in each window.
const APART: Duration = Duration::from_millis(10);
/// Who has heard nothing for this long is left in silence.
const PATIENCE: Duration = Duration::from_millis(500);
/// Some ticks of 1.07 s, by which an address is known.
const SOON: Duration = Duration::from_secs(5);
/// TG_MANNERS_MANY: so many in a tick are many for one address.
const MANY: u32 = 64;

/// What a SYN meets: the flags that say it.
const REFUSED: Option<u8> = Some(RST);
const HOLLOW: Option<u8> = Some(SYN);
const SILENCE: Option<u8> = None;

/// The first SYN of an address's connection of this number, as Linux sends it.
fn syn(number: u32, to: SocketAddr) -> Segment {
    let port = 1024 + (number % 60_000) as u16;
    let from = SocketAddr::new(WIRE_V4.parse().expect("an address"), port);
    let seq = number.wrapping_mul(0x9e37_79b9);
    Segment { options: usual_options(1), ..Segment::new(from, to, SYN, seq, 0) }
}

/// The same, as Windows sends it: more hops before it, and no timestamps.
fn syn_of_windows(number: u32, to: SocketAddr) -> Segment {
    Segment { hops: 128, options: WINDOWS_OPTIONS.to_vec(), ..syn(number, to) }
}

/// What a SYN meets that is sent now.
fn meets(wire: &Wire, syn: &Segment) -> Option<u8> {
    wire.send(syn);
    let until = Instant::now() + PATIENCE;
    let answer = std::iter::from_fn(|| wire.receive(until)).find(|s| s.to == syn.from)?;
    assert_eq!(answer.ack, syn.seq.wrapping_add(1), "{answer:?}");
    Some(answer.flags & (SYN | RST))
}

/// A story in an overload that persists: new clients come, each from an address of its own, to a
/// listen queue that is full and stays so. A server that takes nobody has nobody wait for it: all are
/// told.
fn amid_a_crowd(label: &str, story: impl FnOnce(&Stage, &Guard, SocketAddr)) {
    let stage = Stage::new(label);
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let _server = Stalled::new(&stage.server, to, BACKLOG);
    let _waiting = fill(&stage.client, to, PLACES);
    let guard = Guard::start(&stage.server, &["--port", "80"]);
    let mut crowd = Spoofed::on(&stage, 7);
    thread::scope(|scope| {
        // It comes until this end is gone, however the story ends.
        let (_comes, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            while is_over.recv_timeout(APART) == Err(RecvTimeoutError::Timeout) {
                crowd.send(to, 1);
            }
        });
        until("the overload persists", || {
            let status = guard.status();
            guard_of(&status, 80, None)["listeners"][0]["overload"]["phase"] == "persistent"
        });
        story(&stage, &guard, to);
    });
}

#[test]
fn an_address_that_connects_again_as_soon_as_it_is_refused_is_told_later() {
    if skip_without_root("an_address_that_connects_again_as_soon_as_it_is_refused_is_told_later") {
        return;
    }
    amid_a_crowd("manners-hot", |stage, guard, to| {
        let wire = Wire::of(stage);
        let dropped = || packets(guard_of(&guard.status(), 80, None), "ListenQFullAtSyn", "drop");
        let (before, begun) = (dropped(), Instant::now());
        let mut refused = 0;
        while meets(&wire, &syn(refused, to)) == REFUSED {
            refused += 1;
            assert!(begun.elapsed() < SOON, "{refused} were told at once, and nobody later");
        }
        assert!(refused >= MANY, "{refused} are not many");
        // In that tick one program waits, where hundreds of SYNs came before: it was the refusals that
        // brought them, and so it stays for a while.
        for number in refused + 1..refused + 3 {
            let syn = syn(number, to);
            assert_eq!(meets(&wire, &syn), SILENCE, "it is told later");
            // As TCP sends it again, a second after the first.
            thread::sleep(PATIENCE);
            assert_eq!(meets(&wire, &syn), REFUSED, "it is told when it comes again");
        }
        let other = fetch(&stage.client, to, PATIENCE).answer;
        assert_eq!(other, Answer::Refused, "another address is told at once");
        // In this phase nobody else is left in silence.
        assert!(dropped() >= before + 3, "{:#}", guard.status());
    });
}

#[test]
fn an_address_whose_clients_send_their_syns_again_is_answered_until_it_has_shown_that_they_stop() {
    if skip_without_root("an address whose clients send their SYNs again") {
        return;
    }
    amid_a_crowd("manners-again", |stage, guard, to| {
        let wire = Wire::of(stage);
        let first = |number| meets(&wire, &syn(number, to));
        // The same SYN, over and over.
        let again: Vec<_> = (0..9).map(|_| first(0)).collect();
        assert_eq!(again[0], REFUSED, "of its address nothing is known");
        assert_eq!(again[1..8], [HOLLOW; 7], "it came after a RST");
        assert_eq!(again[8], SILENCE, "it was told eight times");

        // The first SYNs of others, who do not come again.
        let others: Vec<_> = (1..10).map(first).collect();
        assert_eq!(others[..7], [HOLLOW; 7], "at this address clients come again");
        assert_eq!(others[7..], [REFUSED; 2], "no more than one in eight did");
        // The last of them does not stop.
        assert_eq!(first(9), HOLLOW);
        assert_eq!(first(10), HOLLOW, "the next one is answered at once");

        // Those who look like Windows are known apart.
        let windows = (20..29).map(|number| meets(&wire, &syn_of_windows(number, to)));
        let windows: Vec<_> = windows.collect();
        assert_eq!(windows[..8], [HOLLOW; 8], "they would send their SYNs again, by their looks");
        assert_eq!(windows[8], REFUSED, "none of the eight did");

        let status = guard.status();
        let answered = packets_with(guard_of(&status, 80, None), "hollow");
        assert_eq!(answered, 7 + 7 + 2 + 8, "{status:#}");
    });
}
