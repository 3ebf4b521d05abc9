// SPDX-License-Identifier: Apache-2.0 OR MIT
//! rst-fin: a client that has gone is no more work. Real clients, a real server's sockets, tidegate
//! as an operator runs it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_tests::wire::{ACK, FIN, HalfOpen, ISN, RST, TSVAL, usual_options};
use tidegate_tests::{
    Counted, Guard, SERVER_V4, SERVER_V6, Stage, Stalled, closing, connections, listen_queue,
    run_to_end, skip_without_root, until,
};

const PORT: u16 = 80;
const NEIGHBOUR: u16 = 81;
const UNGUARDED: u16 = 82;
const PATIENCE: Duration = Duration::from_secs(5);

fn server(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// tidegate over the port with this rule, and over its neighbour without.
fn guard(stage: &Stage, fin: &str) -> Guard {
    let path = std::env::temp_dir().join(format!("rst-fin-{}.toml", stage.server.tid()));
    let text = format!(
        "[[listener]]\nport = {PORT}\nmechanism = \"default\"\nfin = \"{fin}\"\n\
         [[listener]]\nport = {NEIGHBOUR}\nmechanism = \"default\"\n"
    );
    std::fs::write(&path, text).expect("a configuration file");
    let name = path.to_str().expect("UTF-8");
    let checked = run_to_end(&stage.server, &["check", "--config", name]);
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(told.contains(&format!("* port {PORT}: default {fin} at auto")), "{told}");
    assert!(told.contains(&format!("* port {NEIGHBOUR}: default at auto")), "{told}");
    let guard = Guard::try_start(&stage.server, &["--config", name]);
    std::fs::remove_file(&path).expect("the configuration file");
    guard.unwrap_or_else(|refused| panic!("{}", refused.stderr))
}

fn connect(stage: &Stage, to: SocketAddr) -> TcpStream {
    let stream = stage.client.run(move || TcpStream::connect(to)).expect("room");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream
}

fn accept(listener: &Stalled) -> TcpStream {
    let mut one = None;
    until("a connection to accept", || {
        one = listener.accept_all().pop();
        one.is_some()
    });
    let (stream, _) = one.expect("it came");
    stream.set_nonblocking(false).expect("a socket that blocks");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream
}

/// What the server's application meets: everything that it can read, and how that ends.
fn read_out(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut all = Vec::new();
    let end = stream.read_to_end(&mut all).err().map(|e| e.kind());
    (all, end)
}

/// A request, and then nobody any more (Shukla, Figure 4.11), while the server is busy elsewhere.
fn visit(stage: &Stage, listener: &Stalled, to: SocketAddr) -> (TcpStream, usize) {
    let before = connections(&stage.client);
    let mut client = connect(stage, to);
    client.write_all(b"request").expect("a connection that stands");
    until("the connection waits", || listen_queue(&stage.server, to) == 1);
    // The request has come up before the FIN follows.
    std::thread::sleep(Duration::from_millis(20));
    drop(client);
    let mut left = 0;
    until("the FIN has come, or the client is through", || {
        left = closing(&stage.server, to.port());
        left == 1 || connections(&stage.client) == before
    });
    (accept(listener), left)
}

#[test]
fn the_server_stops_working_for_a_client_that_has_gone() {
    if skip_without_root("the_server_stops_working_for_a_client_that_has_gone") {
        return;
    }
    for address in [SERVER_V4, SERVER_V6] {
        let stage = Stage::new("rst-fin");
        let ports = [PORT, NEIGHBOUR, UNGUARDED];
        let listeners = ports.map(|port| Stalled::new(&stage.server, server(address, port), 8));
        let guard = guard(&stage, "rst-fin");

        // As TCP has it: the connection is half closed, and the server can answer nobody.
        for (port, listener) in ports.iter().zip(&listeners).skip(1) {
            let (mut stream, left) = visit(&stage, listener, server(address, *port));
            assert_eq!(left, 1, "CLOSE-WAIT on port {port}");
            assert_eq!(read_out(&mut stream), (b"request".to_vec(), None), "port {port}");
        }
        until("the neighbours' clients are gone", || closing(&stage.server, NEIGHBOUR) == 0);

        // It is through at once: nothing is left at the client, neither FIN-WAIT nor TIME-WAIT.
        let (mut stream, left) = visit(&stage, &listeners[0], server(address, PORT));
        assert_eq!(left, 0, "neither CLOSE-WAIT nor LAST-ACK");
        // It kept its place in the listen queue, and what it had sent can be read.
        let (read, end) = read_out(&mut stream);
        assert_eq!((&read[..], end), (&b"request"[..], Some(ErrorKind::ConnectionReset)));
        assert!(stream.write_all(b"reply").is_err(), "there is nobody to answer");

        // One that is accepted, and whose application waits in read(), learns it at once.
        let client = connect(&stage, server(address, PORT));
        let mut stream = accept(&listeners[0]);
        let reader = std::thread::spawn(move || read_out(&mut stream));
        std::thread::sleep(Duration::from_millis(20));
        drop(client);
        let (read, end) = reader.join().expect("a reader");
        assert_eq!((read.len(), end), (0, Some(ErrorKind::ConnectionReset)));
        assert_eq!(closing(&stage.server, PORT), 0);

        let status = guard.status();
        let fin = |port: u16| &tidegate_tests::guard_of(&status, port, None)["fin"];
        assert_eq!(fin(PORT)["rule"], "rst-fin");
        assert_eq!((&fin(PORT)["ended"], &fin(PORT)["left_alone"]), (&2.into(), &0.into()));
        assert_eq!(fin(NEIGHBOUR)["rule"], "half-close");
        assert_eq!(fin(NEIGHBOUR)["ended"], 0);
        guard.stop();
    }
}

/// A client that closes its side and goes on reading: what rst-fin gives up (Shukla 4.2.1).
#[test]
fn a_half_close_is_untouched_where_it_was_not_asked_for() {
    if skip_without_root("a_half_close_is_untouched_where_it_was_not_asked_for") {
        return;
    }
    let stage = Stage::new("half-close");
    let ports = [PORT, NEIGHBOUR, UNGUARDED];
    let listeners = ports.map(|port| Stalled::new(&stage.server, server(SERVER_V4, port), 8));
    let guard = guard(&stage, "rst-fin");
    for (port, listener) in ports.iter().zip(&listeners) {
        let mut client = connect(&stage, server(SERVER_V4, *port));
        let mut stream = accept(listener);
        client.write_all(b"request").expect("a connection that stands");
        let mut request = [0; 7];
        stream.read_exact(&mut request).expect("the request");
        client.shutdown(Shutdown::Write).expect("half of it");
        let end = stream.read(&mut [0]).map_err(|e| e.kind());
        if *port == PORT {
            assert_eq!(end, Err(ErrorKind::ConnectionReset));
            assert_eq!(read_out(&mut client).1, Some(ErrorKind::ConnectionReset));
            continue;
        }
        assert_eq!(end, Ok(0), "the end of what the client sends");
        let reply = vec![b'r'; 100_000];
        stream.write_all(&reply).expect("a client that reads");
        drop(stream);
        assert_eq!(read_out(&mut client), (reply, None), "port {port}");
    }
    let status = guard.status();
    let neighbour = tidegate_tests::guard_of(&status, NEIGHBOUR, None);
    assert!(!neighbour["verdicts"].to_string().contains("Fin"), "nothing to count: {neighbour:#}");
    guard.stop();
}

/// On loopback the same device carries the FIN, the RST that it becomes, and the RST that answers.
#[test]
fn it_works_on_loopback() {
    if skip_without_root("it_works_on_loopback") {
        return;
    }
    let stage = Stage::new("rst-fin-lo");
    let guard = guard(&stage, "rst-fin");
    for address in ["127.0.0.1", "::1", SERVER_V4] {
        let to = server(address, PORT);
        let listener = Stalled::new(&stage.server, to, 8);
        let mut client = stage.server.run(move || TcpStream::connect(to)).expect("room");
        client.set_read_timeout(Some(PATIENCE)).expect("an option");
        let mut stream = accept(&listener);
        client.shutdown(Shutdown::Write).expect("half of it");
        for (who, end) in [("server", read_out(&mut stream).1), ("client", read_out(&mut client).1)]
        {
            assert_eq!(end, Some(ErrorKind::ConnectionReset), "the {who} at {address}");
        }
    }
    assert_eq!(Counted::of(&stage.server).packets("FinEnds", "reset"), 3);
    guard.stop();
}

/// On the wire: the RST that the client gets, and what becomes of a FIN that is sent again, since
/// that RST was lost (Shukla 4.2.1), of one that came early, and of one with data.
#[test]
fn the_client_gets_its_reset_and_a_second_one_if_it_must() {
    if skip_without_root("the_client_gets_its_reset_and_a_second_one_if_it_must") {
        return;
    }
    let quiet = Duration::from_millis(60);
    for address in [SERVER_V4, SERVER_V6] {
        let stage = Stage::new("rst-fin-wire");
        let to = server(address, PORT);
        let listener = Stalled::new(&stage.server, to, 8);
        let guard = guard(&stage, "rst-fin");
        for (port, options) in [(33_000, usual_options(TSVAL)), (33_001, vec![2, 4, 5, 0xb4])] {
            let client = HalfOpen::open(&stage, port, to, options);
            client.send(&client.segment(ACK, 0, b""));
            let stream = accept(&listener);
            // Three bytes are missing before it.
            client.send(&client.segment(FIN | ACK, 3, b""));
            client.send(&client.segment(ACK, 0, b"abc"));
            let early = client.collect(quiet);
            assert!(!early.is_empty() && early.iter().all(|s| s.flags & RST == 0), "{early:?}");
            drop(stream);
            client.send(&client.segment(RST | ACK, 4, b""));

            let client = HalfOpen::open(&stage, port + 100, to, usual_options(TSVAL));
            client.send(&client.segment(ACK, 0, b""));
            let _stream = accept(&listener);
            let fin = client.segment(FIN | ACK, 0, b"");
            client.send(&fin);
            let [reset] = &client.collect(quiet)[..] else { panic!("one answer") };
            assert_eq!(reset.flags, RST | ACK);
            assert_eq!(reset.seq, client.syn_ack.seq.wrapping_add(1));
            assert_eq!(reset.ack, ISN.wrapping_add(2), "it takes the FIN in");
            assert!(reset.payload.is_empty() && reset.tsval().is_none() && reset.hops >= 64);
            client.send(&fin);
            let [again] = &client.collect(quiet)[..] else { panic!("one answer") };
            assert_eq!((again.flags, again.seq), (RST, reset.seq), "of the kernel itself");
        }
        let counted = Counted::of(&stage.server);
        assert_eq!(counted.packets("FinEnds", "reset"), 2, "{counted}");
        assert_eq!(counted.packets("FinNoConnection", "pass"), 2, "{counted}");
        assert_eq!(counted.packets("FinOutOfOrder", "pass"), 2, "{counted}");
        guard.stop();
    }
}
