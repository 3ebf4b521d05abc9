// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that takes its time for each request, and crowds that send it more than it takes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, SockRef, Socket, Type};
use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{allowed_cpus, pin_thread};

use crate::stage::{CLIENT_V4, SERVER_V4, Stage};

/// What a request takes the server, asleep: others who use this machine make it no slower.
const REQUEST: Duration = Duration::from_millis(2);
/// No server that takes 2 ms a request takes more.
pub const MOST_PER_S: f64 = 500.0;
/// A listen queue that holds every burst of the stories.
pub const LONG_BACKLOG: u64 = 4096;

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), 80)
}

/// A server that accepts one connection after the other: what waits, waits in the listen queue.
pub struct Slow {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    /// One at the server's port 80.
    pub fn start(stage: &Stage, backlog: u64) -> Self {
        Self::start_at(stage, server(), backlog)
    }

    /// One at another address.
    pub fn start_at(stage: &Stage, at: SocketAddr, backlog: u64) -> Self {
        let listener: TcpListener = stage.server.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a TCP socket");
            socket.set_reuse_address(true).expect("SO_REUSEADDR");
            socket.bind(&at.into()).expect("a free port");
            socket.listen(backlog as i32).expect("a listening socket");
            socket.into()
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut one = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                if poll(&mut one, PollTimeout::from(10u8)).is_ok_and(|ready| ready > 0) {
                    serve(listener.accept().expect("a connection that waits").0);
                }
            }
            // As with `Stalled`: a program that is being started has it open yet.
            let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
        };
        Slow { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn serve(mut client: TcpStream) {
    std::thread::sleep(REQUEST);
    let mut request = [0; 1024];
    if client.read(&mut request).is_ok_and(|bytes| bytes > 0) {
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

/// A crowd of clients who wait for 20 s.
pub fn send(stage: &Stage, load: Load, lasts: Duration) -> Outcome {
    let patient = Class { timeout: Duration::from_secs(20), ..Class::default() };
    send_from(stage, patient, load, lasts)
}

/// A crowd of such clients.
pub fn send_from(stage: &Stage, class: Class, load: Load, lasts: Duration) -> Outcome {
    send_to(stage, &[SERVER_V4], class, load, lasts)
}

/// A crowd that goes to several addresses of the server's.
pub fn send_to(stage: &Stage, to: &[&str], class: Class, load: Load, lasts: Duration) -> Outcome {
    let target = |address: &&str| SocketAddr::new(address.parse().expect("an address"), 80);
    let plan = Plan {
        driver: Driver::Raw,
        targets: to.iter().map(target).collect(),
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load,
        duration: lasts,
        classes: vec![class],
        ..Plan::default()
    };
    let cpus = allowed_cpus().expect("processors");
    let cpu = cpus[cpus.len() - 1];
    let sent = stage.client.thread(move || {
        pin_thread(cpu).expect("a processor");
        run(&plan).expect("a crowd")
    });
    sent.expect("a thread").join().expect("an outcome")
}
