// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stock clients: a plain connect() with a request behind it, and curl.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};
use tidegate_lab::{Child, Namespace};

/// What a client saw of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// connect() still waits.
    Silence,
    /// ECONNREFUSED: a RST to the SYN.
    Refused,
    /// ECONNRESET: the handshake was done for this side, then a RST came.
    Reset,
    /// Connected, and since then nothing.
    Unanswered,
    /// An HTTP status.
    Status(u16),
}

/// A plain connection, or the attempt at one.
pub struct Plain {
    socket: Socket,
    begun: Instant,
    connected: bool,
    /// What connect() came to, where it came to an error.
    failed: Option<Answer>,
}

fn wait(socket: &Socket, for_what: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let patience = PollTimeout::try_from(left + Duration::from_millis(1)).expect("a short wait");
    let mut one = [PollFd::new(socket.as_fd(), for_what)];
    poll(&mut one, patience).is_ok_and(|ready| ready > 0)
}

fn answer_of(error: &std::io::Error) -> Answer {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Answer::Refused,
        Some(libc::ECONNRESET | libc::EPIPE) => Answer::Reset,
        _ => panic!("a client met an odd error: {error}"),
    }
}

impl Plain {
    /// connect() from `namespace`, at most for `patience`; `from` is the local port, or 0.
    pub fn connect(namespace: &Namespace, from: u16, to: SocketAddr, patience: Duration) -> Self {
        let socket = namespace.run(move || {
            Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a TCP socket")
        });
        if from != 0 {
            let any: IpAddr = match to {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            socket.set_reuse_address(true).expect("SO_REUSEADDR");
            socket.bind(&SocketAddr::new(any, from).into()).expect("a free local port");
        }
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        let begun = Instant::now();
        let mut plain = Plain { socket, begun, connected: false, failed: None };
        match plain.socket.connect(&to.into()) {
            Ok(()) => plain.connected = true,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                plain.finish(begun + patience)
            }
            Err(error) => plain.failed = Some(answer_of(&error)),
        }
        plain
    }

    fn finish(&mut self, until: Instant) {
        if !wait(&self.socket, PollFlags::POLLOUT, until) {
            return;
        }
        match self.socket.take_error().expect("SO_ERROR") {
            None => self.connected = true,
            Some(error) => self.failed = Some(answer_of(&error)),
        }
    }

    /// Is it connected, as far as this side knows?
    pub fn connected(&self) -> bool {
        self.connected
    }

    /// Sends a request and waits for what comes of it, at most for `patience`.
    pub fn request(&mut self, patience: Duration) -> Seen {
        let begun = Instant::now();
        let answer = match self.failed {
            Some(answer) => answer,
            None if !self.connected => Answer::Silence,
            None => self.exchange(begun + patience),
        };
        Seen { answer, after: begun.elapsed() }
    }

    fn exchange(&mut self, until: Instant) -> Answer {
        let request = b"GET / HTTP/1.1\r\nHost: tidegate\r\nConnection: close\r\n\r\n";
        if let Err(error) = self.socket.write_all(request) {
            return answer_of(&error);
        }
        self.listen(until)
    }

    /// Sends bytes, and waits for nothing.
    pub fn say(&self, bytes: &[u8]) {
        (&self.socket).write_all(bytes).expect("a connection with room to write");
    }

    /// Waits for a reply or a RST without sending anything.
    pub fn wait(&mut self, patience: Duration) -> Seen {
        let begun = Instant::now();
        let answer = self.failed.unwrap_or_else(|| self.listen(begun + patience));
        Seen { answer, after: begun.elapsed() }
    }

    fn listen(&mut self, until: Instant) -> Answer {
        let mut reply = Vec::new();
        loop {
            if !wait(&self.socket, PollFlags::POLLIN, until) {
                return Answer::Unanswered;
            }
            let mut part = [0; 4096];
            match self.socket.read(&mut part) {
                Ok(0) => break,
                Ok(bytes) => reply.extend_from_slice(&part[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return answer_of(&error),
            }
        }
        let text = String::from_utf8_lossy(&reply);
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        status.map_or(Answer::Unanswered, Answer::Status)
    }

    /// Ends the connection with a RST, so that its port is free at once. A close() would not do: of
    /// the stories told beside this one another may just be starting a program, which has all of our
    /// sockets open until its exec().
    pub fn discard(self) {
        rustix::net::connect_unspec(&self.socket).expect("a disconnected socket");
    }

    /// The connection itself.
    pub fn into_stream(self) -> TcpStream {
        self.socket.set_nonblocking(false).expect("no O_NONBLOCK");
        self.socket.into()
    }
}

/// An answer, and how long it took.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The answer.
    pub answer: Answer,
    /// Since the attempt began.
    pub after: Duration,
}

/// connect() and one request, at most for `patience` each: what a plain client sees.
pub fn fetch(namespace: &Namespace, to: SocketAddr, patience: Duration) -> Seen {
    let mut plain = Plain::connect(namespace, 0, to, patience);
    let begun = plain.begun;
    let answer = plain.request(patience).answer;
    plain.discard();
    Seen { answer, after: begun.elapsed() }
}

/// Connections that do nothing, as many as `places`; they wait to be accepted.
pub fn fill(namespace: &Namespace, to: SocketAddr, places: usize) -> Vec<Plain> {
    let one = |_| {
        let plain = Plain::connect(namespace, 0, to, Duration::from_secs(2));
        assert!(plain.connected(), "there should be {places} places at {to}");
        plain
    };
    (0..places).map(one).collect()
}

/// curl's exit codes.
pub const CURL_REFUSED: i32 = 7;
/// curl's exit codes.
pub const CURL_TIMEOUT: i32 = 28;
/// curl's exit codes.
pub const CURL_RESET: i32 = 56;

/// A running curl.
pub struct Curl {
    child: Child,
}

/// What curl came to.
#[derive(Debug, Clone)]
pub struct CurlSaw {
    /// Its exit code.
    pub code: Option<i32>,
    /// The HTTP status, 0 where there was none.
    pub status: u16,
    /// What it told of the connection.
    pub told: String,
}

impl CurlSaw {
    /// The same as a plain client's answer.
    pub fn answer(&self) -> Answer {
        // Where the RST to the ACK overtakes curl's look at its socket, it calls a reset a
        // failed connect (7), but names the error.
        let reset = self.told.contains("Connection reset by peer");
        match self.code {
            Some(0) => Answer::Status(self.status),
            Some(CURL_RESET | 55 | CURL_REFUSED) if reset => Answer::Reset,
            Some(CURL_REFUSED) if self.told.contains("Connection refused") => Answer::Refused,
            Some(CURL_TIMEOUT) if self.told.contains("Connected to") => Answer::Unanswered,
            Some(CURL_TIMEOUT) => Answer::Silence,
            _ => panic!("curl ended oddly: {self:?}"),
        }
    }
}

impl Curl {
    /// curl of the front page of `to`, at most for `patience`; `from` are its local ports.
    pub fn start(
        namespace: &Namespace,
        from: Option<&str>,
        to: SocketAddr,
        patience: Duration,
    ) -> Self {
        let seconds = patience.as_secs_f64();
        let mut command = namespace
            .command(&format!("curl -q -s -v -o /dev/null -w %{{http_code}} --max-time {seconds}"));
        if let Some(ports) = from {
            command.args(["--local-port", ports]);
        }
        command.args(["--noproxy", "*", "-g", &format!("http://{to}/")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Curl { child: namespace.spawn(command).expect("curl starts") }
    }

    /// Waits for its end.
    pub fn end(self) -> CurlSaw {
        let output = self.child.wait_with_output().expect("curl ends");
        CurlSaw {
            code: output.status.code(),
            status: String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0),
            told: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Holds back every segment but the SYN that leaves a namespace from these local ports: the
/// client is connected, the server's side stays half open. Dropping it lets them go.
pub struct Withheld {
    namespace: Namespace,
    table: String,
}

impl Withheld {
    /// Holds back what leaves from the ports `first` to `last`: outside those that the kernel gives
    /// to whoever asks for none (32768 to 60999), unless everyone is meant.
    pub fn from_ports(namespace: &Namespace, first: u16, last: u16) -> Self {
        let table = format!("withheld{first}");
        for words in [
            format!("add table inet {table}"),
            format!("add chain inet {table} out {{ type filter hook output priority 0; }}"),
            format!("add rule inet {table} out tcp sport {first}-{last} tcp flags & syn == 0 drop"),
        ] {
            let mut command = namespace.command("nft");
            command.arg(words);
            namespace.output(command).expect("nft holds packets back");
        }
        Withheld { namespace: namespace.clone(), table }
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let command = self.namespace.command(&format!("nft delete table inet {}", self.table));
        self.namespace.output(command).expect("nft lets packets go");
    }
}
