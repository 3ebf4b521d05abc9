// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario's clients as a crowd, on a processor of their own.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tidegate_client::{Browser, Close, Progress};
use tidegate_crowd::{self as crowd, Browsing, Carrier, Class, Network, Outcome, Plan};
use tidegate_lab::pin_thread;
use tidegate_scenarios::{
    Arrivals, CAPACITY_CLIENTS, CAPACITY_PHASES, Driver, Load, Networks, Page, Phases, Server,
    Setting, read_scalable_trace, scheduled,
};

use crate::error::LiveError;
use crate::ground::{Ground, network_prefix};

/// A crowd to be sent.
pub(crate) struct Crowd {
    plan: Plan,
    /// How many addresses it comes from, if not from all.
    addresses: Option<u16>,
}

/// A crowd under way, in a thread of the clients' namespace. Where a point fails it is waited for all the
/// same: the next one's crowd would share its processor.
pub(crate) struct Sent {
    /// When its load began, once it has told.
    begun: Option<Instant>,
    /// What it tells, and when it did.
    progress: Receiver<(Instant, Progress)>,
    thread: Option<JoinHandle<Result<Outcome, LiveError>>>,
}

impl Crowd {
    /// A closed loop, which measures what the server can do.
    pub(crate) fn for_capacity(setting: &Setting) -> Result<Self, LiveError> {
        // What is wrong with them is told before anything is run.
        browsing(setting)?;
        require_one_cable(setting)?;
        if let Arrivals::Trace(file) = &setting.clients.arrivals {
            read_scalable_trace(file)?;
        }
        let load = crowd::Load::Closed { clients: CAPACITY_CLIENTS };
        let plan = plan(&setting.for_capacity(), load, &CAPACITY_PHASES, 1)?;
        Ok(Self { plan, addresses: None })
    }

    /// An open loop of so many connections a second; of browsers, so many clients that they make
    /// as many, when everything is answered.
    pub(crate) fn for_load(
        setting: &Setting,
        load: &Load,
        phases: &Phases,
        per_s: f64,
    ) -> Result<Self, LiveError> {
        let clients = &setting.clients;
        let per_s = match &clients.browsing {
            Some(browsing) => per_s * clients.requests / browsing.requests_a_client(),
            None => per_s,
        };
        let arrivals = match &clients.arrivals {
            Arrivals::Poisson => crowd::Load::Poisson { per_s },
            Arrivals::Constant => crowd::Load::Constant { per_s },
            Arrivals::Bursts { burst_s, silence_s } => {
                let [burst, silence] = [*burst_s, *silence_s].map(Duration::from_secs_f64);
                crowd::Load::Bursts { per_s, burst, silence }
            }
            Arrivals::Steps(steps) => crowd::Load::Steps { per_s, steps: scheduled(steps, phases) },
            Arrivals::Trace(file) => {
                crowd::Load::Trace { trace: read_scalable_trace(file)?, per_s: Some(per_s) }
            }
        };
        let mut plan = plan(setting, arrivals, phases, load.seed)?;
        if let Some(browsing) = browsing(setting)? {
            for class in &mut plan.classes {
                class.requests = 1.0;
                class.browsing = Some(browsing.clone());
            }
        }
        Ok(Self { plan, addresses: clients.addresses })
    }

    /// A closed loop for so long, of clients that leave the closing and TIME-WAIT to the server.
    pub(crate) fn for_time_waits(setting: &Setting, lasts: Duration) -> Result<Self, LiveError> {
        let mut setting = setting.for_capacity();
        setting.clients.close = Close::Server;
        setting.clients.requests = 1.0;
        setting.clients.driver = Driver::Raw;
        let load = crowd::Load::Closed { clients: CAPACITY_CLIENTS };
        let phases = Phases { warm_up: Duration::ZERO, duration: lasts, cool_down: Duration::ZERO };
        let mut plan = plan(&setting, load, &phases, 1)?;
        for class in &mut plan.classes {
            class.paths = vec!["/".to_owned()];
        }
        Ok(Self { plan, addresses: None })
    }

    /// What should carry it on this ground.
    pub(crate) fn carrier(&self, ground: &Ground) -> Carrier {
        match (self.plan.driver, self.plan.large_replies) {
            (crowd::Driver::Sockets, _) => Carrier::Sockets,
            // Behind the driver, where the kernel itself polls.
            (crowd::Driver::Raw, true) => Carrier::Xdp { native: false, polled_here: false },
            (crowd::Driver::Raw, false) => Carrier::Xdp {
                native: true,
                // With one processor there is no other to poll on.
                polled_here: ground.crowd_cpu != ground.server_cpu,
            },
        }
    }

    /// How long it takes at most.
    pub(crate) fn lasts(&self) -> Duration {
        self.plan.warm_up + self.plan.duration + self.plan.cool_down
    }

    /// Sends it.
    pub(crate) fn send(mut self, ground: &Ground) -> Result<Sent, LiveError> {
        let raw = self.plan.driver == crowd::Driver::Raw;
        self.plan.targets = vec![ground.target()];
        self.plan.sources =
            if raw { ground.crowd_sources(self.addresses) } else { ground.socket_sources() };
        self.plan.interface = raw.then(|| ground.crowd_interface.to_owned());
        let (tell, progress) = channel();
        let cpu = ground.crowd_cpu;
        let thread = ground.clients.thread(move || {
            pin_thread(cpu)?;
            // Nobody may be listening any more.
            let watch = &mut |progress: Progress| {
                let _ = tell.send((Instant::now(), progress));
            };
            Ok(crowd::run_watched(&self.plan, watch)?)
        })?;
        Ok(Sent { begun: None, progress, thread: Some(thread) })
    }
}

impl Sent {
    /// Passes on how it goes until so long after its load began, or until it ends. Whatever was done
    /// meanwhile, the times that it counts by are its own.
    pub(crate) fn watch_until(&mut self, time: Duration, mut watch: impl FnMut(&Progress)) {
        let Some(begun) = self.begun() else { return };
        let until = begun + time;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok((_, progress)) = self.progress.recv_timeout(left()) {
            watch(&progress);
        }
    }

    /// When its load began, by its own clock: until then it makes ready, for as long as that takes.
    /// Nothing where it came to an end before.
    fn begun(&mut self) -> Option<Instant> {
        if self.begun.is_none() {
            let (told, progress) = self.progress.recv().ok()?;
            self.begun = Some(told - Duration::from_secs_f64(progress.at_s));
        }
        self.begun
    }

    /// Waits for its end and says what became of it.
    pub(crate) fn wait(mut self, mut watch: impl FnMut(&Progress)) -> Result<Outcome, LiveError> {
        for (_, progress) in &self.progress {
            watch(&progress);
        }
        let outcome = self.thread.take().and_then(|thread| thread.join().ok());
        outcome.unwrap_or_else(|| {
            Err(LiveError::Ended { program: "the crowd".into(), reason: "it panicked".into() })
        })
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn plan(
    setting: &Setting,
    load: crowd::Load,
    phases: &Phases,
    seed: u64,
) -> Result<Plan, LiveError> {
    let clients = &setting.clients;
    let delay = match (clients.delay.mean_ms, clients.delay.spread_ms) {
        (0.0, _) => crowd::Delay::None,
        (ms, 0.0) => crowd::Delay::Constant { ms },
        (mean_ms, deviation_ms) => crowd::Delay::Normal { mean_ms, deviation_ms },
    };
    let class = Class {
        timeout: Duration::from_secs_f64(clients.timeout_s),
        close: clients.close,
        time_wait: setting.time_wait.at_clients(),
        requests: clients.requests,
        paths: paths(&setting.server, seed),
        network: Network { delay, loss: clients.loss, reorder: clients.reorder },
        ..Class::default()
    };
    let systems: Vec<Class> =
        clients.os.each().map(|(os, share)| Class { os, share, ..class.clone() }).collect();
    let classes = in_networks(systems, &clients.networks);
    let driver = match clients.driver {
        Driver::Raw => crowd::Driver::Raw,
        Driver::Sockets => crowd::Driver::Sockets,
    };
    Ok(Plan {
        driver,
        large_replies: has_large_replies(setting),
        load,
        warm_up: phases.warm_up,
        duration: phases.duration,
        cool_down: phases.cool_down,
        seed,
        classes,
        ports: clients.ports,
        ..Plan::default()
    })
}

/// These people in each of the networks, if there are any.
fn in_networks(people: Vec<Class>, networks: &Networks) -> Vec<Class> {
    if networks.is_empty() {
        return people;
    }
    let numbered = networks.shares().enumerate();
    let each = numbered.flat_map(|(part, of_network)| {
        people.iter().map(move |class| Class {
            share: class.share * of_network,
            sources: vec![network_prefix(part as u16)],
            part: Some(part),
            ..class.clone()
        })
    });
    each.collect()
}

/// Whether replies are taken in the pieces in which the server hands them down. Where segments may get lost or
/// come late, each does so by itself.
fn has_large_replies(setting: &Setting) -> bool {
    let is_plain = setting.clients.loss == 0.0 && setting.clients.reorder == 0.0;
    setting.server.page != Page::OnePacket && is_plain
}

/// That the capacity is measured over the kind of cable that the points have: with a program at the driver a
/// server of files serves little more than half as much. The simulator has one kind.
fn require_one_cable(setting: &Setting) -> Result<(), LiveError> {
    if has_large_replies(setting) == has_large_replies(&setting.for_capacity()) {
        return Ok(());
    }
    Err(LiveError::OtherCable { curve: setting.curve.clone() })
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

/// What is asked for, in turn: each page as often as its share has it, in random order.
fn paths(server: &Server, seed: u64) -> Vec<String> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let pages = server.pages();
    let order = server.order(|| chance.next_u64());
    order.into_iter().map(|place| pages[usize::from(place)].path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tidegate_lab::skip_without_root;
    use tidegate_scenarios::{Network as Between, Scenario};
    use tidegate_servers::{self as servers, Statistics};

    use super::*;

    fn setting(server: &str, clients: &str) -> Setting {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[server]\n{server}\n[clients]\n{clients}\n\
             [load]\noffered = [1]\n[[curve]]\nname = \"lossy\"\nmechanism = \"default\""
        );
        Scenario::parse("t", "t.toml", &text).unwrap().settings.remove(0)
    }

    /// Points would have a program at the driver, for which the server's TCP cuts its segments itself, and
    /// the capacity that they are multiples of would not.
    #[test]
    fn files_over_a_cable_that_loses_segments_are_refused_with_the_keys() {
        let made = |server: &str, clients: &str| {
            let made = Crowd::for_capacity(&setting(server, clients)).map(drop);
            made.map_err(|error| error.to_string())
        };
        let files = "page = \"specweb99\"";
        assert_eq!(made(files, ""), Ok(()));
        assert_eq!(made("", "loss = 0.02\nreorder = 0.01"), Ok(()));
        for clients in ["loss = 0.02", "reorder = 0.01"] {
            let told = made(files, clients).unwrap_err();
            let has_keys = ["\"lossy\"", "specweb99", "loss", "reorder", "one-packet"]
                .iter()
                .all(|key| told.contains(key));
            assert!(has_keys && told.lines().count() == 1, "{told}");
        }
    }

    /// Where it is not, every point warns.
    #[test]
    fn a_crowd_is_carried_as_it_should_be_on_our_ground() {
        if skip_without_root("a_crowd_is_carried_as_it_should_be_on_our_ground") {
            return;
        }
        let ground = Ground::lay(Between::Direct).unwrap();
        for (server, clients) in
            [("", ""), ("page = \"specweb99\"", ""), ("", "driver = \"sockets\"")]
        {
            let mut crowd = Crowd::for_capacity(&setting(server, clients)).unwrap();
            (crowd.plan.warm_up, crowd.plan.duration) = (Duration::ZERO, Duration::from_millis(50));
            let carrier = crowd.carrier(&ground).to_string();
            // Nobody listens: they are refused.
            let outcome = crowd.send(&ground).unwrap().wait(|_| ()).unwrap();
            assert!(outcome.driver.starts_with(&carrier), "{}, not {carrier}", outcome.driver);
        }
    }

    /// What a server of ours counts while a crowd keeps it busy for so long that measures what it can do.
    fn counted(crowd: Crowd, steps_per_us: u64) -> Statistics {
        let ground = Ground::lay(Between::Direct).unwrap();
        let settings = servers::Settings {
            addresses: vec![ground.target()],
            steps_per_us: NonZeroU64::new(steps_per_us),
            ..servers::Settings::default()
        };
        let server = ground.server.run(move || servers::Server::bind(&settings)).unwrap();
        let stopper = server.stopper();
        let serving = ground.server.thread(move || server.run()).unwrap();
        crowd.send(&ground).unwrap().wait(|_| ()).unwrap();
        stopper.stop();
        serving.join().unwrap().unwrap()
    }

    /// By the account of the server itself, in steps of work.
    #[test]
    fn a_server_computes_the_share_of_its_replies_that_a_scenario_says() {
        const TEST: &str = "a_server_computes_the_share_of_its_replies_that_a_scenario_says";
        const STEPS_PER_US: u64 = 10;
        if skip_without_root(TEST) {
            return;
        }
        for (keys, share) in [("computed = { share = 0.3, cost_us = 50 }", 0.3), ("", 0.0)] {
            let mut crowd = Crowd::for_capacity(&setting(keys, "requests = 2.62")).unwrap();
            (crowd.plan.warm_up, crowd.plan.duration) =
                (Duration::ZERO, Duration::from_millis(500));
            let counted = counted(crowd, STEPS_PER_US);
            let pages = counted.work_steps / (50 * STEPS_PER_US);
            assert_eq!(counted.work_steps % (50 * STEPS_PER_US), 0, "{counted}");
            assert!(counted.replies > 1000 && counted.bad_requests == 0, "{counted}");
            let found = pages as f64 / counted.replies as f64;
            assert!((found - share).abs() < 0.05, "{found} of {counted}");
        }
    }

    fn at(at_s: f64) -> Progress {
        Progress { at_s, ..Progress::default() }
    }

    #[test]
    fn a_crowd_is_watched_by_the_time_since_its_load_began() {
        let (time, now) = (Duration::from_secs(10), Instant::now());
        let (tell, progress) = channel();
        tell.send((now, at(10.0))).unwrap();
        Sent { begun: None, progress, thread: None }.watch_until(time, |_| ());
        assert!(now.elapsed() < time, "what was late was not made up for");
    }

    /// It is pinned, its neighbours are asked for, its device is opened: a while later its load begins.
    #[test]
    fn until_its_load_begins_no_time_of_a_crowd_has_passed() {
        let (pause, sent) = (Duration::from_millis(50), Instant::now());
        let (tell, progress) = channel();
        let crowd = std::thread::spawn(move || {
            std::thread::sleep(pause);
            tell.send((Instant::now(), at(0.0))).unwrap();
            std::thread::sleep(2 * pause);
        });
        Sent { begun: None, progress, thread: None }.watch_until(pause, |_| ());
        assert!(sent.elapsed() >= 2 * pause);
        crowd.join().unwrap();
    }
}
