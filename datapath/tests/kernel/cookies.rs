// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our SYN cookies, as they are given: to whom, in what dress, with which options.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use crate::common::cookie;
use crate::common::scene::*;
use crate::common::segment::*;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use tidegate_datapath::clock;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::control::{self, LetsIn};
use tidegate_policy::agree;
use tidegate_policy::raw::*;

/// What a client has that names none (RFC 9293, section 3.7.1), and the least that the kernel takes
/// of a cookie.
fn least_mss(to: SocketAddr) -> u16 {
    if to.is_ipv4() { 536 } else { 1220 }
}

/// The options of every combination, and of the systems that clients run.
fn offers() -> Vec<(String, Vec<Offer>)> {
    use Offer::*;
    let mut all = Vec::new();
    for combination in 0..16 {
        let offered: Vec<Offer> = [Mss(1300), Scale(8), Sack, Stamps(0xaabb_ccdd)]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| combination & 1 << bit != 0)
            .map(|(_, offer)| offer)
            .collect();
        // Every order of them.
        for order in permutations(&offered) {
            all.push((format!("{order:?}"), order));
        }
    }
    let linux = vec![Mss(1460), Sack, Stamps(77), Nop, Scale(7)];
    let windows = vec![Mss(1460), Nop, Scale(8), Nop, Nop, Sack];
    let mac = vec![Mss(1460), Nop, Scale(6), Nop, Nop, Stamps(77), Sack, End];
    let fast_open = vec![Mss(1460), Sack, Stamps(77), Nop, Scale(7), FastOpen, Nop, Nop];
    for (name, offered) in
        [("Linux", linux), ("Windows", windows), ("macOS", mac), ("Fast Open", fast_open)]
    {
        all.push((name.to_owned(), offered));
    }
    all
}

fn permutations(of: &[Offer]) -> Vec<Vec<Offer>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, first) in of.iter().enumerate() {
        let mut others = of.to_vec();
        others.remove(index);
        for mut rest in permutations(&others) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}

/// What a client is told that it may send, by what of the receive buffer is window: whole segments, where there is room
/// for one. (64 KiB of it are by default, half of tcp_rmem's 128.)
fn window(bytes: u32, mss: u16) -> u16 {
    let mss = u32::from(mss);
    let whole = if bytes > mss { bytes - bytes % mss } else { bytes };
    whole.min(65535) as u16
}

/// The SYN/ACK that a cookie rides on, byte for byte: exactly the options that were offered, no
/// longer than the SYN, and everything that was agreed is in the number itself.
#[track_caller]
fn assert_cookie(segment: &Segment, offered: &[Offer], reply: &[u8], why: &str) {
    let offers = |kind: fn(&Offer) -> bool| offered.iter().any(kind);
    let mss = offered.iter().find_map(|o| if let Offer::Mss(mss) = o { Some(*mss) } else { None });
    let scale =
        offered.iter().find_map(|o| if let Offer::Scale(by) = o { Some(*by) } else { None });
    let stamp =
        offered.iter().find_map(|o| if let Offer::Stamps(at) = o { Some(*at) } else { None });
    let sack = offers(|o| *o == Offer::Sack);
    let may_ask = segment.traffic_class & 3 == 0 || segment.reserved != 0;
    let ecn = segment.flags & (ECE | CWR) == ECE | CWR && may_ask;

    let seen = read_syn_ack(reply);
    let isn = seen.tcp.sequence_number;
    let mut case = cookie::case(segment.from, segment.to, segment.seq, isn);
    let mut answers = agree(&case);
    assert_eq!(answers.opened_ok, 1, "{why}: the policy opens what the program made");
    let opened = answers.opened;
    let kept = [65475, 8940, 1460, 1440, 1380, 1300, 1220, 536];
    let at_most = mss.unwrap_or(least_mss(segment.to));
    assert_eq!(opened.mss, kept.into_iter().find(|m| *m <= at_most).unwrap(), "{why}: MSS");
    assert_eq!(opened.wscale, scale.map_or(15, |by| by.min(14)), "{why}: window scale");
    assert_eq!((opened.sack, opened.ecn), (sack.into(), ecn.into()), "{why}: SACK, ECN");

    // Made natively from the same, the cookie is the same, and names the timestamps' start.
    case.options = opened;
    answers = agree(&case);
    assert_eq!(answers.made.isn, isn, "{why}: the number");
    if let Some(tsval) = seen.tsval {
        let age = (clock::monotonic_ns() >> 20) as u32;
        let elapsed = age.wrapping_sub(tsval.wrapping_sub(answers.made.ts_offset));
        assert!(elapsed < 100, "{why}: timestamps start {elapsed} ticks ago");
    }

    let mut words: Vec<u8> = Vec::new();
    if mss.is_some() {
        let headers = if segment.to.is_ipv4() { 40 } else { 60 };
        words.extend([2, 4]);
        words.extend((1500u16 - headers).to_be_bytes());
    }
    if let Some(stamp) = stamp {
        words.extend(if sack { [4, 2] } else { [1, 1] });
        words.extend([8, 10]);
        words.extend(seen.tsval.expect("timestamps were offered").to_be_bytes());
        words.extend(stamp.to_be_bytes());
    } else if sack {
        words.extend([1, 1, 4, 2]);
    }
    if scale.is_some() {
        words.extend([1, 3, 3, 10]);
    }
    let expected = segment.answer(|tcp| {
        tcp.syn = true;
        tcp.ack = true;
        tcp.ece = ecn;
        tcp.sequence_number = isn;
        tcp.acknowledgment_number = segment.seq.wrapping_add(1);
        tcp.window_size = window(65536, opened.mss);
        tcp.set_options_raw(&words).unwrap();
    });
    assert_eq!(reply, expected, "{why}");
    assert!(reply.len() <= segment.bytes().len(), "{why}: longer than the SYN");
}

#[test]
fn no_syn_drop_answers_with_a_cookie_that_keeps_every_option() {
    in_a_namespace("no_syn_drop_answers_with_a_cookie_that_keeps_every_option", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for (why, offered) in offers() {
                let segment = syn(to).with(|s| s.options = options(&offered));
                for hook in HOOKS {
                    let (outcome, reply, counted) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{why}, {to}, {hook:?}");
                    assert_cookie(&segment, &offered, &reply, &format!("{why}, {to}, {hook:?}"));
                    assert_eq!(counted, [(0, "ListenQFullAtSyn", "cookie", 1)], "{why}");
                }
            }
        }
    });
}

#[test]
fn a_cookie_answers_a_syn_in_any_dress() {
    in_a_namespace("a_cookie_answers_a_syn_in_any_dress", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let windows =
            [Offer::Mss(1400), Offer::Nop, Offer::Scale(8), Offer::Nop, Offer::Nop, Offer::Sack];
        for to in both_families() {
            for (dress, segment) in dressed(&syn(to)) {
                let segment = segment.with(|s| s.options = options(&windows));
                for hook in HOOKS {
                    let (_, reply, counted) = one(&guards, hook, &segment.bytes());
                    let why = format!("{dress}, {to}, {hook:?}");
                    if segment.vlans.len() > tags_that_a_cookie_bears(hook) {
                        assert_eq!(counted, [(0, "NoCookie", "pass", 1)], "{why}");
                    } else {
                        assert_cookie(&segment, &windows, &reply, &why);
                    }
                }
            }
        }
    });
}

/// bpf_sk_assign_tcp_reqsk() finds no TCP behind a tag: the ACK that brings the cookie back would be let
/// in, and then be nobody's. One tag is taken out behind the driver, and before the IP entry.
fn tags_that_a_cookie_bears(hook: Hook) -> usize {
    usize::from(hook != IP)
}

#[test]
fn ecn_is_agreed_on_an_ecn_setup_syn_alone() {
    in_a_namespace("ecn_is_agreed_on_an_ecn_setup_syn_alone", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for flags in [0, ECE, CWR, ECE | CWR] {
                for (traffic_class, reserved) in (0..4).flat_map(|class| [(class, 0), (class, 1)]) {
                    let segment = syn(to).with(|s| {
                        s.options.clear();
                        s.flags |= flags;
                        s.reserved = reserved;
                        s.traffic_class = traffic_class;
                    });
                    for hook in HOOKS {
                        let (_, reply, _) = one(&guards, hook, &segment.bytes());
                        let why = format!(
                            "flags {flags:#x}, beside them {reserved}, codepoint {traffic_class}"
                        );
                        assert_cookie(&segment, &[], &reply, &why);
                    }
                }
            }
        }
    });
}

/// DCTCP's clients send their SYN with a codepoint, and without ECN there is no DCTCP.
#[test]
fn a_listener_whose_congestion_control_lives_by_ecn_agrees_on_it_with_whoever_asks() {
    in_a_namespace("a_listener_whose_congestion_control_lives_by_ecn", |namespace| {
        let servers = both_full();
        for server in &servers {
            let name = std::ffi::OsString::from("dctcp");
            if setsockopt(&server.listener, sockopt::TcpCongestion, &name).is_err() {
                println!("nothing is shown: this kernel has no DCTCP");
                return;
            }
        }
        namespace.sysctl("net.ipv4.tcp_ecn", 0).unwrap();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for (flags, agreed) in [(ECE | CWR, 1), (0, 0), (ECE, 0)] {
                let segment = syn(to).with(|s| {
                    s.flags |= flags;
                    s.traffic_class = 2;
                });
                for hook in HOOKS {
                    let (_, reply, _) = one(&guards, hook, &segment.bytes());
                    let isn = read_syn_ack(&reply).tcp.sequence_number;
                    let case = cookie::case(segment.from, segment.to, segment.seq, isn);
                    assert_eq!(agree(&case).opened.ecn, agreed, "{to}, {hook:?}, {flags:#x}");
                }
            }
        }
    });
}

/// tcpi_rcv_wnd, in bytes (Linux 6.2), behind what libc knows of struct tcp_info.
fn receive_window(connection: &TcpStream) -> u32 {
    const AT: usize = 232;
    let mut info = [0u8; AT + 4];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes no more than that many bytes of an array that is ours.
    let read = unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(
            connection.as_raw_fd(),
            level,
            option,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!((read, length as usize), (0, info.len()), "{}", std::io::Error::last_os_error());
    u32::from_ne_bytes(info[AT..].try_into().unwrap())
}

/// What a client is told in the SYN/ACK it may send at once: TCP drops what goes beyond the window that it
/// has when the cookie comes back.
#[test]
fn a_cookie_announces_the_window_with_which_its_client_comes_in() {
    in_a_namespace("a_cookie_announces_the_window_with_which_its_client_comes_in", |namespace| {
        let outside = Outside::of(namespace);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        for to in both_families() {
            let mss = if to.is_ipv4() { 1460 } else { 1440 };
            // The kernel doubles what is asked for; half of that is window.
            for (port, buffer) in [(630, 3000), (631, 8192), (632, 20_000), (633, 65_536)] {
                let server = Server::bound(to, 0, false);
                server.listener.set_nonblocking(true).unwrap();
                setsockopt(&server.listener, sockopt::RcvBuf, &buffer).unwrap();
                let _waits = connect(to);
                let asks = Segment::syn(Outside::client(to, port), to)
                    .with(|s| s.options = options(&[Offer::Mss(mss)]));
                let told = HOOKS.map(|hook| {
                    let (outcome, reply, _) = one(&guards, hook, &asks.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{to}, {buffer}, {hook:?}");
                    read_syn_ack(&reply).tcp.window_size
                });
                assert_eq!(told, [window(buffer as u32, mss); 3], "{to}, {buffer}");

                let (_, reply, _) = one(&guards, IP, &asks.bytes());
                accept(&server);
                outside.sends(&asks.acknowledging(&reply));
                let (came_in, _) = accept(&server);
                assert_eq!(receive_window(&came_in), u32::from(told[0]), "{to}, {buffer}");
            }
        }
    });
}

/// Routers say how long IPv6's packets may be (RFC 4861, section 4.6.4), whatever the link would carry.
#[test]
fn by_ipv6_a_cookie_asks_for_what_the_interface_has_been_told() {
    in_a_namespace("by_ipv6_a_cookie_asks_for_what_the_interface_has_been_told", |namespace| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        namespace.sysctl("net.ipv6.conf.lo.mtu", 1400).unwrap();
        for (to, most) in both_families().into_iter().zip([1460u16, 1340]) {
            let asks = syn(to).with(|s| s.options = options(&[Offer::Mss(1220)]));
            for hook in HOOKS {
                let (_, reply, _) = one(&guards, hook, &asks.bytes());
                let [high, low] = most.to_be_bytes();
                assert_eq!(reply[reply.len() - 4..], [2, 4, high, low], "{to}, {hook:?}");
            }
        }
    });
}

/// A SYN whose options a cookie would lose goes to the kernel, which may still have an answer.
#[test]
fn options_that_fit_no_cookie_are_left_to_the_kernel() {
    in_a_namespace("options_that_fit_no_cookie_are_left_to_the_kernel", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for (why, bytes) in [
                ("an MSS below the least", options(&[Offer::Mss(least_mss(to) - 1)])),
                ("an option without a length", vec![1, 1, 1, 3]),
                ("an option of length 1", vec![3, 1, 0, 0]),
                ("an option that runs out of the header", vec![8, 10, 0, 0]),
            ] {
                let segment = syn(to).with(|s| s.options = bytes);
                for hook in HOOKS {
                    let (outcome, left, counted) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Pass, "{why}, {hook:?}");
                    assert_eq!(left, segment.bytes(), "{why}, {hook:?}");
                    assert_eq!(counted, [(0, "NoCookie", "pass", 1)], "{why}, {hook:?}");
                }
            }
        }
        control::write_clock(&guards.programs, LetsIn::Nobody).unwrap();
        assert_passed(&guards, &syn(at(V4, FULL)).bytes(), "NoCookie");
    });
}

/// bpf_sk_assign_tcp_reqsk() takes none by IPv6 where that is a module (CONFIG_IPV6=m), and the kernel would answer
/// with RST who brings one.
#[test]
fn where_the_kernel_lets_nobody_in_by_ipv6_no_cookie_is_given_there() {
    in_a_namespace("where_the_kernel_lets_nobody_in_by_ipv6_no_cookie_is_given_there", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        control::write_clock(&guards.programs, LetsIn::ByIpv4).unwrap();
        assert_passed(&guards, &syn(at(V6, FULL)).bytes(), "NoCookie");
        for hook in HOOKS {
            let (outcome, ..) = one(&guards, hook, &syn(at(V4, FULL)).bytes());
            assert_eq!(outcome, Outcome::Answer, "{hook:?}");
        }
    });
}

/// Without the sysctl cookie_v4_check() lets nobody in, whoever made the cookie.
#[test]
fn where_the_kernel_takes_no_cookies_none_is_given() {
    in_a_namespace("where_the_kernel_takes_no_cookies_none_is_given", |namespace| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        namespace.sysctl("net.ipv4.tcp_syncookies", 0).unwrap();
        for to in both_families() {
            assert_passed(&guards, &syn(to).bytes(), "NoCookie");
        }
    });
}

/// Where the kernel has room, and only a rule of ours stands against a SYN, the kernel would let it in:
/// options that fit no cookie would be the way round every limit.
#[test]
fn options_that_fit_no_cookie_are_no_way_round_a_limit_of_ours() {
    in_a_namespace("options_that_fit_no_cookie_are_no_way_round_a_limit_of_ours", |_| {
        let to = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = to.map(|to| Server::new(to, 128, 1));
        let cookies = refusing(TG_SYN_COOKIE);
        // One, and no other for 18 minutes.
        let limit = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let policed = Guarded { limits: everybody.to_vec(), ..guarded(None, ROOMY, cookies) };
        let few_places = tg_rules { places: 1, ..cookies };
        let lazy = tg_rules { room: TG_ROOM_RESERVE, ahead: 1, ..cookies };
        let exhausted = tg_rules { cookie_when_reserved: 1, ..lazy };
        let guards = Guards::new(Vec::new());
        for (guard, reason) in [
            (policed, "Policed"),
            (guarded(None, ROOMY, few_places), "WaitLimit"),
            (guarded(None, ROOMY, lazy), "NoReservation"),
            (guarded(None, ROOMY, tg_rules { syn: TG_SYN_RESET, ..exhausted }), "NoReservation"),
        ] {
            guards.rewrite(vec![guard]);
            for to in to {
                let fits = syn(to).bytes();
                if reason == "Policed" {
                    assert_eq!(one(&guards, IP, &fits).2, [(0, "Room", "pass", 1)], "its first");
                }
                for hook in HOOKS {
                    assert_eq!(one(&guards, hook, &fits).2, [(0, reason, "cookie", 1)], "{hook:?}");
                    for bytes in [options(&[Offer::Mss(535)]), vec![3, 1, 0, 0]] {
                        let fits_none = syn(to).with(|s| s.options = bytes);
                        let (outcome, _, counted) = one(&guards, hook, &fits_none.bytes());
                        assert_eq!(outcome, Outcome::Drop, "{reason}, {hook:?}");
                        assert_eq!(counted, [(0, "NoCookie", "drop", 1)], "{reason}, {hook:?}");
                    }
                }
            }
        }
    });
}

/// bpf_sk_assign_tcp_reqsk() refuses an MSS below 536 by IPv4 and below 1220 by IPv6: a cookie that
/// keeps less would be answered with RST when it comes back.
#[test]
fn whoever_has_a_cookie_is_let_in_with_it_however_small_its_mss() {
    in_a_namespace("whoever_has_a_cookie_is_let_in_with_it_however_small_its_mss", |namespace| {
        let outside = Outside::of(namespace);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        for to in both_families() {
            let server = Server::bound(to, 0, false);
            server.listener.set_nonblocking(true).unwrap();
            let (least, usual) = (least_mss(to), if to.is_ipv4() { 1460 } else { 1440 });
            for (port, mss, kept) in [
                (600, None, least),
                (601, Some(least), least),
                (602, Some(least + 1), least),
                (603, Some(usual), usual),
            ] {
                let _waits = connect(to);
                let offered: Vec<Offer> = mss.map(Offer::Mss).into_iter().collect();
                let asks = Segment::syn(Outside::client(to, port), to)
                    .with(|s| s.options = options(&offered));
                let (outcome, reply, _) = one(&guards, IP, &asks.bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}, {mss:?}");
                assert_cookie(&asks, &offered, &reply, &format!("{to}, {mss:?}"));
                accept(&server);

                outside.sends(&asks.acknowledging(&reply));
                let (came_in, from) = accept(&server);
                assert_eq!(from, asks.from, "{mss:?}");
                let carried = getsockopt(&came_in, sockopt::TcpMaxSeg).unwrap();
                assert_eq!(carried, u32::from(kept), "{to}, {mss:?}");
            }
        }
    });
}

/// An application that knows of a narrow way asks for short segments (TCP_MAXSEG), in both directions.
#[test]
fn a_cookie_asks_for_no_more_than_the_application_does() {
    in_a_namespace("a_cookie_asks_for_no_more_than_the_application_does", |namespace| {
        const NARROW: u16 = 1300;
        let outside = Outside::of(namespace);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        for (to, port) in both_families().into_iter().zip(610..) {
            let server = Server::bound(to, 0, false);
            server.listener.set_nonblocking(true).unwrap();
            setsockopt(&server.listener, sockopt::TcpMaxSeg, &NARROW.into()).unwrap();
            let _waits = connect(to);
            let asks = Segment::syn(Outside::client(to, port), to)
                .with(|s| s.options = options(&[Offer::Mss(1440)]));
            for hook in HOOKS {
                let (outcome, reply, _) = one(&guards, hook, &asks.bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                let [high, low] = NARROW.to_be_bytes();
                let options = reply.len() - 4;
                assert_eq!(reply[options..], [2, 4, high, low], "{to}, {hook:?}");
            }
            let (_, reply, _) = one(&guards, IP, &asks.bytes());
            accept(&server);
            outside.sends(&asks.acknowledging(&reply));
            let (came_in, _) = accept(&server);
            let carried = getsockopt(&came_in, sockopt::TcpMaxSeg).unwrap();
            assert_eq!(carried, u32::from(NARROW), "{to}");
            // Of one who asks for less than any cookie keeps nothing is promised.
            setsockopt(&server.listener, sockopt::TcpMaxSeg, &500).unwrap();
            let _waits = connect(to);
            let another = asks.clone().with(|s| s.from.set_port(port + 100));
            let (outcome, _, counted) = one(&guards, IP, &another.bytes());
            assert_eq!((outcome, counted[0].1), (Outcome::Pass, "NoCookie"), "{to}");
        }
    });
}
