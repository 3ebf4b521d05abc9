// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What else people put in front of a server, set up as its manual says.

use std::process::Stdio;

use std::io::Write;

use tidegate_lab::LabError;
use tidegate_scenarios::Peer;

use crate::error::LiveError;
use crate::ground::{Ground, PORT};

/// Sets a peer up. Rate limits are set to what the server can do.
pub(crate) fn set(peer: Peer, ground: &Ground, capacity_per_s: f64) -> Result<(), LiveError> {
    let sysctl = |key: &str, value: u32| ground.server.sysctl(key, value);
    match peer {
        Peer::Kernel | Peer::LargeBacklog => {}
        Peer::AbortOnOverflow => sysctl("net.ipv4.tcp_abort_on_overflow", 1)?,
        Peer::SynCookies0 => sysctl("net.ipv4.tcp_syncookies", 0)?,
        Peer::SynCookies1 => sysctl("net.ipv4.tcp_syncookies", 1)?,
        Peer::SynCookies2 => sysctl("net.ipv4.tcp_syncookies", 2)?,
        Peer::NftLimit => nft(ground, &limit(capacity_per_s, "drop"))?,
        Peer::NftReject => nft(ground, &limit(capacity_per_s, "reject with tcp reset"))?,
        Peer::NftSynproxy => {
            nft(ground, &synproxy())?;
            // As its manual has it; and connections of seconds must not fill the table for minutes.
            sysctl("net.netfilter.nf_conntrack_tcp_loose", 0)?;
            for state in ["time_wait", "close", "fin_wait", "last_ack", "close_wait"] {
                sysctl(&format!("net.netfilter.nf_conntrack_tcp_timeout_{state}"), 1)?;
            }
        }
    }
    Ok(())
}

fn limit(capacity_per_s: f64, refusal: &str) -> String {
    let rate = capacity_per_s.max(1.0) as u64;
    let burst = (rate / 10).max(5);
    format!(
        "table inet tidelab {{\n chain input {{\n  type filter hook input priority filter;\n  \
         tcp dport {PORT} tcp flags & (fin | syn | rst | ack) == syn \
         limit rate over {rate}/second burst {burst} packets {refusal}\n }}\n}}\n"
    )
}

fn synproxy() -> String {
    format!(
        "table inet tidelab {{\n chain pre {{\n  type filter hook prerouting priority raw;\n  \
         tcp dport {PORT} tcp flags & (fin | syn | rst | ack) == syn notrack\n }}\n \
         chain input {{\n  type filter hook input priority filter;\n  \
         tcp dport {PORT} ct state invalid,untracked \
         synproxy mss 1460 wscale 7 timestamp sack-perm\n  ct state invalid drop\n }}\n}}\n"
    )
}

fn nft(ground: &Ground, rules: &str) -> Result<(), LiveError> {
    let mut command = ground.server.command("nft -f -");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let missing = |error: LabError| LiveError::NotStarted {
        program: "nft".to_owned(),
        reason: format!("{error}; install the package nftables"),
    };
    let mut child = ground.server.spawn(command).map_err(missing)?;
    let failed = |reason: String| LiveError::Ended { program: "nft".to_owned(), reason };
    if let Some(mut pipe) = child.take_stdin() {
        pipe.write_all(rules.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(said.lines().next().unwrap_or_default().to_owned()))
}
