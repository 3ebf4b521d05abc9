// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Linux profile against Linux: the same peer, the same words, the same packets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::wire::{ACK, Captured, FIN, PSH, SYN, Wire};
use crate::common::{NOBODY, REPLY, Stage, raw};
use tidegate_client::Requests;
use tidegate_crowd::{Class, Close};
use tidegate_lab::skip_without_root;

const PEER_SEQ: u32 = 5_000_000;

/// What the peer does not answer at first.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    syns: usize,
    requests: usize,
    fins: usize,
}

/// What is compared: flags, sequence and acknowledgement numbers relative to both beginnings,
/// kinds of options in order, length of the payload.
type Seen = (u8, u32, u32, Vec<u8>, usize);

#[test]
fn packet_for_packet() {
    if skip_without_root("packet_for_packet") {
        return;
    }
    let stage = Stage::new();
    let server = stage.hardware_address(&stage.server, "srv0");
    let clients = stage.hardware_address(&stage.clients, "cli0");
    let macs = (octets(&server), octets(&clients));
    for losses in [
        Losses::default(),
        Losses { syns: 2, ..Losses::default() },
        Losses { requests: 3, ..Losses::default() },
        Losses { fins: 2, ..Losses::default() },
    ] {
        let play = || {
            let wire = stage.server.run(|| Wire::on("srv0"));
            std::thread::spawn(move || peer(&wire, macs, losses))
        };
        let playing = play();
        stage.clients.run(kernel_client);
        let kernel = playing.join().unwrap();
        let playing = play();
        let class = Class { close: Close::Fin, ..Class::default() };
        let outcome = stage.send(raw(&format!("{NOBODY}:80"), 1.0, class));
        assert_eq!(outcome.replies, 1, "{losses:?}: {outcome:?}");
        let ours = playing.join().unwrap();
        assert_eq!(seen(&ours), seen(&kernel), "{losses:?}: ours, then the kernel's");
    }
}

fn kernel_client() {
    let target = format!("{NOBODY}:80");
    let requests = Requests::get(&target, ["/"]);
    let mut stream = TcpStream::connect(target).unwrap();
    stream.write_all(requests.at(0).bytes()).unwrap();
    let mut reply = vec![0; REPLY.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, REPLY);
}

/// Plays a server until the client has acknowledged its FIN; what the client sent.
fn peer(wire: &Wire, macs: ([u8; 6], [u8; 6]), losses: Losses) -> Vec<Captured> {
    let (mut captured, mut syns, mut requests, mut fins) = (Vec::new(), 0, 0, 0);
    let closed = PEER_SEQ + 1 + REPLY.len() as u32;
    while let Some(segment) = wire.next(Duration::from_secs(6)) {
        let next = segment.seq.wrapping_add(segment.payload.len() as u32);
        let answer = |flags, seq, ack, payload: &[u8]| {
            wire.answer(&segment, macs, flags, (seq, ack), payload);
        };
        if segment.flags & SYN != 0 {
            syns += 1;
            if syns > losses.syns {
                answer(SYN | ACK, PEER_SEQ, next.wrapping_add(1), b"");
            }
        } else if !segment.payload.is_empty() {
            requests += 1;
            if requests > losses.requests {
                answer(PSH | ACK, PEER_SEQ + 1, next, REPLY);
            }
        } else if segment.flags & FIN != 0 {
            fins += 1;
            if fins > losses.fins {
                answer(ACK, closed, next.wrapping_add(1), b"");
                answer(FIN | ACK, closed, next.wrapping_add(1), b"");
            }
        }
        let is_last = fins > 0 && segment.flags == ACK && segment.ack == closed + 1;
        captured.push(segment);
        if is_last {
            break;
        }
    }
    captured
}

fn seen(captured: &[Captured]) -> Vec<Seen> {
    let begin = captured[0].seq;
    let seen = captured.iter().map(|segment| {
        let ack = if segment.flags & ACK == 0 { 0 } else { segment.ack.wrapping_sub(PEER_SEQ) };
        let seq = segment.seq.wrapping_sub(begin);
        (segment.flags, seq, ack, segment.option_kinds(), segment.payload.len())
    });
    seen.collect()
}

fn octets(address: &str) -> [u8; 6] {
    let mut octets = [0; 6];
    for (octet, digits) in octets.iter_mut().zip(address.split(':')) {
        *octet = u8::from_str_radix(digits, 16).unwrap();
    }
    octets
}
