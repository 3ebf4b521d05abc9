// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application says by a socket option how its connections end, as docs/rst-fin.md has it; and
//! somebody else says it for an nginx that runs.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::libc;
use tidegate_tests::{
    Counted, Guard, Nginx, SERVER_V4, Stage, Stalled, bpf, closing, connections, fetch,
    listen_queue, set_option, skip_without_root, status, until,
};

const PORT: u16 = 80;
/// As the documentation gives it.
const SOCKET_CLOSE: i32 = 0x7467;
const RST_FIN: i32 = 1;

fn to() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), PORT)
}

fn say(socket: &impl AsRawFd, value: i32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, SOCKET_CLOSE, value)
}

/// A configuration file that is there as long as it is needed.
struct File(PathBuf);

impl File {
    fn new(stage: &Stage) -> Self {
        let name = format!("socket-option-{}.toml", stage.server.tid());
        let file = File(std::env::temp_dir().join(name));
        file.write(true);
        file
    }

    fn write(&self, socket_option: bool) {
        let text = format!(
            "socket_option = {socket_option}\n[[listener]]\nport = {PORT}\nmechanism = \"default\"\n"
        );
        std::fs::write(&self.0, text).expect("a configuration file");
    }

    fn guard(&self, stage: &Stage) -> Guard {
        Guard::start(&stage.server, &["--config", self.0.to_str().expect("UTF-8")])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A client comes, asks and goes; how the server's application then meets the end.
fn end_of_a_visit(stage: &Stage, listener: &Stalled) -> Option<ErrorKind> {
    let mut client = stage.client.run(|| TcpStream::connect(to())).expect("room");
    client.write_all(b"request").expect("a connection that stands");
    until("the connection waits", || listen_queue(&stage.server, to()) == 1);
    std::thread::sleep(Duration::from_millis(20));
    drop(client);
    let (mut stream, _) = listener.accept_all().pop().expect("it waits");
    stream.set_nonblocking(false).expect("a socket that blocks");
    let mut all = Vec::new();
    let end = stream.read_to_end(&mut all).err().map(|e| e.kind());
    assert_eq!(all, b"request");
    end
}

#[test]
fn an_application_ends_its_own_connections() {
    if skip_without_root("an_application_ends_its_own_connections") {
        return;
    }
    let stage = Stage::new("socket-option");
    let file = File::new(&stage);
    let guard = file.guard(&stage);
    let asks = Stalled::with(&stage.server, to(), 8, |socket| say(socket, RST_FIN).expect("said"));
    assert_eq!(end_of_a_visit(&stage, &asks), Some(ErrorKind::ConnectionReset));
    drop(asks);
    let silent = Stalled::new(&stage.server, to(), 8);
    assert_eq!(end_of_a_visit(&stage, &silent), None);
    drop(silent);

    // It stands without the daemon, and the next one takes it over with what was said.
    let asks = Stalled::with(&stage.server, to(), 8, |socket| say(socket, RST_FIN).expect("said"));
    guard.kill();
    assert_eq!(end_of_a_visit(&stage, &asks), Some(ErrorKind::ConnectionReset));
    let mut guard = file.guard(&stage);
    assert_eq!(end_of_a_visit(&stage, &asks), Some(ErrorKind::ConnectionReset));
    let attached = status(&stage.server)["attached"].to_string();
    assert!(attached.contains("socket-get") && attached.contains("socket-set"), "{attached}");
    assert_eq!(Counted::of(&stage.server).packets("FinEnds", "reset"), 3);

    // Not asked for any more: nobody answers, and what was said before stays said.
    file.write(false);
    guard.reload();
    let other = stage.server.run(|| std::net::TcpListener::bind((SERVER_V4, 0)).expect("a port"));
    let unknown = |answer: io::Result<()>| answer.unwrap_err().raw_os_error();
    assert_eq!(unknown(say(&other, RST_FIN)), Some(libc::ENOPROTOOPT));
    let attached = status(&stage.server)["attached"].to_string();
    assert!(!attached.contains("socket"), "{attached}");
    assert_eq!(end_of_a_visit(&stage, &asks), Some(ErrorKind::ConnectionReset));
    file.write(true);
    guard.reload();
    say(&other, RST_FIN).expect("it stands again");
    guard.stop();
    assert_eq!(unknown(say(&other, RST_FIN)), Some(libc::ENOPROTOOPT));
    assert_eq!(end_of_a_visit(&stage, &asks), None, "and nobody is there to carry it out");
}

/// A process's descriptor of ours, of a socket of its own (Linux 5.6).
fn taken_from(process: u32, fd: i32) -> Option<OwnedFd> {
    // SAFETY: no pointers are passed; the answers are fresh descriptors that nobody else owns.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, process, 0);
        assert!(pidfd >= 0, "{}", io::Error::last_os_error());
        let pidfd = OwnedFd::from_raw_fd(pidfd as i32);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0);
        (taken >= 0).then(|| OwnedFd::from_raw_fd(taken as i32))
    }
}

fn listens(socket: &OwnedFd) -> bool {
    let (mut accepts, mut bytes) = (0_i32, 4);
    // SAFETY: an open descriptor, and an integer of the length that is told.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut accepts).cast(),
            &raw mut bytes,
        )
    };
    done == 0 && accepts == 1
}

#[test]
fn it_can_be_said_for_an_nginx_that_runs() {
    if skip_without_root("it_can_be_said_for_an_nginx_that_runs") {
        return;
    }
    let stage = Stage::new("socket-option-nginx");
    let file = File::new(&stage);
    let guard = file.guard(&stage);
    let nginx = Nginx::start(&stage.server, &["80 backlog=8"]);
    // Somebody who asks for a page, and goes while nginx is busy elsewhere.
    let left_of_a_visit = || {
        nginx.freeze();
        let mut client = stage.client.run(|| TcpStream::connect(to())).expect("room");
        client.write_all(b"GET /megabyte HTTP/1.0\r\n\r\n").expect("a connection that stands");
        std::thread::sleep(Duration::from_millis(20));
        drop(client);
        let mut left = 0;
        until("the FIN has come, or the client is through", || {
            left = closing(&stage.server, PORT);
            left == 1 || connections(&stage.client) == 0
        });
        nginx.thaw();
        until("nginx is through with it", || closing(&stage.server, PORT) == 0);
        until("and its client is gone", || connections(&stage.client) == 0);
        left
    };
    assert_eq!(left_of_a_visit(), 1, "CLOSE-WAIT, and a megabyte for nobody");
    let sockets: Vec<OwnedFd> =
        (3..64).filter_map(|fd| taken_from(nginx.pid(), fd)).filter(listens).collect();
    assert_eq!(sockets.len(), 1, "nginx listens once");
    say(&sockets[0], RST_FIN).expect("said for it");
    assert_eq!(left_of_a_visit(), 0, "it ended at once");
    // And nginx goes on serving.
    let seen = fetch(&stage.client, to(), Duration::from_secs(2));
    assert_eq!(seen.answer, tidegate_tests::Answer::Status(200));
    guard.stop();
}

/// By `bpftool link detach`, say: its pin stays, and decides nothing.
#[test]
fn a_program_that_is_detached_from_the_cgroups_is_put_back() {
    if skip_without_root("a_program_that_is_detached_from_the_cgroups_is_put_back") {
        return;
    }
    let stage = Stage::new("detached");
    let file = File::new(&stage);
    let mut guard = file.guard(&stage);
    let socket = stage.server.run(|| std::net::TcpListener::bind((SERVER_V4, 0)).expect("a port"));
    say(&socket, RST_FIN).expect("it is heard");
    bpf::detach(&stage.server, "socket-set");
    let told = guard.complaint().expect("it says so");
    assert!(told.contains("a part of the guard away: it is put back"), "{told}");
    say(&socket, RST_FIN).expect("it is heard again");
    let attached = guard.status()["attached"].to_string();
    assert!(attached.contains("socket-set") && attached.contains("socket-get"), "{attached}");
    guard.stop();
}
