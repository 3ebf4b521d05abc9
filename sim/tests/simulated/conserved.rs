// SPDX-License-Identifier: Apache-2.0 OR MIT
//! At any moment every attempt is somewhere, and so is every packet, whatever the world is like.

use proptest::prelude::*;
use tidegate_client::{Arrivals, Close, Os, Person};
use tidegate_policy::mechanism;
use tidegate_policy::raw::{TG_KEY_CONNECTION, tg_rules, tg_shed_rules, tg_tw_rules};
use tidegate_scenarios::{Delay, Page};
use tidegate_servers::AcceptLimit;
use tidegate_sim::{
    Crowd, Hook, Kernel, Link, Load, Machine, Napi, Pages, Profile, Program, Setup, Shed,
    Threading, Way, World,
};

const MS_NS: u64 = 1_000_000;
const MECHANISMS: [Option<&str>; 10] = [
    None,
    Some("default"),
    Some("abort"),
    Some("reserv"),
    Some("abort rst-syn"),
    Some("reserv rst-syn"),
    Some("no-syn-drop"),
    Some("abort early-syn-drop"),
    Some("abort reserv rst-syn"),
    Some("auto"),
];

fn machine() -> impl Strategy<Value = Machine> {
    // Budgets so small that packets often wait for the application, and are lost at the ring.
    let napi =
        (1_u32..400, 1_000_u64..3_000_000, 1_000_u64..3_000_000, 0_u64..200_000, 2_usize..600)
            .prop_map(|(packets, time_ns, turn_ns, interrupt_gap_ns, ring)| Napi {
                packets,
                time_ns,
                turn_ns,
                interrupt_gap_ns,
                ring,
            });
    (0..4, 1_u32..4, any::<bool>(), napi).prop_map(|(whose, cores, driver_elsewhere, napi)| {
        let machine = match whose {
            0 => Machine::today(),
            1 => Machine::xeon(),
            2 => Machine { profile: Profile::Bsd, ..Machine::xeon() },
            _ => Machine { profile: Profile::Windows, ..Machine::xeon() },
        };
        let threading = if whose % 2 == 0 { Threading::Kernel } else { Threading::Capriccio };
        Machine { cores, driver_elsewhere, napi, threading, ..machine }
    })
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let link = (1_000_000_u64..1_000_000_000, 2000_u64..1_000_000)
        .prop_map(|(bits_per_s, queue_bytes)| Link { bits_per_s, queue_bytes });
    prop::collection::vec(link, 0..3)
}

fn way() -> impl Strategy<Value = Way> {
    let losses = (0.0..0.2, 0.0..0.2, 0.0..0.2, prop::collection::vec(0.0..1.0, 0..3));
    (losses, 0.0..30.0, links(), links()).prop_map(|(losses, mean_ms, links_in, links_out)| {
        let (loss_in, loss_out, reorder, loss_of_syns) = losses;
        let delay = Delay { mean_ms, spread_ms: mean_ms / 4.0 };
        Way {
            wire_ns: 50_000,
            delay,
            loss_in,
            loss_out,
            loss_of_syns,
            reorder,
            links_in,
            links_out,
        }
    })
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let close = prop::sample::select(Close::ALL.to_vec());
    let load = prop_oneof![
        (1_000.0..150_000.0).prop_map(|per_s| Load::Open(Arrivals::poisson(per_s, 3))),
        (1_usize..200).prop_map(|clients| Load::Closed { clients }),
    ];
    let os = prop::sample::select(Os::all().to_vec());
    let people = (os, close, load, 20..3000_u64, 1.0..4.0, any::<bool>());
    people.prop_map(|(os, close, load, timeout_ms, requests, short)| {
        let timeout_ns = timeout_ms * MS_NS;
        let requests_of = Pages::one_packet().requests("h");
        Crowd {
            systems: Vec::new(),
            networks: Vec::new(),
            person: Person {
                os,
                mss: 1460,
                timeout_ns,
                close,
                time_wait: tg_tw_rules::default(),
                requests: requests_of,
            },
            requests,
            ports: short.then_some(150),
            load,
            warm_up_ns: 10 * MS_NS,
            duration_ns: 30 * MS_NS,
            cool_down_ns: 10 * MS_NS,
        }
    })
}

fn setup() -> impl Strategy<Value = Setup> {
    let hook = prop_oneof![Just(Hook::Driver), Just(Hook::Ip), Just(Hook::Tcp)];
    let guard = (prop::sample::select(MECHANISMS.to_vec()), hook);
    let kernel = (8_u32..2000, 0_u32..3, any::<bool>());
    let page = prop::sample::select(vec![Page::OnePacket, Page::Specweb99]);
    let limit = prop::sample::select(vec!["1", "7", "inf", "dynamic"]);
    let program = prop::sample::select(vec![
        Program::Userver,
        Program::UserverScanning,
        Program::PapersUserver,
        Program::Tux,
        Program::KnotC,
        Program::KnotA,
    ]);
    let server = (1_u32..300, limit, 0_u64..200_000, page, program);
    (machine(), way(), crowd(), guard, kernel, server, any::<u64>()).prop_map(
        |(machine, way, mut crowd, (mechanism, hook), kernel, server, seed)| {
            let (syn_max, syncookies, abort_on_overflow) = kernel;
            let (backlog, limit, cost_ns, page, program) = server;
            let pages = Pages::of(page, seed);
            crowd.person.requests = pages.requests("h");
            crowd.person.time_wait = time_wait(seed >> 7);
            Setup {
                machine,
                kernel: Kernel { syn_max, syncookies, abort_on_overflow },
                program,
                // So few that there is often none free.
                threads: 1 + (seed >> 50) as u32 % 20,
                backlog,
                accept_limit: limit.parse::<AcceptLimit>().unwrap(),
                cost_ns,
                guard: mechanism.map(|name| (rules(name, seed), hook)),
                limits: Vec::new(),
                shed: shed(seed),
                way,
                crowd,
                pages,
                time_wait: time_wait(seed >> 11),
                // So few that there is often no room.
                held_entries: 8 << (seed % 6),
                seed,
            }
        },
    )
}

/// Of three runs one ends connections by rst-fin, and one by its strict form.
fn rules(mechanism: &str, seed: u64) -> tg_rules {
    let fin = (seed >> 40) % 3;
    tg_rules { fin: fin as u32, ..mechanism::parse(mechanism).unwrap() }
}

/// Of either end, alike or not: it names no one, the client or the server, insists on it or not, and
/// swaps or not.
fn time_wait(bits: u64) -> tg_tw_rules {
    let [insist, close_swap] = [3, 2].map(|bit| u32::from(bits >> bit & 1 == 1));
    tg_tw_rules { negotiate: (bits % 4 % 3) as u32, insist, close_swap }
}

/// Of two runs one sheds: in any way, on the server or on a router.
fn shed(seed: u64) -> Option<Shed> {
    let one_of = |bit: u32, count: u64| (seed >> bit) % count;
    let (policy, p) = (1 + one_of(8, 3) as u32, one_of(16, 100) as f64 / 100.0);
    let rules = match one_of(24, 2) {
        0 => tg_shed_rules::new(policy, TG_KEY_CONNECTION, p, 5),
        _ => tg_shed_rules::automatic(policy, TG_KEY_CONNECTION, 0, 5),
    };
    let rules = tg_shed_rules { blocks: 9, refusal: one_of(32, 3) as u32, ..rules };
    let hook = [None, Some(Hook::Driver), Some(Hook::Ip)][one_of(40, 3) as usize];
    let in_series = 1 + one_of(56, 3) as u32;
    (one_of(48, 2) == 0).then_some(Shed { rules, hook, in_series, preferred: None })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_made_or_lost_but_by_the_network(setup in setup()) {
        let mut world = World::new(setup);
        let mut events = 0_u64;
        let mut last_ns = 0;
        while world.advance() {
            events += 1;
            prop_assert!(world.now_ns() >= last_ns);
            last_ns = world.now_ns();
            let b = world.balance();
            prop_assert_eq!(b.attempts, b.waiting + b.served + b.refused + b.timed_out + b.others);
            let somewhere = b.packets_lost + b.packets_arrived + b.packets_under_way;
            prop_assert_eq!(b.packets_sent, somewhere);
            // A flow by flow recount, which knows nothing of these counters.
            if events.is_multiple_of(251) {
                world.recount();
            }
        }
        world.recount();
        prop_assert!(world.balance().attempts > 0);
    }
}
