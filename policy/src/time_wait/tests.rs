// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every row of Faber's algorithm and of Table 1, in both families; and the table of held pairs.

use super::*;
use crate::raw::{TG_HELD_NS, TG_HELD_TIMESTAMPS, tg_held_segment};

const ENDS: [Option<End>; 3] = [None, Some(End::Client), Some(End::Server)];

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A connection in each family: its tuple, the client's address, the server's.
fn families() -> [(tg_tuple, IpAddr, IpAddr); 2] {
    [("192.0.2.9:40000", "198.51.100.1:80"), ("[2001:db8::9]:40000", "[2001:db8:1::1]:80")].map(
        |(client, server)| {
            let (client, server) = (at(client), at(server));
            (tg_tuple::between(client, server), client.ip(), server.ip())
        },
    )
}

/// The wire format: RFC 6994's kind 253 with our identifier, then the address.
#[test]
fn the_option_carries_an_address_of_either_family() {
    let v4 = write(&value(Some("192.0.2.9".parse().unwrap())));
    assert_eq!(v4, [253, 8, 0x54, 0x57, 192, 0, 2, 9]);
    let v6 = write(&value(Some("2001:db8::9".parse().unwrap())));
    assert_eq!(v6[..8], [253, 20, 0x54, 0x57, 0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(v6.len(), 20);
    for (_, client, server) in families() {
        for address in [client, server] {
            let sent = value(Some(address));
            assert_eq!(read(&write(&sent)), sent);
        }
    }
    assert!(write(&value(None)).is_empty());
}

#[test]
fn what_is_not_our_option_is_none() {
    let ours = write(&value(Some("192.0.2.9".parse().unwrap())));
    assert_eq!(read(&ours).family, 4);
    for at in 0..4 {
        let mut other = ours.clone();
        other[at] ^= 1;
        assert_eq!(read(&other), tg_tw_value::default(), "byte {at} is another's");
    }
    assert_eq!(read(&[]), tg_tw_value::default());
    // An IPv6 option whose length says IPv4, and the reverse, are no addresses of this family.
    for (tuple, ..) in families() {
        let other = if tuple.is_ipv6 == 0 { "2001:db8::9" } else { "192.0.2.9" };
        assert_eq!(named(&tuple, &value(Some(other.parse().unwrap()))), None);
    }
}

#[test]
fn an_address_names_an_end_and_a_translated_one_names_none() {
    for (tuple, client, server) in families() {
        assert_eq!(named(&tuple, &value(Some(client))), Some(End::Client));
        assert_eq!(named(&tuple, &value(Some(server))), Some(End::Server));
        assert_eq!(named(&tuple, &value(None)), None);
        let other = if client.is_ipv4() { "10.0.0.9" } else { "fd00::9" };
        assert_eq!(named(&tuple, &value(Some(other.parse().unwrap()))), None);
        for end in ENDS {
            assert_eq!(named(&tuple, &name(&tuple, end)), end);
        }
    }
    // One address at both ends: it could be either.
    let own = tg_tuple::between(at("127.0.0.1:40000"), at("127.0.0.1:80"));
    assert_eq!(named(&own, &value(Some("127.0.0.1".parse().unwrap()))), None);
    assert_eq!(name(&own, Some(End::Client)), tg_tw_value::default());
}

/// Step 1: "TW-Negotiate contains the IP address of the end that will hold the TCB. The
/// option's presence indicates that the client supports negotiation."
#[test]
fn step_1_the_client_names_an_end() {
    for wish in ENDS {
        assert_eq!(offer(&negotiate(wish), true), wish);
    }
    // It offers itself only where it could.
    assert_eq!(offer(&negotiate(Some(End::Client)), false), None);
    assert_eq!(offer(&negotiate(Some(End::Server)), false), Some(End::Server));
}

/// Step 2: "TW-Negotiate set to its choice … If it does not support negotiation, it sends no
/// TW-Negotiate option."
#[test]
fn step_2_the_server_chooses() {
    for offered in [Some(End::Client), Some(End::Server)] {
        for choice in ENDS {
            assert_eq!(answer(&negotiate(choice), offered, true), choice);
        }
    }
    // A client that did not speak is not spoken to.
    for choice in ENDS {
        assert_eq!(answer(&negotiate(choice), None, true), None);
    }
    assert_eq!(answer(&negotiate(Some(End::Server)), Some(End::Server), false), None);
    assert_eq!(answer(&negotiate(Some(End::Client)), Some(End::Server), false), Some(End::Client));
}

/// Step 3: the same value in the ACK, or RST, or "current TCP semantics".
#[test]
fn step_3_the_client_agrees_or_resets() {
    for wish in [Some(End::Client), Some(End::Server)] {
        let other = if wish == Some(End::Client) { Some(End::Server) } else { Some(End::Client) };
        let easy = negotiate(wish);
        let insists = tg_tw_rules { insist: 1, ..easy };
        for rules in [easy, insists] {
            assert_eq!(judge(&rules, wish, wish, true), Verdict::Agree);
            assert_eq!(judge(&rules, wish, None, true), Verdict::Today, "it does not speak");
            assert_eq!(judge(&rules, None, wish, true), Verdict::Today, "we did not ask");
        }
        assert_eq!(judge(&easy, wish, other, true), Verdict::Agree);
        assert_eq!(judge(&insists, wish, other, true), Verdict::Reset);
    }
    // Without room it cannot take what it did not offer.
    let server = negotiate(Some(End::Server));
    assert_eq!(judge(&server, Some(End::Server), Some(End::Client), false), Verdict::Reset);
}

/// Whether `us` waits, where it believes in this agreement and `first` closed first.
fn waits(agreed: Option<End>, us: End, first: End) -> bool {
    let close = if us == first { Close::Active } else { Close::Passive };
    match end(agreed, us, close, false) {
        Ending::Usual => close == Close::Active,
        Ending::Hold => true,
        Ending::Leave | Ending::Swap => false,
    }
}

/// What the two believe is the same, or both wait: never neither.
#[test]
fn whatever_is_lost_on_the_way_someone_waits() {
    for wish in ENDS {
        for choice in ENDS {
            for lost in 0..8 {
                for insist in [0, 1] {
                    let client = tg_tw_rules { insist, ..negotiate(wish) };
                    let got = |end: Option<End>, bit: u32| end.filter(|_| lost & bit == 0);
                    let offered = offer(&client, true);
                    let answered = answer(&negotiate(choice), got(offered, 1), true);
                    let seen = got(answered, 2);
                    let verdict = judge(&client, offered, seen, true);
                    if verdict == Verdict::Reset {
                        continue;
                    }
                    let agreed = seen.filter(|_| verdict == Verdict::Agree);
                    let settled = settle(End::Server, answered, got(agreed, 4));
                    if lost == 0 {
                        assert_eq!(agreed, settled);
                        assert_eq!(agreed, choice.filter(|_| wish.is_some()));
                    }
                    for first in [End::Client, End::Server] {
                        let client = waits(agreed, End::Client, first);
                        let server = waits(settled, End::Server, first);
                        assert!(client || server, "{wish:?} {choice:?} lost {lost} {first:?}");
                        if lost == 0 {
                            assert!(client != server);
                        }
                    }
                }
            }
        }
    }
}

/// The table of an end whose segments are met elsewhere, or otherwise, than its socket has them holds
/// nothing back: who counts on that is alone.
#[test]
fn whatever_an_end_does_not_meet_someone_waits() {
    for choice in ENDS {
        for unmet in [End::Client, End::Server] {
            for insist in [0, 1] {
                let wish = Some(End::Client);
                let client = tg_tw_rules { insist, ..negotiate(wish) };
                let promised = |us, named| promise(us, named, us != unmet);
                let answered = promised(End::Server, answer(&negotiate(choice), wish, true));
                let seen = promised(End::Client, answered);
                // What is not met is not reset, either.
                let agreed = seen.filter(|_| judge(&client, wish, seen, true) == Verdict::Agree);
                let settled = settle(End::Server, answered, agreed);
                for first in [End::Client, End::Server] {
                    let for_good = |us, agreed| {
                        let is_kernels = us == first;
                        waits(agreed, us, first) && (is_kernels || us != unmet)
                    };
                    let client = for_good(End::Client, agreed);
                    let server = for_good(End::Server, settled);
                    assert!(client || server, "{choice:?}, unmet at {unmet:?}, first {first:?}");
                }
            }
        }
    }
    // That the other holds is no promise of ours.
    assert_eq!(promise(End::Client, Some(End::Server), false), Some(End::Server));
    assert_eq!(promise(End::Server, None, true), None);
}

/// An ACK may get in seconds after the SYN/ACK that it answers, from a full listen queue.
#[test]
fn whatever_the_rule_is_when_the_ack_gets_in_someone_waits() {
    for agreed in [Some(End::Client), Some(End::Server)] {
        for now in ENDS {
            let settled = settle(End::Server, now, agreed);
            for first in [End::Client, End::Server] {
                let client = waits(agreed, End::Client, first);
                let server = waits(settled, End::Server, first);
                assert!(client || server, "{agreed:?}, now {now:?}, first {first:?}");
            }
        }
    }
}

/// Table 1, row by row, in both families and whichever end asks.
#[test]
fn table_1_both_open_at_once() {
    for (_, one, other) in families() {
        let larger = value(Some(one.max(other)));
        let (one, other, none) = (value(Some(one)), value(Some(other)), value(None));
        // "Either Contains No Option: No Option"
        for (a, b) in [(none, none), (one, none), (none, other)] {
            assert_eq!(simultaneous(&a, &b), none);
        }
        // "The Same IP Address: That IP Address"
        assert_eq!(simultaneous(&one, &one), one);
        // "Two Different IP addresses: Larger IP Address"
        assert_eq!(simultaneous(&one, &other), larger);
        assert_eq!(simultaneous(&other, &one), larger);
    }
    // Larger as a number: the first byte counts most.
    let [small, large] = ["9.255.255.255", "10.0.0.0"].map(|a| value(Some(a.parse().unwrap())));
    assert_eq!(simultaneous(&small, &large), large);
    let [small, large] = ["fd00::1:ffff", "fd00::2:0"].map(|a| value(Some(a.parse().unwrap())));
    assert_eq!(simultaneous(&small, &large), large);
}

/// "At most one endpoint will disagree with the conclusion, and send an RST."
#[test]
fn at_most_one_end_of_a_simultaneous_open_disagrees() {
    for (tuple, ..) in families() {
        for mine in [End::Client, End::Server] {
            for theirs in [End::Client, End::Server] {
                let used = simultaneous(&name(&tuple, Some(mine)), &name(&tuple, Some(theirs)));
                let concluded = named(&tuple, &used);
                let resets = [mine, theirs]
                    .map(|wish| {
                        let rules = tg_tw_rules { insist: 1, ..negotiate(Some(wish)) };
                        judge(&rules, Some(wish), concluded, true) == Verdict::Reset
                    })
                    .into_iter()
                    .filter(|resets| *resets)
                    .count();
                assert!(resets <= 1 && (resets == 0) == (mine == theirs));
            }
        }
    }
}

/// "the TIME-WAIT holder will enter TIME-WAIT and the other endpoint will enter CLOSED,
/// regardless of which end closed actively and which (if either) passively."
#[test]
fn the_agreed_holder_waits_whoever_closes_first() {
    use Close::{Active, Passive};
    use Ending::{Hold, Leave, Swap, Usual};
    for us in [End::Client, End::Server] {
        let them = if us == End::Client { End::Server } else { End::Client };
        for swap in [false, true] {
            assert_eq!(end(Some(us), us, Active, swap), Usual);
            assert_eq!(end(Some(us), us, Passive, swap), Hold);
            assert_eq!(end(Some(them), us, Active, swap), Leave);
            assert_eq!(end(Some(them), us, Passive, swap), Usual);
        }
        assert_eq!(end(None, us, Active, true), Usual, "an active close is unaffected (section 4)");
        assert_eq!(end(None, us, Passive, false), Usual);
    }
    assert_eq!(end(None, End::Client, Passive, true), Swap);
    assert_eq!(end(None, End::Server, Passive, true), Usual, "clients alone are modified");
}

fn table(entries: usize) -> Table {
    Table::new(entries, tg_key { k0: 1, k1: 2 })
}

fn client(port: u16, ipv6: bool) -> (SocketAddr, SocketAddr) {
    let (own, peer) = if ipv6 { ("fd77::2", "fd77::1") } else { ("10.77.0.2", "10.77.0.1") };
    (SocketAddr::new(own.parse().unwrap(), port), SocketAddr::new(peer.parse().unwrap(), 80))
}

fn closed(port: u16, ipv6: bool, timestamps: bool) -> tg_held {
    let (own, peer) = client(port, ipv6);
    let pair = tg_held::pair(own, peer);
    let flags = pair.flags | if timestamps { TG_HELD_TIMESTAMPS } else { 0 };
    tg_held { snd_nxt: 1000, rcv_nxt: u32::MAX - 10, own_ts: 500, peer_ts: 700, flags, ..pair }
}

fn syn(outgoing: bool, seq: u32, ts: Option<u32>) -> tg_held_segment {
    tg_held_segment {
        seq,
        ts: ts.unwrap_or(0),
        has_ts: ts.is_some().into(),
        outgoing: outgoing.into(),
        syn: 1,
        ack: 0,
        rst: 0,
    }
}

#[test]
fn a_pair_is_held_for_2_msl_and_no_longer() {
    for ipv6 in [false, true] {
        let mut held = table(8);
        let pair = closed(5000, ipv6, false);
        assert_eq!(held.put(&pair, false, 1), Put::Held);
        assert_eq!(pair.ends(), client(5000, ipv6));
        let old = syn(true, 1000, None);
        assert_eq!(held.judge(&pair, &old, TG_HELD_NS), Judged::Block);
        assert_eq!(held.judge(&pair, &old, 1 + TG_HELD_NS), Judged::Pass);
        let (own, peer) = client(5001, ipv6);
        assert_eq!(held.judge(&tg_held::pair(own, peer), &old, 2), Judged::Pass, "another pair");
        let other = closed(5000, !ipv6, false);
        assert_eq!(held.judge(&other, &old, 2), Judged::Pass, "another family");
    }
}

/// RFC 9293, section 3.6.1; RFC 6191; and as Linux opens TIME-WAIT again.
#[test]
fn a_syn_behind_all_that_was_used_opens_it_again() {
    for (outgoing, last, last_ts) in [(true, 1000u32, 500u32), (false, u32::MAX - 10, 700)] {
        for timestamps in [false, true] {
            let mut held = table(8);
            let pair = closed(5000, false, timestamps);
            assert_eq!(held.put(&pair, false, 1), Put::Held);
            let mut judge = |seq: u32, ts| held.judge(&pair, &syn(outgoing, seq, ts), 2);
            assert_eq!(judge(last, None), Judged::Block);
            assert_eq!(judge(last.wrapping_sub(1), None), Judged::Block);
            assert_eq!(judge(last.wrapping_add(1 << 31), None), Judged::Block);
            // Sequence numbers wrap.
            assert_eq!(judge(last.wrapping_add(20), None), Judged::Reopen);
            if timestamps {
                assert_eq!(judge(last, Some(last_ts + 1)), Judged::Reopen);
                assert_eq!(judge(last, Some(last_ts)), Judged::Block);
                assert_eq!(judge(last + 1, Some(last_ts - 1)), Judged::Block, "PAWS");
            }
        }
    }
}

/// The time stamp of a SYN cookie begins anywhere, with each connection: half of them would be taken for
/// older than the last one's.
#[test]
fn what_answers_a_syn_that_was_safe_passes_whatever_its_time_stamp() {
    for outgoing in [false, true] {
        let mut held = table(8);
        let pair = closed(5000, false, true);
        assert_eq!(held.put(&pair, false, 1), Put::Held);
        let answer = tg_held_segment { ack: 1, ..syn(outgoing, 7, Some(1)) };
        assert_eq!(held.judge(&pair, &answer, 2), Judged::Block, "no SYN was safe yet");
        assert_eq!(held.judge(&pair, &syn(!outgoing, 7, Some(9999)), 2), Judged::Reopen);
        assert_eq!(held.judge(&pair, &answer, 2), Judged::Pass);
        assert_eq!(held.judge(&pair, &syn(outgoing, 7, Some(1)), 2), Judged::Block, "a SYN");
        let by_number = tg_held_segment { ack: 1, ..syn(outgoing, 7, None) };
        let old = tg_held_segment { seq: if outgoing { 999 } else { u32::MAX - 11 }, ..by_number };
        assert_eq!(held.judge(&pair, &old, 2), Judged::Block, "without one its number says it");
    }
}

/// The kernel has no socket and would answer an old duplicate with RST; TIME-WAIT would not.
#[test]
fn no_rst_goes_out_on_a_held_pair_until_it_is_open_again() {
    let mut held = table(8);
    let pair = closed(5000, false, false);
    let reset = |outgoing: bool| tg_held_segment { rst: 1, syn: 0, ..syn(outgoing, 7, None) };
    assert_eq!(held.judge(&pair, &reset(true), 2), Judged::Pass, "not held");
    assert_eq!(held.put(&pair, false, 1), Put::Held);
    assert_eq!(held.judge(&pair, &reset(true), 2), Judged::Block);
    assert_eq!(held.judge(&pair, &reset(false), 2), Judged::Pass);
    assert_eq!(held.judge(&pair, &syn(true, 2000, None), 2), Judged::Reopen);
    assert_eq!(held.judge(&pair, &reset(true), 2), Judged::Pass, "the new connection's own");
    // close_swap's own RST is where the server expects it; no other passes.
    let mut swapped = table(8);
    let swap = tg_held { flags: pair.flags | raw::TG_HELD_SWAPPED, ..pair };
    assert_eq!(swapped.put(&swap, false, 1), Put::Held);
    let own = tg_held_segment { seq: 1000, ..reset(true) };
    assert_eq!(swapped.judge(&pair, &own, 2), Judged::Pass);
    assert_eq!(swapped.judge(&pair, &reset(true), 2), Judged::Block);
    // A program has closed with a reply on its way, and its client reads on.
    let mut given_up = table(8);
    let gone = tg_held { flags: pair.flags | raw::TG_HELD_GIVEN_UP, ..pair };
    assert_eq!(given_up.put(&gone, false, 1), Put::Held);
    assert_eq!(given_up.judge(&pair, &reset(true), 2), Judged::Pass);
    // It closes, and is held again.
    assert_eq!(held.put(&pair, false, 3), Put::Held);
    assert_eq!(held.held(4), 1);
    assert_eq!(held.judge(&pair, &reset(true), 4), Judged::Block);
}

#[test]
fn a_full_table_refuses_and_forgets_no_one() {
    let mut held = table(4096);
    let mut kept = Vec::new();
    let mut refused_first = None;
    for port in 0..6000u16 {
        let pair = closed(port, port % 2 == 0, false);
        if held.put(&pair, false, 1) == Put::Held {
            kept.push(pair);
        } else {
            refused_first.get_or_insert(kept.len());
        }
    }
    let first = refused_first.expect("6000 do not fit 4096 cells");
    // With two blocks to choose from, seven tenths are full before the first is refused.
    assert!(first > 4096 * 7 / 10, "the first was refused at {first}");
    assert!(kept.len() > 4096 * 95 / 100, "{} were kept", kept.len());
    assert_eq!(held.held(2), kept.len());
    for pair in &kept {
        assert_eq!(held.judge(pair, &syn(true, 1000, None), 2), Judged::Block);
    }
    // After 2 MSL every cell is free again.
    assert_eq!(held.held(1 + TG_HELD_NS), 0);
    assert_eq!(held.put(&closed(1, true, false), false, 1 + TG_HELD_NS), Put::Held);
}

/// It would have its own cell again: the table need not have another.
#[test]
fn who_is_held_already_has_room_in_a_full_table() {
    let mut held = table(8);
    let all: Vec<tg_held> = (0..8).map(|port| closed(port, false, false)).collect();
    for pair in &all {
        assert_eq!(held.put(pair, false, 1), Put::Held);
    }
    assert!(all.iter().all(|pair| held.can_hold(pair, 2)));
    assert!(!held.can_hold(&closed(99, false, false), 2));
    let other_family = closed(0, true, false);
    assert!(!held.can_hold(&other_family, 2));
}

/// The other end went to CLOSED and counts on us: the one that waited longest gives its place.
#[test]
fn what_was_agreed_is_held_though_the_table_be_full() {
    let mut held = table(8);
    let ages: Vec<tg_held> = (0..8).map(|port| closed(port, false, false)).collect();
    for (later, pair) in ages.iter().enumerate() {
        assert_eq!(held.put(pair, false, 1 + later as u64), Put::Held);
    }
    let last = closed(99, false, false);
    assert_eq!(held.put(&last, false, 20), Put::NoRoom);
    assert_eq!(held.put(&last, true, 20), Put::Evicted);
    let old = syn(true, 1000, None);
    assert_eq!(held.judge(&last, &old, 21), Judged::Block);
    assert_eq!(held.judge(&ages[0], &old, 21), Judged::Pass);
    assert_eq!(held.judge(&ages[1], &old, 21), Judged::Block);
}
