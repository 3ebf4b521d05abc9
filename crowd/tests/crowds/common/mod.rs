// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server and a crowd in namespaces of their own, with a cable between them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, Trace, run};
use tidegate_lab::{Link, Namespace};

pub mod wire;

/// On the cable, but nobody's: what is sent there is dropped in silence.
pub const NOBODY: &str = "10.0.0.9";
pub const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub struct Stage {
    pub server: Namespace,
    pub clients: Namespace,
    pub link: Link,
}

impl Stage {
    pub fn new() -> Self {
        let server = Namespace::new("raw-server").unwrap();
        let clients = Namespace::new("raw-clients").unwrap();
        let link = Link::between(&server, "srv0", &clients, "cli0").unwrap();
        for (end, addresses) in
            [(link.a(), ["10.0.0.1/24", "fd00::1/64"]), (link.b(), ["10.0.0.2/24", "fd00::2/64"])]
        {
            for address in addresses {
                end.add_address(address).unwrap();
            }
        }
        link.up().unwrap();
        let stage = Self { server, clients, link };
        let ours = stage.hardware_address(&stage.clients, "cli0");
        let theirs = stage.hardware_address(&stage.server, "srv0");
        for hop in ["10.0.0.2", "fd00::2"] {
            let words = format!("neighbor replace {hop} lladdr {ours} dev srv0 nud permanent");
            stage.server.ip(&words).unwrap();
        }
        let words = format!("neighbor replace {NOBODY} lladdr {theirs} dev cli0 nud permanent");
        stage.clients.ip(&words).unwrap();
        stage.link.a().add_route("10.128.0.0/16", Some("10.0.0.2")).unwrap();
        stage.link.a().add_route("fd80::/64", Some("fd00::2")).unwrap();
        stage
    }

    pub fn hardware_address(&self, namespace: &Namespace, end: &str) -> String {
        let file = format!("/sys/class/net/{end}/address");
        namespace.read_file(file).unwrap().trim().to_owned()
    }

    /// A server that does one thing with every connection, until its namespace ends.
    pub fn serve(&self, address: SocketAddr, treat: impl Fn(TcpStream) + Send + Clone + 'static) {
        let listener = self.server.run(move || TcpListener::bind(address).unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let treat = treat.clone();
                std::thread::spawn(move || treat(stream));
            }
        });
    }

    /// Waits until a crowd has the XDP of the clients' interface, or nobody any more.
    pub fn wait_for_xdp(&self, is_taken: bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.clients.ip("link show cli0").unwrap().contains("xdp") != is_taken {
            assert!(Instant::now() < deadline, "is XDP taken? It should be {is_taken}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a crowd from the clients' namespace.
    pub fn send(&self, plan: Plan) -> Outcome {
        let outcome = self.clients.thread(move || run(&plan).unwrap()).unwrap().join().unwrap();
        assert_eq!(outcome.attempts, outcome.replies + outcome.errors.total());
        outcome
    }
}

/// A raw crowd from addresses that nobody configured.
pub fn raw(target: &str, per_s: f64, class: Class) -> Plan {
    Plan {
        driver: Driver::Raw,
        targets: vec![target.parse().unwrap()],
        sources: vec!["10.128.0.0/16".parse().unwrap(), "fd80::/64".parse().unwrap()],
        load: Load::Constant { per_s },
        duration: Duration::from_secs(1),
        classes: vec![class],
        ..Plan::default()
    }
}

/// A raw crowd of so many starts within a second; whatever they take, all of it counts.
pub fn all_of(target: &str, starts: u64, class: Class) -> Plan {
    let times: Vec<String> = (0..starts).map(|n| (n as f64 / starts as f64).to_string()).collect();
    let load = Load::Trace { trace: Trace::parse(&times.join("\n")).unwrap(), per_s: None };
    // Less than a minute: at its end those of the first second are still in TIME-WAIT.
    Plan { load, duration: Duration::from_secs(50), ..raw(target, 1.0, class) }
}

/// Answers each request until the client closes.
pub fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count) = stream.read(&mut bytes) {
        let is_whole = bytes[..count].ends_with(b"\r\n\r\n");
        if count == 0 || !is_whole || stream.write_all(REPLY).is_err() {
            return;
        }
    }
}

/// Answers each request until the client closes, and notes the number that it asks for.
pub fn answer_noting(mut stream: TcpStream, asked: &Mutex<Vec<usize>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let request = String::from_utf8_lossy(&bytes[..count]);
        let place = request.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
        asked.lock().unwrap().push(place.unwrap().parse().unwrap());
        stream.write_all(REPLY).unwrap();
    }
}

/// Answers each request with 20,000 bytes in one write.
pub fn answer_at_length(mut stream: TcpStream) {
    let mut reply = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n".to_vec();
    reply.resize(reply.len() + 20_000, b'x');
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).is_ok_and(|count| bytes[..count].ends_with(b"\r\n\r\n")) {
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}

/// Answers one request and closes.
pub fn answer_once(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    if stream.read(&mut bytes).is_ok_and(|count| bytes[..count].ends_with(b"\r\n\r\n")) {
        let _ = stream.write_all(REPLY);
    }
}
