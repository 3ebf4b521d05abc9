// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab model`: Jamjoom's equations, as two columns.

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

/// Prints both.
pub(crate) fn model(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { p, arrivals, .. } = *arguments;
    let (queues, parallel) = (arguments.queues.get(), arguments.parallel.get());
    if !(p > 0.0 && p < 1.0) {
        return Err(Failure::Share { given: p });
    }
    if !(arrivals > 0.0 && arrivals.is_finite()) {
        return Err(Failure::Arrivals { given: arrivals });
    }
    let schedule = schedule(arguments)?;
    let rtt_s = arguments.rtt.as_secs_f64();
    let n = schedule.retransmissions();
    let each = uniform_probability(p, n);
    let [random, whole] = [
        table_3_rate_based(each, &schedule, rtt_s, arrivals),
        table_3_persistent(each, &schedule, rtt_s, arrivals),
    ];
    crate::say(&format!(
        "{} sends a SYN {} times in {} s; {:.1} % of {} connections a second are to fail.\n",
        arguments.os,
        n + 1,
        schedule.abort_s,
        p * 100.0,
        arrivals
    ))?;
    let row = |name: &str, random: String, whole: String| {
        crate::say(&format!("  {name:<52}{random:>12}{whole:>12}"))
    };
    row("", "every SYN".to_owned(), "whole".to_owned())?;
    let share = |share: f64| format!("{:.2} %", share * 100.0);
    let seconds = |seconds: f64| format!("{seconds:.3} s");
    let of = |number: fn(&Comparison) -> f64, show: &dyn Fn(f64) -> String| {
        (show(number(&random)), show(number(&whole)))
    };
    let both = |name: &str, (random, whole): (String, String)| row(name, random, whole);
    both("a SYN is dropped with probability", of(|c| c.drop_probability, &share))?;
    both("until it stands or is given up, mean (Eq. 1)", of(|c| c.latency_s, &seconds))?;
    let classes = [rate_based(each, n), persistent(p, n)];
    // Somebody succeeds, since p* is below 1.
    let means = classes.each_ref().map(|p| successful_latency_s(p, &schedule, rtt_s));
    let [random_s, whole_s] = means.map(Option::unwrap_or_default);
    row("until it stands, of those that do, mean (Eq. 7)", seconds(random_s), seconds(whole_s))?;
    let variances = classes.map(|p| successful_latency_variance_s2(&p, &schedule, rtt_s));
    let [random_deviation, whole_deviation] =
        variances.map(|variance| seconds(variance.unwrap_or_default().sqrt()));
    row("its standard deviation", random_deviation, whole_deviation)?;
    both("SYNs a connection", of(|c| c.transmissions, &|n| format!("{n:.3}")))?;
    both("SYNs a second (Eq. 2)", of(|c| c.arrivals_per_s, &|n| format!("{n:.1}")))?;
    row(
        &format!("an attempt passes {queues} such queues (section 3.2)"),
        share(passes_rate_based(each, queues)),
        share(passes_persistent(each, n, queues)),
    )?;
    let visit = |request_s| {
        let visit = Visit { parallel: f64::from(parallel), interarrival_s: 0.0, request_s };
        seconds(visit_s(p, schedule.abort_s, &visit))
    };
    row(
        &format!("a visit of {parallel} connections at once (Eq. 3)"),
        visit(random_s),
        visit(whole_s),
    )?;
    let entries = model::table_entries(arrivals, 75.0, 1.2);
    crate::say(&format!("\nA table for sbpd: {entries:.0} entries of a byte (Eq. 9, σ = 1.2)."))?;
    Ok(ExitCode::SUCCESS)
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
