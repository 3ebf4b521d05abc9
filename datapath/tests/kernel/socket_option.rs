// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The private socket option by which an application says how its connections end: what the
//! kernel answers, and which FINs it changes. The programs stand at the root of this host's
//! cgroups, and mind only the sockets of one network namespace.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::common::Runner;
use crate::common::pair::Pair;
use crate::common::scene::*;
use libbpf_rs::{MapCore, MapFlags};
use tidegate_datapath::link::{self, Place};
use tidegate_datapath::raw::{TG_AS_CONFIGURED, TG_SOCKET_CLOSE};
use tidegate_lab::Namespace;
use tidegate_policy::raw::*;

const HALF_CLOSE: i32 = TG_HALF_CLOSE as i32;
const RST_FIN: i32 = TG_RST_FIN as i32;
const STRICT: i32 = TG_RST_FIN_STRICT as i32;

/// As an application would: setsockopt() with `bytes` of an int.
fn say_in(socket: &impl AsRawFd, value: i32, bytes: u32) -> io::Result<()> {
    let option = TG_SOCKET_CLOSE as i32;
    // SAFETY: an open socket, and an integer of at least the length that is told.
    let done = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value, bytes)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn say(socket: &impl AsRawFd, value: i32) -> io::Result<()> {
    say_in(socket, value, 4)
}

fn told(socket: &impl AsRawFd) -> io::Result<i32> {
    let (mut value, mut bytes) = (77_i32, 4);
    // SAFETY: an open socket, and an integer of the length that is told.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TG_SOCKET_CLOSE as i32,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    assert_eq!(bytes, 4);
    Ok(value)
}

fn errno<T: std::fmt::Debug>(answer: io::Result<T>) -> i32 {
    answer.unwrap_err().raw_os_error().unwrap()
}

/// Programs at the root of the cgroups, as long as it lives.
struct Standing {
    guards: Guards,
    _links: [OwnedFd; 2],
}

impl Standing {
    /// A guard over the port whose configuration says this of FINs.
    fn new(fin: u32) -> Self {
        let rules = tg_rules { fin, ..Default::default() };
        let guards = Guards::new(vec![guarded(None, ROOMY, rules)]);
        let map = guards.programs.map("watch_until_ns");
        map.update(&0u32.to_ne_bytes(), &[0; 8], MapFlags::ANY).unwrap();
        let links = [
            ("tidegate_setsockopt", Place::SetSocketOption),
            ("tidegate_getsockopt", Place::GetSocketOption),
        ]
        .map(|(program, place)| link::create(guards.program(program), program, place).unwrap());
        Standing { guards, _links: links }
    }

    /// What becomes of a bare FIN to this connection: reason and verdict, or nothing.
    fn judged(&self, pair: &Pair) -> Option<(&'static str, &'static str)> {
        let before = self.guards.counts();
        let program = self.guards.program(IP.program);
        Runner::new().run(program, &pair.fin().bytes(), &[]).unwrap();
        let counted = self.guards.counts().since(&before);
        assert!(counted.len() <= 1, "{counted:?}");
        counted.first().map(|(_, reason, verdict, _)| (*reason, *verdict))
    }
}

fn server() -> Server {
    Server::bound(at(V4, ROOMY), 128, true)
}

const ENDS: Option<(&str, &str)> = Some(("FinEnds", "reset"));

#[test]
fn an_option_that_nobody_answers_is_unknown() {
    in_a_namespace("an_option_that_nobody_answers_is_unknown", |_| {
        // Other namespaces may have a guard at this moment; this one has none.
        let Server { listener, .. } = &server();
        assert_eq!(errno(say(listener, RST_FIN)), libc::ENOPROTOOPT);
        assert_eq!(errno(told(listener)), libc::ENOPROTOOPT);
    });
}

#[test]
fn what_was_said_is_told() {
    in_a_namespace("what_was_said_is_told", |_| {
        let _standing = Standing::new(TG_HALF_CLOSE);
        let Server { listener, .. } = &server();
        assert_eq!(told(listener).unwrap(), TG_AS_CONFIGURED);
        for value in [RST_FIN, STRICT, HALF_CLOSE, TG_AS_CONFIGURED] {
            say(listener, value).unwrap();
            assert_eq!(told(listener).unwrap(), value);
        }
        for value in [-2, STRICT + 1, i32::MIN, i32::MAX] {
            assert_eq!(errno(say(listener, value)), libc::EINVAL, "{value}");
        }
        assert_eq!(errno(say_in(listener, RST_FIN, 2)), libc::EINVAL);
        assert_eq!(told(listener).unwrap(), TG_AS_CONFIGURED);
        // It is TCP's, and this namespace's.
        let datagrams = UdpSocket::bind((V4, 0)).unwrap();
        assert!(say(&datagrams, RST_FIN).is_err());
        let elsewhere = Namespace::new("elsewhere").unwrap();
        let other = elsewhere.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
        assert_eq!(errno(say(&other, RST_FIN)), libc::ENOPROTOOPT);
    });
}

/// Values that are longer than what programs are shown reach the kernel whole.
#[test]
fn other_options_are_as_they_were() {
    in_a_namespace("other_options_are_as_they_were", |_| {
        let _standing = Standing::new(TG_HALF_CLOSE);
        let Server { listener, .. } = &server();
        let mut name = vec![0_u8; 5000];
        name[..2].copy_from_slice(b"lo");
        // SAFETY: an open socket, and a buffer of the length that is told.
        let done = unsafe {
            libc::setsockopt(
                listener.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                name.as_ptr().cast(),
                name.len() as u32,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        let mut read = vec![0_u8; 5000];
        let mut bytes = read.len() as u32;
        // SAFETY: an open socket, and a buffer of the length that is told.
        let done = unsafe {
            libc::getsockopt(
                listener.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                read.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        assert_eq!((done, &read[..bytes as usize]), (0, &b"lo\0"[..]));
    });
}

/// Footnote 29 of Shukla's thesis: "the listening socket and all the sockets derived from it".
#[test]
fn connections_have_it_from_their_listening_socket() {
    in_a_namespace("connections_have_it_from_their_listening_socket", |_| {
        let standing = Standing::new(TG_HALF_CLOSE);
        let Server { listener, .. } = &server();
        let before = Pair::at(listener);
        assert_eq!(standing.judged(&before), None);
        say(listener, RST_FIN).unwrap();
        let after = Pair::at(listener);
        assert_eq!(told(&after.server).unwrap(), RST_FIN);
        assert_eq!(standing.judged(&after), ENDS);
        // Those that came in before are as they were, unless they are told so themselves.
        assert_eq!(standing.judged(&before), None);
        say(&before.server, STRICT).unwrap();
        assert_eq!(standing.judged(&before), ENDS);
        say(&after.server, TG_AS_CONFIGURED).unwrap();
        assert_eq!(standing.judged(&after), None);
        assert_eq!(told(listener).unwrap(), RST_FIN);
    });
}

#[test]
fn the_application_goes_before_the_configuration() {
    in_a_namespace("the_application_goes_before_the_configuration", |_| {
        let standing = Standing::new(TG_RST_FIN);
        let Server { listener, .. } = &server();
        assert_eq!(standing.judged(&Pair::at(listener)), ENDS);
        say(listener, HALF_CLOSE).unwrap();
        assert_eq!(standing.judged(&Pair::at(listener)), Some(("FinHalfClose", "pass")));
        say(listener, TG_AS_CONFIGURED).unwrap();
        assert_eq!(standing.judged(&Pair::at(listener)), ENDS);
    });
}

/// Each socket of a SO_REUSEPORT group speaks for itself.
#[test]
fn members_of_a_group_speak_for_themselves() {
    in_a_namespace("members_of_a_group_speak_for_themselves", |_| {
        let standing = Standing::new(TG_HALF_CLOSE);
        let (first, second) = (server(), server());
        let (first, second) = (&first.listener, &second.listener);
        say(first, RST_FIN).unwrap();
        first.set_nonblocking(true).unwrap();
        let mut came_to = [0, 0];
        for _ in 0..40 {
            let client = connect(at(V4, ROOMY));
            // The handshake over loopback is done when connect() returns.
            let (at, server) = match first.accept() {
                Ok((server, _)) => (0, server),
                Err(_) => (1, second.accept().unwrap().0),
            };
            came_to[at] += 1;
            let mut pair = Pair { client, server, expected: 0, next: 0 };
            pair.look();
            assert_eq!(standing.judged(&pair), if at == 0 { ENDS } else { None });
        }
        assert!(came_to.iter().all(|count| *count > 0), "{came_to:?}");
    });
}
