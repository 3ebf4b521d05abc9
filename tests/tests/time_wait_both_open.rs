// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faber, Table 1: both ends open at once. One end is the kernel's, the other is raw, and sends
//! its SYN when it has seen the kernel's.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tidegate_tests::wire::{ACK, RST, SYN, Segment, WIRE_V4, WIRE_V6, Wire};
use tidegate_tests::{Guard, SERVER_V4, SERVER_V6, Stage, skip_without_root};

const PEER_ISN: u32 = 50_000;

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// The option that names an address; none is no option.
fn option(address: Option<IpAddr>) -> Vec<u8> {
    let octets = match address {
        None => return Vec::new(),
        Some(IpAddr::V4(v4)) => v4.octets().to_vec(),
        Some(IpAddr::V6(v6)) => v6.octets().to_vec(),
    };
    [vec![253, 4 + octets.len() as u8, b'T', b'W'], octets].concat()
}

/// Our option among others.
fn found(options: &[u8]) -> Vec<u8> {
    let at = (0..options.len()).find(|at| {
        options[*at] == 253 && options[(at + 2).min(options.len())..].starts_with(b"TW")
    });
    at.map_or(Vec::new(), |at| options[at..at + usize::from(options[at + 1])].to_vec())
}

struct Meeting {
    wire: Wire,
    own: SocketAddr,
    peer: SocketAddr,
}

impl Meeting {
    fn next(&self, what: &str, flags: u8) -> Segment {
        let until = Instant::now() + Duration::from_secs(3);
        std::iter::from_fn(|| self.wire.receive(until))
            .find(|s| s.to == self.peer && s.flags & (SYN | ACK | RST) == flags)
            .unwrap_or_else(|| panic!("the kernel sends {what}"))
    }

    fn send(&self, flags: u8, seq: u32, ack: u32, options: Vec<u8>) {
        let segment = Segment::new(self.peer, self.own, flags, seq, ack);
        self.wire.send(&Segment { options, ..segment });
    }

    fn connect(&self, stage: &Stage) -> JoinHandle<std::io::Result<TcpStream>> {
        let (own, peer) = (self.own, self.peer);
        let connect = move || {
            let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&own.into())?;
            socket.connect_timeout(&peer.into(), Duration::from_secs(3))?;
            Ok(socket.into())
        };
        stage.server.thread(connect).expect("a thread")
    }
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
            let stage = Stage::new("both-open");
            let names = match kernel {
                Names::Kernel => "client",
                Names::Raw => "server",
                Names::Nobody => "off",
            };
            let config = format!(
                "[time_wait]\nnegotiate = \"{names}\"\ninsist = {insist}\nclose_swap = true\n"
            );
            stage.server.place_file("/run/both.toml", config).expect("a file");
            let guard = Guard::start(&stage.server, &["--config", "/run/both.toml"]);
            for (i, (own, peer)) in
                [(SERVER_V4, WIRE_V4), (SERVER_V6, WIRE_V6)].into_iter().enumerate()
            {
                let what = format!("{kernel:?} and {raw:?}, {own}, insist {insist}");
                let meeting = Meeting {
                    wire: Wire::of(&stage),
                    own: at(own, 5000 + i as u16),
                    peer: at(peer, 8080),
                };
                let value = |names| match names {
                    Names::Kernel => option(Some(meeting.own.ip())),
                    Names::Raw => option(Some(meeting.peer.ip())),
                    Names::Nobody => option(None),
                };
                let connecting = meeting.connect(&stage);
                let syn = meeting.next("a SYN", SYN);
                assert_eq!(found(&syn.options), value(kernel), "{what}");
                meeting.send(SYN, PEER_ISN, 0, value(raw));
                if insist && used == Names::Raw && kernel == Names::Kernel {
                    // The one end that disagrees with the conclusion.
                    let reset = meeting.next("a RST", RST | ACK);
                    assert_eq!(reset.ack, PEER_ISN + 1, "{what}");
                    let refused = connecting.join().expect("a thread").expect_err("it is reset");
                    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{what}");
                    continue;
                }
                let syn_ack = meeting.next("a SYN/ACK", SYN | ACK);
                assert_eq!(found(&syn_ack.options), value(used), "{what}");
                assert_eq!((syn_ack.seq, syn_ack.ack), (syn.seq, PEER_ISN + 1));
                meeting.send(SYN | ACK, PEER_ISN, syn.seq.wrapping_add(1), value(used));
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
