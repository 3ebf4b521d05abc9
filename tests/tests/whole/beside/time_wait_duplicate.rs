// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faber, Figure 1: a duplicate of a connection that is over arrives in the window of the next one
//! between the same addresses and ports. Where TIME-WAIT is simply dropped the program reads it;
//! under TW-Negotiate, close_swap and CLIENT_CLOSE the second connection does not come to be.
//!
//! The end under test is the kernel's, with sequence numbers of our choosing; the other end is
//! raw, and forgets everything at once.

use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::time::Duration;

use nix::libc;
use socket2::Socket;
use tidegate_tests::waits::guard;
use tidegate_tests::wire::{ACK, FIN, PSH, RST, SYN};
use tidegate_tests::{RawEnd, Stage, our_option, set_option, skip_without_root};

const OWN_PORT: u16 = 5000;
const PEER_PORT: u16 = 8080;
/// The kernel's initial sequence number, of both connections, and the raw end's.
const OWN_ISN: u32 = 1_000_000;
const PEER_ISN: u32 = 50_000;

const TCP_REPAIR: i32 = 19;
const TCP_REPAIR_QUEUE: i32 = 20;
const TCP_QUEUE_SEQ: i32 = 21;
const TCP_SEND_QUEUE: i32 = 2;
const TCP_REPAIR_OFF_NO_WP: i32 = -1;

fn set(socket: &Socket, option: i32, value: i32) {
    let done = set_option(socket, libc::SOL_TCP, option, value);
    done.unwrap_or_else(|e| panic!("option {option}: {e}"));
}

/// The initial sequence number is to be ours.
fn set_isn(socket: &Socket) {
    set(socket, TCP_REPAIR, 1);
    set(socket, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
    set(socket, TCP_QUEUE_SEQ, OWN_ISN as i32);
    set(socket, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
}

/// Answers a SYN, with the option that it carried where it should be agreed to.
fn accept(raw: &RawEnd, agree: bool) {
    let syn = raw.next("a SYN");
    assert_eq!((syn.flags, syn.seq), (SYN, OWN_ISN));
    let option = our_option(&syn);
    assert_eq!(option.is_some(), agree, "{:?}", syn.options);
    raw.send(SYN | ACK, PEER_ISN, OWN_ISN + 1, option.clone().unwrap_or_default(), b"");
    let ack = raw.next("an ACK");
    assert_eq!(our_option(&ack), option, "the same value in the ACK");
}

/// Data of the first connection, which the kernel acknowledges.
fn deliver(raw: &RawEnd, data: &[u8]) {
    raw.send(ACK | PSH, PEER_ISN + 1, OWN_ISN + 1, Vec::new(), data);
    let ack = raw.next("an ACK");
    assert_eq!(ack.ack, PEER_ISN + 1 + data.len() as u32);
}

const OLD: &[u8] = b"of the first connection";

/// The first connection: OLD is sent and received, the raw end closes first.
fn first_connection(stage: &Stage, raw: &RawEnd, agree: bool) {
    let connecting = raw.connecting(stage, set_isn);
    accept(raw, agree);
    let mut stream = connecting.join().expect("a thread").expect("it connects");
    deliver(raw, OLD);
    let end = PEER_ISN + 1 + OLD.len() as u32;
    raw.send(FIN | ACK, end, OWN_ISN + 1, Vec::new(), b"");
    let mut read = Vec::new();
    stream.read_to_end(&mut read).expect("the raw end has closed");
    assert_eq!(read, OLD);
    drop(stream);
    let fin = raw.next_with("a FIN", FIN, FIN);
    assert_eq!((fin.seq, fin.ack), (OWN_ISN + 1, end + 1));
    raw.send(ACK, end + 1, OWN_ISN + 2, Vec::new(), b"");
}

fn stage_of(label: &str, ipv6: bool) -> (Stage, RawEnd) {
    let stage = Stage::new(label);
    stage.server.sysctl("net.ipv4.tcp_timestamps", 0).expect("a sysctl");
    let raw = RawEnd::of(&stage, ipv6, OWN_PORT, PEER_PORT);
    (stage, raw)
}

#[test]
fn it_is_read_where_time_wait_is_simply_dropped() {
    if skip_without_root("it_is_read_where_time_wait_is_simply_dropped") {
        return;
    }
    for ipv6 in [false, true] {
        let (stage, raw) = stage_of("figure-1", ipv6);
        first_connection(&stage, &raw, false);
        let connecting = raw.connecting(&stage, set_isn);
        accept(&raw, false);
        let mut stream = connecting.join().expect("a thread").expect("it connects again");
        // Not from the second connection: the network had kept it.
        raw.send(ACK | PSH, PEER_ISN + 1, OWN_ISN + 1, Vec::new(), OLD);
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("an option");
        let mut read = vec![0; OLD.len()];
        stream.read_exact(&mut read).expect("the duplicate is taken for new data");
        assert_eq!(read, OLD);
        stream.shutdown(Shutdown::Both).expect("an open connection");
    }
}

#[test]
fn it_is_refused_under_negotiation_and_under_close_swap() {
    if skip_without_root("it_is_refused_under_negotiation_and_under_close_swap") {
        return;
    }
    for ipv6 in [false, true] {
        for (rules, agree) in [("negotiate = \"client\"", true), ("close_swap = true", false)] {
            let (stage, raw) = stage_of("figure-1-held", ipv6);
            let guard = guard(&stage.server, &format!("[time_wait]\n{rules}\n"));
            first_connection(&stage, &raw, agree);
            let sent = raw.wire.collect(raw.peer, Duration::from_millis(300));
            let resets: Vec<(u8, u32)> = sent.iter().map(|s| (s.flags, s.seq)).collect();
            // close_swap's RST is where the other end's TIME-WAIT expects it; else, nothing.
            let expected = if agree { Vec::new() } else { vec![(RST, OWN_ISN + 2)] };
            assert_eq!(resets, expected, "{rules}");
            let again = raw.connecting(&stage, set_isn).join().expect("a thread");
            let refused = again.expect_err("the pair is held");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{rules}");
            // The duplicate meets no connection, and what our kernel says to it stays here.
            raw.send(ACK | PSH, PEER_ISN + 1, OWN_ISN + 1, Vec::new(), OLD);
            let sent = raw.wire.collect(raw.peer, Duration::from_millis(300));
            assert_eq!(sent, [], "{rules}: neither a SYN nor a RST");
            let status = guard.status();
            assert_eq!(status["time_wait"]["held_by_us"], 1, "{status:#}");
            assert_eq!(status["time_wait"]["counts"]["blocked"], 2, "{status:#}");
            guard.stop();
        }
    }
}

/// CLIENT_CLOSE (section 4.2): the client closes first, and its own TCP holds TIME-WAIT.
#[test]
fn it_is_refused_where_the_client_closes_first() {
    if skip_without_root("it_is_refused_where_the_client_closes_first") {
        return;
    }
    for ipv6 in [false, true] {
        let (stage, raw) = stage_of("figure-1-own", ipv6);
        let first = raw.connecting(&stage, set_isn);
        accept(&raw, false);
        let stream = first.join().expect("a thread").expect("it connects");
        deliver(&raw, OLD);
        stream.shutdown(Shutdown::Write).expect("an open connection");
        let end = PEER_ISN + 1 + OLD.len() as u32;
        let fin = raw.next("a FIN");
        assert_eq!((fin.flags & FIN, fin.seq, fin.ack), (FIN, OWN_ISN + 1, end));
        raw.send(FIN | ACK, end, OWN_ISN + 2, Vec::new(), b"");
        assert_eq!(raw.next("the last ACK").ack, end + 1);
        drop(stream);
        let again = raw.connecting(&stage, set_isn).join().expect("a thread");
        // By bind() already: leaving TCP_REPAIR took SO_REUSEADDR from the first connection.
        let refused = again.expect_err("the pair is in TIME-WAIT");
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        // The duplicate is answered by what is left of the first connection.
        raw.send(ACK | PSH, PEER_ISN + 1, OWN_ISN + 1, Vec::new(), OLD);
        let sent = raw.wire.collect(raw.peer, Duration::from_millis(300));
        let answers: Vec<_> = sent.iter().map(|s| (s.flags, s.seq, s.ack)).collect();
        assert_eq!(answers, [(ACK, OWN_ISN + 2, end + 1)], "no SYN among them");
    }
}
