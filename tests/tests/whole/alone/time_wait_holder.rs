// SPDX-License-Identifier: Apache-2.0 OR MIT
//! close_swap, and where the rules about TIME-WAIT hold, with the kernel's own sockets at both
//! ends (Faber, Touch and Yue, 1999, section 4).

use std::time::Duration;

use tidegate_tests::waits::{
    FIRST_PORT, PORT, at, count, families, guard, held, negotiating, number, settled, time_wait,
    visits, visits_from, waiting,
};
use tidegate_tests::{
    AFAR, CLIENT_V4, First, Guard, SERVER_V4, Stage, close_first, connect_from, end_first_from,
    kernel_time_wait, serve_closers, skip_without_root,
};

/// Faber, section 4: "The <RST> packet removes the TCB in TIME-WAIT state from the server; the
/// explicit transition to a TIME-WAIT state in the client preserves correct TCP behavior."
#[test]
fn close_swap_moves_time_wait_to_a_client_that_closed_second() {
    if skip_without_root("close_swap_moves_time_wait_to_a_client_that_closed_second") {
        return;
    }
    let stage = Stage::new("close-swap");
    serve_closers(&stage.server, PORT);
    visits(&stage, 20, |_| First::Server);
    settled("today the server waits", || kernel_time_wait(&stage.server).len() == 20);

    let stage = Stage::new("close-swap");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
    visits_from(&stage, AFAR, 200, |i| if i % 2 == 0 { First::Server } else { First::ServerHalf });
    settled("the server waits for nothing", || kernel_time_wait(&stage.server).is_empty());
    let status = time_wait(&stage.client);
    assert_eq!(number(&status, "held_by_us"), 200, "{status:#}");
    assert_eq!(count(&status, "swapped"), 200, "{status:#}");
    assert_eq!(kernel_time_wait(&stage.client).len(), 0);
    guard.stop();
}

/// "The behavior of an active close is unaffected."
#[test]
fn close_swap_leaves_an_active_close_as_it_is() {
    if skip_without_root("close_swap_leaves_an_active_close_as_it_is") {
        return;
    }
    let stage = Stage::new("swap-active");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
    visits(&stage, 40, |i| if i % 2 == 0 { First::Client } else { First::ClientHalf });
    settled("the client's kernel waits", || held(&stage.client) == (40, 0));
    assert!(kernel_time_wait(&stage.server).is_empty());
    guard.stop();
}

/// "If the client <RST> is lost, both server and client remain in TIME-WAIT state"; so they do
/// where the server ignores it, as RFC 1337 would have it.
#[test]
fn a_lost_rst_leaves_both_waiting() {
    if skip_without_root("a_lost_rst_leaves_both_waiting") {
        return;
    }
    for how in ["lost", "ignored"] {
        let stage = Stage::new("lost-rst");
        serve_closers(&stage.server, PORT);
        if how == "lost" {
            let table = "table inet t {\nchain c {\ntype filter hook prerouting priority -300\n\
                         tcp flags & rst == rst drop\n}\n}\n";
            stage.server.place_file("/run/drop.nft", table).expect("a file");
            let load = stage.server.command("nft -f /run/drop.nft");
            stage.server.output(load).expect("nft takes it");
        } else {
            stage.server.sysctl("net.ipv4.tcp_rfc1337", 1).expect("a sysctl");
        }
        let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
        visits(&stage, 20, |_| First::Server);
        settled(&format!("{how}: both wait"), || {
            kernel_time_wait(&stage.server).len() == 20 && held(&stage.client) == (0, 20)
        });
        guard.stop();
    }
}

/// A table without room leaves TIME-WAIT where TCP has it.
#[test]
fn who_cannot_be_remembered_waits_at_the_usual_end() {
    if skip_without_root("who_cannot_be_remembered_waits_at_the_usual_end") {
        return;
    }
    let stage = Stage::new("swap-full");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\nentries = 8\n");
    visits_from(&stage, AFAR, 20, |_| First::Server);
    settled("eight here, twelve there", || {
        kernel_time_wait(&stage.server).len() == 12 && held(&stage.client) == (0, 8)
    });
    let status = time_wait(&stage.client);
    assert_eq!((number(&status, "table_bytes"), count(&status, "no_room")), (512, 12));
    guard.stop();
}

/// Only where the destination says so: the longest network counts.
#[test]
fn a_destination_has_its_own_rules() {
    if skip_without_root("a_destination_has_its_own_rules") {
        return;
    }
    let stage = Stage::new("destination");
    serve_closers(&stage.server, PORT);
    let config = format!(
        "[time_wait]\nclose_swap = true\n[[destination]]\nnetwork = \"{SERVER_V4}/32\"\n\
         close_swap = false\n"
    );
    let guard = guard(&stage.client, &config);
    visits_from(&stage, AFAR, 20, |_| First::Server);
    settled("IPv4 is left alone", || {
        kernel_time_wait(&stage.server).len() == 10 && held(&stage.client) == (0, 10)
    });
    guard.stop();
    let left = stage.client.output(stage.client.command("ls /sys/fs/bpf")).expect("ls");
    assert!(!left.contains("tidegate"), "nothing is left: {left}");
}

/// A killed daemon leaves all of it standing; the next one finds the pairs that are held.
#[test]
fn who_waits_does_not_depend_on_the_daemon() {
    if skip_without_root("who_waits_does_not_depend_on_the_daemon") {
        return;
    }
    let (stage, mut guards) =
        negotiating("tw-killed", "time_wait = \"client\"", "negotiate = \"client\"");
    let client = guards.pop().expect("two guards");
    visits(&stage, 20, |_| First::Server);
    client.kill();
    stage.client.run(|| {
        for i in 20..40 {
            let (own, server) = families()[usize::from(i % 2)];
            close_first(at(own, FIRST_PORT + i), at(server, PORT), First::Server).expect("served");
        }
    });
    settled("held without a daemon", || waiting(&stage) == (0, 40));
    let client = guard(&stage.client, "[time_wait]\nnegotiate = \"client\"\n");
    assert_eq!(waiting(&stage), (0, 40));
    let to = at(SERVER_V4, PORT);
    stage.client.run(move || {
        close_first(at(CLIENT_V4, FIRST_PORT + 40), to, First::Server).expect("served");
    });
    settled("one more", || waiting(&stage) == (0, 41));
    // Time stamps: nothing of the connection before can be taken for this one's.
    let again = stage.client.run(move || connect_from(at(CLIENT_V4, FIRST_PORT), to));
    assert_eq!(waiting(&stage), (0, 40), "a pair that is open again does not wait");
    let again = again.expect("opened again");
    end_first_from(again, Duration::ZERO, First::Server).expect("served");
    settled("and one again", || waiting(&stage) == (0, 41));
    assert_eq!(count(&time_wait(&stage.client), "reopened"), 1, "a SYN, and what answers it");
    client.stop();
    guards.into_iter().for_each(Guard::stop);
}
