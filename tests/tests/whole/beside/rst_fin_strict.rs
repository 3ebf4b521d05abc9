// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The strict form of rst-fin loses nothing: every byte that a client sent is read, and every byte
//! that was written before the FIN came arrives. Connections of every length, closed by their
//! clients at any moment, many at once.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tidegate_lab::Namespace;
use tidegate_tests::{Counted, Guard, SERVER_V4, Stage, skip_without_root};

const PORT: u16 = 80;
const PATIENCE: Duration = Duration::from_secs(20);
const SERVERS: usize = 8;
const CLIENTS: usize = 8;

/// xorshift64* (Vigna 2016).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32) % bound
    }
}

/// What a connection carries both ways: a number that names it, and lengths.
#[derive(Debug, Clone, Copy)]
struct Errand {
    name: u32,
    up_bytes: u32,
    down_bytes: u32,
}

impl Errand {
    fn drawn(chance: &mut Chance) -> Self {
        let up_bytes = if chance.below(4) == 0 { chance.below(40_000) } else { chance.below(600) };
        let down_bytes = match chance.below(4) {
            0 => 0,
            1 => chance.below(60_000),
            _ => chance.below(1500),
        };
        Errand { name: chance.below(u32::MAX), up_bytes, down_bytes }
    }

    fn header(&self) -> [u8; 12] {
        let mut header = [0; 12];
        header[..4].copy_from_slice(&self.name.to_be_bytes());
        header[4..8].copy_from_slice(&self.up_bytes.to_be_bytes());
        header[8..].copy_from_slice(&self.down_bytes.to_be_bytes());
        header
    }

    fn of(header: [u8; 12]) -> Self {
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
        Errand { name: word(0), up_bytes: word(4), down_bytes: word(8) }
    }

    /// What stands at each place is this connection's alone.
    fn bytes(&self, count: u32) -> Vec<u8> {
        (0..count).map(|at| (self.name.wrapping_mul(31).wrapping_add(at * 7) >> 3) as u8).collect()
    }
}

/// What was lost, in bytes, and what the server's application met.
#[derive(Default)]
struct Tally {
    lost_up: AtomicU64,
    lost_down: AtomicU64,
    reset: AtomicU64,
    closed: AtomicU64,
}

/// Reads to the end, whatever it is, and tells whether it was a RST.
fn drain(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    match stream.read_to_end(into) {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        Err(error) => panic!("an odd end: {error}"),
    }
}

fn serve(mut stream: TcpStream, tally: &Tally) {
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    let mut header = [0; 12];
    stream.read_exact(&mut header).expect("what was sent can be read");
    let errand = Errand::of(header);
    if errand.down_bytes > 0 {
        // Who is gone by now has closed without waiting, and wants none of it.
        let _ = stream.write_all(&errand.bytes(errand.down_bytes));
    }
    let mut up = Vec::new();
    let was_reset = drain(&mut stream, &mut up);
    let sent = errand.bytes(errand.up_bytes);
    assert!(sent.starts_with(&up), "other bytes than were sent");
    tally.lost_up.fetch_add((sent.len() - up.len()) as u64, Relaxed);
    if was_reset { &tally.reset } else { &tally.closed }.fetch_add(1, Relaxed);
}

/// A client, which closes first: after its upload, after the reply, or, for half of it, while the
/// reply is still coming in.
fn visit(errand: Errand, chance: &mut Chance, to: SocketAddr, tally: &Tally) {
    let mut stream = TcpStream::connect(to).expect("room");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream.set_nodelay(true).expect("an option");
    stream.write_all(&errand.header()).expect("a server that reads");
    stream.write_all(&errand.bytes(errand.up_bytes)).expect("a server that reads");
    if errand.down_bytes == 0 {
        return;
    }
    // It has begun, and so it is all written: nothing that comes later can be missed.
    let mut down = vec![0];
    stream.read_exact(&mut down).expect("the reply");
    if chance.below(2) == 0 {
        stream.shutdown(Shutdown::Write).expect("half of it");
        drain(&mut stream, &mut down);
    } else {
        down.resize(errand.down_bytes as usize, 0);
        stream.read_exact(&mut down[1..]).expect("the reply");
    }
    let written = errand.bytes(errand.down_bytes);
    assert!(written.starts_with(&down), "other bytes than were written");
    tally.lost_down.fetch_add((written.len() - down.len()) as u64, Relaxed);
}

fn start_servers(namespace: &Namespace, to: SocketAddr, tally: &Arc<Tally>) {
    let listener = namespace.run(move || TcpListener::bind(to).expect("a free port"));
    let listener = Arc::new(listener);
    for _ in 0..SERVERS {
        let (listener, tally) = (listener.clone(), tally.clone());
        namespace
            .thread(move || {
                while let Ok((stream, _)) = listener.accept() {
                    serve(stream, &tally);
                }
            })
            .expect("a thread");
    }
}

/// So many connections under a rule: what was lost, and what was counted.
fn run(label: &str, fin: &str, count: usize) -> (Arc<Tally>, Counted) {
    let stage = Stage::new(label);
    for (key, value) in [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")] {
        stage.client.sysctl(&format!("net.ipv4.{key}"), value).expect("a sysctl");
    }
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), PORT);
    let tally = Arc::new(Tally::default());
    start_servers(&stage.server, to, &tally);
    let port = PORT.to_string();
    let arguments = ["--port", &port, "--mechanism", "default", "--fin", fin, "--hook", "ip"];
    let guard = Guard::start(&stage.server, &arguments);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|i| {
            let tally = tally.clone();
            let work = move || {
                let mut chance = Chance(0x7274_6669 + i as u64);
                for _ in (i..count).step_by(CLIENTS) {
                    let errand = Errand::drawn(&mut chance);
                    visit(errand, &mut chance, to, &tally);
                }
            };
            stage.client.thread(work).expect("a thread")
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client that met nothing odd"));
    tidegate_tests::until("the server is through with all of them", || {
        tally.reset.load(Relaxed) + tally.closed.load(Relaxed) == count as u64
    });
    let counted = Counted::of(&stage.server);
    guard.stop();
    (tally, counted)
}

fn loses_nothing(label: &str, count: usize) {
    let (tally, counted) = run(label, "rst-fin strict", count);
    let [reset, closed] = [&tally.reset, &tally.closed].map(|n| n.load(Relaxed));
    println!("{count} connections: {reset} met a RST, {closed} a FIN\n{counted}");
    assert_eq!(tally.lost_up.load(Relaxed), 0, "bytes of clients");
    assert_eq!(tally.lost_down.load(Relaxed), 0, "bytes of the server");
    // It did both, or it would have shown nothing.
    let ended = counted.packets("FinEnds", "reset");
    assert!(ended == reset && reset > count as u64 / 20, "{ended} ended");
    assert!(closed > 0, "none was left alone");
    let left_alone: u64 = ["FinUnread", "FinUnacked", "FinOutOfOrder", "FinWithData"]
        .map(|reason| counted.packets(reason, "pass"))
        .iter()
        .sum();
    assert!(left_alone > 0, "{counted}");
}

#[test]
fn strictly_no_byte_is_lost() {
    if skip_without_root("strictly_no_byte_is_lost") {
        return;
    }
    loses_nothing("strict", 30_000);
}

/// A reply that is written at once and not sent, for its client takes in little at a time; the
/// client closes half and reads on. What it then gets of so many bytes.
fn read_after_half_a_close(fin: &str, bytes: usize) -> usize {
    let stage = Stage::new("rst-fin-unsent");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), PORT);
    let listener = stage.server.run(move || TcpListener::bind(to).expect("a free port"));
    let port = PORT.to_string();
    let arguments = ["--port", &port, "--mechanism", "default", "--fin", fin, "--hook", "ip"];
    let guard = Guard::start(&stage.server, &arguments);
    let client = stage.client.run(move || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(8192).expect("an option");
        socket.connect(&to.into()).expect("room");
        socket
    });
    let (stream, _) = listener.accept().expect("a connection");
    let mut server = Socket::from(stream);
    server.set_send_buffer_size(2 * bytes).expect("an option");
    server.set_nonblocking(true).expect("an option");
    server.write_all(&vec![b'r'; bytes]).expect("room for all of it");
    let serving = std::thread::spawn(move || {
        server.set_nonblocking(false).expect("an option");
        let _ = server.read(&mut [0]);
    });
    let mut client = TcpStream::from(client);
    client.set_read_timeout(Some(PATIENCE)).expect("an option");
    let mut read = vec![0];
    client.read_exact(&mut read).expect("it has begun");
    client.shutdown(Shutdown::Write).expect("half of it");
    drain(&mut client, &mut read);
    serving.join().expect("a server that ends");
    guard.stop();
    read.len()
}

/// What strictness is: nothing of what is on its way is given up.
#[test]
fn what_was_written_and_not_sent_is_lost_plainly_and_not_strictly() {
    if skip_without_root("what_was_written_and_not_sent_is_lost_plainly_and_not_strictly") {
        return;
    }
    const BYTES: usize = 200_000;
    assert_eq!(read_after_half_a_close("rst-fin strict", BYTES), BYTES);
    assert_eq!(read_after_half_a_close("half-close", BYTES), BYTES);
    let read = read_after_half_a_close("rst-fin", BYTES);
    assert!(read < BYTES / 2, "{read} bytes");
}

/// Minutes.
#[test]
#[ignore = "a million connections take minutes"]
fn strictly_no_byte_is_lost_in_a_million_connections() {
    if skip_without_root("strictly_no_byte_is_lost_in_a_million_connections") {
        return;
    }
    loses_nothing("strict-million", 1_000_000);
}
