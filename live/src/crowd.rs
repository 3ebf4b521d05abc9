// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario's clients as a crowd, on a processor of their own.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tidegate_client::{Browser, Os, Trace, specweb99};
use tidegate_crowd::{self as crowd, Browsing, Class, Network, Outcome, Plan, Progress};
use tidegate_lab::pin_thread;
use tidegate_scenarios::{Arrivals, Close, Driver, Load, Page, Setting, read_trace};

use crate::error::LiveError;
use crate::ground::Ground;

/// Clients enough to keep a server busy, few enough never to fill its listen queue.
const CAPACITY_CLIENTS: usize = 64;
const CAPACITY_WARM_UP: Duration = Duration::from_secs(1);
const CAPACITY_DURATION: Duration = Duration::from_secs(4);
/// Below so many times capacity no one waits long enough to be waited for.
const CALM_BELOW: f64 = 0.9;
const CALM_WARM_UP_S: f64 = 3.0;
/// So many draws of a file stand for its share within a per mille.
const FILE_DRAWS: usize = 10_000;

/// A crowd to be sent.
pub(crate) struct Crowd {
    plan: Plan,
}

/// A crowd under way, in a thread of the clients' namespace.
pub(crate) struct Sent {
    progress: Receiver<Progress>,
    thread: JoinHandle<Result<Outcome, LiveError>>,
}

impl Crowd {
    /// A closed loop, which measures what the server can do. Single connections do it, with as many
    /// requests as a browser's have: its bursts would overflow the listen queue.
    pub(crate) fn for_capacity(setting: &Setting) -> Result<Self, LiveError> {
        // What is wrong with them is told before anything is run.
        browsing(setting)?;
        if let Arrivals::Trace(file) = &setting.clients.arrivals {
            trace(file)?;
        }
        let mut plan = Plan {
            load: crowd::Load::Closed { clients: CAPACITY_CLIENTS },
            warm_up: CAPACITY_WARM_UP,
            duration: CAPACITY_DURATION,
            ..plan(setting, 1)?
        };
        // So few clients far away would spend their time waiting for the network.
        for class in &mut plan.classes {
            class.network = Network::default();
        }
        Ok(Self { plan })
    }

    /// An open loop of so many connections a second; of browsers, so many clients that they make
    /// as many, when everything is answered.
    pub(crate) fn for_load(
        setting: &Setting,
        load: &Load,
        times: &Times,
        per_s: f64,
    ) -> Result<Self, LiveError> {
        let clients = &setting.clients;
        let per_s = match &clients.browsing {
            Some(browsing) => per_s * clients.requests / browsing.requests_a_client(),
            None => per_s,
        };
        let patience = Duration::from_secs_f64(clients.timeout_s);
        let mut plan = Plan {
            load: match &clients.arrivals {
                Arrivals::Poisson => crowd::Load::Poisson { per_s },
                Arrivals::Constant => crowd::Load::Constant { per_s },
                Arrivals::Bursts { burst_s, silence_s } => {
                    let [burst, silence] = [*burst_s, *silence_s].map(Duration::from_secs_f64);
                    crowd::Load::Bursts { per_s, burst, silence }
                }
                Arrivals::Trace(file) => {
                    crowd::Load::Trace { trace: trace(file)?, per_s: Some(per_s) }
                }
            },
            warm_up: times.warm_up,
            duration: times.duration,
            // Attempts counted last must see the same server as the first.
            cool_down: patience,
            ..plan(setting, load.seed)?
        };
        if let Some(browsing) = browsing(setting)? {
            // So must the objects of a page.
            plan.cool_down = 2 * patience;
            for class in &mut plan.classes {
                class.requests = 1.0;
                class.browsing = Some(browsing.clone());
            }
        }
        Ok(Self { plan })
    }

    /// How long it takes at most.
    pub(crate) fn lasts(&self) -> Duration {
        self.plan.warm_up + self.plan.duration + self.plan.cool_down
    }

    /// Sends it.
    pub(crate) fn send(mut self, ground: &Ground) -> Result<Sent, LiveError> {
        let raw = self.plan.driver == crowd::Driver::Raw;
        self.plan.targets = vec![ground.target()];
        self.plan.sources = if raw { ground.crowd_sources() } else { ground.socket_sources() };
        self.plan.interface = raw.then(|| ground.crowd_interface.to_owned());
        let (tell, progress) = channel();
        let cpu = ground.crowd_cpu;
        let thread = ground.clients.thread(move || {
            pin_thread(cpu)?;
            // Nobody may be listening any more.
            let watch = &mut |progress| {
                let _ = tell.send(progress);
            };
            Ok(crowd::run_watched(&self.plan, watch)?)
        })?;
        Ok(Sent { progress, thread })
    }
}

impl Sent {
    /// Passes on how it goes for so long, or until it ends.
    pub(crate) fn watch_for(&mut self, time: Duration, mut watch: impl FnMut(&Progress)) {
        let until = Instant::now() + time;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok(progress) = self.progress.recv_timeout(left()) {
            watch(&progress);
        }
    }

    /// Waits for its end and says what became of it.
    pub(crate) fn wait(self, mut watch: impl FnMut(&Progress)) -> Result<Outcome, LiveError> {
        for progress in &self.progress {
            watch(&progress);
        }
        self.thread.join().unwrap_or_else(|_| {
            Err(LiveError::Ended { program: "the crowd".into(), reason: "it panicked".into() })
        })
    }
}

/// How long a point's load and its counted part last.
pub(crate) struct Times {
    pub warm_up: Duration,
    pub duration: Duration,
}

impl Times {
    /// Of a point at this offered load, in multiples of capacity.
    pub(crate) fn of(setting: &Setting, load: &Load, offered: f64) -> Self {
        let clients = &setting.clients;
        let warm_up_s = load.warm_up_s.unwrap_or(if offered < CALM_BELOW {
            CALM_WARM_UP_S.min(clients.timeout_s)
        } else {
            clients.timeout_s
        });
        let duration_s = match &clients.arrivals {
            // A mean rate is one of whole periods.
            Arrivals::Bursts { burst_s, silence_s } => {
                let period_s = burst_s + silence_s;
                (load.duration_s / period_s).ceil() * period_s
            }
            _ => load.duration_s,
        };
        Self {
            warm_up: Duration::from_secs_f64(warm_up_s),
            duration: Duration::from_secs_f64(duration_s),
        }
    }
}

fn plan(setting: &Setting, seed: u64) -> Result<Plan, LiveError> {
    let clients = &setting.clients;
    let os = Os::named(&clients.os).map_err(|unknown| LiveError::Clients(unknown.to_string()))?;
    let delay = match (clients.delay.mean_ms, clients.delay.spread_ms) {
        (0.0, _) => crowd::Delay::None,
        (ms, 0.0) => crowd::Delay::Constant { ms },
        (mean_ms, deviation_ms) => crowd::Delay::Normal { mean_ms, deviation_ms },
    };
    let class = Class {
        os,
        timeout: Duration::from_secs_f64(clients.timeout_s),
        close: match clients.close {
            Close::Fin => crowd::Close::Fin,
            Close::Reset => crowd::Close::Reset,
            Close::HalfClose => crowd::Close::HalfClose,
        },
        requests: clients.requests,
        paths: paths(setting.server.page, seed),
        network: Network { delay, loss: clients.loss, reorder: clients.reorder },
        ..Class::default()
    };
    let driver = match clients.driver {
        Driver::Raw => crowd::Driver::Raw,
        Driver::Sockets => crowd::Driver::Sockets,
    };
    Ok(Plan { driver, seed, classes: vec![class], ..Plan::default() })
}

/// How clients visit pages, if they do. Pages are asked for like all else, in turn.
fn browsing(setting: &Setting) -> Result<Option<Browsing>, LiveError> {
    let Some(browsing) = &setting.clients.browsing else { return Ok(None) };
    let browser = Browser::named(&browsing.browser)
        .map_err(|unknown| LiveError::Clients(unknown.to_string()))?;
    Ok(Some(Browsing {
        objects: browsing.objects,
        pages: browsing.pages,
        think: Duration::from_secs_f64(browsing.think_s),
        ..Browsing::with(browser)
    }))
}

/// A trace that can be scaled.
fn trace(file: &Path) -> Result<Trace, LiveError> {
    let trace = read_trace(file).map_err(|error| LiveError::Clients(error.to_string()))?;
    if trace.per_s().is_none() {
        let what = "its starts are all at one time, so it has no rate to be scaled: give more";
        return Err(LiveError::Clients(format!("{}: {what}", file.display())));
    }
    Ok(trace)
}

/// What is asked for, in turn: each file as often as its share has it, in random order.
fn paths(page: Page, seed: u64) -> Vec<String> {
    if page == Page::OnePacket {
        return vec!["/".to_owned()];
    }
    let mut all = Vec::with_capacity(FILE_DRAWS);
    for file in specweb99::files() {
        let times = (file.share * FILE_DRAWS as f64).round() as usize;
        all.extend(std::iter::repeat_n(file.path, times.max(1)));
    }
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    for last in (1..all.len()).rev() {
        let other = (chance.next_u64() % (last as u64 + 1)) as usize;
        all.swap(last, other);
    }
    all
}
