// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a scenario's words to a simulated world, as the live world takes them.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_client as client;
use tidegate_client::pairs::PAIRS_OF_A_MINUTE;
use tidegate_client::{Os, Person};
use tidegate_policy::mechanism;
use tidegate_policy::police::Limited;
use tidegate_policy::raw::{tg_limit, tg_rules};
use tidegate_policy::share::{IPV4_BITS, IPV6_BITS};
use tidegate_scenarios::{
    AcceptLimit, Arrivals, CAPACITY_CLIENTS, CAPACITY_PHASES, Events, Limit, Load, NETWORK_BITS,
    Network, Peer, Phases, SERVER, Scenario, Server, ServerKind, Setting, Treatment, network,
    read_scalable_trace, scheduled,
};

use crate::error::SimError;
use crate::hook::Hook;
use crate::machine::{Machine, Program};
use crate::network::Way;
use crate::pages::Pages;
use crate::setup::{self, Crowd, Setup};
use crate::shed::Shed;
use crate::stack::{Kernel, Profile};

/// A curve's world, without its load.
pub(crate) fn setup(
    scenario: &Scenario,
    setting: &Setting,
    load: &Load,
    machine: &Machine,
) -> Result<Setup, SimError> {
    let server = setting.server.under(&setting.treatment);
    let program = program(&server, machine)?;
    refuse_unknown(setting, &server)?;
    let kernel = kernel(setting, &server, program, machine.profile)?;
    let (rules, hook) = guard(setting, machine)?;
    refuse_few_addresses(setting, rules.as_ref())?;
    let clients = &setting.clients;
    let pages = Pages::served_by(&server, machine.computed_us_ns(), load.seed);
    let cables = match scenario.network {
        Network::Direct => 1,
        Network::Routed => 2,
    };
    Ok(Setup {
        machine: *machine,
        kernel,
        program,
        threads: server.threads,
        backlog: server.backlog,
        accept_limit: accept_limit(&server),
        cost_ns: cost_ns(&server, machine),
        guard: rules.map(|rules| (rules, hook)),
        limits: Vec::new(),
        shed: setting.shed.as_ref().map(|shed| Shed::of(shed, hook)),
        way: Way {
            wire_ns: cables * machine.wire_ns,
            delay: clients.delay,
            loss_in: clients.loss,
            loss_out: clients.loss,
            reorder: clients.reorder,
            ..Way::default()
        },
        crowd: crowd(setting, &pages)?,
        pages,
        time_wait: setting.time_wait.at_server(),
        held_entries: PAIRS_OF_A_MINUTE,
        seed: load.seed,
    })
}

/// What no simulated host has.
fn refuse_unknown(setting: &Setting, server: &Server) -> Result<(), SimError> {
    if server.time_waits > 0 {
        return Err(SimError::TimeWaits);
    }
    if setting.clients.browsing.is_some() {
        return Err(SimError::Browsing);
    }
    Ok(())
}

/// The rules by which SYNs are judged, if they are, and where they are judged or shed.
fn guard(setting: &Setting, machine: &Machine) -> Result<(Option<tg_rules>, Hook), SimError> {
    let mut hook = Hook::named(&setting.hook, machine.hook)?;
    let Treatment::Mechanism(name) = &setting.treatment else { return Ok((None, hook)) };
    let rules = setting.options.over(mechanism::parse(name)?);
    let mut rules = tg_rules { fin: setting.fin.rule(), ..rules };
    if rules.is_auto != 0 && machine.profile != Profile::Linux6 {
        return Err(SimError::AutoBeforeOthers { whose: machine.profile.name() });
    }
    if setting.precedence.fair_share {
        (rules.share_ipv4_bits, rules.share_ipv6_bits) = (IPV4_BITS, IPV6_BITS);
    }
    // As live: where SYNs are shed, they are judged in the same place.
    if setting.shed.is_some() && hook == Hook::Tcp {
        hook = Hook::Ip;
    }
    // As the daemon has it.
    if rules.would_pass_held_by(&setting.time_wait.at_server()) && hook == Hook::Driver {
        hook = Hook::Ip;
    }
    Ok((Some(rules), hook))
}

/// Clients behind a few addresses, where who comes from which counts for more than their ports.
fn refuse_few_addresses(setting: &Setting, rules: Option<&tg_rules>) -> Result<(), SimError> {
    let clients = &setting.clients;
    let judges_addresses = setting.shed.is_some() || rules.is_some_and(|rules| rules.is_auto != 0);
    if clients.addresses.is_some() && (clients.ports.is_none() || judges_addresses) {
        return Err(SimError::Addresses);
    }
    Ok(())
}

/// Gives it the load of one point: so many times the requests a second that the server can do.
pub(crate) fn set_load(
    setup: &mut Setup,
    setting: &Setting,
    load: &Load,
    capacity_per_s: f64,
    offered: f64,
) -> Result<(), SimError> {
    let clients = &setting.clients;
    if let (Some(shed), Some(asked)) = (&mut setup.shed, &setting.shed) {
        *shed = shed.at_capacity(asked, clients.connections_per_s(capacity_per_s));
    }
    let per_s = clients.connections_per_s(capacity_per_s * offered);
    let connections_per_s = clients.connections_per_s(capacity_per_s);
    let limits = setting.precedence.limits(&clients.networks, connections_per_s);
    setup.limits = limits.into_iter().map(limited).collect();
    let phases = load.phases(clients, offered);
    let arrivals = arrivals(setting, &phases, per_s, load.seed)?;
    last(&mut setup.crowd, setup::Load::Open(arrivals), &phases);
    Ok(())
}

/// What holds for the network of this number.
fn limited((number, limit): (u16, Limit)) -> Limited {
    Limited {
        addr: [u32::from_ne_bytes(network(number).octets()), 0, 0, 0],
        is_ipv6: false,
        bits: NETWORK_BITS,
        limit: match limit {
            Limit::Exempt => tg_limit::exempt(),
            Limit::Rate { syns_per_s, burst } => tg_limit::new(syns_per_s, burst),
        },
    }
}

/// Gives it the load that measures what the server can do.
pub(crate) fn set_capacity_load(setup: &mut Setup) {
    last(&mut setup.crowd, setup::Load::Closed { clients: CAPACITY_CLIENTS }, &CAPACITY_PHASES);
}

fn last(crowd: &mut Crowd, load: setup::Load, phases: &Phases) {
    let ns = |phase: Duration| u64::try_from(phase.as_nanos()).unwrap_or(u64::MAX);
    crowd.load = load;
    crowd.warm_up_ns = ns(phases.warm_up);
    crowd.duration_ns = ns(phases.duration);
    crowd.cool_down_ns = ns(phases.cool_down);
}

/// The kernel as a peer has it set. One that would change nothing is refused: its curve would be the
/// kernel's own.
fn kernel(
    setting: &Setting,
    server: &Server,
    program: Program,
    profile: Profile,
) -> Result<Kernel, SimError> {
    let usual = Kernel::of(profile);
    let Treatment::Peer(peer) = setting.treatment else { return Ok(usual) };
    let kernel = match peer {
        Peer::Kernel | Peer::LargeBacklog => usual,
        Peer::AbortOnOverflow => Kernel { abort_on_overflow: true, ..usual },
        Peer::SynCookies0 => Kernel { syncookies: 0, ..usual },
        Peer::SynCookies1 => Kernel { syncookies: 1, ..usual },
        Peer::SynCookies2 => Kernel { syncookies: 2, ..usual },
        _ => return Err(SimError::Peer { peer }),
    };
    let given = |server: &Server| profile.backlog_given(program, server.backlog);
    let is_alike = kernel.heeded_by(profile) == usual.heeded_by(profile)
        && given(server) == given(&setting.server);
    // Live it is set where a host may have something else.
    let is_todays = peer == Peer::SynCookies1 && profile == Profile::Linux6;
    if is_alike && peer != Peer::Kernel && !is_todays {
        return Err(SimError::PeerAlike { peer, whose: profile.name() });
    }
    Ok(kernel)
}

/// A scenario's server on this machine.
fn program(server: &Server, machine: &Machine) -> Result<Program, SimError> {
    match (server.kind, machine.userver, server.events) {
        (ServerKind::Tux, ..) => Ok(Program::Tux),
        (ServerKind::KnotC, ..) => Ok(Program::KnotC),
        (ServerKind::KnotA, ..) => Ok(Program::KnotA),
        (ServerKind::Userver, Program::Userver, Events::Select | Events::Poll) => {
            Ok(Program::UserverScanning)
        }
        (ServerKind::Userver, Program::Userver, Events::IoUring) => Err(SimError::IoUring),
        (ServerKind::Userver, userver, _) => Ok(userver),
        // One worker, which asks epoll and serves in the same turn.
        (ServerKind::Nginx, ..) if machine.costs.nginx_ns.is_some() => Ok(Program::Userver),
        (kind, ..) => Err(SimError::Server { kind }),
    }
}

fn crowd(setting: &Setting, pages: &Pages) -> Result<Crowd, SimError> {
    let clients = &setting.clients;
    let person = Person {
        os: clients.os.each().next().map_or(Os::linux(), |(os, _)| os),
        mss: 1460,
        timeout_ns: ns(clients.timeout_s),
        close: clients.close,
        time_wait: setting.time_wait.at_clients(),
        requests: pages.requests(&SERVER.to_string()),
    };
    Ok(Crowd {
        person,
        requests: clients.requests,
        ports: clients.pairs(),
        systems: clients.os.each().collect(),
        networks: clients.networks.shares().collect(),
        load: setup::Load::Closed { clients: 0 },
        warm_up_ns: 0,
        duration_ns: 1,
        cool_down_ns: 0,
    })
}

fn accept_limit(server: &Server) -> tidegate_servers::AcceptLimit {
    use tidegate_servers::AcceptLimit as Limit;
    match (server.kind, server.accept_limit) {
        (ServerKind::Nginx, _) if !server.multi_accept => Limit::at_most(NonZeroU32::MIN),
        (_, AcceptLimit::Inf) => Limit::INF,
        (_, AcceptLimit::Dynamic) => Limit::Dynamic,
        (_, AcceptLimit::At(most)) => NonZeroU32::new(most).map_or(Limit::INF, Limit::at_most),
    }
}

/// What a request takes beside serving it as the userver does.
fn cost_ns(server: &Server, machine: &Machine) -> u64 {
    let nginx_ns = machine.costs.nginx_ns.filter(|_| server.kind == ServerKind::Nginx);
    server.cost_us * machine.cost_us_ns + nginx_ns.unwrap_or(0)
}

fn arrivals(
    setting: &Setting,
    phases: &Phases,
    per_s: f64,
    seed: u64,
) -> Result<client::Arrivals, SimError> {
    Ok(match &setting.clients.arrivals {
        Arrivals::Poisson => client::Arrivals::poisson(per_s, seed),
        Arrivals::Constant => client::Arrivals::constant(per_s),
        Arrivals::Bursts { burst_s, silence_s } => {
            client::Arrivals::poisson(per_s, seed).in_bursts(ns(*burst_s), ns(*silence_s))
        }
        Arrivals::Steps(steps) => {
            client::Arrivals::poisson(per_s, seed).in_steps(&scheduled(steps, phases))
        }
        Arrivals::Trace(file) => {
            let trace = read_scalable_trace(file)?;
            client::Arrivals::trace_at(&trace, per_s).expect("it can be scaled")
        }
    })
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use tidegate_scenarios::Form;

    use super::*;

    /// Else whoever sheds by address would shed other clients than live.
    #[test]
    fn a_few_addresses_without_a_few_ports_are_refused_rather_than_left_out() {
        let of = |keys: &str| {
            let text =
                format!("title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[clients]\n{keys}");
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let load = scenario.load(Form::Full);
            setup(&scenario, &scenario.settings[0], &load, &Machine::today()).map(drop)
        };
        let few = "addresses = 4\nports = 100\n[[curve]]\nmechanism =";
        assert!(of(&format!("{few} \"default\"")).is_ok());
        for keys in [
            "addresses = 4\n[[curve]]\nmechanism = \"default\"",
            &format!("{few} \"auto\""),
            &format!("{few} \"default\"\nshed = {{ p = 0.5, key = \"client\" }}"),
        ] {
            assert!(matches!(of(keys), Err(SimError::Addresses)), "{keys}");
        }
    }

    /// A claim about it could not fail.
    #[test]
    fn what_would_make_no_difference_is_refused() {
        let of = |server: &str| {
            let text = format!(
                "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\npeer = \"kernel\"\n\
                 server = {{ {server} }}"
            );
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let load = scenario.load(Form::Full);
            setup(&scenario, &scenario.settings[0], &load, &Machine::today()).map(drop)
        };
        assert!(of("backlog = 64").is_ok());
        assert!(matches!(of("time_waits = 20000"), Err(SimError::TimeWaits)));
        assert!(matches!(of("events = \"io_uring\""), Err(SimError::IoUring)));
    }

    /// As what a server asks for is, above. Each profile has the peers whose curves are its kernel's own.
    #[test]
    fn a_peer_that_would_make_no_difference_is_refused() {
        let of = |peer: &str, keys: &str, profile| {
            let text = format!(
                "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\npeer = \"{peer}\"\n\
                 server = {{ {keys} }}"
            );
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let load = scenario.load(Form::Full);
            let machine = Machine { profile, ..Machine::xeon() };
            setup(&scenario, &scenario.settings[0], &load, &machine).map(drop)
        };
        let alike: [(Profile, &[&str]); 4] = [
            (Profile::Linux24, &["syncookies-0", "large-backlog"]),
            (Profile::Linux6, &[]),
            (Profile::Bsd, &["abort-on-overflow", "syncookies-1", "syncookies-2", "large-backlog"]),
            (
                Profile::Windows,
                &["abort-on-overflow", "syncookies-0", "syncookies-1", "syncookies-2"],
            ),
        ];
        let peers = ["kernel", "abort-on-overflow", "syncookies-0", "syncookies-1", "syncookies-2"];
        for (profile, alike) in alike {
            for peer in peers.into_iter().chain(["large-backlog"]) {
                let is_alike = match of(peer, "backlog = 128", profile) {
                    Ok(()) => false,
                    Err(SimError::PeerAlike { .. }) => true,
                    Err(other) => panic!("{other}"),
                };
                assert_eq!(is_alike, alike.contains(&peer), "{peer}, {profile:?}");
            }
        }
        let told = of("large-backlog", "backlog = 128", Profile::Linux24).unwrap_err().to_string();
        assert!(told.starts_with("large-backlog changes nothing on linux-2.4: "), "{told}");
        assert!(of("large-backlog", "backlog = 64", Profile::Linux24).is_ok());
        assert!(of("large-backlog", "backlog = 128, kind = \"tux\"", Profile::Linux24).is_ok());
        assert!(of("large-backlog", "backlog = 65535", Profile::Linux6).is_err());
    }

    /// As `tidegate` takes the IP entry where it is left to choose; a scenario that chooses otherwise is refused.
    #[test]
    fn held_pairs_and_cookies_do_not_go_with_the_driver() {
        let machine = Machine { hook: Hook::Driver, ..Machine::today() };
        let of = |keys: &str| {
            let text =
                format!("title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\n{keys}");
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let setting = &scenario.settings[0];
            let setup = setup(&scenario, setting, &scenario.load(Form::Full), &machine)?;
            Ok::<_, SimError>(setup.guard.map(|(_, hook)| hook))
        };
        let holds = "time_wait = \"negotiate-server\"\nmechanism =";
        let head =
            "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\nhook = \"driver\"\n";
        let text = format!("{head}{holds} \"no-syn-drop\"");
        let at_driver = Scenario::parse("t", "t.toml", &text).unwrap_err().to_string();
        assert!(at_driver.contains("do not go with hook = \"driver\""), "{at_driver}");
        assert_eq!(of(&format!("{holds} \"no-syn-drop\"")).unwrap(), Some(Hook::Ip));
        assert_eq!(of(&format!("{holds} \"abort rst-syn\"")).unwrap(), Some(Hook::Driver));
        assert_eq!(of("mechanism = \"no-syn-drop\"").unwrap(), Some(Hook::Driver));
    }

    /// What it is shown of other systems' queues says whether there is room, and not how long they are.
    #[test]
    fn auto_is_simulated_before_todays_tcp_alone() {
        let of = |mechanism: &str, profile| {
            let text = format!(
                "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\nmechanism = \"{mechanism}\""
            );
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let load = scenario.load(Form::Full);
            let machine = Machine { profile, ..Machine::today() };
            setup(&scenario, &scenario.settings[0], &load, &machine).map(drop)
        };
        assert!(of("auto", Profile::Linux6).is_ok());
        for profile in [Profile::Linux24, Profile::Bsd, Profile::Windows] {
            let told = of("auto", profile).unwrap_err().to_string();
            assert!(told.contains(&format!("not before {}: ", profile.name())), "{told}");
            assert!(of("abort rst-syn", profile).is_ok());
        }
    }

    #[test]
    fn a_server_accepts_as_many_as_it_is_told_to() {
        for limit in ["1", "100", "\"inf\"", "\"dynamic\""] {
            let text = format!(
                "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\npeer = \"kernel\"\n\
                 server = {{ accept_limit = {limit} }}"
            );
            let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
            let load = scenario.load(Form::Full);
            let setup = setup(&scenario, &scenario.settings[0], &load, &Machine::today()).unwrap();
            assert_eq!(setup.accept_limit.to_string(), limit.trim_matches('"'));
        }
    }

    #[test]
    fn nginx_is_a_userver_that_accepts_one_at_a_time_where_its_cost_is_known() {
        let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\nname = \"one\"\n\
             peer = \"kernel\"\nserver = { kind = \"nginx\" }\n[[curve]]\nname = \"all\"\n\
             peer = \"kernel\"\nserver = { kind = \"nginx\", multi_accept = true }";
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let of = |place: usize, machine: &Machine| {
            setup(&scenario, &scenario.settings[place], &scenario.load(Form::Full), machine)
        };
        let today = Machine::today();
        let [one, all] = [0, 1].map(|place| of(place, &today).unwrap());
        let limits = [&one, &all].map(|setup| setup.accept_limit.to_string());
        assert_eq!(limits, ["1", "inf"]);
        assert_eq!((one.program, Some(one.cost_ns)), (Program::Userver, today.costs.nginx_ns));
        let unknown = of(0, &Machine::xeon()).unwrap_err().to_string();
        assert!(unknown.contains("no nginx"), "{unknown}");
    }
}
