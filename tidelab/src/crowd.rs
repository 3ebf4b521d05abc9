// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab crowd`.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use tidegate_crowd::{
    Browser, Browsing, Class, Close, CrowdError, Delay, Driver, Load, Network, Os, Plan, run_until,
};
use tidegate_scenarios::read_trace;

use crate::failure::Failure;
use crate::progress;
use crate::quantity::{self, Addresses};
use crate::signals;

/// Send a crowd of clients from this network namespace and print what became of them, as JSON.
///
/// SIGINT, SIGTERM or SIGHUP end it sooner; it then leaves the interface as it was, and prints no JSON.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("load").required(true).multiple(true)
    .args(["rate", "trace", "clients"]))]
pub(crate) struct Arguments {
    /// Address and port to go to (again for more).
    #[arg(long = "to", value_name = "ADDRESS:PORT", required = true)]
    targets: Vec<SocketAddr>,
    /// Source address, a range as in 10.0.0.2-10.0.0.25, or a prefix as in 10.128.0.0/16, whose
    /// addresses raw packets may have without being configured (again for more).
    #[arg(long = "from", value_name = "IP[-IP]", value_parser = quantity::addresses)]
    sources: Vec<Addresses>,
    /// Ports that each source has, from 32768 on, or lower where they are more, held in TIME-WAIT
    /// for a minute where the client closes first (raw packets only); Linux has 28232. By default
    /// 64512, without that wait.
    #[arg(long, value_name = "N")]
    ports: Option<u16>,
    /// Attempts started per second, whatever the server does (open loop); with a browser, clients.
    #[arg(long, value_name = "PER_S", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Starts as in a recorded trace, a text file of seconds since its beginning, one a line: once,
    /// as recorded; or with --rate at that mean rate, round and round.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Clients that each try again when their attempt has ended (closed loop).
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "trace"])]
    clients: Option<usize>,
    /// How starts are spaced in an open loop.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson,
        conflicts_with_all = ["trace", "clients"])]
    arrivals: Arrivals,
    /// How long attempts are counted; by default 10s, or until a recorded trace ends.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    duration: Option<Duration>,
    /// Load before that.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    warm_up: Duration,
    /// Load after that.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    cool_down: Duration,
    /// How long a client waits for its reply.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    timeout: Duration,
    /// Chooses the schedule.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to ask for (again for more, in turn).
    #[arg(long = "path", default_value = "/")]
    paths: Vec<String>,
    /// Requests on one connection, in the mean.
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
    requests: f64,
    /// Clients visit pages with a browser, over its parallel connections: chrome,
    /// internet-explorer-6, mozilla-1.2, …
    #[arg(long, value_parser = browser)]
    browser: Option<&'static Browser>,
    /// Objects embedded in a page.
    #[arg(long, value_name = "N", default_value_t = 21, requires = "browser")]
    objects: u16,
    /// Pages that a client visits, in the mean.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1.0,
        requires = "browser",
        allow_negative_numbers = true
    )]
    pages: f64,
    /// Time between two pages, in the mean.
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "browser",
        value_parser = quantity::duration)]
    think: Duration,
    /// How clients end their side of a connection.
    #[arg(long, value_enum, default_value_t = Ending::Fin)]
    close: Ending,
    /// Who makes the packets.
    #[arg(long, value_enum, default_value_t = Maker::Sockets)]
    driver: Maker,
    /// The interface that raw packets leave by; by default the route's.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Replies take several segments: raw clients behind a veth take them in one piece, as the
    /// server's TCP hands them down. Slower for small ones.
    #[arg(long)]
    large_replies: bool,
    /// Whose TCP raw clients speak: linux, windows, macos, linux-2.4, …
    #[arg(long, default_value = "linux", value_parser = os)]
    os: &'static Os,
    /// How far raw clients are away, one way, in ms.
    #[arg(long, value_name = "MS", default_value_t = 0.0, allow_negative_numbers = true)]
    delay_ms: f64,
    /// Chance of a raw client's packet to be lost, each way.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    loss: f64,
    /// Chance of a raw client's packet to come late, each way.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    reorder: f64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Arrivals {
    /// Evenly spaced.
    Constant,
    /// At random.
    Poisson,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Ending {
    /// Politely.
    Fin,
    /// With a RST.
    Reset,
    /// With FIN right after the request, still reading.
    HalfClose,
    /// After the server, which the last request asks to close.
    Server,
    /// With the request CLIENT_CLOSE, which says so and wants no reply, and FIN.
    ClientClose,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Maker {
    /// This kernel.
    Sockets,
    /// The crowd itself, past this kernel's TCP.
    Raw,
}

/// Sends the crowd and prints the outcome.
pub(crate) fn send(arguments: &Arguments) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let plan = plan(arguments)?;
    let is_recorded = matches!(plan.load, Load::Trace { .. });
    let mut bar = progress::bar();
    // That none is too long is seen when it is sent.
    let lasts = plan.warm_up.saturating_add(plan.duration).saturating_add(plan.cool_down);
    bar.step(1, 1, "crowd", lasts);
    let (stop, signals) = stop_by_signal()?;
    let outcome = run_until(&plan, &stop, &mut |progress| bar.show(1, &progress));
    let outcome = outcome.map_err(by_option)?;
    bar.finish();
    // Nobody may be there to read what is written.
    signals.thread_unblock().map_err(|errno| Failure::Signals(errno.into()))?;
    let outcome = if is_recorded { outcome.of_uneven_time() } else { outcome };
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() {
        serde_json::to_writer_pretty(&mut out, &outcome)
    } else {
        serde_json::to_writer(&mut out, &outcome)
    };
    written.map_err(io::Error::from).and_then(|()| writeln!(out)).map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// Becomes true when a signal ends the crowd, so that it leaves the interface as it was. Another one
/// hurries nobody: timeout(1) sends two.
fn stop_by_signal() -> Result<(Arc<AtomicBool>, SigSet), Failure> {
    let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    // One that is blocked is heard though it is ignored, as below nohup.
    let signals = signals::block(ends.into_iter().filter(|signal| !is_ignored(*signal)))?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let wait = move || {
        // An error would mean an invalid signal set, which it is not.
        let _ = signals.wait();
        told.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().spawn(wait).map_err(Failure::Thread)?;
    Ok((stop, signals))
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zero is a valid one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed, and the kernel writes to what outlives the call.
    let answer = unsafe { libc::sigaction(signal as i32, std::ptr::null(), &raw mut action) };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// What a crowd cannot be is told with the option that asked for it.
fn by_option(error: CrowdError) -> Failure {
    let option = match &error {
        CrowdError::NoSource { .. } => "--from",
        CrowdError::Rate { .. } | CrowdError::NoRate => "--rate",
        CrowdError::Ports { .. } => "--ports",
        CrowdError::NoClients | CrowdError::FewPorts { .. } => "--clients",
        CrowdError::Requests { .. } => "--requests",
        CrowdError::Delay { .. } => "--delay-ms",
        CrowdError::Path { .. } => "--path",
        CrowdError::Share { what: "loss", .. } => "--loss",
        CrowdError::Share { what: "reorder", .. } => "--reorder",
        CrowdError::Duration { what: "a timeout", .. } => "--timeout",
        CrowdError::Duration { what: "a warm-up", .. } => "--warm-up",
        CrowdError::Duration { what: "a cool-down", .. } => "--cool-down",
        CrowdError::Duration { .. } => "--duration",
        _ => return error.into(),
    };
    Failure::Option { what: format!("{option}: {error}") }
}

/// Kernel sockets leave by the route and take what the kernel hands them. A plan has these two for
/// either driver, so that it is seen here only whether somebody asked for them.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let asked = [
        ("--interface", arguments.interface.is_some(), "choose an interface"),
        ("--large-replies", arguments.large_replies, "choose how replies come"),
    ];
    let asked = asked.into_iter().find(|(_, is_asked, _)| *is_asked);
    match (arguments.driver, asked) {
        (Maker::Sockets, Some((option, _, what))) => {
            let error = CrowdError::Sockets { what: what.to_owned() };
            Err(Failure::Option { what: format!("{option}: {error}") })
        }
        _ => Ok(()),
    }
}

/// How starts come about.
fn load(arguments: &Arguments) -> Result<Load, Failure> {
    if let Some(clients) = arguments.clients {
        return Ok(Load::Closed { clients });
    }
    if let Some(file) = &arguments.trace {
        return Ok(Load::Trace { trace: read_trace(file)?, per_s: arguments.rate });
    }
    let per_s = arguments.rate.unwrap_or_default();
    Ok(match arguments.arrivals {
        Arrivals::Constant => Load::Constant { per_s },
        Arrivals::Poisson => Load::Poisson { per_s },
    })
}

/// How long attempts are counted when nobody says.
fn duration(load: &Load, warm_up: Duration) -> Result<Duration, Failure> {
    match load {
        // As long as it lasts, its last start included.
        Load::Trace { trace, per_s: None } => {
            let lasts = Duration::from_nanos(trace.last_ns()) + Duration::from_millis(1);
            let is_left = |duration: &Duration| !duration.is_zero();
            lasts.checked_sub(warm_up).filter(is_left).ok_or_else(|| Failure::Option {
                what: format!(
                    "--warm-up {} s: the trace is over by then; give less than its {:.3} s",
                    warm_up.as_secs_f64(),
                    lasts.as_secs_f64()
                ),
            })
        }
        _ => Ok(Duration::from_secs(10)),
    }
}

fn plan(arguments: &Arguments) -> Result<Plan, Failure> {
    let load = load(arguments)?;
    let duration = arguments.duration.map_or_else(|| duration(&load, arguments.warm_up), Ok)?;
    let delay = match arguments.delay_ms {
        0.0 => Delay::None,
        ms => Delay::Constant { ms },
    };
    let class = Class {
        os: arguments.os,
        timeout: arguments.timeout,
        close: match arguments.close {
            Ending::Fin => Close::Fin,
            Ending::Reset => Close::Reset,
            Ending::HalfClose => Close::HalfClose,
            Ending::Server => Close::Server,
            Ending::ClientClose => Close::ClientClose,
        },
        requests: arguments.requests,
        paths: arguments.paths.clone(),
        network: Network { delay, loss: arguments.loss, reorder: arguments.reorder },
        browsing: arguments.browser.map(|browser| Browsing {
            objects: arguments.objects,
            pages: arguments.pages,
            think: arguments.think,
            ..Browsing::with(browser)
        }),
        ..Class::default()
    };
    Ok(Plan {
        driver: match arguments.driver {
            Maker::Sockets => Driver::Sockets,
            Maker::Raw => Driver::Raw,
        },
        interface: arguments.interface.clone(),
        large_replies: arguments.large_replies,
        targets: arguments.targets.clone(),
        sources: arguments.sources.iter().flat_map(|range| range.0.iter().copied()).collect(),
        ports: arguments.ports,
        load,
        warm_up: arguments.warm_up,
        duration,
        cool_down: arguments.cool_down,
        seed: arguments.seed,
        classes: vec![class],
    })
}

fn browser(name: &str) -> Result<&'static Browser, String> {
    Browser::named(name).map_err(|unknown| unknown.to_string())
}

fn os(name: &str) -> Result<&'static Os, String> {
    Os::named(name).map_err(|unknown| unknown.to_string())
}
