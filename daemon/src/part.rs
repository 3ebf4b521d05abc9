// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host does in part of what is asked for: no reason to refuse all of it, and told where it is put in force.

use std::collections::BTreeSet;
use std::fs;

use tidegate_datapath::cgroup;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::control::LetsIn;
use tidegate_datapath::raw::TG_HOOK_TCP;
use tidegate_datapath::sock_diag::{self, Unremovable};

use crate::config::Config;
use crate::failure::Failure;
use crate::host::Kernel;
use crate::{host, keys, reserv};

/// What programs at the root of the cgroups do not see, where that is a container's own.
pub fn of_sockets() -> Option<Failure> {
    cgroup::shows_a_part().then(|| {
        Failure::argument(
            "only the sockets of this container's cgroup are seen",
            "start it with --cgroupns=host",
        )
    })
}

/// What stays since the kernel removes no socket. It `cleans` reservations, or `ends` TIME-WAITs.
fn stays(why: Unremovable, cleans: bool, ends: bool) -> Failure {
    let asked = [
        (cleans, "old half-open requests keep their places", "clean_after_ms"),
        (ends, "a second TIME-WAIT is not ended by the daemon", "what asks for time_wait"),
    ];
    let asked = || asked.iter().filter(|(is_asked, ..)| *is_asked);
    let stays = asked().map(|(_, stays, _)| *stays).collect::<Vec<_>>().join(", and ");
    let keys = asked().map(|(.., keys)| *keys).collect::<Vec<_>>().join(" and ");
    let (lacks, fix) = match why {
        Unremovable::NoModule => ("has no sock_diag for TCP (tcp_diag)", "modprobe tcp_diag, or "),
        Unremovable::NotBuilt => ("was built without CONFIG_INET_DIAG_DESTROY", ""),
    };
    Failure::argument(format!("the kernel {lacks}: {stays}"), format!("{fix}take {keys} out"))
}

/// The ports of IPVS's services by TCP, as the kernel lists them.
fn served_by_ipvs(listed: &str) -> BTreeSet<u16> {
    let port = |line: &str| {
        let mut words = line.split_whitespace();
        let place = words.next().filter(|protocol| *protocol == "TCP").and(words.next())?;
        u16::from_str_radix(place.rsplit_once(':')?.1, 16).ok()
    };
    listed.lines().filter_map(port).collect()
}

/// What is judged behind IPVS: `auto` is not, for it answers.
const AT_TCP: &str =
    "hook = \"tcp\" with a mechanism that only drops, such as \"abort early-syn-drop\"";

/// The guarded ports whose SYNs IPVS may take elsewhere when they have been judged as the listener's on every address.
fn taken_by_ipvs(guards: &[Guarded], listed: &str) -> Option<Failure> {
    let served = served_by_ipvs(listed);
    let before = guards.iter().filter(|g| g.address.is_none() && g.hook != TG_HOOK_TCP);
    let ports: BTreeSet<u16> =
        before.map(|g| g.port).filter(|port| served.contains(port)).collect();
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    (!ports.is_empty()).then(|| {
        Failure::argument(
            format!(
                "IPVS has services on port {}: their clients are refused, too, while what listens there on every \
                 address is full",
                ports.join(", ")
            ),
            format!("give the listener an address, or {AT_TCP}"),
        )
    })
}

/// What clients by IPv6 are told where a cookie is due to them, and this kernel lets them in by none of ours.
fn without_cookies(guards: &[Guarded], kernel: impl Fn() -> Kernel) -> Option<Failure> {
    let is_ipv4 = |g: &Guarded| g.address.is_some_and(|address| address.is_ipv4());
    let asks = |g: &&Guarded| g.rules.needs_cookies() && !is_ipv4(g);
    let guarded = guards.iter().find(asks).filter(|_| kernel().lets_in() == LetsIn::ByIpv4)?;
    Some(Failure::argument(
        format!(
            "port {}: no cookies by IPv6, which is a module of this kernel (CONFIG_IPV6=m): there its own rules \
             decide",
            guarded.port
        ),
        "run one with IPv6 built in, or choose \"abort rst-syn\"",
    ))
}

/// All that is to be told of a configuration.
pub fn of(config: &Config) -> impl Iterator<Item = Failure> {
    let cleans = config.guards.iter().any(|g| g.rules.clean_after_ms != 0);
    let ends = config.asks_time_wait();
    let why = (cleans || ends).then(sock_diag::unremovable).flatten();
    let seen = config.asks_cgroups().then(of_sockets).flatten();
    let reserved = reserv::in_vain(&config.guards, host::sysctl("net/ipv4/tcp_syncookies"));
    // Without the module there is no such file.
    let ipvs = fs::read_to_string("/proc/thread-self/net/ip_vs").unwrap_or_default();
    let taken = taken_by_ipvs(&config.guards, &ipvs);
    // Without IPv6, or before the module is there, nobody comes by it.
    let comes_ipv6 = fs::exists("/proc/sys/net/ipv6").unwrap_or_default();
    let without = without_cookies(&config.guards, host::kernel).filter(|_| comes_ipv6);
    let stays = why.map(|why| stays(why, cleans, ends)).into_iter();
    stays.chain(seen).chain(reserved).chain(taken).chain(without).chain(keys::open(config))
}

#[cfg(test)]
mod tests {
    use tidegate_datapath::raw::{TG_HOOK_AUTO, TG_HOOK_DRIVER, TG_HOOK_IP};
    use tidegate_policy::mechanism;

    use super::*;
    use crate::hook;
    use crate::setting::Written;

    const IPVS: &str = "IP Virtual Server version 1.2.1 (size=4096)\n\
        Prot LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
        TCP  0A600001:01BB rr  \n  -> 0A700001:1F90      Masq    1      0          0         \n\
        UDP  0A60000A:0035 rr  \nFWM  00000001 rr  \n\
        TCP  [2001:0db8:0000:0000:0000:0000:0000:0007]:0050 rr\n";

    #[test]
    fn services_of_ipvs_are_those_by_tcp_whatever_their_address() {
        assert_eq!(served_by_ipvs(IPVS), BTreeSet::from([80, 443]));
        assert_eq!(served_by_ipvs(""), BTreeSet::new());
    }

    #[test]
    fn what_ipvs_takes_from_a_listener_on_every_address_is_told_where_that_is_judged_before() {
        let on = |port, hook| Guarded { port, hook, ..Default::default() };
        let own = Guarded { address: Some([192, 0, 2, 1].into()), ..on(443, TG_HOOK_IP) };
        for none in [on(443, TG_HOOK_TCP), on(8080, TG_HOOK_IP), own.clone()] {
            assert!(taken_by_ipvs(&[none], IPVS).is_none());
        }
        let guards = [own, on(443, TG_HOOK_AUTO), on(80, TG_HOOK_DRIVER), on(53, TG_HOOK_IP)];
        assert!(taken_by_ipvs(&guards, "").is_none());
        assert_eq!(
            taken_by_ipvs(&guards, IPVS).unwrap().to_string(),
            "IPVS has services on port 80, 443: their clients are refused, too, while what listens there on \
             every address is full; give the listener an address, or hook = \"tcp\" with a mechanism that only drops, \
             such as \"abort early-syn-drop\""
        );
    }

    /// Who does as he is told is not told to undo it.
    #[test]
    fn what_is_to_be_judged_behind_ipvs_is_taken_there() {
        let quoted: Vec<&str> = AT_TCP.split('"').skip(1).step_by(2).collect();
        let [hook, mechanism] = quoted[..] else { panic!("a hook and a mechanism in {AT_TCP}") };
        let rules = mechanism::parse(mechanism).unwrap();
        assert_eq!(hook::parse(Written::InFile, hook, &rules), Ok(TG_HOOK_TCP));
    }

    #[test]
    fn where_ipv6_is_a_module_it_is_told_that_there_are_no_cookies_by_it() {
        let kernel =
            |cookies_ipv6| move || Kernel { cookies: true, cookies_ipv6, ..host::kernel() };
        let on = |address: Option<&str>, mechanism| Guarded {
            port: 443,
            address: address.map(|address| address.parse().unwrap()),
            rules: mechanism::parse(mechanism).unwrap(),
            ..Default::default()
        };
        for none in
            [on(None, "abort rst-syn"), on(None, "auto"), on(Some("192.0.2.1"), "no-syn-drop")]
        {
            assert!(without_cookies(&[none], kernel(false)).is_none());
        }
        for address in [None, Some("2001:db8::1")] {
            let guards = [on(address, "no-syn-drop")];
            assert!(without_cookies(&guards, kernel(true)).is_none());
            assert_eq!(
                without_cookies(&guards, kernel(false)).unwrap().to_string(),
                "port 443: no cookies by IPv6, which is a module of this kernel (CONFIG_IPV6=m): there its own \
                 rules decide; run one with IPv6 built in, or choose \"abort rst-syn\""
            );
        }
    }

    #[test]
    fn what_stays_is_told_with_the_way_to_have_it_removed() {
        let told = |why, cleans, ends| stays(why, cleans, ends).to_string();
        assert_eq!(
            told(Unremovable::NoModule, true, false),
            "the kernel has no sock_diag for TCP (tcp_diag): old half-open requests keep their places; \
             modprobe tcp_diag, or take clean_after_ms out"
        );
        assert_eq!(
            told(Unremovable::NotBuilt, true, true),
            "the kernel was built without CONFIG_INET_DIAG_DESTROY: old half-open requests keep their places, \
             and a second TIME-WAIT is not ended by the daemon; take clean_after_ms and what asks for \
             time_wait out"
        );
    }
}
