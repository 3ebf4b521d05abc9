// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate size`: how long the queues should be, for a burst that is given or one that was seen.

mod count;
#[cfg(test)]
mod example;
mod listening;
mod meant;
mod socket;
mod watch;

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde::Serialize;
use tidegate_policy::mechanism;
use tidegate_policy::size::{self, Burst, Size};

use self::socket::Socket;
use crate::failure::{Failure, Result};
use crate::{host, output};

/// The burst, by its numbers or by the port before which it is to be seen.
#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).args(["drain_per_s", "port"]))]
pub struct Arguments {
    /// Connections that the server accepts a second while any wait.
    #[arg(long, value_name = "N", requires_all = ["burst_per_s", "burst_s"], allow_negative_numbers = true)]
    drain_per_s: Option<f64>,
    /// Connections that come a second in the burst.
    #[arg(
        long,
        value_name = "N",
        requires = "drain_per_s",
        conflicts_with = "port",
        allow_negative_numbers = true
    )]
    burst_per_s: Option<f64>,
    /// How long the burst lasts, in seconds.
    #[arg(
        long,
        value_name = "S",
        requires = "drain_per_s",
        conflicts_with = "port",
        allow_negative_numbers = true
    )]
    burst_s: Option<f64>,
    /// Connections that come a second before and after it [default: 0].
    #[arg(
        long,
        value_name = "N",
        requires = "drain_per_s",
        conflicts_with = "port",
        allow_negative_numbers = true
    )]
    calm_per_s: Option<f64>,
    /// A guarded port: watch it, and take the largest burst that comes.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    port: Option<u16>,
    /// Its address, where several are guarded; 0.0.0.0 for those that have no guard of their own.
    #[arg(long, requires = "port")]
    address: Option<IpAddr>,
    /// How long to watch, in seconds.
    #[arg(long = "for", value_name = "S", requires = "port", default_value_t = 60, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch_s: u32,
    /// The clients' round trip, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100.0, allow_negative_numbers = true)]
    rtt_ms: f64,
    /// The longest time in which the server accepts nothing, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0.0, allow_negative_numbers = true)]
    pause_ms: f64,
    /// The share of the burst's SYNs that may be dropped.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, allow_negative_numbers = true)]
    drops: f64,
    /// How long clients wait before they give up, in seconds.
    #[arg(long, value_name = "S", default_value_t = f64::from(mechanism::PATIENCE_MS) / 1000.0,
        allow_negative_numbers = true)]
    patience_s: f64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// What an option's number may be: above 0, or from it, up to the most of its units.
struct Bounds {
    option: &'static str,
    unit: &'static str,
    may_be_zero: bool,
    most: f64,
}

const fn bounds(option: &'static str, unit: &'static str, may_be_zero: bool, most: f64) -> Bounds {
    Bounds { option, unit, may_be_zero, most }
}

const BOUNDS: [Bounds; 8] = [
    bounds("--drain-per-s", "connections a second", false, size::RATE_MOST_PER_S),
    bounds("--burst-per-s", "connections a second", false, size::RATE_MOST_PER_S),
    bounds("--burst-s", "seconds", false, size::BURST_MOST_S),
    bounds("--calm-per-s", "connections a second", true, size::RATE_MOST_PER_S),
    bounds("--rtt-ms", "milliseconds", true, size::TIME_MOST_S * 1000.0),
    bounds("--pause-ms", "milliseconds", true, size::TIME_MOST_S * 1000.0),
    bounds("--drops", "a share", true, size::DROPS_MOST),
    bounds("--patience-s", "seconds", false, *mechanism::PATIENCE_S.end()),
];

impl Bounds {
    fn fix(&self) -> String {
        let from = if self.may_be_zero { "from 0" } else { "above 0, up" };
        format!("give {} {from} to {}", self.unit, self.most)
    }

    /// Written so that NaN is refused too.
    fn contain(&self, number: f64) -> bool {
        (number > 0.0 || self.may_be_zero && number == 0.0) && number <= self.most
    }
}

/// What a number of this option may be, as a fix.
pub fn wanted(option: &str) -> Option<String> {
    BOUNDS.iter().find(|bounds| bounds.option == option).map(Bounds::fix)
}

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    /// The burst that it is about.
    burst: BurstTold,
    recommended: Recommended,
    /// net.core.somaxconn of this host; null where it cannot be read.
    somaxconn: Option<u64>,
    /// The listening socket that was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Socket>,
    /// What speaks against it.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct BurstTold {
    drain_per_s: f64,
    calm_per_s: f64,
    burst_per_s: f64,
    burst_s: f64,
    rtt_ms: f64,
    pause_ms: f64,
    drops: f64,
}

#[derive(Serialize)]
struct Recommended {
    backlog: u32,
    /// Connections that wait for accept() at most, and those of them that are not due to chance.
    listen_places: u32,
    fluid_places: u32,
    /// Half-open connections at most, and what tcp_max_syn_backlog they need without SYN cookies.
    syn_places: u32,
    max_syn_backlog: u32,
    /// The backlog with reserv, or above `places`.
    both_places: u32,
    last_waits_s: f64,
    empty_after_s: f64,
}

/// To three digits behind the point.
pub(crate) fn to_thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

impl From<&Size> for Recommended {
    fn from(size: &Size) -> Self {
        Recommended {
            backlog: size.backlog,
            listen_places: size.listen_places,
            fluid_places: size.fluid_places,
            syn_places: size.syn_places,
            max_syn_backlog: size.max_syn_backlog,
            both_places: size.both_places,
            last_waits_s: to_thousandths(size.last_waits_s),
            empty_after_s: to_thousandths(size.empty_after_s),
        }
    }
}

impl From<&Burst> for BurstTold {
    fn from(burst: &Burst) -> Self {
        BurstTold {
            drain_per_s: to_thousandths(burst.drain_per_s),
            calm_per_s: to_thousandths(burst.calm_per_s),
            burst_per_s: to_thousandths(burst.burst_per_s),
            burst_s: to_thousandths(burst.burst_s),
            rtt_ms: to_thousandths(burst.rtt_s * 1000.0),
            pause_ms: to_thousandths(burst.pause_s * 1000.0),
            drops: burst.drops,
        }
    }
}

impl Arguments {
    /// What is told of the clients, whose burst is not known yet.
    fn clients(&self) -> Burst {
        Burst {
            drain_per_s: self.drain_per_s.unwrap_or(1.0),
            calm_per_s: self.calm_per_s.unwrap_or(0.0),
            burst_per_s: self.burst_per_s.unwrap_or(1.0),
            burst_s: self.burst_s.unwrap_or(1.0),
            rtt_s: self.rtt_ms / 1000.0,
            pause_s: self.pause_ms / 1000.0,
            drops: self.drops,
        }
    }

    /// The model names its own numbers, in its own units; whoever typed is told of the options.
    fn check(&self) -> Result<()> {
        let given = [
            self.drain_per_s,
            self.burst_per_s,
            self.burst_s,
            self.calm_per_s,
            Some(self.rtt_ms),
            Some(self.pause_ms),
            Some(self.drops),
            Some(self.patience_s),
        ];
        for (bounds, number) in BOUNDS.iter().zip(given) {
            if let Some(number) = number.filter(|number| !bounds.contain(*number)) {
                let what = format!("{} {number} is out of range", bounds.option);
                return Err(Failure::argument(what, bounds.fix()));
            }
        }
        Ok(())
    }

    fn answer(&self) -> Result<Answer> {
        self.check()?;
        let patience_s = self.patience_s;
        let clients = self.clients();
        let Some(port) = self.port else {
            return Ok(answer(&clients, &size::recommend(&clients)?, patience_s, None));
        };
        // What is wrong with the rest of the command line is told before an hour of watching.
        size::recommend(&clients)?;
        let lasts = Duration::from_secs(self.watch_s.into());
        let (socket, seen) = watch::burst(port, self.address, lasts)?;
        let (burst, size) = size::recommend_seen(&seen, &clients)?;
        Ok(answer(&burst, &size, patience_s, Some(socket)))
    }
}

fn answer(burst: &Burst, size: &Size, patience_s: f64, seen: Option<Socket>) -> Answer {
    let somaxconn = host::sysctl("net/core/somaxconn");
    let mut warnings = Vec::new();
    if size.last_waits_s > patience_s {
        let places = (patience_s * burst.drain_per_s) as u64;
        warnings.push(format!(
            "the last waits {:.1} s, and clients wait {patience_s} s: a queue of more than {places} \
             is full of clients who have gone when it is their turn; refuse the others (auto, abort rst-syn)",
            size.last_waits_s
        ));
    }
    if let Some(most) = somaxconn.filter(|most| *most < u64::from(size.backlog)) {
        warnings.push(format!(
            "net.core.somaxconn is {most} here, and listen() grants no more: sysctl -w \
             net.core.somaxconn={}",
            size.backlog
        ));
    }
    warnings.extend(seen.iter().flat_map(Socket::warnings));
    Answer { burst: burst.into(), recommended: size.into(), somaxconn, seen, warnings }
}

fn table(answer: &Answer) -> String {
    let mut out = String::new();
    let Answer { burst: b, recommended: r, .. } = answer;
    if let Some(seen) = &answer.seen {
        let _ = writeln!(out, "{}", seen.line());
    }
    let _ = writeln!(
        out,
        "a burst of {:.0}/s for {} s, {:.0}/s in calm, {:.0}/s drained; clients {} ms away",
        b.burst_per_s, b.burst_s, b.calm_per_s, b.drain_per_s, b.rtt_ms
    );
    let mut row = |name: &str, value: String, meaning: String| {
        let _ = writeln!(out, "  {name:<12} {value:>9}  {meaning}");
    };
    row(
        "backlog",
        r.backlog.to_string(),
        format!(
            "{} wait for accept() at most, {} of them since more come than are taken",
            r.listen_places, r.fluid_places
        ),
    );
    row(
        "SYN queue",
        r.syn_places.to_string(),
        format!(
            "half-open at most; tcp_max_syn_backlog {} where tcp_syncookies is 0",
            r.max_syn_backlog
        ),
    );
    row(
        "both",
        r.both_places.to_string(),
        format!("the backlog with reserv, or above places = {}", r.listen_places),
    );
    row(
        "wait",
        format!("{:.3} s", r.last_waits_s),
        format!("of the last for accept(); empty {:.1} s after the burst", r.empty_after_s),
    );
    for warning in &answer.warnings {
        let _ = writeln!(out, "  {warning}");
    }
    out
}

/// Prints the recommendation, for people or as JSON.
pub fn run(arguments: &Arguments) -> Result<()> {
    let answer = arguments.answer()?;
    if arguments.json { output::print_json(&answer) } else { output::print(&table(&answer)) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    const BURST: &str = "--drain-per-s 10 --burst-per-s 20 --burst-s 1";

    fn told(options: &str) -> String {
        let line = format!("size {options}");
        let answer = Line::parse_from(line.split(' ')).arguments.answer();
        answer.err().map_or(String::new(), |failure| failure.to_string())
    }

    /// The model has its own names and seconds; an operator typed an option, perhaps in ms.
    #[test]
    fn a_number_out_of_range_is_told_by_its_option_and_in_its_units() {
        for number in ["0", "inf", "1e9", "NaN"] {
            let told = told(&format!("--drain-per-s {number} --burst-per-s 20 --burst-s 1"));
            assert!(told.starts_with("--drain-per-s "), "{told}");
            let fix = " is out of range; give connections a second above 0, up to 100000000";
            assert!(told.ends_with(fix), "{told}");
        }
        for (options, expected) in [
            ("--calm-per-s -1", "give connections a second from 0 to 100000000"),
            ("--rtt-ms -1", "give milliseconds from 0 to 600000"),
            ("--pause-ms 600001", "give milliseconds from 0 to 600000"),
            ("--drops 0.6", "give a share from 0 to 0.5"),
            ("--patience-s 0", "give seconds above 0, up to 600"),
        ] {
            let told = told(&format!("{BURST} {options}"));
            assert_eq!(told, format!("{options} is out of range; {expected}"));
        }
        let most = "--rtt-ms 600000 --pause-ms 600000 --drops 0.5 --patience-s 600";
        assert_eq!(told(&format!("{BURST} {most}")), "");
    }
}
