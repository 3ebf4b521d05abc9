// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Linux profile against Linux: the same peer, the same words, the same packets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::wire::{ACK, Captured, FIN, PSH, RST, SYN, Wire};
use crate::common::{NOBODY, REPLY, Stage, raw};
use tidegate_client::Requests;
use tidegate_crowd::{Class, Close, Plan};
use tidegate_lab::skip_without_root;

const PEER_SEQ: u32 = 5_000_000;
/// Far longer than a reply takes that is not late.
const PATIENCE: Duration = Duration::from_secs(5);
const LITTLE_PATIENCE: Duration = Duration::from_millis(300);

/// What the peer does not answer at first.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    syns: usize,
    requests: usize,
    fins: usize,
    /// And of its own FIN the client's ACK.
    acks: usize,
    /// Its reply, and the FIN behind it, come when the client has closed.
    is_late: bool,
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
        Losses { acks: 2, ..Losses::default() },
        // Shukla, figure 4.11: each is refused.
        Losses { is_late: true, ..Losses::default() },
    ] {
        let play = || {
            let wire = stage.server.run(|| Wire::on("srv0"));
            std::thread::spawn(move || peer(&wire, macs, losses))
        };
        let playing = play();
        let timeout = if losses.is_late { LITTLE_PATIENCE } else { PATIENCE };
        stage.clients.run(move || kernel_client(timeout, losses.is_late));
        let mut kernel = playing.join().unwrap();
        let playing = play();
        let class = Class { close: Close::Fin, timeout, ..Class::default() };
        // Its host is there when its connection is over.
        let outlives = losses.acks > 0 || losses.is_late;
        let cool_down = Duration::from_secs(outlives.into());
        let outcome = stage.send(Plan { cool_down, ..raw(&format!("{NOBODY}:80"), 1.0, class) });
        let replies = u64::from(!losses.is_late);
        assert_eq!((outcome.attempts, outcome.replies), (1, replies), "{losses:?}: {outcome:?}");
        let mut ours = playing.join().unwrap();
        for captured in [&mut ours, &mut kernel] {
            // Of what is over our hosts keep no clocks.
            let acks = captured.len() - losses.acks;
            captured[acks..].iter_mut().for_each(|segment| segment.options.clear());
        }
        assert_eq!(seen(&ours), seen(&kernel), "{losses:?}: ours, then the kernel's");
    }
}

fn kernel_client(timeout: Duration, is_late: bool) {
    let target = format!("{NOBODY}:80");
    let requests = Requests::get(&target, ["/"]);
    let mut stream = TcpStream::connect(target).unwrap();
    stream.set_read_timeout(Some(timeout)).unwrap();
    stream.write_all(requests.at(0).bytes()).unwrap();
    let mut reply = vec![0; REPLY.len()];
    assert_eq!(stream.read_exact(&mut reply).is_err(), is_late);
    assert!(is_late || reply == REPLY);
}

/// Plays a server until the client has acknowledged its FIN, or refused it; what the client sent.
fn peer(wire: &Wire, macs: ([u8; 6], [u8; 6]), losses: Losses) -> Vec<Captured> {
    let (mut captured, mut syns, mut requests, mut fins, mut acks, mut refused) =
        (Vec::new(), 0, 0, 0, 0, 0);
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
            if losses.is_late {
                answer(ACK, PEER_SEQ + 1, next, b"");
            } else if requests > losses.requests {
                answer(PSH | ACK, PEER_SEQ + 1, next, REPLY);
            }
        } else if segment.flags & FIN != 0 {
            fins += 1;
            if losses.is_late {
                answer(ACK, PEER_SEQ + 1, next.wrapping_add(1), b"");
                answer(PSH | ACK, PEER_SEQ + 1, next.wrapping_add(1), REPLY);
                answer(FIN | ACK, closed, next.wrapping_add(1), b"");
            } else if fins > losses.fins {
                answer(ACK, closed, next.wrapping_add(1), b"");
                answer(FIN | ACK, closed, next.wrapping_add(1), b"");
            }
        } else if fins > 0 && segment.flags == ACK && segment.ack == closed + 1 {
            acks += 1;
            if acks <= losses.acks {
                answer(FIN | ACK, closed, next, b"");
            }
        }
        refused += usize::from(segment.flags == RST);
        captured.push(segment);
        if acks > losses.acks || refused == 2 {
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
