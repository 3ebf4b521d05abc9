// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TIME-WAIT blocks that a server holds before a point begins (Faber, Touch and Yue, section 5.1).

use std::time::{Duration, Instant};

use tidegate_lab::Sockets;
use tidegate_scenarios::Setting;

use crate::crowd::Crowd;
use crate::error::LiveError;
use crate::ground::Ground;

/// Blocks last for a minute: what takes longer never comes about.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long blocks are made before they are counted: at first, when nobody knows how fast they come about,
/// at least, and at most.
const FIRST_S: f64 = 0.01;
const ROUND_MIN_S: f64 = 0.001;
const ROUND_MAX_S: f64 = 1.0;

/// Connects, asks and lets the server close, as fast as it can, until it holds as many as the setting
/// says, and a few more.
///
/// # Errors
/// [`LiveError::NotLoaded`] when it never does.
pub(crate) fn load(ground: &Ground, setting: &Setting) -> Result<(), LiveError> {
    let wanted = u64::from(setting.server.time_waits);
    let deadline = Instant::now() + PATIENCE;
    let (mut round_s, mut fastest_per_s) = (FIRST_S, 0.0_f64);
    let mut held = Sockets::of(&ground.server)?.time_waits;
    while held < wanted {
        if Instant::now() >= deadline {
            return Err(LiveError::NotLoaded { held, wanted });
        }
        let lasts = Duration::from_secs_f64(round_s);
        Crowd::for_time_waits(setting, lasts)?.send(ground)?.wait(|_| ())?;
        let before = held;
        held = Sockets::of(&ground.server)?.time_waits;
        fastest_per_s = fastest_per_s.max(held.saturating_sub(before) as f64 / round_s);
        round_s = next_round_s(round_s, fastest_per_s, wanted.saturating_sub(held));
    }
    Ok(())
}

/// In which half of what is missing comes about, as fast as ever so far: another program may have had the
/// processor meanwhile, and a server that has just begun is slower than it will be. So no round is more than
/// twice as long as the last, either.
fn next_round_s(last_s: f64, fastest_per_s: f64, missing: u64) -> f64 {
    let half_s = missing as f64 / fastest_per_s / 2.0;
    half_s.min(2.0 * last_s).clamp(ROUND_MIN_S, ROUND_MAX_S)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tidegate_lab::skip_without;
    use tidegate_scenarios::{Network, Scenario};

    use super::*;
    use crate::programs::Programs;
    use crate::server::Running;

    #[test]
    fn a_round_lasts_for_half_of_what_is_missing() {
        assert_eq!(next_round_s(0.1, 50_000.0, 5_000), 0.05);
        assert_eq!(next_round_s(0.1, 50_000.0, 50_000), 0.2, "a moment's rate is not the server's");
        assert_eq!(next_round_s(1.0, 50_000.0, 500_000), ROUND_MAX_S);
        assert_eq!(next_round_s(1.0, 50_000.0, 1), ROUND_MIN_S);
        assert_eq!(next_round_s(0.1, 0.0, 2_000), 0.2, "none came about");
    }

    /// A second of it was tens of thousands.
    #[test]
    fn a_server_holds_little_more_in_time_wait_than_was_asked_for() {
        const TEST: &str = "a_server_holds_little_more_in_time_wait_than_was_asked_for";
        if skip_without(TEST, &[("nginx", "nginx-light")]) {
            return;
        }
        let text = "title = \"t\"\nsource = \"s\"\n[server]\nkind = \"nginx\"\ntime_waits = 2000\n\
                    [load]\noffered = [1]\n[[curve]]\nname = \"c\"\npeer = \"kernel\"";
        let setting = Scenario::parse("t", "t.toml", text).unwrap().settings.remove(0);
        let ground = Ground::lay(Network::Direct).unwrap();
        let programs = Programs { tidelab: "/bin/false".into(), tidegate: "/bin/false".into() };
        let _nginx = Running::start(&ground, &programs, &setting.server, NonZeroU64::MIN).unwrap();
        load(&ground, &setting).unwrap();
        let held = Sockets::of(&ground.server).unwrap().time_waits;
        assert!((2_000..2_400).contains(&held), "{held}");
    }
}
