// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab model`: Jamjoom's equations, as two columns.

use std::iter::once;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_client::Os;
use tidegate_client::model::{
    self, Comparison, Schedule, Visit, passes_persistent, passes_rate_based, persistent,
    rate_based, successful_latency_s, successful_latency_variance_s2, table_3_persistent,
    table_3_rate_based, uniform_probability, visit_s,
};

use crate::failure::Failure;
use crate::quantity;

/// Compare dropping every SYN alike with dropping some connections whole, by the model.
///
/// Both shed the same: a share P of the connections fails. The equations are those of Jamjoom and
/// Shin, "Persistent Dropping" (SIGCOMM 2003), sections 2 and 3; nothing is run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The share of the connections that are to fail, above 0 and below 1.
    #[arg(long, value_name = "P", default_value_t = 0.1)]
    p: f64,
    /// Whose SYNs they are: a client's system, as scenarios name it.
    #[arg(long, value_name = "NAME", default_value = "linux")]
    os: String,
    /// How long clients wait, if less than their system does.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    timeout: Option<Duration>,
    /// The round trip.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::duration)]
    rtt: Duration,
    /// New connections per second.
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    arrivals: f64,
    /// Queues in series, each dropping as the one.
    #[arg(long, value_name = "M", default_value = "5", value_parser = quantity::count::<NonZeroU32>)]
    queues: NonZeroU32,
    /// Parallel connections of a visit to a page.
    #[arg(long, value_name = "M", default_value = "6", value_parser = quantity::count::<NonZeroU32>)]
    parallel: NonZeroU32,
}

/// A line of the table: what is compared, and both as they are shown.
type Row = (String, [String; 2]);

/// Prints both.
pub(crate) fn model(arguments: &Arguments) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let schedule = schedule(arguments)?;
    crate::say(&format!(
        "{} sends a SYN {} times in {} s; {:.1} % of {} connections a second are to fail.\n",
        arguments.os,
        schedule.retransmissions() + 1,
        schedule.abort_s,
        arguments.p * 100.0,
        arguments.arrivals
    ))?;
    let head = (String::new(), ["every SYN", "whole"].map(str::to_owned));
    for (name, [random, whole]) in once(head).chain(rows(arguments, &schedule)) {
        crate::say(&format!("  {name:<52}{random:>12}{whole:>12}"))?;
    }
    let entries = model::table_entries(arguments.arrivals, 75.0, 1.2);
    crate::say(&format!("\nA table for sbpd: {entries:.0} entries of a byte (Eq. 9, σ = 1.2)."))?;
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { p, arrivals, .. } = *arguments;
    if !(p > 0.0 && p < 1.0) {
        return Err(Failure::Share { given: p });
    }
    if !(arrivals > 0.0 && arrivals.is_finite()) {
        return Err(Failure::Arrivals { given: arrivals });
    }
    Ok(())
}

/// What becomes of clients where every SYN is dropped alike, and where connections are dropped whole.
fn rows(arguments: &Arguments, schedule: &Schedule) -> Vec<Row> {
    let Arguments { p, arrivals, .. } = *arguments;
    let (queues, parallel) = (arguments.queues.get(), arguments.parallel.get());
    let rtt_s = arguments.rtt.as_secs_f64();
    let n = schedule.retransmissions();
    let each = uniform_probability(p, n);
    let table_3 = [
        table_3_rate_based(each, schedule, rtt_s, arrivals),
        table_3_persistent(each, schedule, rtt_s, arrivals),
    ];
    let of = |number: fn(&Comparison) -> f64| table_3.each_ref().map(number);
    let classes = [rate_based(each, n), persistent(p, n)];
    // Somebody succeeds, since p* is below 1.
    let means_s =
        classes.each_ref().map(|p| successful_latency_s(p, schedule, rtt_s).unwrap_or_default());
    let variances_s2 = classes.map(|p| successful_latency_variance_s2(&p, schedule, rtt_s));
    let deviations_s = variances_s2.map(|variance_s2| variance_s2.unwrap_or_default().sqrt());
    let visits_s = means_s.map(|request_s| {
        let visit = Visit { parallel: f64::from(parallel), interarrival_s: 0.0, request_s };
        visit_s(p, schedule.abort_s, &visit)
    });
    let passes = [passes_rate_based(each, queues), passes_persistent(each, n, queues)];
    let row = |name: &str, numbers: [f64; 2], show: fn(f64) -> String| {
        (name.to_owned(), numbers.map(show))
    };
    let share = |share: f64| format!("{:.2} %", share * 100.0);
    let seconds = |seconds: f64| format!("{seconds:.3} s");
    vec![
        row("a SYN is dropped with probability", of(|c| c.drop_probability), share),
        row("until it stands or is given up, mean (Eq. 1)", of(|c| c.latency_s), seconds),
        row("until it stands, of those that do, mean (Eq. 7)", means_s, seconds),
        row("its standard deviation", deviations_s, seconds),
        row("SYNs a connection", of(|c| c.transmissions), |n| format!("{n:.3}")),
        row("SYNs a second (Eq. 2)", of(|c| c.arrivals_per_s), |n| format!("{n:.1}")),
        row(&format!("an attempt passes {queues} such queues (section 3.2)"), passes, share),
        row(&format!("a visit of {parallel} connections at once (Eq. 3)"), visits_s, seconds),
    ]
}

/// The client's system, cut short where its people wait less.
fn schedule(arguments: &Arguments) -> Result<Schedule, Failure> {
    let os = Os::named(&arguments.os)?;
    let system_s = f64::from(os.connect_gives_up_ms) / 1000.0;
    let abort_s = arguments.timeout.map_or(system_s, |timeout| timeout.as_secs_f64().min(system_s));
    let again_s = os.syn_again_ms.iter().map(|ms| f64::from(*ms) / 1000.0);
    let again_s: Vec<f64> = again_s.take_while(|again_s| *again_s < abort_s).collect();
    Ok(Schedule::new(&again_s, abort_s))
}
