// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The XDP program that hands the targets' segments to us, and its place on the interface.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};

use crate::raw::Failure;
use crate::raw::route::Interface;

/// The object that build.rs compiled, aligned as ELF wants it.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/replies.bpf.o")));

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// A crowd's program that is gone stands for a moment more where another thread has just forked: until its
/// child's exec() that has the link, too. One of somebody else's stays.
const TAKEN_MAX: Duration = Duration::from_millis(200);
const TAKEN_STEP: Duration = Duration::from_millis(2);

/// The program, loaded and attached. It leaves the interface with this object, and with the
/// process, however that ends: the link is a descriptor and nothing else holds it.
#[derive(Debug)]
pub(crate) struct Filter {
    sockets: MapHandle,
    _link: OwnedFd,
    _object: Object,
    /// Attached at the driver, rather than behind it (generic XDP).
    pub native: bool,
}

impl Filter {
    /// Loads and attaches the program, if `at_driver` at the driver where it has a place for it.
    /// Until [`Filter::deliver`], everything still passes.
    ///
    /// # Errors
    /// The step that failed.
    pub(crate) fn attach(
        interface: &Interface,
        targets: &[SocketAddr],
        at_driver: bool,
    ) -> Result<Self, Failure> {
        libbpf_rs::set_print(None);
        let object = open(interface.receive_queues)
            .and_then(OpenObject::load)
            .map_err(at("load the XDP program"))?;
        let sockets = map(&object, "sockets")?;
        let known = map(&object, "targets")?;
        for &target in targets {
            known
                .update(&key(target), &[1], MapFlags::ANY)
                .map_err(at("tell the XDP program its targets"))?;
        }
        let program = object.progs().find(|program| program.name() == "replies");
        let program = program.ok_or(("find the XDP program", io::ErrorKind::NotFound.into()))?;
        let deadline = Instant::now() + TAKEN_MAX;
        let link_in = |mode| link_by(deadline, program.as_fd(), interface.index, mode);
        let driver =
            at_driver.then(|| link_in(libbpf_sys::XDP_FLAGS_DRV_MODE)).and_then(Result::ok);
        let native = driver.is_some();
        let link = match driver {
            Some(link) => link,
            None => link_in(libbpf_sys::XDP_FLAGS_SKB_MODE)
                .map_err(|error| ("attach the XDP program", error))?,
        };
        Ok(Self { sockets, _link: link, _object: object, native })
    }

    /// Has the segments that arrive on a queue given to a socket.
    ///
    /// # Errors
    /// When the kernel refuses the socket, such as one bound to another queue.
    pub(crate) fn deliver(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Failure> {
        let socket = socket.as_raw_fd().cast_unsigned();
        self.sockets
            .update(&queue.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)
            .map_err(at("give the XDP program its socket"))
    }
}

/// The object, with a place for the socket of each queue: what arrives on a queue that has none
/// goes to the kernel.
fn open(queues: u32) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(&OBJECT.0)?;
    for mut map in object.maps_mut().filter(|map| map.name() == "sockets") {
        map.set_max_entries(queues)?;
    }
    Ok(object)
}

fn at(step: &'static str) -> impl Fn(libbpf_rs::Error) -> Failure {
    move |error| (step, io::Error::other(error))
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Failure> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or(("find the XDP program's maps", io::ErrorKind::NotFound.into()))?;
    MapHandle::try_from(&found).map_err(at("open the XDP program's maps"))
}

/// As `struct target` in bpf/replies.bpf.c: address, port and EtherType as the wire has them.
fn key(target: SocketAddr) -> [u8; 20] {
    let mut key = [0; 20];
    let protocol = match target.ip() {
        IpAddr::V4(address) => {
            key[..4].copy_from_slice(&address.octets());
            ETHERTYPE_IPV4
        }
        IpAddr::V6(address) => {
            key[..16].copy_from_slice(&address.octets());
            ETHERTYPE_IPV6
        }
    };
    key[16..18].copy_from_slice(&target.port().to_be_bytes());
    key[18..].copy_from_slice(&protocol.to_be_bytes());
    key
}

/// The link, as soon as the interface has a place for it; what keeps it after the deadline is the answer.
fn link_by(
    deadline: Instant,
    program: BorrowedFd<'_>,
    interface: u32,
    mode: u32,
) -> io::Result<OwnedFd> {
    loop {
        match link(program, interface, mode) {
            Err(error) if is_taken(&error) && Instant::now() < deadline => sleep(TAKEN_STEP),
            answer => return answer,
        }
    }
}

/// Whether another program is in the way: in this mode (EBUSY), or in the other (EEXIST).
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn link(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: all zero is the documented "no options" of this plain C structure.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { zeroed() };
    options.sz = size_of::<libbpf_sys::bpf_link_create_opts>() as _;
    options.flags = mode;
    // SAFETY: the descriptor is open and the options outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            interface.cast_signed(),
            libbpf_sys::BPF_XDP,
            &raw const options,
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a non-negative answer is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use tidegate_lab::{Namespace, skip_without_root};

    use super::*;
    use crate::raw::route::Kernel;

    /// Between fork() and exec() a child has whatever this process has open.
    #[test]
    fn a_crowds_place_is_the_next_ones_though_a_child_still_has_its_link() {
        const TEST: &str = "a_crowds_place_is_the_next_ones_though_a_child_still_has_its_link";
        if skip_without_root(TEST) {
            return;
        }
        let namespace = Namespace::new("filter").unwrap();
        namespace.ip("link add cli0 type veth peer name srv0").unwrap();
        for end in ["cli0", "srv0"] {
            namespace.ip(&format!("link set {end} up")).unwrap();
        }
        namespace.run(|| {
            let index = nix::net::if_::if_nametoindex("cli0").unwrap();
            let interface = Kernel::new().unwrap().interface(index).unwrap();
            // Of either mode, before one of either.
            for (first, next) in [(true, true), (true, false), (false, true), (false, false)] {
                let before = Filter::attach(&interface, &[], first).unwrap();
                let copy = before._link.try_clone().unwrap();
                drop(before);
                let child = std::thread::spawn(move || {
                    sleep(Duration::from_millis(20));
                    drop(copy);
                });
                let filter = Filter::attach(&interface, &[], next).unwrap();
                assert_eq!(filter.native, next, "at the driver? After one: {first}");
                child.join().unwrap();
            }
        });
    }

    #[test]
    fn there_is_a_place_for_each_queue() {
        for queues in [1, 64, 65, 1000] {
            let object = open(queues).unwrap();
            let sockets = object.maps().find(|map| map.name() == "sockets").unwrap();
            assert_eq!(sockets.max_entries(), queues);
        }
    }
}
