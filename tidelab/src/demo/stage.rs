// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two namespaces, a cable, and a server at work.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_crowd::Outcome;
use tidegate_lab::{Child, Link, Namespace, allowed_cpus, pin_command};

use super::program;
use super::progress::Step;
use crate::failure::Failure;

/// Where the server listens.
pub(crate) const PORT: u16 = 8080;
const SERVER: &str = "10.87.0.1";
/// Source addresses: 24 times 64,512 ports outlast any TIME-WAIT of a run.
const CLIENTS: u8 = 24;

/// A server at work, and a place for its clients. Dropping it ends all of it.
pub(crate) struct Stage {
    /// Dropped before the namespace it is in.
    _server: Child,
    server_side: Namespace,
    client_side: Namespace,
    tidelab: PathBuf,
    crowd_cpu: usize,
}

impl Stage {
    /// Sets a stage with a server of this listen queue and cost per request.
    pub(crate) fn set(backlog: u32, cost_us: u64) -> Result<Self, Failure> {
        let tidelab = std::env::current_exe().map_err(Failure::NoSelf)?;
        let cpus = allowed_cpus()?;
        // With one processor they share it, and the figures are what they are.
        let (server_cpu, crowd_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        let server_side = Namespace::new("server")?;
        let client_side = Namespace::new("clients")?;
        let cable = Link::between(&server_side, "server0", &client_side, "clients0")?;
        cable.a().add_address(&format!("{SERVER}/16"))?;
        for host in 1..=CLIENTS {
            cable.b().add_address(&format!("10.87.1.{host}/16"))?;
        }
        cable.up()?;
        // As on two machines: each side's processor does its own side's TCP.
        cable.a().receive_on(server_cpu)?;
        cable.b().receive_on(crowd_cpu)?;
        client_side.sysctl("net.ipv4.ip_local_port_range", "1024 65535")?;
        client_side.sysctl("net.ipv4.tcp_tw_reuse", 1)?;

        let mut command = Command::new(&tidelab);
        command.args([
            "server",
            &format!("--port={PORT}"),
            &format!("--backlog={backlog}"),
            &format!("--cost-us={cost_us}"),
        ]);
        pin_command(&mut command, server_cpu)?;
        let server = program::start(
            &server_side,
            "the server",
            command,
            "listening on ",
            Duration::from_secs(5),
        )?;
        Ok(Self { _server: server, server_side, client_side, tidelab, crowd_cpu })
    }

    /// The namespace that the server is in.
    pub(crate) fn server_side(&self) -> &Namespace {
        &self.server_side
    }

    /// Sends a crowd, with these flags of `tidelab crowd`, and says what became of it.
    pub(crate) fn send(&self, load: &[String], step: &Step) -> Result<Outcome, Failure> {
        let mut command = Command::new(&self.tidelab);
        command
            .arg("crowd")
            .arg(format!("--to={SERVER}:{PORT}"))
            .arg(format!("--from=10.87.1.1-10.87.1.{CLIENTS}"))
            .args(load)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        pin_command(&mut command, self.crowd_cpu)?;
        let failed = |reason: String| Failure::Ended { program: "the crowd".to_owned(), reason };
        let mut crowd = self.client_side.spawn(command)?;
        // What it prints fits any pipe, so it can be read when it has ended.
        loop {
            match crowd.wait_for(Duration::from_millis(250)) {
                Ok(None) => step.tick(),
                Ok(Some(_)) => break,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let output = crowd.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(said.trim().to_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
    }
}
