// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host does in part of what is asked for: no reason to refuse all of it, and told where it is put in force.

use tidegate_datapath::cgroup;
use tidegate_datapath::sockets::{self, Unremovable};

use crate::config::Config;
use crate::failure::Failure;
use crate::{host, reserv};

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

/// All that is to be told of a configuration.
pub fn of(config: &Config) -> impl Iterator<Item = Failure> {
    let cleans = config.guards.iter().any(|g| g.rules.clean_after_ms != 0);
    let ends = config.asks_time_wait();
    let why = (cleans || ends).then(sockets::unremovable).flatten();
    let seen = (config.socket_option || ends).then(of_sockets).flatten();
    let reserved = reserv::in_vain(&config.guards, host::sysctl("net/ipv4/tcp_syncookies"));
    why.map(|why| stays(why, cleans, ends)).into_iter().chain(seen).chain(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

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
