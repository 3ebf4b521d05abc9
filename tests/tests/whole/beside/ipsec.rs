// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts that speak through a tunnel of IPsec's: what comes is met at the IP entry once it is
//! decrypted, and what goes is encrypted before its exit. What would need an answer of ours, or a segment
//! of our own met, is left to the kernel, and nothing is told that did not happen.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_lab::{Namespace, say_skipped};
use tidegate_tests::waits::{
    PORT, at, count, families, guard, held, negotiating, settled, time_wait, visits, visits_from,
};
use tidegate_tests::{
    AFAR, Counted, First, Guard, Stage, Stalled, guard_of, kernel_time_wait, serve_closers,
    skip_without_root, until,
};

const CIPHER: &str = "enc cbc(aes) 0x0102030405060708090a0b0c0d0e0f10 \
                      auth hmac(sha256) 0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20";

/// One end of a tunnel that takes all TCP between the two hosts, from `own` to `peer` and back.
fn tunnel_end(host: &Namespace, own: &str, peer: &str) -> Result<(), String> {
    for (from, to, direction) in [(own, peer, "out"), (peer, own, "in")] {
        let ends = format!("src {from} dst {to}");
        for words in [
            format!("state add {ends} proto esp spi 0x1000 mode tunnel {CIPHER}"),
            format!(
                "policy add {ends} proto tcp dir {direction} tmpl {ends} proto esp mode tunnel"
            ),
        ] {
            host.ip(&format!("xfrm {words}")).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Has all connections of the stage go through tunnels; `false` where the kernel has no IPsec, which is
/// told.
fn through_tunnels(test: &str, stage: &Stage) -> bool {
    for (client, server) in families() {
        let ends = [(&stage.server, server, client), (&stage.client, client, server)];
        for (host, own, peer) in ends {
            if let Err(lacking) = tunnel_end(host, own, peer) {
                say_skipped(test, &lacking);
                return false;
            }
        }
    }
    true
}

/// A FIN that rst-fin would end is left to TCP, for no RST of ours could go to its client.
#[test]
#[ignore = "the kernel must have IPsec, as Debian's has: make test-kernels"]
fn a_fin_through_ipsec_closes_as_usual_and_is_counted_so() {
    const TEST: &str = "a_fin_through_ipsec_closes_as_usual_and_is_counted_so";
    if skip_without_root(TEST) {
        return;
    }
    let stage = Stage::new("ipsec-fin");
    if !through_tunnels(TEST, &stage) {
        return;
    }
    let config = "[[listener]]\nport = 80\nmechanism = \"default\"\nfin = \"rst-fin\"\n";
    let guard = guard(&stage.server, config);
    for (_, server) in families() {
        let to = at(server, PORT);
        let listener = Stalled::new(&stage.server, to, 8);
        let mut client = stage.client.run(move || TcpStream::connect(to)).expect("room");
        client.write_all(b"request").expect("a connection that stands");
        let mut accepted = None;
        until("it is accepted", || {
            accepted = listener.accept_all().pop();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.expect("a connection");
        stream.set_nonblocking(false).expect("a socket that blocks");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
        stream.read_exact(&mut [0; 7]).expect("the request");
        drop(client);
        assert_eq!(stream.read(&mut [0]).expect("no reset"), 0, "the end of what it sends");
    }
    let status = guard.status();
    let fin = &guard_of(&status, PORT, None)["fin"];
    assert_eq!((&fin["ended"], &fin["left_alone"]), (&0.into(), &2.into()), "{fin:#}");
    assert_eq!(Counted::of(&stage.server).packets("FinSigned", "pass"), 2);
    guard.stop();
}

/// Whoever is named could not hold back a SYN of its own, and says that it will not hold.
#[test]
#[ignore = "the kernel must have IPsec, as Debian's has: make test-kernels"]
fn who_connects_through_ipsec_waits_as_today() {
    const TEST: &str = "who_connects_through_ipsec_waits_as_today";
    if skip_without_root(TEST) {
        return;
    }
    for holder in ["client", "server"] {
        let (server, client) =
            (format!("time_wait = \"{holder}\""), format!("negotiate = \"{holder}\""));
        let (stage, guards) = negotiating("ipsec-tw", &server, &client);
        if !through_tunnels(TEST, &stage) {
            return;
        }
        visits(&stage, 20, First::by_turns);
        let kernels = || [&stage.server, &stage.client].map(|host| kernel_time_wait(host).len());
        settled("who closed first waits", || kernels() == [10, 10]);
        for host in [&stage.server, &stage.client] {
            let status = time_wait(host);
            for name in ["agreed_here", "agreed_there", "held", "left"] {
                assert_eq!(count(&status, name), 0, "{holder}, {name}: {status:#}");
            }
        }
        assert_eq!(count(&time_wait(&stage.client), "unspoken"), 20, "{holder}");
        guards.into_iter().for_each(Guard::stop);
    }
}

/// No RST of ours could end the server's TIME-WAIT, and a pair would be held in vain.
#[test]
#[ignore = "the kernel must have IPsec, as Debian's has: make test-kernels"]
fn through_ipsec_close_swap_leaves_the_wait_to_the_server() {
    const TEST: &str = "through_ipsec_close_swap_leaves_the_wait_to_the_server";
    if skip_without_root(TEST) {
        return;
    }
    let stage = Stage::new("ipsec-swap");
    serve_closers(&stage.server, PORT);
    if !through_tunnels(TEST, &stage) {
        return;
    }
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
    visits_from(&stage, AFAR, 10, |_| First::Server);
    settled("the server waits", || kernel_time_wait(&stage.server).len() == 10);
    assert_eq!(held(&stage.client), (0, 0));
    let status = time_wait(&stage.client);
    assert_eq!(status["counts"], serde_json::json!({}), "{status:#}");
    guard.stop();
}
