// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pairs that hosts hold blocked although their TCP is CLOSED: the clients' and the server's
//! tables, and what they say of SYNs and RSTs.

use std::net::{Ipv4Addr, SocketAddr};

use tidegate_client::pairs::Concerned;
use tidegate_client::{Flags, LastNumbers, Pairs};
use tidegate_policy::raw::tg_key;
use tidegate_policy::time_wait::{End, Judged};
use tidegate_scenarios::SERVER;

use crate::packet::Packet;
use crate::setup::Setup;

/// The first of the clients' addresses, and ports of each.
const FIRST: u32 = 0x0a80_0000;
const FIRST_PORT: u16 = 1024;
const PORTS: u32 = u16::MAX as u32 - FIRST_PORT as u32 + 1;

/// Both tables, where hosts keep them. All clients have theirs in one.
#[derive(Debug)]
pub(crate) struct Ends {
    clients: Option<Pairs>,
    server: Option<Pairs>,
}

/// A client's address and port, by its pair's number.
fn client(pair: u32) -> SocketAddr {
    let address = Ipv4Addr::from_bits(FIRST + pair / PORTS);
    SocketAddr::new(address.into(), FIRST_PORT + (pair % PORTS) as u16)
}

impl Ends {
    pub(crate) fn of(setup: &Setup) -> Self {
        let key = tg_key { k0: setup.seed, k1: !setup.seed };
        let table = |asks: bool| asks.then(|| Pairs::new(setup.held_entries, key));
        let clients = setup.crowd.person.time_wait;
        Self {
            clients: table(clients.negotiate != 0 || clients.close_swap != 0),
            server: table(setup.time_wait.negotiate != 0),
        }
    }

    fn at(&mut self, end: End) -> Option<&mut Pairs> {
        match end {
            End::Client => self.clients.as_mut(),
            End::Server => self.server.as_mut(),
        }
    }

    pub(crate) fn can_hold(&mut self, end: End, pair: u32, now_ns: u64) -> bool {
        let (own, peer) = addresses(end, pair);
        self.at(end).is_some_and(|pairs| pairs.can_hold(own, peer, now_ns))
    }

    pub(crate) fn hold(&mut self, end: End, pair: u32, last: &LastNumbers, now_ns: u64) -> bool {
        let (own, peer) = addresses(end, pair);
        self.at(end).is_some_and(|pairs| pairs.hold(own, peer, last, now_ns))
    }

    /// Whether a packet goes no further where it leaves its host, or comes to it.
    #[inline]
    pub(crate) fn block(
        &mut self,
        end: End,
        pair: u32,
        outgoing: bool,
        packet: &Packet,
        now_ns: u64,
    ) -> bool {
        if !packet.flags.has(Flags::SYN) && !packet.flags.has(Flags::RST) {
            return false;
        }
        let (own, peer) = addresses(end, pair);
        let Some(pairs) = self.at(end) else { return false };
        let (flags, seq, clocks) = (packet.flags, packet.seq, packet.clocks());
        let segment = Concerned { flags, seq, clocks, outgoing };
        pairs.judge(own, peer, &segment, now_ns) == Judged::Block
    }

    /// Since when the clients' pair that was held last had been held already.
    pub(crate) fn take_renewed_ns(&mut self) -> Option<u64> {
        self.clients.as_mut()?.take_renewed_ns()
    }

    /// Pairs that the server holds now.
    pub(crate) fn held_by_server(&mut self, now_ns: u64) -> u64 {
        self.server.as_mut().map_or(0, |pairs| pairs.held(now_ns).0)
    }
}

/// The end's own address and port, and the other's.
fn addresses(end: End, pair: u32) -> (SocketAddr, SocketAddr) {
    match end {
        End::Client => (client(pair), SERVER.into()),
        End::Server => (SERVER.into(), client(pair)),
    }
}
