// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate check`: what this kernel and host can do, where connections were lost so far,
//! and what would be guarded.

use std::fs;

use tidegate_datapath::guard::Hooks;
use tidegate_datapath::programs::{Objects, Programs};
use tidegate_datapath::raw::*;
use tidegate_datapath::{cgroup, interfaces, sockets};
use tidegate_policy::raw::{TG_TW_NOBODY, tg_held_block};

use crate::config::Config;
use crate::failure::Result;
use crate::{hook, host, plan, resize, shed, time_wait};

fn answer(name: &str, good: bool, what: &str) {
    println!("  {} {name:<22} {what}", if good { "yes" } else { "no " });
}

fn kernel() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = host::kernel();
    println!("kernel {}", release.trim());
    answer("describes its types", kernel.btf, "CONFIG_DEBUG_INFO_BTF; everything needs it");
    answer("live queue lengths", kernel.casts, "Linux 6.2; everything needs it");
    answer("IP entry (tcx)", kernel.tcx, "Linux 6.6; everything needs it");
    answer("TCP entry (netfilter)", kernel.netfilter, "Linux 6.4; hook = \"tcp\", exact reserv");
    answer("cookies of our own", kernel.cookies, "Linux 6.9; no-syn-drop");
    answer("root of the cgroups", cgroup::root_path().is_some(), "cgroup2; socket_option = true");
    for (name, meaning) in [
        ("net/ipv4/tcp_syncookies", "0 lets no cookie in, ours neither"),
        ("net/ipv4/tcp_abort_on_overflow", "1 aborts on every listener of the host"),
        ("net/ipv4/tcp_rfc1337", "1: TIME_WAIT ignores RST, so others' close_swap, too"),
        ("net/core/somaxconn", "the most that listen() grants as backlog"),
        ("net/ipv4/tcp_max_syn_backlog", "for SynQ3/4Full, without cookies only"),
    ] {
        let value = host::sysctl(name).map_or("?".to_owned(), |v| v.to_string());
        println!("  {value:>5} {:<34} {meaning}", name.replace('/', "."));
    }
}

fn listeners(rows: &[tg_listener_row]) {
    println!(
        "\nlisteners: queue drops so far, as the kernel counts them on each socket (a dropped ACK twice)"
    );
    for row in rows {
        let address = std::net::SocketAddr::new(row.address(), row.port as u16).to_string();
        println!(
            "  {address:<30} listen queue {:>5} of {:<5} SYN queue {:>5}  drops {}",
            row.listen_len, row.listen_max, row.syn_len, row.kernel_drops,
        );
    }
    if rows.is_empty() {
        println!("  none");
    }
}

fn would_be(config: &Config, rows: &[tg_listener_row]) -> Result<()> {
    let plan = plan::plan(&config.guards, &config.interfaces, &interfaces::list()?, rows)?;
    println!("\nwould be guarded");
    for g in &config.guards {
        let address = g.address.map_or("*".to_owned(), |a| a.to_string());
        let listening = rows.iter().filter(|row| g.covers(row)).count();
        let there = match g.is_path {
            true => "forwarded".to_owned(),
            false => format!("{listening} listening now"),
        };
        println!(
            "  {address} port {}: {} at {}{}; {there}",
            g.port,
            shed::described(g),
            hook::name(g.hook),
            resize::described(g),
        );
    }
    for g in config.guards.iter().filter(|g| g.time_wait.negotiate != TG_TW_NOBODY) {
        println!("  TIME-WAIT of port {}: {}", g.port, time_wait::described(&g.time_wait));
    }
    for (network, rules) in &config.ends.destinations {
        println!("  TIME-WAIT of connections to {network}: {}", time_wait::described(rules));
    }
    if config.asks_time_wait() {
        let kilobytes = config.sizes().held_blocks as usize * size_of::<tg_held_block>() / 1024;
        println!("  table of {} pairs, {kilobytes} kB", config.ends.entries);
    }
    for (interface, hooks) in plan.interfaces.values() {
        let place = match hooks {
            Hooks::Ip => "at the IP entry",
            Hooks::DriverAndIp => "at the driver",
            Hooks::DriverIfPossible => "at the driver if it takes XDP, else at the IP entry",
        };
        println!("  on {} {place}", interface.name);
    }
    if config.socket_option {
        println!("  applications may say by a socket option how their connections end");
    }
    for name in plan.answers_by_redirect() {
        println!(
            "  {name} is a veth: what its driver answers is lost unless the other end has GRO on\n  \
             (ethtool -K PEER gro on) or XDP; hook = \"ip\" needs neither"
        );
    }
    Ok(())
}

/// Prints all of it. Without capabilities, what can be told without them.
pub fn run(config: Option<Config>) -> Result<()> {
    kernel();
    let missing = host::missing_capabilities();
    answer(
        "privileges",
        missing.is_empty(),
        &if missing.is_empty() {
            "to load and attach".to_owned()
        } else {
            format!("missing {}", missing.join(", "))
        },
    );
    host::require_capabilities()?;
    // Loading is the only proof that this kernel takes the programs.
    let programs = Programs::load(Objects::Guard, Default::default())?;
    answer("programs", true, "every one passes this kernel's verifier");
    let rows = sockets::listeners(&programs)?;
    listeners(&rows);
    if let Some(config) = config {
        would_be(&config, &rows)?;
    }
    Ok(())
}
