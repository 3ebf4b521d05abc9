// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the kernel decides and nothing is accepted, our counts equal its own, to the packet.

use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use socket2::Socket;
use tidegate_tests::wire::{ACK, FIN, HalfOpen, PSH, usual_options};
use tidegate_tests::{
    Attempt, Books, CLIENT_V4, CLIENT_V6, Counted, Guard, Nginx, SERVER_V4, SERVER_V6, Spoofed,
    Stage, Stalled, Withheld, burst, fill, half_open, listen_queue, skip_without_root, until,
};

fn server(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 80)
}

fn clients() -> [IpAddr; 1] {
    [CLIENT_V4.parse().expect("an address")]
}

fn guard(stage: &Stage, mechanism: &str) -> (Guard, Books) {
    let guard = Guard::on_port(&stage.server, 80, mechanism, "ip");
    (guard, Books::open(stage))
}

#[test]
fn syns_to_a_full_listen_queue() {
    if skip_without_root("syns_to_a_full_listen_queue") {
        return;
    }
    let stage = Stage::new("counts-syns");
    let nginx = Nginx::start(&stage.server, &["80 backlog=16"]);
    let (guard, books) = guard(&stage, "default");
    // Clients from two processors, with their retransmissions, and a flood, all of which find it
    // full: while it fills, a place may be taken between our look at the queue and TCP's.
    nginx.freeze();
    let fillers = fill(&stage.client, server(SERVER_V4), 17);
    until("a backlog of 16 is full at 17", || listen_queue(&stage.server, server(SERVER_V4)) == 17);
    let attempts = burst(&stage.client, &clients(), server(SERVER_V4), 500, 2);
    Spoofed::on(&stage, 1).send(server(SERVER_V4), 20_000);
    sleep(Duration::from_millis(1200));
    let drops = books.balance(&stage, "a full listen queue");
    // Each client sends its SYN once more.
    assert!(drops.listen_overflows >= 20_000 + 2 * 500, "{drops:?}");
    assert_eq!(drops.listen_drops, drops.listen_overflows);
    drop((fillers, attempts));
    guard.stop();
}

#[test]
fn syns_to_a_full_syn_queue() {
    if skip_without_root("syns_to_a_full_syn_queue") {
        return;
    }
    for (syncookies, syn_backlog) in [(0, 4096), (1, 4096), (0, 16)] {
        let stage = Stage::new("counts-half-open");
        stage.server.sysctl("net.ipv4.tcp_syncookies", syncookies).expect("a sysctl");
        stage.server.sysctl("net.ipv4.tcp_max_syn_backlog", syn_backlog).expect("a sysctl");
        let _server = Stalled::new(&stage.server, server(SERVER_V4), 64);
        let (guard, books) = guard(&stage, "default");
        Spoofed::on(&stage, 2).send(server(SERVER_V4), 10_000);
        let what = format!("tcp_syncookies {syncookies}, tcp_max_syn_backlog {syn_backlog}");
        let drops = books.balance(&stage, &what);
        let ours = Counted::of(&stage.server);
        // Linux calls the SYN queue full above the backlog, here at 65, and three quarters
        // of 16 full at 13.
        match (syncookies, syn_backlog) {
            (0, 4096) => assert_eq!(drops.queue_full_drop, 10_000 - 65, "SynQFull"),
            (1, _) => assert_eq!(drops.queue_full_cookies, 10_000 - 65, "KernelCookie"),
            _ => assert_eq!(ours.packets("SynQ3/4Full", "pass"), 10_000 - 13, "SynQ3/4Full"),
        }
        guard.stop();
    }
}

/// Connections that both ends have begun and the server cannot finish, for its listen queue
/// is full by the time that their ACKs come.
fn overflow(stage: &Stage, to: SocketAddr) -> (Vec<tidegate_tests::Plain>, Vec<Attempt>) {
    let withheld = Withheld::from_ports(&stage.client, 1024, 60_999);
    let from: IpAddr = if to.is_ipv4() { CLIENT_V4 } else { CLIENT_V6 }.parse().expect("one");
    let attempts = burst(&stage.client, &[from], to, 8, 1);
    until("eight connections are half open", || half_open(&stage.server, 80) == 8);
    // They hold no place of the listen queue: it fills under them, before nft, which may take a second,
    // lets their ACKs go and the SYN/ACK is sent again.
    stage.client.sysctl("net.ipv4.ip_local_port_range", "61000 64999").expect("other ports");
    let fillers = fill(&stage.client, to, 9);
    until("a backlog of 8 is full at 9", || listen_queue(&stage.server, to) == 9);
    drop(withheld);
    stage.client.sysctl("net.ipv4.ip_local_port_range", "32768 60999").expect("as before");
    (fillers, attempts)
}

fn send(socket: &Socket, data: &[u8]) {
    socket.send(data).expect("a connection as the client sees it");
}

#[test]
fn acks_to_a_full_listen_queue() {
    if skip_without_root("acks_to_a_full_listen_queue") {
        return;
    }
    for (mechanism, address) in
        [("default", SERVER_V4), ("default", SERVER_V6), ("abort", SERVER_V4), ("abort", SERVER_V6)]
    {
        let stage = Stage::new("counts-acks");
        let server_socket = Stalled::new(&stage.server, server(address), 8);
        let (guard, books) = guard(&stage, mechanism);
        let (fillers, attempts) = overflow(&stage, server(address));
        for attempt in &attempts {
            send(&attempt.socket, b"GET / HTTP/1.1\r\n\r\n");
        }
        // The request is sent again, and so is the SYN/ACK, which the client acknowledges again.
        sleep(Duration::from_millis(1300));
        drop(attempts);
        sleep(Duration::from_millis(700));
        let drops = books.balance(&stage, &format!("{mechanism} at {address}"));
        if mechanism == "abort" {
            assert_eq!((drops.embryonic_resets, drops.listen_drops), (8, 0), "one RST each");
        } else {
            assert!(drops.listen_overflows >= 32, "dropped again and again: {drops:?}");
        }
        drop((fillers, server_socket));
        guard.stop();
    }
}

/// Shukla, thesis, Table 4.1: of the segments that find the listen queue full, those that are
/// the SYN/ACK's ACK, and the others that a client sends who believes to be connected.
#[test]
fn overflows_are_told_apart_by_what_the_segment_was() {
    if skip_without_root("overflows_are_told_apart_by_what_the_segment_was") {
        return;
    }
    let stage = Stage::new("counts-split");
    let _server = Stalled::new(&stage.server, server(SERVER_V4), 8);
    let (guard, books) = guard(&stage, "default");
    let open = |port| HalfOpen::open(&stage, port, server(SERVER_V4), usual_options(1000));
    let clients: Vec<HalfOpen> = (5000..5006).map(open).collect();
    let _fillers = fill(&stage.client, server(SERVER_V4), 9);
    for client in &clients {
        client.send(&client.segment(ACK, 0, b""));
        // A request, the same again, and a FIN behind it.
        client.send(&client.segment(ACK | PSH, 0, b"GET /\r\n"));
        client.send(&client.segment(ACK | PSH, 0, b"GET /\r\n"));
        client.send(&client.segment(ACK | FIN, 0, b""));
    }
    // Not acceptable, so no overflow: it acknowledges something that was never sent.
    let mut wrong = clients[0].segment(ACK, 0, b"");
    wrong.ack = wrong.ack.wrapping_add(7);
    clients[0].send(&wrong);
    let drops = books.balance(&stage, "segments of every kind");
    let ours = Counted::of(&stage.server);
    assert_eq!(drops.listen_overflows, 24);
    assert_eq!(ours.queue_drops("ListenQOverflow_syn_ack_acks"), 6);
    assert_eq!(ours.queue_drops("ListenQOverflow_other_segments"), 18);
    guard.stop();
}
