// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate itself, run as anyone would run it.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tidegate_lab::{Child, Namespace, pin_command};
use tidegate_policy::time_wait::{ENTRIES, ENTRIES_MOST, End};
use tidegate_scenarios::{Options, Precedence, Setting, Treatment};

use crate::error::LiveError;
use crate::ground::{Ground, PORT};
use crate::programs::Programs;

const ATTACH_PATIENCE: Duration = Duration::from_secs(10);
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);
/// How many seconds' connections the server has room to hold, of the 60 that it holds each: never
/// less than tidegate's own default, nor more than its bound.
const HELD_S: f64 = 75.0;
/// Where its configuration is placed: it ends with the namespace.
const CONFIGURATION: &str = "/run/tidegate.toml";

/// A guard at work. Dropped without [`Guard::remove`], it is killed; its programs then end with
/// the ground that it stood on.
pub(crate) struct Guard {
    child: Child,
    namespace: Namespace,
    programs: Programs,
}

/// What a guard has counted, by cause, and by verdict and reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub queue_drops: BTreeMap<String, u64>,
    pub verdicts: BTreeMap<String, u64>,
    /// Pairs that it holds in TIME-WAIT now, beside the kernel.
    pub pairs: u64,
}

impl Guard {
    /// Guards the server, which takes so many connections a second, or on the router the path to it; returns
    /// when the guard stands.
    pub(crate) fn set(
        ground: &Ground,
        programs: &Programs,
        setting: &Setting,
        connections_per_s: f64,
    ) -> Result<Self, LiveError> {
        let router = ground.router.as_ref().filter(|_| setting.sheds_on_router());
        let namespace = router.unwrap_or(&ground.server).clone();
        let mut command = Command::new(&programs.tidegate);
        command.arg("run");
        let needs_file = setting.shed.is_some()
            || setting.time_wait.negotiated().is_some()
            || setting.options != Options::default()
            || setting.precedence != Precedence::default();
        match (needs_file, &setting.treatment) {
            (true, _) => {
                let text = configuration(ground, setting, connections_per_s);
                namespace.place_file(CONFIGURATION, text)?;
                command.args(["--config", CONFIGURATION]);
            }
            (false, Treatment::Mechanism(mechanism)) => {
                let port = PORT.to_string();
                command.args(["--port", &port, "--mechanism", mechanism, "--hook", &setting.hook]);
                command.args(["--fin", setting.fin.name()]);
            }
            (false, Treatment::Peer(_)) => {}
        }
        if router.is_none() {
            // The host that it guards has this processor, as it can see.
            pin_command(&mut command, ground.server_cpu)?;
        }
        let child = namespace.start("tidegate", command, "guarding ", ATTACH_PATIENCE)?;
        Ok(Self { child, namespace, programs: programs.clone() })
    }

    /// What it has counted so far.
    pub(crate) fn counted(&self) -> Result<Counted, LiveError> {
        let mut command = Command::new(&self.programs.tidegate);
        command.args(["status", "--json"]).stdin(Stdio::null());
        // One that does not answer is its curve's affair, and not the testbed's.
        let text = self.namespace.output(command).map_err(|error| failed(error.to_string()))?;
        let status: Value =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let pairs = status["time_wait"]["held_by_us"].as_u64().unwrap_or(0);
        let mut counted = Counted { pairs, ..Counted::default() };
        let guards = status["guards"].as_array().cloned().unwrap_or_default();
        for guard in &guards {
            for (cause, count) in entries(&guard["queue_drops"]) {
                *counted.queue_drops.entry(cause.clone()).or_default() +=
                    count.as_u64().unwrap_or(0);
            }
            for (reason, by_verdict) in entries(&guard["verdicts"]) {
                for (verdict, count) in entries(by_verdict) {
                    let name = format!("{verdict}: {reason}");
                    *counted.verdicts.entry(name).or_default() += count.as_u64().unwrap_or(0);
                }
            }
        }
        Ok(counted)
    }

    /// Asks it to go, and sees that it does: a guard that died under load has guarded nothing.
    pub(crate) fn remove(mut self) -> Result<(), LiveError> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(failed(format!("it ended during the run ({status})")));
        }
        let _ = self.child.signal(Signal::SIGTERM);
        match self.child.wait_for(REMOVE_PATIENCE) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(failed(format!("it did not end cleanly ({status})"))),
            _ => Err(failed(format!("it did not end within {REMOVE_PATIENCE:?} of SIGTERM"))),
        }
    }
}

impl Counted {
    /// What was counted between an earlier reading and this one.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let between = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            now.iter()
                .map(|(name, count)| {
                    (name.clone(), count.saturating_sub(then.get(name).copied().unwrap_or(0)))
                })
                .collect()
        };
        Self {
            queue_drops: between(&self.queue_drops, &earlier.queue_drops),
            verdicts: between(&self.verdicts, &earlier.verdicts),
            pairs: self.pairs,
        }
    }
}

/// What the command line has no words for.
fn configuration(ground: &Ground, setting: &Setting, connections_per_s: f64) -> String {
    let section = match &setting.treatment {
        Treatment::Mechanism(mechanism) => {
            let fin = setting.fin.name();
            format!("[[listener]]\nport = {PORT}\nmechanism = \"{mechanism}\"\nfin = \"{fin}\"")
        }
        Treatment::Peer(_) => {
            format!("[[path]]\nport = {PORT}\naddress = \"{}\"", ground.target().ip())
        }
    };
    let mut text = format!("{section}\nhook = \"{}\"\n", setting.hook);
    text += &setting.options.configuration();
    if let Some(end) = setting.time_wait.negotiated() {
        text += &format!("time_wait = \"{}\"\n", end.name());
    }
    if let Some(shed) = &setting.shed {
        text += &format!("shed = {}\n", shed.configuration(connections_per_s));
    }
    text += &setting.precedence.configuration(&setting.clients.networks, connections_per_s);
    // Who leaves it to the clients holds nothing.
    if setting.time_wait.negotiated() == Some(End::Server) {
        let entries = (connections_per_s * HELD_S).clamp(ENTRIES.into(), ENTRIES_MOST.into());
        text += &format!("[time_wait]\nentries = {entries:.0}\n");
    }
    text
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn failed(reason: String) -> LiveError {
    LiveError::Ended { program: "tidegate".to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use tidegate_lab::skip_without_root;

    use super::*;

    /// The other curves go on: only what concerns the testbed ends an experiment.
    #[test]
    fn a_guard_that_does_not_answer_is_its_curves_affair() {
        if skip_without_root("a_guard_that_does_not_answer_is_its_curves_affair") {
            return;
        }
        let namespace = Namespace::new("server").unwrap();
        let child = namespace.spawn(namespace.command("sleep 60")).unwrap();
        let programs = Programs { tidelab: "/bin/false".into(), tidegate: "/bin/false".into() };
        match (Guard { child, namespace, programs }).counted() {
            Err(LiveError::Ended { program, reason }) => {
                assert!(program == "tidegate" && reason.contains("status --json"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}
