// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate check`: what this kernel and host can do, where connections were lost so far,
//! and what would be guarded.

use std::fmt::Write as _;
use std::fs;

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::guard::{Hooks, Plan, PlannedInterface};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::pins::Pins;
use tidegate_datapath::programs::{Program, Programs, Sizes};
use tidegate_datapath::raw::*;
use tidegate_datapath::{cgroup, interfaces, sockets};
use tidegate_policy::raw::{TG_TW_NOBODY, tg_held_block};

use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::host::Kernel;
use crate::run::Source;
use crate::{hook, host, output, part, plan, resize, run, shed, time_wait};

fn answer(name: &str, good: bool, what: &str) -> String {
    format!("  {} {name:<22} {what}\n", if good { "yes" } else { "no " })
}

/// Whether programs may read the kernel's memory, by what the kernel says of its lockdown: nothing, where it has none.
fn reads_memory(lockdown: &str) -> bool {
    !lockdown.contains("[confidentiality]")
}

fn described(kernel: &Kernel) -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut out = format!("kernel {}\n", release.trim());
    let root = match (cgroup::root_path().is_some(), part::of_sockets()) {
        (true, Some(part)) => (false, part.to_string()),
        (is_there, _) => (is_there, "cgroup2; socket_option = true, time_wait, agent".to_owned()),
    };
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    for (name, good, what) in [
        ("describes its types", kernel.btf, "CONFIG_DEBUG_INFO_BTF; everything needs it"),
        (
            "reads its memory",
            reads_memory(&lockdown),
            "no lockdown=confidentiality; everything needs it",
        ),
        ("live queue lengths", kernel.casts, "Linux 6.2; everything needs it"),
        ("IP entry (tcx)", kernel.tcx, "Linux 6.6; everything needs it"),
        ("TCP entry (netfilter)", kernel.netfilter, "Linux 6.4; hook = \"tcp\", exact reserv"),
        ("cookies of our own", kernel.cookies, "Linux 6.9; no-syn-drop"),
        ("cookies by IPv6", kernel.cookies_ipv6, "IPv6 built in, and no module; no-syn-drop"),
        ("root of the cgroups", root.0, root.1.as_str()),
    ] {
        out += &answer(name, good, what);
    }
    for (name, meaning) in [
        ("net/ipv4/tcp_syncookies", "0 lets no cookie in, ours neither"),
        ("net/ipv4/tcp_abort_on_overflow", "1 aborts on every listener of the host"),
        ("net/ipv4/tcp_rfc1337", "1: TIME_WAIT ignores RST, so others' close_swap, too"),
        ("net/core/somaxconn", "the most that listen() grants as backlog"),
        ("net/ipv4/tcp_max_syn_backlog", "for SynQ3/4Full, without cookies only"),
    ] {
        let value = host::sysctl(name).map_or("?".to_owned(), |v| v.to_string());
        let _ = writeln!(out, "  {value:>5} {:<34} {meaning}", name.replace('/', "."));
    }
    out
}

fn listeners(rows: &[tg_listener_row]) -> String {
    let mut out = "\nlisteners: queue drops so far, as the kernel counts them on each socket \
                   (a dropped ACK twice)\n"
        .to_owned();
    for row in rows {
        let address = std::net::SocketAddr::new(row.address(), row.port as u16).to_string();
        let _ = writeln!(
            out,
            "  {address:<30} listen queue {:>5} of {:<5} SYN queue {:>5}  drops {}",
            row.listen_len, row.listen_max, row.syn_len, row.kernel_drops,
        );
    }
    if rows.is_empty() {
        out += "  none\n";
    }
    out
}

/// What `run` would attach, unless it would refuse.
fn planned(
    config: &Config,
    is_typed: bool,
    kernel: &Kernel,
    interfaces: &[Interface],
    rows: &[tg_listener_row],
) -> Result<Plan> {
    run::check_start(config, is_typed, kernel)?;
    plan::require_all(config, interfaces)?;
    Ok(run::planned(config, interfaces, rows))
}

/// The programs that are to be loaded: those that `run` would load or, where nothing is to be guarded, all that
/// this kernel has a place for. And what is told when it has taken them.
fn tried(plan: Option<&Plan>, kernel: &Kernel) -> (Vec<Program>, &'static str) {
    if let Some(plan) = plan {
        return (plan.programs(), "all that this needs pass this kernel's verifier");
    }
    let has_place = |program: &Program| kernel.netfilter || *program != Program::Tcp;
    let what = match kernel.netfilter {
        true => "every one passes this kernel's verifier",
        false => "every one but the TCP entry's passes this kernel's verifier",
    };
    (Program::ALL.into_iter().filter(has_place).collect(), what)
}

/// What is done for each listener and path.
fn guarded(config: &Config, rows: &[tg_listener_row]) -> String {
    let line = |g: &Guarded| {
        let there = match g.is_path {
            true => "forwarded".to_owned(),
            false => {
                let listening = rows.iter().filter(|row| g.judges(row, &config.guards)).count();
                format!("{listening} listening now")
            }
        };
        let (place, what, how) = (config::place(g), shed::described(g), resize::described(g));
        format!("  {place}: {what} at {}{how}; {there}\n", hook::name(g.hook))
    };
    config.guards.iter().map(line).collect()
}

/// Who holds TIME-WAIT.
fn ends(config: &Config) -> String {
    let mut out = String::new();
    for g in config.guards.iter().filter(|g| g.time_wait.negotiate != TG_TW_NOBODY) {
        let _ =
            writeln!(out, "  TIME-WAIT of port {}: {}", g.port, time_wait::described(&g.time_wait));
    }
    for (network, rules) in &config.ends.destinations {
        let _ = writeln!(
            out,
            "  TIME-WAIT of connections to {network}: {}",
            time_wait::described(rules)
        );
    }
    if config.asks_time_wait() {
        let kilobytes = config.sizes().held_blocks as usize * size_of::<tg_held_block>() / 1024;
        let _ = writeln!(out, "  table of {} pairs, {kilobytes} kB", config.ends.entries);
    }
    out
}

/// Where each interface would be guarded. Whether a driver takes a program only an attempt shows, and `run` makes it.
fn places(plan: &Plan) -> String {
    let asked = plan.interfaces.values().filter(|(_, hooks)| *hooks == Hooks::DriverAndIp).count();
    let place = |hooks: Hooks| match hooks {
        Hooks::Ip => "at the IP entry",
        Hooks::DriverAndIp if plan.is_named || asked == 1 => {
            "at the driver if it takes XDP, else `run` refuses"
        }
        Hooks::DriverAndIp => {
            "at the driver if it takes XDP, else at the IP entry; where none does `run` refuses"
        }
        Hooks::DriverIfPossible => "at the driver if it takes XDP, else at the IP entry",
    };
    let line = |(interface, hooks): &(PlannedInterface, Hooks)| {
        format!("  on {} {}\n", interface.name, place(*hooks))
    };
    plan.interfaces.values().map(line).collect()
}

/// What is wrong here all the same, and what is to be known.
fn remarks(
    config: &Config,
    plan: &Plan,
    interfaces: &[Interface],
    rows: &[tg_listener_row],
) -> String {
    let mut out = String::new();
    let left_out = plan::left_out(&config.interfaces, interfaces);
    let wrongs = plan::wrongs(config, interfaces, rows, plan);
    for failure in left_out.chain(wrongs).chain(part::of(config)) {
        let _ = writeln!(out, "  {failure}");
    }
    if config.socket_option {
        out += "  applications may say by a socket option how their connections end\n";
    }
    for name in plan.answers_by_redirect() {
        let _ = writeln!(
            out,
            "  {name} is a veth: what its driver answers is lost unless the other end has GRO on\n  \
             (ethtool -K PEER gro on) or XDP; hook = \"ip\" needs neither"
        );
    }
    out
}

fn would_be(
    config: &Config,
    plan: &Plan,
    interfaces: &[Interface],
    rows: &[tg_listener_row],
) -> String {
    let parts = [
        guarded(config, rows),
        ends(config),
        places(plan),
        remarks(config, plan, interfaces, rows),
    ];
    format!("\nwould be guarded\n{}", parts.concat())
}

/// The tables that a start would make. Where a guard stands it has them, and there may be no memory for others.
fn sizes(config: Option<&Config>, pins: &Pins) -> Sizes {
    match config {
        Some(config) if !pins.exist() => config.sizes(),
        _ => Sizes::default().uncounted(),
    }
}

/// Prints all of it. Without capabilities, what can be told without them.
pub fn run(source: Option<Source>) -> Result<()> {
    let is_typed = source.as_ref().is_some_and(Source::is_typed);
    let config = source.map(|source| source.read()).transpose()?;
    let kernel = host::kernel();
    output::print(&described(&kernel))?;
    let unprivileged = host::require_capabilities();
    let privileges = unprivileged.as_ref().err().map(Failure::what);
    let privileges = privileges.as_deref().unwrap_or("to load and attach");
    output::print(&answer("privileges", unprivileged.is_ok(), privileges))?;
    unprivileged?;
    run::require_kernel(&kernel)?;
    let pins = Pins::here()?;
    let place = pins.require_place();
    output::print(&answer("bpffs", place.is_ok(), "/sys/fs/bpf, where guards are pinned"))?;
    place?;
    let sizes = sizes(config.as_ref(), &pins);
    let mut programs = Programs::load_maps(Default::default(), sizes)?;
    let rows = sockets::listeners(&programs)?;
    let interfaces = interfaces::list()?;
    let planned = |config| planned(config, is_typed, &kernel, &interfaces, &rows);
    let plan = config.as_ref().map(planned).transpose()?;
    // Loading is the only proof that this kernel takes the programs, and the host their tables.
    let (tried, what) = tried(plan.as_ref(), &kernel);
    tried.into_iter().try_for_each(|program| programs.load_one(program, sizes))?;
    output::print(&answer("programs", true, what))?;
    output::print(&listeners(&rows))?;
    config.zip(plan).map_or(Ok(()), |(config, plan)| {
        output::print(&would_be(&config, &plan, &interfaces, &rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without CONFIG_NETFILTER there is no TCP entry, and all that does without is guarded.
    #[test]
    fn a_program_that_the_kernel_has_no_place_for_is_tried_only_where_it_is_needed() {
        let kernel = |netfilter| Kernel { netfilter, ..host::kernel() };
        let (without, with) = (kernel(false), kernel(true));
        assert_eq!(tried(None, &with).0, Program::ALL);
        let all: Vec<Program> =
            Program::ALL.into_iter().filter(|program| *program != Program::Tcp).collect();
        assert_eq!(tried(None, &without).0, all);
        let plan = |local_in| Plan { local_in, ..Plan::default() };
        assert_eq!(tried(Some(&plan(false)), &without).0, []);
        assert!(tried(Some(&plan(true)), &without).0.contains(&Program::Tcp), "`run` fails by it");
    }

    /// Each driver that is named must take a program, and one of those that are not.
    #[test]
    fn a_driver_that_may_take_no_program_is_not_promised() {
        let told = |is_named, hooks: &[Hooks]| {
            let interface = |(hooks, index): (&Hooks, u32)| {
                let name = format!("eth{index}");
                (index, (PlannedInterface { name, veth: false, loopback: false }, *hooks))
            };
            let interfaces = hooks.iter().zip(0..).map(interface).collect();
            places(&Plan { interfaces, is_named, ..Plan::default() })
        };
        let must = "at the driver if it takes XDP, else `run` refuses";
        let (one, two) = ([Hooks::DriverAndIp, Hooks::Ip], [Hooks::DriverAndIp; 2]);
        let both = |place: &str| format!("  on eth0 {place}\n  on eth1 {place}\n");
        assert_eq!(told(true, &two), both(must));
        let may = "at the driver if it takes XDP, else at the IP entry";
        assert_eq!(told(false, &two), both(&format!("{may}; where none does `run` refuses")));
        let alone = format!("  on eth0 {must}\n  on eth1 at the IP entry\n");
        assert_eq!([told(true, &one), told(false, &one)], [alone.clone(), alone]);
        assert_eq!(told(false, &[Hooks::DriverIfPossible; 2]), both(may));
    }

    #[test]
    fn only_the_lockdown_that_hides_memory_is_in_the_way() {
        for (lockdown, expected) in [
            ("[none] integrity confidentiality\n", true),
            ("none [integrity] confidentiality\n", true),
            ("none integrity [confidentiality]\n", false),
            ("", true),
        ] {
            assert_eq!(reads_memory(lockdown), expected, "{lockdown}");
        }
    }
}
