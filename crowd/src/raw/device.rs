// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface that the crowd stands at: where its frames leave and arrive.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::carrier::Carrier;
use crate::error::CrowdError;
use crate::raw::filter::Filter;
use crate::raw::polling::{Polled, threads_of};
use crate::raw::route::Interface;
use crate::raw::xsk::{self, FRAME_BYTES};
use crate::raw::{Failure, packet};

/// An interface that is open for frames.
#[derive(Debug)]
pub(crate) struct Device {
    pub arrivals: Arrivals,
    pub transmitter: Transmitter,
    /// What carries the frames, for people.
    pub driver: String,
}

/// Where frames arrive.
#[derive(Debug)]
pub(crate) enum Arrivals {
    /// A socket for each of the interface's queues.
    Xdp {
        receivers: Vec<xsk::Receiver>,
        /// Given back before the program goes, and its queues with it.
        _polled: Option<Polled>,
        _filter: Filter,
    },
    /// One for all.
    Packet(packet::Receiver),
}

/// Where frames leave.
#[derive(Debug)]
pub(crate) enum Transmitter {
    Xdp(xsk::Transmitter),
    Packet(packet::Transmitter),
    /// For tests, which have no interface.
    #[cfg(test)]
    Nowhere,
}

impl Device {
    /// Opens the interface for frames from these targets, over AF_XDP, else over AF_PACKET. The
    /// latter needs sources that are not this host's: the kernel would reset their connections.
    ///
    /// `large_replies` are taken behind the driver, in the pieces in which the server's TCP hands
    /// them down: a veth has TCP cut them into segments as long as a program is at the driver of
    /// its other end (`veth_xdp_set()` in the kernel), which no network card asks for.
    ///
    /// # Errors
    /// The step that failed with both, of which AF_XDP's is told.
    pub(crate) fn open(
        interface: &Interface,
        targets: &[SocketAddr],
        large_replies: bool,
        sources_are_foreign: impl FnOnce() -> bool,
    ) -> Result<Self, CrowdError> {
        let failure = match Self::open_xdp(interface, targets, large_replies) {
            Ok(device) => return Ok(device),
            Err(failure) => failure,
        };
        if sources_are_foreign()
            && let Ok((receiver, transmitter)) = packet::open(interface.index)
        {
            return Ok(Self {
                arrivals: Arrivals::Packet(receiver),
                transmitter: Transmitter::Packet(transmitter),
                driver: format!("AF_PACKET, since AF_XDP cannot {}: {}", failure.0, failure.1),
            });
        }
        let (step, source) = failure;
        Err(CrowdError::Device { interface: interface.name.clone(), step, source })
    }

    fn open_xdp(
        interface: &Interface,
        targets: &[SocketAddr],
        large_replies: bool,
    ) -> Result<Self, Failure> {
        let strangers = threads_of(&interface.name).unwrap_or_default();
        let filter = Filter::attach(interface, targets, !large_replies)?;
        let mut polled = None;
        if interface.is_veth && filter.native {
            // It is about whose time is spent, not about whether it works.
            polled = Polled::here(interface, &strangers).ok().flatten();
        }
        let mut receivers = Vec::new();
        let mut transmitter = None;
        for queue in 0..interface.receive_queues {
            // The driver may have fewer queues in use than it could have.
            let (receiver, sender) = match xsk::open(interface.index, queue, large_replies) {
                Ok(pair) => pair,
                Err((_, error)) if queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
                Err(failure) => return Err(failure),
            };
            filter.deliver(queue, receiver.descriptor())?;
            receivers.push(receiver);
            transmitter = transmitter.or(Some(sender));
        }
        let none = ("find a queue", io::ErrorKind::NotFound.into());
        let transmitter = Transmitter::Xdp(transmitter.ok_or(none)?);
        let carrier = Carrier::Xdp { native: filter.native, polled_here: polled.is_some() };
        let arrivals = Arrivals::Xdp { receivers, _polled: polled, _filter: filter };
        Ok(Self { arrivals, transmitter, driver: carrier.to_string() })
    }
}

impl Arrivals {
    /// Shows packets that have arrived, at most a batch of frames for each queue, and says how
    /// many frames.
    pub(crate) fn each(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        match self {
            Self::Packet(receiver) => receiver.each(show),
            Self::Xdp { receivers, .. } => {
                receivers.iter_mut().map(|receiver| receiver.each(&mut show)).sum()
            }
        }
    }

    /// Frames that arrived and found no room.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Self::Packet(receiver) => receiver.lost(),
            Self::Xdp { receivers, .. } => receivers.iter().map(xsk::Receiver::lost).sum(),
        }
    }

    /// What to wait on.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Packet(receiver) => vec![receiver.descriptor()],
            Self::Xdp { receivers, .. } => {
                receivers.iter().map(xsk::Receiver::descriptor).collect()
            }
        }
    }
}

impl Transmitter {
    /// Has a frame written and sends it, with the next flush at the latest; `write` says how long
    /// it has become. A device that stays full loses it.
    #[inline]
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut [u8; FRAME_BYTES]) -> usize) {
        match self {
            Self::Xdp(transmitter) => transmitter.send(write),
            Self::Packet(transmitter) => transmitter.send(write),
            #[cfg(test)]
            Self::Nowhere => {}
        }
    }

    /// Frames that found no room.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Self::Xdp(transmitter) => transmitter.lost,
            Self::Packet(transmitter) => transmitter.lost,
            #[cfg(test)]
            Self::Nowhere => 0,
        }
    }

    /// Has the kernel send what was written.
    pub(crate) fn flush(&mut self) {
        match self {
            Self::Xdp(transmitter) => transmitter.flush(),
            Self::Packet(transmitter) => transmitter.flush(),
            #[cfg(test)]
            Self::Nowhere => {}
        }
    }
}
