// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections on which the kernel itself answers requests for the one-packet page.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use nix::libc;
use nix::time::{ClockId, clock_gettime};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page.bpf.o"));
/// As in `page.bpf.c`.
const REPLY_MAX_BYTES: usize = 1448;
const BY_KERNEL: u64 = 1;

/// The programs, and what they know.
#[derive(Debug)]
pub(crate) struct InKernel {
    connections: MapHandle,
    answerers: MapHandle,
    counts: MapHandle,
    reply_bytes: u64,
    /// Replies counted until now.
    replies: u64,
    _object: Object,
    _pair: (UnixStream, UnixStream),
}

impl InKernel {
    /// Loads the programs, which answer with these bytes.
    pub(crate) fn answering(reply: &[u8]) -> io::Result<Self> {
        if reply.len() > REPLY_MAX_BYTES {
            return Err(io::Error::other("the reply does not fit one packet"));
        }
        // What libbpf prints is said again, shorter, by the error that is returned.
        libbpf_rs::set_print(None);
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .and_then(|object| object.load())
            .map_err(plain)?;
        let map = |name: &str| -> io::Result<MapHandle> {
            let mut maps = object.maps();
            let map = maps.find(|map| map.name() == name).ok_or(io::ErrorKind::NotFound)?;
            MapHandle::try_from(&map).map_err(plain)
        };
        let (connections, pair_out) = (map("connections")?, map("pair_out")?);
        for program in object.progs_mut() {
            let at = if program.name() == "ask" { &connections } else { &pair_out };
            program.attach_sockmap(at.as_fd().as_raw_fd()).map_err(plain)?;
        }
        let pair = UnixStream::pair()?;
        put(&map("pair_in")?, &0_u32.to_ne_bytes(), &pair.0)?;
        put(&pair_out, &0_u32.to_ne_bytes(), &pair.1)?;
        let mut page = Vec::from((reply.len() as u32).to_ne_bytes());
        page.extend_from_slice(reply);
        page.resize(size_of::<u32>() + REPLY_MAX_BYTES, 0);
        map("page")?.update(&0_u32.to_ne_bytes(), &page, MapFlags::ANY).map_err(plain)?;
        Ok(Self {
            connections,
            answerers: map("answerers")?,
            counts: map("counts")?,
            reply_bytes: reply.len() as u64,
            replies: 0,
            _object: object,
            _pair: pair,
        })
    }

    /// Lets the kernel answer on a connection that is at rest. Says whether it does: not if
    /// something has just arrived, which the server must answer first.
    pub(crate) fn hand_over(&self, stream: &impl AsFd) -> io::Result<bool> {
        let cookie = cookie(stream)?.to_ne_bytes();
        // Whatever arrives from here on names the server, if nobody is named.
        let _ = self.answerers.delete(&cookie);
        put(&self.connections, &cookie, stream)?;
        if has_input(stream) {
            return Ok(false);
        }
        let mut answerer = Vec::from(BY_KERNEL.to_ne_bytes());
        answerer.extend_from_slice(&monotonic_ns().to_ne_bytes());
        Ok(self.answerers.update(&cookie, &answerer, MapFlags::NO_EXIST).is_ok())
    }

    /// How long ago the kernel answered on a connection, if it does.
    pub(crate) fn silent_for(&self, stream: &impl AsFd) -> Option<Duration> {
        let key = cookie(stream).ok()?.to_ne_bytes();
        let answerer = self.answerers.lookup(&key, MapFlags::ANY).ok()??;
        let (who, last_ns) = (number(&answerer, 0)?, number(&answerer, 1)?);
        let silent_ns = monotonic_ns().saturating_sub(last_ns);
        (who == BY_KERNEL).then_some(Duration::from_nanos(silent_ns))
    }

    /// Forgets a connection that is about to be closed.
    pub(crate) fn forget(&self, stream: &impl AsFd) {
        if let Ok(cookie) = cookie(stream) {
            // It fails if it was never handed over.
            let _ = self.answerers.delete(&cookie.to_ne_bytes());
        }
    }

    /// Replies since the last time, and bytes of them.
    pub(crate) fn replies(&mut self) -> (u64, u64) {
        let count = self.counts.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let all = count.and_then(|count| number(&count, 0)).unwrap_or(self.replies);
        let new = all - self.replies;
        self.replies = all;
        (new, new * self.reply_bytes)
    }
}

/// Without what led to it: one line is wanted.
fn plain(error: libbpf_rs::Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn put(map: &MapHandle, key: &[u8], socket: &impl AsFd) -> io::Result<()> {
    let fd = u64::from(socket.as_fd().as_raw_fd().unsigned_abs());
    map.update(key, &fd.to_ne_bytes(), MapFlags::ANY).map_err(plain)
}

fn number(value: &[u8], index: usize) -> Option<u64> {
    let bytes = value.get(index * 8..index * 8 + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn cookie(socket: &impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which has as many.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if failed == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// Also when the client has closed its side, or the connection is broken.
fn has_input(socket: &impl AsFd) -> bool {
    let mut entry =
        libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one entry, which the kernel may write to.
    unsafe { libc::poll(&raw mut entry, 1, 0) != 0 }
}

fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs())
}
