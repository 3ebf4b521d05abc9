// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client and a server with a router between them, which counts what passes and may take our
//! option out of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tidegate_lab::Namespace;

use crate::chain::Chain;
use crate::closers::{AFAR, First, close_first_from, serve_closers};
use crate::tidegate::Guard;
use crate::waits::{FIRST_PORT, count, guard, time_wait};

/// A port of the server's that no guard knows.
pub const TODAY: u16 = 80;
/// Ports for which the server names the client, once it is guarded: closers' and an HTTP server's.
pub const NAMES_CLIENT: u16 = 81;
/// The other of the two.
pub const NAMES_CLIENT_HTTP: u16 = 8081;
/// A port for which the server names itself.
pub const NAMES_SERVER: u16 = 82;

/// A second address of the server's: there, clients name it and insist.
const INSISTED: [u8; 4] = [10, 80, 1, 3];

/// What the router counts of the TCP segments that it forwards, behind what it takes out of them.
#[derive(Debug, Clone, Copy)]
pub enum Passed {
    /// All of them.
    Segments,
    /// SYNs with our option.
    NamedSyn,
    /// SYN/ACKs with our option.
    NamedSynAck,
    /// Others with our option.
    NamedAck,
    /// RSTs.
    Resets,
}

impl Passed {
    fn counter(self) -> &'static str {
        match self {
            Passed::Segments => "segments",
            Passed::NamedSyn => "named_syn",
            Passed::NamedSynAck => "named_syn_ack",
            Passed::NamedAck => "named_ack",
            Passed::Resets => "resets",
        }
    }
}

const COUNTING: &str = "table inet wire {
counter segments {}
counter named_syn {}
counter named_syn_ack {}
counter named_ack {}
counter resets {}
chain c {
type filter hook forward priority 10
meta l4proto tcp counter name segments
tcp flags & (syn | ack) == syn tcp option 253 exists counter name named_syn
tcp flags & (syn | ack) == (syn | ack) tcp option 253 exists counter name named_syn_ack
tcp flags & (syn | ack) == ack tcp option 253 exists counter name named_ack
tcp flags & rst == rst counter name resets
}
}
";

/// Connections of one story, by their clients' ports.
pub struct Visited(Range<u16>);

/// What a host counted of the ends of connections since.
pub struct Tally {
    namespace: Namespace,
    before: Value,
}

impl Tally {
    /// From now on.
    pub fn of(namespace: &Namespace) -> Self {
        Tally { namespace: namespace.clone(), before: time_wait(namespace) }
    }

    /// So many of this kind.
    pub fn since(&self, name: &str) -> u64 {
        count(&time_wait(&self.namespace), name) - count(&self.before, name)
    }
}

/// What is seen where nothing of ours runs.
pub struct AsToday {
    /// In TIME-WAIT at the server, and at the client.
    pub waits: (u64, u64),
    /// SYNs, SYN/ACKs and ACKs that name an end.
    pub named: [u64; 3],
    /// RSTs that passed.
    pub resets: u64,
    /// Segments of a connection.
    pub length: u64,
}

/// The three of them, over IPv4.
pub struct Routed {
    chain: Chain,
    server: Option<Guard>,
    client: Option<Guard>,
    visited: u16,
    away: Duration,
}

impl Routed {
    /// As it is today: nobody negotiates, and who listens on [`TODAY`] closes as asked.
    pub fn new(label: &str) -> Self {
        let chain = Chain::new(label, 1);
        rules(chain.router(0), COUNTING);
        let [a, b, c, d] = INSISTED;
        chain.server().ip(&format!("addr add {a}.{b}.{c}.{d}/32 dev lo")).expect("an address");
        serve_closers(chain.server(), TODAY);
        Routed { chain, server: None, client: None, visited: 0, away: Duration::ZERO }
    }

    /// From now on the client is far enough away that its RST finds the server's TIME-WAIT.
    pub fn client_afar(&mut self) {
        self.away = AFAR;
    }

    /// The client's host.
    pub fn client(&self) -> &Namespace {
        self.chain.client()
    }

    /// The server's host.
    pub fn server(&self) -> &Namespace {
        self.chain.server()
    }

    /// The server, on a port: the client names itself.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.chain.server_address(), port)
    }

    /// The server, where the client names it and insists.
    pub fn insisted(&self, port: u16) -> SocketAddr {
        SocketAddr::from((INSISTED, port))
    }

    /// Guards the server, where nothing stands there yet or a daemon was killed.
    pub fn guard_server(&mut self) {
        let listeners =
            [(NAMES_CLIENT, "client"), (NAMES_CLIENT_HTTP, "client"), (NAMES_SERVER, "server")];
        let listeners = listeners.map(|(port, holder)| {
            format!(
                "[[listener]]\nport = {port}\nmechanism = \"default\"\ntime_wait = \"{holder}\"\n"
            )
        });
        self.server = Some(guard(self.chain.server(), &listeners.concat()));
    }

    /// Serves on both closers' ports that are negotiated for; once they are guarded, so that the
    /// sockets ask about their SYN/ACKs at once.
    pub fn serve(&self) {
        for port in [NAMES_CLIENT, NAMES_SERVER] {
            serve_closers(self.chain.server(), port);
        }
    }

    /// Has the client follow these lines of `[time_wait]`.
    pub fn guard_client(&mut self, lines: &str) {
        self.client = Some(guard(self.chain.client(), &format!("[time_wait]\n{lines}\n")));
    }

    /// Guards both. The client names itself, and insists or not; the server at its second address,
    /// and insists.
    pub fn negotiate(&mut self, insist: bool) {
        self.guard_server();
        self.serve();
        let [a, b, c, d] = INSISTED;
        self.guard_client(&format!(
            "negotiate = \"client\"\ninsist = {insist}\n[[destination]]\n\
             network = \"{a}.{b}.{c}.{d}/32\"\nnegotiate = \"server\"\ninsist = true"
        ));
    }

    /// `kill -9` of the server's daemon.
    pub fn kill_server(&mut self) {
        self.server.take().expect("a guarded server").kill();
    }

    /// Has the router take our option out of the segments with these of SYN and ACK, as nft writes it.
    pub fn strip(&self, flags: &str) {
        let table = format!(
            "table inet strip\ndelete table inet strip\ntable inet strip {{\nchain c {{\n\
             type filter hook forward priority -10\n\
             tcp flags & (syn | ack) == {flags} reset tcp option 253\n}}\n}}\n"
        );
        rules(self.chain.router(0), &table);
    }

    /// One connection from a port that none had before; an error is connect()'s.
    pub fn visit(&mut self, to: SocketAddr, first: First) -> std::io::Result<()> {
        let from = self.chain.client().clone();
        self.visit_from(&from, self.chain.client_address(), to, first)
    }

    fn visit_from(
        &mut self,
        from: &Namespace,
        own: IpAddr,
        to: SocketAddr,
        first: First,
    ) -> std::io::Result<()> {
        let own = SocketAddr::new(own, FIRST_PORT + self.visited);
        self.visited += 1;
        let away = self.away;
        from.run(move || close_first_from(own, away, to, first))
    }

    /// So many of them, all of which connect.
    pub fn visits(&mut self, to: SocketAddr, count: u16, first: impl Fn(u16) -> First) -> Visited {
        let from = FIRST_PORT + self.visited;
        for i in 0..count {
            let first = first(i);
            self.visit(to, first).unwrap_or_else(|e| panic!("connection {i}, {first:?}: {e}"));
        }
        Visited(from..FIRST_PORT + self.visited)
    }

    /// The same from the router, a host where nothing of ours runs.
    pub fn strangers(&mut self, port: u16, count: u16, first: impl Fn(u16) -> First) -> Visited {
        let from = FIRST_PORT + self.visited;
        let router = self.chain.router(0).clone();
        let (own, to) = (self.chain.router_address(), self.at(port));
        for i in 0..count {
            self.visit_from(&router, own, to, first(i)).expect("a connection");
        }
        Visited(from..FIRST_PORT + self.visited)
    }

    /// How many segments a connection takes that closes so: most of twenty, for on a busy machine
    /// some are sent again.
    pub fn usual_length(&mut self, to: SocketAddr, first: First) -> u64 {
        let mut lengths = BTreeMap::new();
        for _ in 0..20 {
            let before = self.passed(Passed::Segments);
            self.visit(to, first).expect("a connection");
            // The last of them are under way when the programs are done.
            sleep(Duration::from_millis(2));
            *lengths.entry(self.passed(Passed::Segments) - before).or_insert(0) += 1;
        }
        let most = lengths.iter().max_by_key(|(_, times)| **times);
        *most.expect("twenty connections").0
    }

    /// The lines of an HTTP server's reply, which closes first, but for the one that tells the time.
    pub fn reply(&self, port: u16) -> Vec<String> {
        let (to, away) = (self.at(port), self.away);
        let reply = self.chain.client().run(move || {
            let mut stream = TcpStream::connect(to).expect("a connection");
            let request = b"GET / HTTP/1.1\r\nHost: tidegate\r\nConnection: close\r\n\r\n";
            stream.write_all(request).expect("a server that reads");
            let mut reply = String::new();
            stream.read_to_string(&mut reply).expect("the whole of it, and then the end");
            sleep(away);
            reply
        });
        reply.lines().filter(|line| !line.starts_with("Date:")).map(str::to_owned).collect()
    }

    /// What the router counted so far.
    pub fn passed(&self, what: Passed) -> u64 {
        let command = format!("nft list counter inet wire {}", what.counter());
        let router = self.chain.router(0);
        let listed = router.output(router.command(&command)).expect("a counter");
        let mut words = listed.split_whitespace();
        words.find(|word| *word == "packets");
        words.next().and_then(|count| count.parse().ok()).expect("a number of packets")
    }

    /// SYNs, SYN/ACKs and ACKs so far that name an end.
    pub fn named(&self) -> [u64; 3] {
        [Passed::NamedSyn, Passed::NamedSynAck, Passed::NamedAck].map(|what| self.passed(what))
    }

    /// How it is before anything is guarded, of so many connections that the server closes first.
    pub fn as_today(&mut self, visits: u16) -> AsToday {
        let to = self.at(TODAY);
        let visited = self.visits(to, visits, |_| First::Server);
        let length = self.usual_length(to, First::Server);
        let (waits, resets) = (self.waits(&visited), self.passed(Passed::Resets));
        AsToday { waits, named: self.named(), resets, length }
    }

    /// Of these connections, those that the kernel holds in TIME-WAIT: the server's and the client's,
    /// or the router's, whoever made them.
    pub fn waits(&self, of: &Visited) -> (u64, u64) {
        let hosts = [self.server(), self.client(), self.chain.router(0)];
        let [server, client, router] = hosts.map(|host| in_time_wait(host, of));
        (server, client + router)
    }

    /// Stops the guards.
    pub fn stop(self) {
        self.server.into_iter().chain(self.client).for_each(Guard::stop);
    }
}

fn in_time_wait(host: &Namespace, of: &Visited) -> u64 {
    let rows = host.output(host.command("ss -Htn state time-wait")).expect("ss");
    let port = |end: &str| end.rsplit(':').next().and_then(|port| port.parse().ok());
    let is_of = |row: &&str| {
        let mut ends = row.split_whitespace().rev().take(2).filter_map(port);
        ends.any(|port: u16| of.0.contains(&port))
    };
    rows.lines().filter(is_of).count() as u64
}

fn rules(router: &Namespace, table: &str) {
    router.place_file("/run/router.nft", table.to_owned()).expect("a file");
    router.output(router.command("nft -f /run/router.nft")).expect("nft takes it");
}
