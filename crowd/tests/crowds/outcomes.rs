// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each way an attempt can end, against a real kernel, and that each is counted once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::answer_noting;
use socket2::{Domain, SockRef, Socket, Type};
use tidegate_crowd::{Browser, Browsing, Class, Close, Load, Outcome, Plan, run};

fn impatient() -> Class {
    Class { timeout: Duration::from_millis(300), ..Class::default() }
}

fn plan(target: SocketAddr) -> Plan {
    Plan {
        targets: vec![target],
        load: Load::Constant { per_s: 50.0 },
        duration: Duration::from_millis(200),
        classes: vec![Class::default()],
        ..Plan::default()
    }
}

/// A hundred starts: of times their median is told.
fn longer(target: SocketAddr) -> Plan {
    Plan { duration: Duration::from_secs(2), ..plan(target) }
}

fn sent(plan: &Plan) -> Outcome {
    let outcome = run(plan).unwrap();
    assert_eq!(outcome.attempts, outcome.replies + outcome.errors.total());
    outcome
}

/// A server that does one thing with every connection, until the process ends.
fn serve(treat: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(treat));
    address
}

/// A socket that holds its port, so that nobody else takes it, and does not listen yet.
fn bound(address: &str) -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&address.parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// SYNs that found no room at a listening socket: linux/sock_diag.h, SK_MEMINFO_DROPS.
fn dropped(listener: &Socket) -> u32 {
    let mut told = [0_u32; 9];
    let mut bytes = size_of_val(&told) as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as there are.
    let failed = unsafe {
        libc::getsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            told.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    assert_eq!(failed, 0, "SO_MEMINFO");
    told[8]
}

fn read_request(stream: &mut TcpStream) {
    let mut bytes = [0; 1024];
    assert!(stream.read(&mut bytes).unwrap() > 0);
}

fn answer(mut stream: TcpStream, reply: &[u8]) {
    read_request(&mut stream);
    stream.write_all(reply).unwrap();
    // The client closes: a server that closed first would leave the client less to do.
    let _ = stream.read(&mut [0]);
}

fn reset(stream: &TcpStream) {
    SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn replied() {
    let target = serve(|stream| answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let crowds = [Close::Fin, Close::Reset, Close::ClientClose].map(|close| {
        let plan = Plan {
            classes: vec![Class { close, ..Class::default() }],
            sources: vec!["127.0.0.2/31".parse().unwrap()],
            ..longer(target)
        };
        thread::spawn(move || sent(&plan))
    });
    for crowd in crowds {
        let outcome = crowd.join().unwrap();
        assert_eq!((outcome.attempts, outcome.replies), (100, 100));
        // The machine may be busy with others for a while, but not all the time.
        assert!(outcome.response_ms.p50 < 100.0, "{outcome:?}");
        assert!((20.0..=50.0).contains(&outcome.replies_per_s), "{outcome:?}");
    }
}

/// The last request asks the server to close, and the client waits for it to do so.
#[test]
fn closed_by_the_server() {
    let target = serve(|mut stream| {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(String::from_utf8_lossy(&bytes[..count]).contains("\r\nConnection: close\r\n"));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The client's end comes after the server's.
        assert_eq!(stream.read(&mut bytes).unwrap(), 0);
    });
    let classes = vec![Class { close: Close::Server, ..Class::default() }];
    let outcome = sent(&Plan { classes, ..plan(target) });
    assert_eq!((outcome.attempts, outcome.replies), (10, 10), "{outcome:?}");
}

#[test]
fn replied_with_an_error_status_or_nonsense() {
    let busy = serve(|stream| answer(stream, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(sent(&plan(busy)).errors.http_error, 10);
    let nonsense = serve(|stream| answer(stream, b"220 mail.example ESMTP\r\n"));
    assert_eq!(sent(&plan(nonsense)).errors.nonsense, 10);
}

/// A server that answers every request of a connection, until the client's side ends.
fn answer_all(mut stream: TcpStream, answered: &AtomicU32) {
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn replied_to_several_requests_of_one_connection() {
    static CONNECTIONS: AtomicU32 = AtomicU32::new(0);
    static ANSWERED: AtomicU32 = AtomicU32::new(0);
    let target = serve(|stream| {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        thread::spawn(|| answer_all(stream, &ANSWERED));
    });
    let several = || vec![Class { requests: 3.0, ..Class::default() }];
    let outcome = sent(&Plan { classes: several(), ..plan(target) });
    assert_eq!((outcome.attempts, outcome.replies), (10, 10));
    assert_eq!(CONNECTIONS.load(Ordering::Relaxed), 10);
    assert!(ANSWERED.load(Ordering::Relaxed) > 10);
    // A server that closes after each reply leaves those unserved that have more to ask.
    let once = serve(|stream| answer(stream, b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let outcome = sent(&Plan { classes: several(), ..plan(once) });
    assert!(outcome.errors.closed_early > 0);
    assert_eq!(outcome.replies + outcome.errors.closed_early, 10);
}

/// Files of different sizes are served in the mean that their shares have, however many of them a
/// connection asks for.
#[test]
fn no_two_attempts_ask_for_the_same_of_what_is_asked_in_turn() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let target = serve({
        let asked = asked.clone();
        move |stream| {
            let asked = asked.clone();
            thread::spawn(move || answer_noting(stream, &asked));
        }
    });
    let paths = (0..200).map(|place| format!("/{place}")).collect();
    let several = Class { requests: 3.0, paths, ..Class::default() };
    let outcome = sent(&Plan { classes: vec![several], ..plan(target) });
    assert_eq!((outcome.attempts, outcome.replies), (10, 10));
    let mut asked = asked.lock().unwrap().clone();
    asked.sort_unstable();
    assert!(asked.len() > 10);
    assert!(asked.iter().copied().eq(0..asked.len()), "{asked:?}");
}

#[test]
fn replied_after_a_half_close() {
    // It answers only when the client's side has ended, which a client that waits never does.
    let target = serve(|mut stream| {
        let mut request = Vec::new();
        stream.read_to_end(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let outcome = sent(&Plan {
        classes: vec![Class { close: Close::HalfClose, ..Class::default() }],
        ..plan(target)
    });
    assert_eq!((outcome.attempts, outcome.replies), (10, 10));
}

#[test]
fn refused_at_once() {
    let (_taken, target) = bound("127.0.0.1:0");
    let outcome = sent(&longer(target));
    assert_eq!(outcome.errors.refused, 100);
    assert!(outcome.refusal_ms.p50 < 10.0);
}

/// The first connection's SYN finds no room, and the second's nobody; the first one's next SYN is
/// answered.
#[test]
fn a_second_connection_that_is_refused_leaves_the_first_alone() {
    // At this address nobody else takes the port meanwhile. Backlog 0 holds one connection.
    let (full, target) = bound("127.0.0.9:0");
    full.listen(0).unwrap();
    let filling = TcpStream::connect(target).unwrap();
    thread::spawn(move || {
        while dropped(&full) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // The second connection comes after 250 ms, and the first one's next SYN after 1 s.
        drop((full, filling));
        thread::sleep(Duration::from_millis(600));
        let listener = TcpListener::bind(target).unwrap();
        let (stream, _) = listener.accept().unwrap();
        answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let page = Browsing { objects: 0, ..Browsing::with(Browser::named("chrome").unwrap()) };
    let timeout = Duration::from_secs(5);
    let outcome = sent(&Plan {
        load: Load::Constant { per_s: 5.0 },
        classes: vec![Class { timeout, browsing: Some(page), ..Class::default() }],
        ..plan(target)
    });
    let visits = outcome.visits.unwrap();
    assert_eq!((visits.started, visits.completed), (1, 1), "{outcome:?}");
    // The second came when counting was over.
    assert_eq!((outcome.replies, outcome.in_flight_max), (1, 2), "{outcome:?}");
}

#[test]
fn reset_after_connecting() {
    let target = serve(|mut stream| {
        read_request(&mut stream);
        reset(&stream);
    });
    assert_eq!(sent(&plan(target)).errors.reset, 10);
}

#[test]
fn closed_before_the_reply_was_whole() {
    let target = serve(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf").unwrap();
    });
    assert_eq!(sent(&plan(target)).errors.closed_early, 10);
}

#[test]
fn timed_out_in_the_queue_and_before_it() {
    // A listener that nobody accepts from: backlog 1 holds two connections, the rest get silence.
    let (listener, target) = bound("127.0.0.1:0");
    listener.listen(1).unwrap();
    let outcome = sent(&Plan { classes: vec![impatient()], ..plan(target) });
    assert_eq!(outcome.errors.timed_out(), 10);
    assert_eq!(outcome.errors.timed_out_waiting, 2);
}

#[test]
fn a_slow_server_does_not_slow_the_crowd() {
    let target = serve(|stream| {
        std::thread::sleep(Duration::from_millis(100));
        answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let outcome = sent(&Plan { classes: vec![impatient()], ..longer(target) });
    assert_eq!(outcome.attempts, 100, "starts do not wait for replies");
    // Ten a second until the last gives up, 300 ms after the last start.
    assert!(outcome.replies <= 25, "{outcome:?}");
    assert!(outcome.late_starts.p50_ms < 5.0, "{outcome:?}");
}

#[test]
fn a_closed_loop_waits_for_its_replies() {
    let target = serve(|stream| {
        std::thread::sleep(Duration::from_millis(10));
        answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let outcome = sent(&Plan { load: Load::Closed { clients: 2 }, ..plan(target) });
    assert_eq!(outcome.in_flight_max, 2);
    assert!(outcome.replies_per_s <= 110.0, "{outcome:?}");
}
