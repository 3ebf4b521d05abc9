// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `abort` per listener is tcp_abort_on_overflow per network namespace, packet for packet:
//! the same exchange, from a client that writes its own packets, against the kernel's sysctl
//! and against tidegate. Compared are the packets that come back, in order and in every
//! field, the half-open requests that are left, and the kernel's count of those it reset.
//!
//! Each exchange is also played against a kernel with neither, which answers otherwise, and
//! against a neighbour on another port of the guarded host, which must be as by default.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use tidegate_lab::Counters;
use tidegate_tests::wire::{
    ACK, FIN, HalfOpen, ISN, PSH, RST, SYN, Segment, TSVAL, timestamps, usual_options,
};
use tidegate_tests::{
    Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, defer_accept, fill, guard_of, half_open,
    listen_queue, packets, packets_with, skip_without_root, until,
};

const ABORTED: u16 = 80;
const NEIGHBOUR: u16 = 81;
const UNGUARDED: u16 = 82;
const BACKLOG: i32 = 8;
const PLACES: usize = 9;
/// Long enough for a reply, shorter than the second after which a SYN/ACK is repeated.
const QUIET: Duration = Duration::from_millis(40);

/// What happens on overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The kernel alone, as it comes.
    Kernel,
    /// The kernel with net.ipv4.tcp_abort_on_overflow = 1.
    Sysctl,
    /// tidegate: `abort` on one port, `default` on another.
    Tidegate,
}

/// One exchange: a name, whether the client speaks timestamps, and what it sends once the
/// queue is full.
struct Exchange {
    name: &'static str,
    timestamps: bool,
    segments: fn(&HalfOpen) -> Vec<Segment>,
}

const EXCHANGES: [Exchange; 16] = [
    Exchange { name: "a bare ACK", timestamps: true, segments: |c| vec![c.segment(ACK, 0, b"")] },
    Exchange {
        name: "a bare ACK without timestamps",
        timestamps: false,
        segments: |c| vec![c.segment(ACK, 0, b"")],
    },
    Exchange {
        name: "an ACK with data",
        timestamps: true,
        segments: |c| vec![c.segment(ACK | PSH, 0, b"GET / HTTP/1.1\r\n\r\n")],
    },
    Exchange { name: "a FIN", timestamps: true, segments: |c| vec![c.segment(ACK | FIN, 0, b"")] },
    Exchange {
        name: "data with a FIN",
        timestamps: false,
        segments: |c| vec![c.segment(ACK | FIN | PSH, 0, b"bye")],
    },
    Exchange {
        name: "a bare ACK, then data, then a FIN",
        timestamps: true,
        segments: |c| {
            vec![
                c.segment(ACK, 0, b""),
                c.segment(ACK | PSH, 0, b"request"),
                c.segment(ACK | FIN, 7, b""),
            ]
        },
    },
    Exchange {
        name: "two bare ACKs",
        timestamps: true,
        segments: |c| vec![c.segment(ACK, 0, b""), c.segment(ACK, 0, b"")],
    },
    Exchange {
        name: "data that overtook the ACK",
        timestamps: true,
        segments: |c| vec![c.segment(ACK | PSH, 1000, b"later"), c.segment(ACK, 0, b"")],
    },
    Exchange {
        name: "an ACK of something else",
        timestamps: true,
        segments: |c| {
            vec![Segment { ack: c.syn_ack.seq.wrapping_add(77), ..c.segment(ACK, 0, b"") }]
        },
    },
    Exchange {
        name: "an ACK outside of the window, then a good one",
        timestamps: false,
        segments: |c| vec![c.segment(ACK, 1 << 24, b"x"), c.segment(ACK, 0, b"")],
    },
    Exchange {
        name: "an ACK from the past, by its timestamp",
        timestamps: true,
        segments: |c| {
            let options = timestamps(TSVAL - 1000, c.syn_ack.tsval().expect("timestamps"));
            vec![Segment { options, ..c.segment(ACK, 0, b"") }]
        },
    },
    Exchange {
        name: "a bare ACK at the window's right edge",
        timestamps: false,
        segments: |c| vec![c.segment(ACK, u32::from(c.syn_ack.window), b"")],
    },
    Exchange {
        name: "data that begins one byte early, on the SYN",
        timestamps: false,
        segments: |c| vec![c.segment(ACK | PSH, u32::MAX, b"early")],
    },
    Exchange {
        name: "a SYN again, then the ACK",
        timestamps: true,
        segments: |c| {
            let syn = Segment {
                options: usual_options(TSVAL),
                ..Segment::new(c.from, c.to, SYN, ISN, 0)
            };
            vec![syn, c.segment(ACK, 0, b"")]
        },
    },
    Exchange {
        name: "the client's own RST",
        timestamps: true,
        segments: |c| vec![c.segment(RST, 0, b"")],
    },
    Exchange {
        name: "the client's own RST with ACK",
        timestamps: false,
        segments: |c| vec![c.segment(RST | ACK, 0, b"")],
    },
];

/// A host of one side, and its server.
struct Host {
    stage: Stage,
    server: Stalled,
    guard: Option<Guard>,
}

/// What an exchange came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    /// What came back, each packet with the number of the segment that it followed.
    replies: Vec<(usize, Segment)>,
    /// Half-open requests of this port that went away.
    removed: usize,
    /// The kernel's count of half-open requests that it reset.
    embryonic_resets: i64,
}

/// Sequence numbers from where the connection begins, and no clock: what is left must agree.
fn comparable(client: &HalfOpen, mut segment: Segment) -> Segment {
    segment.seq = segment.seq.wrapping_sub(client.syn_ack.seq);
    if segment.flags & RST != 0 && segment.flags & ACK == 0 {
        assert_eq!(segment.ack, 0);
    } else {
        segment.ack = segment.ack.wrapping_sub(ISN);
    }
    if let Some(tsval) = segment.tsval() {
        let at = segment.options.windows(4).position(|w| w == tsval.to_be_bytes());
        let at = at.expect("the option's value");
        segment.options[at..at + 4].fill(0);
    }
    // Local ports differ from exchange to exchange, not from side to side.
    segment
}

impl Host {
    fn new(label: &str, side: Side, to: SocketAddr, deferred: bool) -> Self {
        let stage = Stage::new(label);
        let any = if to.is_ipv6() { "::" } else { "0.0.0.0" };
        let any = SocketAddr::new(any.parse().expect("an address"), to.port());
        let server = Stalled::with(&stage.server, any, BACKLOG, move |socket| {
            let _ = socket.set_only_v6(true);
            if deferred {
                defer_accept(socket, 5);
            }
        });
        if side == Side::Sysctl {
            stage.server.sysctl("net.ipv4.tcp_abort_on_overflow", 1).expect("the sysctl");
        }
        let guard = (side == Side::Tidegate).then(|| {
            let path = std::env::temp_dir().join(format!("{label}-{}.toml", stage.server.tid()));
            let text = format!(
                "[[listener]]\nport = {ABORTED}\nmechanism = \"abort\"\n\
                 [[listener]]\nport = {NEIGHBOUR}\nmechanism = \"default\"\n"
            );
            std::fs::write(&path, text).expect("a configuration file");
            let guard =
                Guard::try_start(&stage.server, &["--config", path.to_str().expect("UTF-8")]);
            std::fs::remove_file(&path).expect("the configuration file");
            guard.unwrap_or_else(|refused| panic!("{}", refused.stderr))
        });
        Host { stage, server, guard }
    }

    fn play(&self, exchange: &Exchange, to: SocketAddr) -> Outcome {
        let mut options = usual_options(TSVAL);
        if !exchange.timestamps {
            // MSS, and a window scale.
            options = vec![2, 4, 5, 0xb4, 1, 3, 3, 7];
        }
        let client = HalfOpen::open(&self.stage, 33000, to, options);
        let one = |i: usize| {
            let crowd = fill(&self.stage.client, to, 1);
            // Where accept is deferred, it takes this to come into the listen queue.
            crowd[0].say(b"x");
            until("the listen queue fills", || {
                listen_queue(&self.stage.server, to) as usize == i + 1
            });
            crowd
        };
        let crowd: Vec<Plain> = (0..PLACES).flat_map(one).collect();

        let standing = half_open(&self.stage.server, to.port());
        let before = Counters::of(&self.stage.server).expect("kernel counters");
        let mut replies = Vec::new();
        for (i, segment) in (exchange.segments)(&client).iter().enumerate() {
            client.send(segment);
            let came = client.collect(QUIET).into_iter();
            replies.extend(came.map(|reply| (i, comparable(&client, reply))));
        }
        let during = Counters::of(&self.stage.server).and_then(|now| now.since(&before));
        let outcome = Outcome {
            replies,
            removed: standing - half_open(&self.stage.server, to.port()),
            embryonic_resets: during
                .and_then(|during| during.get("TcpExtEmbryonicRsts"))
                .expect("kernel counters"),
        };
        // The raw client takes its leave, so that the next may use its port.
        client.send(&client.segment(RST, 0, b""));
        crowd.into_iter().for_each(Plain::discard);
        self.server.accept_all();
        until("the port is calm again", || half_open(&self.stage.server, to.port()) == 0);
        outcome
    }
}

/// Plays every exchange against each side, side by side.
fn outcomes(label: &str, address: &str, port: u16, side: Side, deferred: bool) -> Vec<Outcome> {
    let to = SocketAddr::new(address.parse().expect("an address"), port);
    let host = Host::new(label, side, to, deferred);
    let played: Vec<Outcome> = EXCHANGES.iter().map(|exchange| host.play(exchange, to)).collect();
    if let Some(guard) = host.guard {
        let status = guard.status();
        match port {
            ABORTED => {
                let resets = packets(
                    guard_of(&status, ABORTED, None),
                    "ListenQOverflow SYN/ACK ACK",
                    "reset",
                );
                assert!(resets > 0 || deferred, "{status:#}");
            }
            NEIGHBOUR => {
                assert_eq!(
                    packets_with(guard_of(&status, NEIGHBOUR, None), "reset"),
                    0,
                    "{status:#}"
                );
            }
            _ => {}
        }
        guard.stop();
    }
    played
}

/// The same as `expected`, exchange by exchange; `differs` says how many of them a kernel
/// with neither answers otherwise, at least.
fn agree(address: &'static str, port: u16, like: Side, deferred: bool) {
    let run = |label: &'static str, port, side| {
        thread::spawn(move || outcomes(label, address, port, side, deferred))
    };
    let ours = run("ours", port, Side::Tidegate);
    let theirs = run("theirs", port, like);
    let kernel = (like != Side::Kernel).then(|| run("kernel", port, Side::Kernel));
    let ours = ours.join().expect("every exchange is played with tidegate");
    let theirs = theirs.join().expect("every exchange is played without");
    for ((exchange, ours), theirs) in EXCHANGES.iter().zip(&ours).zip(&theirs) {
        assert_eq!(
            ours, theirs,
            "{} to {address} (left: tidegate; right: {like:?})",
            exchange.name
        );
    }
    if let Some(kernel) = kernel {
        let kernel = kernel.join().expect("every exchange is played by default");
        let different = ours.iter().zip(&kernel).filter(|(ours, kernel)| ours != kernel).count();
        let least = if deferred { 5 } else { 9 };
        assert!(different >= least, "only {different} exchanges tell abort from the default");
        let resets = |outcome: &Outcome| outcome.replies.iter().any(|(_, s)| s.flags & RST != 0);
        assert!(resets(&ours[2]) && !resets(&kernel[2]), "data to a full queue is reset by abort");
        assert_eq!((ours[2].removed, ours[2].embryonic_resets), (1, 1));
        assert_eq!((kernel[2].removed, kernel[2].embryonic_resets), (0, 0));
    }
}

#[test]
fn abort_is_the_sysctl_packet_for_packet_over_ipv4() {
    if skip_without_root("abort over IPv4") {
        return;
    }
    agree(SERVER_V4, ABORTED, Side::Sysctl, false);
}

#[test]
fn abort_is_the_sysctl_packet_for_packet_over_ipv6() {
    if skip_without_root("abort over IPv6") {
        return;
    }
    agree(SERVER_V6, ABORTED, Side::Sysctl, false);
}

#[test]
fn abort_is_the_sysctl_where_accept_is_deferred_until_data() {
    if skip_without_root("abort with TCP_DEFER_ACCEPT") {
        return;
    }
    agree(SERVER_V4, ABORTED, Side::Sysctl, true);
}

#[test]
fn a_neighbour_without_abort_is_as_by_default() {
    if skip_without_root("a neighbour of abort") {
        return;
    }
    agree(SERVER_V4, NEIGHBOUR, Side::Kernel, false);
}

#[test]
fn a_neighbour_without_a_guard_is_as_by_default() {
    if skip_without_root("an unguarded neighbour of abort") {
        return;
    }
    agree(SERVER_V6, UNGUARDED, Side::Kernel, false);
}
