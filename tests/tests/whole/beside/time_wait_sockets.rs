// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TIME-WAIT and applications that use their sockets in less usual ways: never does neither end
//! wait, and who would be told something by plain TCP is told it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use nix::libc::{self, IPPROTO_TCP};
use socket2::{Domain, Socket, Type};
use tidegate_tests::waits::{PORT, at, count, guard, held, settled, time_wait};
use tidegate_tests::{
    Guard, Plain, SERVER_V4, Stage, Stalled, Withheld, closing, half_open, kernel_time_wait,
    option_of, set_option, skip_without_root, until,
};

/// Of which no section says anything.
const UNGUARDED: u16 = 81;
/// Of which one section says something, where another says it of `PORT`.
const OTHER: u16 = 82;
const PATIENCE: Duration = Duration::from_secs(3);

fn to(port: u16) -> SocketAddr {
    at(SERVER_V4, port)
}

fn listener_config(time_wait: &str) -> String {
    section(PORT, time_wait)
}

fn section(port: u16, time_wait: &str) -> String {
    format!("[[listener]]\nport = {port}\nmechanism = \"default\"\ntime_wait = \"{time_wait}\"\n")
}

/// A server and a client that have this end wait.
fn agreeing(label: &str, holder: &str) -> (Stage, [Guard; 2]) {
    let stage = Stage::new(label);
    stage.keep_order();
    let server = guard(&stage.server, &listener_config(holder));
    let client = guard(&stage.client, &format!("[time_wait]\nnegotiate = \"{holder}\"\n"));
    (stage, [server, client])
}

fn connect(stage: &Stage, port: u16) -> TcpStream {
    let stream = stage.client.run(move || TcpStream::connect(to(port))).expect("room");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream
}

fn accept(listener: &Stalled) -> TcpStream {
    let mut accepted = None;
    until("it is accepted", || {
        accepted = listener.accept_all().pop();
        accepted.is_some()
    });
    let (stream, _) = accepted.expect("a connection");
    stream.set_nonblocking(false).expect("no O_NONBLOCK");
    stream
}

/// A program closes with a request unread, and behind a reply that is still on its way: TCP resets
/// (RFC 2525, section 2.17). The pair is held from then on, and holds back no RST of that.
#[test]
fn whoever_reads_on_is_told_that_the_rest_will_not_come() {
    if skip_without_root("whoever_reads_on_is_told_that_the_rest_will_not_come") {
        return;
    }
    let (stage, guards) = agreeing("given-up", "server");
    let listener = Stalled::new(&stage.server, to(PORT), 8);
    let mut client = connect(&stage, PORT);
    client.write_all(&[7; 10_000]).expect("an open connection");
    client.shutdown(Shutdown::Write).expect("an open connection");
    let mut server = accept(&listener);
    until("all of the request is there", || closing(&stage.server, PORT) == 1);
    // Until the client's window is full, which nobody reads from.
    server.set_write_timeout(Some(Duration::from_millis(300))).expect("an option");
    let full = loop {
        if let Err(error) = server.write(&[8; 65_536]) {
            break error.kind();
        }
    };
    assert_eq!(full, ErrorKind::WouldBlock);
    server.shutdown(Shutdown::Write).expect("an open connection");
    drop(server);
    // A program that another story starts has the socket too until its execve(), and TCP closes with the last.
    until("it is closed", || closing(&stage.server, PORT) == 0);
    let end = client.read_to_end(&mut Vec::new());
    assert_eq!(end.map_err(|e| e.kind()), Err(ErrorKind::ConnectionReset));
    assert_eq!(held(&stage.server), (0, 1), "this end waits, as was agreed");
    guards.into_iter().for_each(Guard::stop);
}

/// A SYN with data has its socket before the client has heard of an answer: what it asks for is no
/// agreement yet (RFC 7413, and Faber, Touch and Yue, section 3: three steps). Where the server takes
/// the SYN and not its data there are three steps, as ever.
#[test]
fn with_fast_open_somebody_waits() {
    if skip_without_root("with_fast_open_somebody_waits") {
        return;
    }
    for (holder, agreed, waiting) in
        [("client", "agreed_there", [0, 1, 1]), ("server", "agreed_here", [1, 2, 3])]
    {
        fast_open(holder, agreed, waiting);
    }
}

/// Visits that the server closes first, after each of which so many wait at the server: one as ever,
/// which brings the cookie; one by Fast Open, of which nothing is agreed; and one whose data the server
/// does not take with the SYN.
fn fast_open(holder: &str, agreed: &str, [first, fast, untaken]: [usize; 3]) {
    let (stage, guards) = agreeing("fast-open", holder);
    let listener = fast_listener(&stage);
    for (visit, opened_fast, waiting, agreements) in [
        ("the first", 0, first, 1),
        ("by Fast Open", 1, fast, 1),
        ("with the data left", 1, untaken, 2),
    ] {
        stage
            .server
            .sysctl("net.ipv4.tcp_fastopen", if agreements > 1 { 0 } else { 3 })
            .expect("it");
        let mut client = fast_client(&stage);
        client.write_all(b"request").expect("an open connection");
        let mut server = accept(&listener);
        server.read_exact(&mut [0; 7]).expect("the request");
        drop(server);
        client.read_to_end(&mut Vec::new()).expect("the server closes first");
        drop(client);
        assert_eq!(fast_opens(&stage), opened_fast, "{holder}, {visit}");
        settled("the server waits where nothing was agreed", || {
            kernel_time_wait(&stage.server).len() == waiting
        });
        assert_eq!(count(&time_wait(&stage.server), agreed), agreements, "{holder}, {visit}");
    }
    guards.into_iter().for_each(Guard::stop);
}

/// A server that takes the SYN and not its data answers as ever, and its choice is heard.
#[test]
fn insisting_is_heeded_where_the_data_of_a_fast_open_is_not_taken() {
    if skip_without_root("insisting_is_heeded_where_the_data_of_a_fast_open_is_not_taken") {
        return;
    }
    let stage = Stage::new("fast-insists");
    stage.keep_order();
    let server = guard(&stage.server, &listener_config("server"));
    let listener = fast_listener(&stage);
    // A visit of one who insists on nothing yet brings the cookie.
    let mut client = fast_client(&stage);
    client.write_all(b"request").expect("an open connection");
    drop(accept(&listener));
    drop(client);
    let insists = "[time_wait]\nnegotiate = \"client\"\ninsist = true\n";
    let guards = [server, guard(&stage.client, insists)];
    stage.server.sysctl("net.ipv4.tcp_fastopen", 0).expect("a sysctl");
    let mut client = fast_client(&stage);
    let refused = client.write_all(b"request").and_then(|()| client.read(&mut [0]));
    assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::ConnectionRefused));
    assert_eq!(count(&time_wait(&stage.client), "refused"), 1);
    guards.into_iter().for_each(Guard::stop);
}

/// One that takes data with SYNs.
fn fast_listener(stage: &Stage) -> Stalled {
    for namespace in [&stage.server, &stage.client] {
        namespace.sysctl("net.ipv4.tcp_fastopen", 3).expect("a sysctl");
    }
    Stalled::with(&stage.server, to(PORT), 8, |socket| {
        set_option(socket, IPPROTO_TCP, libc::TCP_FASTOPEN, 8).expect("TCP_FASTOPEN");
    })
}

/// One whose first data goes with its SYN, once it has a cookie.
fn fast_client(stage: &Stage) -> TcpStream {
    let client = stage.client.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a TCP socket");
        set_option(&socket, IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1).expect("an option");
        socket.connect(&to(PORT).into()).expect("room");
        TcpStream::from(socket)
    });
    client.set_read_timeout(Some(PATIENCE)).expect("an option");
    client
}

/// How many connections this server has opened by Fast Open.
fn fast_opens(stage: &Stage) -> u32 {
    let told = stage.server.output(stage.server.command("nstat -asz TcpExtTCPFastOpenPassive"));
    let told = told.expect("nstat");
    let count = told.lines().nth(1).and_then(|line| line.split_whitespace().nth(1));
    count.and_then(|count| count.parse().ok()).expect("a count")
}

/// What was agreed with one peer is not with the next.
#[test]
fn a_socket_that_connects_again_agrees_again() {
    if skip_without_root("a_socket_that_connects_again_agrees_again") {
        return;
    }
    let stage = Stage::new("again");
    let client = "[time_wait]\nnegotiate = \"server\"\nclose_swap = true\n";
    let guards = [guard(&stage.server, &listener_config("server")), guard(&stage.client, client)];
    let listeners = [PORT, UNGUARDED].map(|port| Stalled::new(&stage.server, to(port), 8));
    let stream = connect(&stage, PORT);
    drop(accept(&listeners[0]));
    settled("they agree", || count(&time_wait(&stage.client), "agreed_there") == 1);
    rustix::net::connect_unspec(&stream).expect("a disconnected socket");
    let again = stream.try_clone().expect("another descriptor");
    stage.client.run(move || Socket::from(again).connect(&to(UNGUARDED).into())).expect("room");
    let mut server = accept(&listeners[1]);
    drop(stream);
    server.read_to_end(&mut Vec::new()).expect("the client closes first");
    drop(server);
    settled("who closed first waits", || {
        kernel_time_wait(&stage.client).iter().any(|peer| peer.ends_with(&format!(":{UNGUARDED}")))
    });
    guards.into_iter().for_each(Guard::stop);
}

/// A SYN/ACK names the server, and its ACK gets in when the listener names another end, or none: as from
/// a full listen queue, which it leaves only seconds later.
#[test]
fn what_a_syn_ack_promised_is_kept_over_a_reload() {
    if skip_without_root("what_a_syn_ack_promised_is_kept_over_a_reload") {
        return;
    }
    const FROM: u16 = 5000;
    for now in ["client", "off"] {
        let (stage, [mut server, client]) = agreeing("reloaded", "server");
        let listener = Stalled::new(&stage.server, to(PORT), 8);
        let withheld = Withheld::from_ports(&stage.client, FROM, FROM);
        let mut stream = Plain::connect(&stage.client, FROM, to(PORT), PATIENCE).into_stream();
        settled("the client agrees", || count(&time_wait(&stage.client), "agreed_there") == 1);
        assert_eq!(half_open(&stage.server, PORT), 1, "its ACK is not there yet");
        // Where another one negotiates, sockets are still listened to.
        let config = listener_config(now) + &section(OTHER, "server");
        let path = format!("/run/{}.toml", stage.server.label());
        stage.server.place_file(path, config).expect("a file");
        server.reload();
        drop(withheld);
        stream.write_all(b"request").expect("an open connection");
        let mut accepted = accept(&listener);
        drop(stream);
        accepted.read_to_end(&mut Vec::new()).expect("the client closes first");
        drop(accepted);
        settled("the server waits, as it said", || held(&stage.server) == (0, 1));
        settled("the client does not", || held(&stage.client) == (0, 0));
        server.stop();
        client.stop();
    }
}

/// Where this end is to wait, in doubt too, the kernel keeps a listener's SYNs: as the configuration
/// in force asks, and no other way than the application itself asks.
#[test]
fn a_listener_has_its_syns_kept_as_it_is_asked_now() {
    if skip_without_root("a_listener_has_its_syns_kept_as_it_is_asked_now") {
        return;
    }
    let stage = Stage::new("kept-syns");
    let mut server = guard(&stage.server, &listener_config("client"));
    let listener = |port: u16, kept: u32| {
        stage.server.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a TCP socket");
            set_option(&socket, IPPROTO_TCP, libc::TCP_SAVE_SYN, kept).expect("TCP_SAVE_SYN");
            socket.set_reuse_port(true).expect("SO_REUSEPORT");
            socket.bind(&to(port).into()).expect("a free port");
            socket.listen(8).expect("a listening socket");
            socket
        })
    };
    let kept =
        |socket: &Socket| option_of(socket, IPPROTO_TCP, libc::TCP_SAVE_SYN).expect("an int");
    let standing = [0, 1, 2].map(|kept| listener(PORT, kept));
    assert_eq!(standing.each_ref().map(kept), [0, 1, 2], "the client waits: nothing is to be kept");
    let path = format!("/run/{}.toml", stage.server.label());
    stage.server.place_file(path, listener_config("server")).expect("a file");
    server.reload();
    settled("those that stand", || standing.each_ref().map(kept) == [1, 1, 2]);
    let later = [0, 1, 2].map(|kept| listener(PORT, kept));
    assert_eq!(later.each_ref().map(kept), [1, 1, 2], "those that come");
    server.stop();
}
