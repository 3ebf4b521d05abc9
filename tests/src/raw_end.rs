// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw end of a connection whose other end is the kernel's.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::stage::{SERVER_V4, SERVER_V6, Stage};
use crate::waits::at;
use crate::wire::{Segment, WIRE_V4, WIRE_V6, Wire};

/// An end that sends what it is told to, and answers nothing by itself.
pub struct RawEnd {
    /// What it sends with.
    pub wire: Wire,
    /// The kernel's end, on the stage's server.
    pub own: SocketAddr,
    /// This one.
    pub peer: SocketAddr,
}

impl RawEnd {
    /// With these ports of the kernel's end and of this one.
    pub fn of(stage: &Stage, ipv6: bool, own_port: u16, peer_port: u16) -> Self {
        let (own, peer) = if ipv6 { (SERVER_V6, WIRE_V6) } else { (SERVER_V4, WIRE_V4) };
        RawEnd { wire: Wire::of(stage), own: at(own, own_port), peer: at(peer, peer_port) }
    }

    /// The kernel's end connects, from a socket that is prepared so, while this one answers.
    pub fn connecting(
        &self,
        stage: &Stage,
        prepare: fn(&Socket),
    ) -> JoinHandle<io::Result<TcpStream>> {
        let (own, peer) = (self.own, self.peer);
        let connect = move || {
            let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&own.into())?;
            prepare(&socket);
            socket.connect_timeout(&peer.into(), Duration::from_secs(3))?;
            Ok(socket.into())
        };
        stage.server.thread(connect).expect("a thread")
    }

    /// The next segment that the kernel sends here.
    pub fn next(&self, what: &str) -> Segment {
        self.next_with(what, 0, 0)
    }

    /// The next one that has of these flags the ones that are set, and no other.
    pub fn next_with(&self, what: &str, of: u8, set: u8) -> Segment {
        let until = Instant::now() + Duration::from_secs(2);
        std::iter::from_fn(|| self.wire.receive(until))
            .find(|s| s.to == self.peer && s.flags & of == set)
            .unwrap_or_else(|| panic!("the kernel sends {what}"))
    }

    /// Sends a segment to the kernel.
    pub fn send(&self, flags: u8, seq: u32, ack: u32, options: Vec<u8>, payload: &[u8]) {
        let payload = payload.to_vec();
        let segment = Segment::new(self.peer, self.own, flags, seq, ack);
        self.wire.send(&Segment { options, payload, ..segment });
    }
}

/// The option that names who holds TIME-WAIT, as it lies in a segment (Faber, Touch and Yue,
/// section 3).
pub fn our_option(segment: &Segment) -> Option<Vec<u8>> {
    let options = &segment.options;
    let at = options.windows(4).position(|head| head[0] == 253 && head[2..] == *b"TW")?;
    Some(options[at..at + usize::from(options[at + 1])].to_vec())
}
