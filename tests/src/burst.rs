// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many clients at once: connects that nobody waits for, and SYNs of nobody at all.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use socket2::{Domain, Socket, Type};
use tidegate_lab::Namespace;

use crate::stage::{CLIENT_V4, Stage};
use crate::wire::{RST, SYN, Segment, Wire, usual_options};

/// A connect() that was begun and not waited for.
pub struct Attempt {
    /// The socket, which does not block.
    pub socket: Socket,
}

impl Attempt {
    fn begin(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // Linux chooses the port when it knows the destination: 60,000 for each source.
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            other => other?,
        }
        Ok(Attempt { socket })
    }

    /// How it ended, waiting at most `patience`; `None` is not yet.
    pub fn outcome(&self, patience: Duration) -> Option<io::Result<()>> {
        let mut one = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        let patience = PollTimeout::try_from(patience).expect("a short wait");
        if poll(&mut one, patience).expect("a socket that can be polled") == 0 {
            return None;
        }
        Some(self.socket.take_error().expect("SO_ERROR").map_or(Ok(()), Err))
    }
}

/// Of the stories that are told meanwhile.
const OTHER_DESCRIPTORS: u64 = 4096;

/// `count` connects from `sources` in turn, as fast as `threads` threads can begin them.
pub fn burst(
    namespace: &Namespace,
    sources: &[IpAddr],
    to: SocketAddr,
    count: usize,
    threads: usize,
) -> Vec<Attempt> {
    tidegate_crowd::allow_descriptors(count as u64 + OTHER_DESCRIPTORS);
    let workers: Vec<_> = (0..threads)
        .map(|t| {
            let sources = sources.to_vec();
            let work = move || -> Vec<Attempt> {
                (t..count)
                    .step_by(threads)
                    .map(|i| Attempt::begin(sources[i % sources.len()], to))
                    .map(|attempt| attempt.expect("a socket that may connect"))
                    .collect()
            };
            namespace.thread(work).expect("a thread")
        })
        .collect();
    workers.into_iter().flat_map(|w| w.join().expect("no panic")).collect()
}

/// Gives the client `count` more IPv4 addresses, and returns them.
pub fn more_addresses(stage: &Stage, count: u8) -> Vec<IpAddr> {
    (0..count)
        .map(|i| {
            let address = Ipv4Addr::new(10, 77, 0, 100 + i);
            stage.link.b().add_address(&format!("{address}/24")).expect("an address");
            address.into()
        })
        .collect()
}

/// A sender of SYNs from random addresses that nobody has: RFC 2544's, 198.18.0.0/15.
pub struct Spoofed {
    wire: Wire,
    random: u64,
}

impl Spoofed {
    /// On the client's end of the stage; the seed makes the random numbers.
    pub fn on(stage: &Stage, seed: u64) -> Self {
        // The kernel drops a SYN that it has no route back for.
        let route = format!("route replace 198.18.0.0/15 via {CLIENT_V4} dev srv0");
        stage.server.ip(&route).expect("a route back");
        Spoofed { wire: Wire::of(stage), random: seed | 1 }
    }

    /// xorshift64* (Vigna 2016).
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn syn(&mut self, to: SocketAddr) -> Segment {
        let (who, seq) = (self.random() >> 16, self.random() as u32);
        let address = Ipv4Addr::from(0xc612_0000 | (who as u32 & 0x0001_ffff));
        let from = SocketAddr::new(address.into(), 1024 + (who >> 17) as u16 % 60_000);
        let options = usual_options(seq);
        Segment { options, ..Segment::new(from, to, SYN, seq, 0) }
    }

    /// Sends `count` SYNs, each from an address and port of its own.
    pub fn send(&mut self, to: SocketAddr, count: usize) {
        for _ in 0..count {
            let syn = self.syn(to);
            self.wire.send(&syn);
        }
    }

    /// Sends `count` SYNs, and takes each back with a RST before the next.
    pub fn send_and_give_up(&mut self, to: SocketAddr, count: usize) {
        for _ in 0..count {
            let syn = self.syn(to);
            self.wire.send(&syn);
            self.wire.send(&Segment::new(syn.from, to, RST, syn.seq.wrapping_add(1), 0));
        }
    }
}
