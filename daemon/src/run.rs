// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate run`: stands the guard up, has it looked after until a signal ends that, takes it down.

mod daemon;
mod inside;
pub mod slots;

use std::path::PathBuf;

use tidegate_datapath::{cgroup, interfaces};

use crate::config::{self, Config};
use crate::failure::{Failure, Result, tell};
use crate::host::Kernel;
use crate::instance::{Instance, Role};
use crate::orders::{Order, Orders};
use crate::pace::Pace;
use crate::{host, mounts, plan, supervisor, writer};
use daemon::Daemon;
pub use daemon::planned;

/// Where the configuration comes from; asked again at SIGHUP.
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The command line.
    Arguments(Config),
}

impl Source {
    /// Whether it is the command line.
    pub fn is_typed(&self) -> bool {
        matches!(self, Source::Arguments(_))
    }

    /// Reads it.
    pub fn read(&self) -> Result<Config> {
        match self {
            Source::File(path) => config::read(path),
            Source::Arguments(config) => Ok(config.clone()),
        }
    }
}

/// Puts a configuration in force that was read again; or leaves the one before as it was.
fn reload(read: Result<Config>, daemon: &mut Daemon, config: &mut Config) {
    match read.and_then(|new| daemon.reload(config, &new).map(|()| new)) {
        Ok(new) => {
            *config = new;
            daemon.announce(config);
        }
        Err(failure) => tell(&format!("kept the configuration as it was: {failure}")),
    }
}

/// Runs until SIGTERM or SIGINT.
pub fn run(source: Source) -> Result<()> {
    writer::start();
    let is_typed = source.is_typed();
    // First of all: it may be asked to read its configuration again as soon as it is there. Nothing waits for ever from
    // here on, and a signal is to leave nothing: it is heard, and what stands is taken down again.
    let mut orders = Orders::hear(move || source.read())?;
    let Some(mut config) = orders.first()? else { return Ok(()) };
    host::require_capabilities()?;
    let kernel = host::kernel();
    check_start(&config, is_typed, &kernel)?;
    let instance = Instance::claim(Role::Guard)?;
    let mut daemon = match Daemon::start(&config, kernel) {
        Ok(daemon) => daemon,
        Err(failure) => {
            instance.release();
            return Err(failure);
        }
    };
    daemon.announce(&config);
    if let Some(warning) = mounts::short_lived() {
        tell(&warning.to_string());
    }
    supervisor::stands();
    follow(&mut daemon, &mut config, &mut orders);
    // Whatever of it is left, nobody runs here any more.
    let done = daemon.take_down();
    instance.release();
    done
}

/// Follows the host until it is to end.
fn follow(daemon: &mut Daemon, config: &mut Config, orders: &mut Orders<Config>) {
    let (mut pace, mut is_ending) = (Pace::new(), false);
    while !is_ending {
        match orders.within_a_tick() {
            Some(Order::TakeUp(read)) => reload(read, daemon, config),
            Some(Order::End) => is_ending = true,
            None => {}
        }
        if let Err(failure) = daemon.tick(config).and_then(|()| pace.look(|| daemon.look(config))) {
            // The guard stands whether we can look after it or not.
            daemon.complain(&failure);
        }
    }
}

/// What the kernel must have, whatever is configured.
pub fn require_kernel(kernel: &Kernel) -> Result<()> {
    if !kernel.btf {
        return Err(Failure::argument(
            "this kernel does not describe its types (BTF)",
            "boot one with CONFIG_DEBUG_INFO_BTF=y",
        ));
    }
    if !kernel.casts || !kernel.tcx {
        return Err(Failure::argument(
            "this kernel is too old for tidegate",
            "Linux 6.12 or later with CONFIG_DEBUG_INFO_BTF is needed",
        ));
    }
    Ok(())
}

/// What the host must allow for this configuration when it is put in force first.
pub fn check_start(config: &Config, is_typed: bool, kernel: &Kernel) -> Result<()> {
    check_host(config, kernel)?;
    // Of those in a file one may come up later; who types a name is there to be told.
    match is_typed {
        true => plan::require_named(&config.interfaces, &interfaces::list()?),
        false => Ok(()),
    }
}

/// That there is a place for programs about sockets, where any are asked for.
fn require_cgroups(config: &Config) -> Result<()> {
    if !config.asks_cgroups() || cgroup::root_path().is_some() {
        return Ok(());
    }
    let asked = [
        (config.socket_option, "socket_option"),
        (config.asks_time_wait(), "what asks for time_wait"),
    ];
    let asked = asked.iter().filter(|(is_asked, _)| *is_asked).map(|(_, key)| *key);
    Err(Failure::argument(
        "no cgroup2 hierarchy is mounted here, and programs about sockets stand at its root",
        format!(
            "mount one (mount -t cgroup2 none DIR), or take {} out",
            asked.collect::<Vec<_>>().join(" and ")
        ),
    ))
}

/// What the host must allow for this configuration.
pub fn check_host(config: &Config, kernel: &Kernel) -> Result<()> {
    require_kernel(kernel)?;
    require_cgroups(config)?;
    let cookies = config.guards.iter().find(|g| g.rules.needs_cookies());
    let Some(guarded) = cookies else { return Ok(()) };
    if !kernel.cookies {
        return Err(Failure::argument(
            format!("port {}: \"no-syn-drop\" and cookies need Linux 6.9", guarded.port),
            "choose \"abort rst-syn\"",
        ));
    }
    if host::sysctl("net/ipv4/tcp_syncookies") == Some(0) {
        return Err(Failure::argument(
            format!(
                "port {}: the kernel takes no cookies while net.ipv4.tcp_syncookies is 0",
                guarded.port
            ),
            "sysctl -w net.ipv4.tcp_syncookies=1, or choose \"abort rst-syn\"",
        ));
    }
    Ok(())
}
