// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who goes where, when, and with how much patience.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tidegate_client::{Step, Trace};

use crate::class::Class;
use crate::error::CrowdError;
use crate::sources::{Range, can_number};

/// Below are the ports that only servers have.
const PORTS_MAX: u16 = u16::MAX - 1023;
const RATE_MAX_PER_S: f64 = 1e7;
const DURATION_MAX: Duration = Duration::from_secs(86_400);
/// Another stream of the seed than the schedule's: who comes has nothing to do with when.
const PEOPLE: u64 = 0x7065_6f70_6c65_2121;

/// How starts come about. A start is an attempt's, or, of a class that browses, a client's, who
/// then makes many.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Open loop, evenly spaced.
    Constant {
        /// Starts per second.
        per_s: f64,
    },
    /// Open loop, at random.
    Poisson {
        /// Starts per second, on average.
        per_s: f64,
    },
    /// Open loop, at random, in bursts with nothing between them, beginning with a burst (Shukla,
    /// section 5.2).
    Bursts {
        /// Starts per second on average, silence included.
        per_s: f64,
        /// How long a burst lasts.
        burst: Duration,
        /// How long the silence after it.
        silence: Duration,
    },
    /// Open loop, at random, at a rate that changes by steps.
    Steps {
        /// Starts per second where a step says 1.
        per_s: f64,
        /// From the beginning of the run on; the last one's rate goes on.
        steps: Vec<Step>,
    },
    /// Open loop, as in a recorded trace.
    Trace {
        /// When clients came.
        trace: Trace,
        /// Starts per second, on average: the trace's times, from its first start on, are pressed
        /// or stretched to it, and it is played again from its beginning when it ends. `None`
        /// plays it once, at its own times since its beginning.
        per_s: Option<f64>,
    },
    /// Closed loop: so many clients, each starting again when its attempt has ended. For measuring
    /// a capacity, not for overload: these clients wait for each other.
    Closed {
        /// Clients at work at any time.
        clients: usize,
    },
}

/// What carries the attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The kernel's sockets, with the kernel's own TCP.
    #[default]
    Sockets,
    /// Packets of our own, past the kernel's TCP: over AF_XDP, else over AF_PACKET. It takes root.
    Raw,
}

/// A crowd to send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What carries the attempts.
    pub driver: Driver,
    /// Which interface raw packets leave by; `None` leaves it to the kernel's routes.
    pub interface: Option<String>,
    /// Replies take several segments (raw packets only): they are taken in the pieces in which the
    /// servers' TCP hands them down to a virtual cable, as behind a network card that does the
    /// cutting. Each frame takes longer than at the driver, so that it is not for small replies.
    pub large_replies: bool,
    /// Where to, in turn.
    pub targets: Vec<SocketAddr>,
    /// Where from, in turn among those of the target's family; empty lets the kernel choose. Of
    /// an IPv4 prefix, the first and the last address are left out.
    ///
    /// Raw packets may come from any address, even one that nobody configured, as long as the
    /// server's packets to it arrive at our interface. While the crowd runs, everything that the
    /// targets send is the crowd's: other programs here cannot talk to them.
    pub sources: Vec<IpNet>,
    /// How many ports each source has (raw packets only), from 32,768 on: Linux has 28,232
    /// (`net.ipv4.ip_local_port_range`), and NAT and proxies no more. A port whose client closed
    /// first is then in TIME-WAIT for a minute and is not used; an attempt that finds none fails with
    /// EADDRNOTAVAIL. `None` is 64,512 ports, from 1024 on, in turn, and without that wait.
    ///
    /// Where some classes browse and others do not, those who do have the upper half of them and the
    /// others the lower half: it takes two at least.
    pub ports: Option<u16>,
    /// How starts come about.
    pub load: Load,
    /// How long load is applied before anything counts.
    pub warm_up: Duration,
    /// How long attempts are counted by their intended start.
    pub duration: Duration,
    /// How long load goes on afterwards, so that the last attempts counted see the same server as
    /// the first. The longest [`Class::timeout`] is enough; where clients visit pages, twice that.
    pub cool_down: Duration,
    /// Chooses the schedule of random loads, and everything else that is drawn.
    pub seed: u64,
    /// The kinds of people in it. Each attempt is of a class drawn by the classes' shares.
    pub classes: Vec<Class>,
}

impl Load {
    fn check(&self) -> Result<(), CrowdError> {
        match self {
            // Written so that NaN is refused too.
            Self::Constant { per_s }
            | Self::Poisson { per_s }
            | Self::Bursts { per_s, .. }
            | Self::Steps { per_s, .. }
            | Self::Trace { per_s: Some(per_s), .. }
                if !(*per_s > 0.0 && *per_s <= RATE_MAX_PER_S) =>
            {
                Err(CrowdError::Rate { per_s: *per_s })
            }
            Self::Trace { trace, per_s: Some(_) } if trace.per_s().is_none() => {
                Err(CrowdError::NoRate)
            }
            Self::Bursts { burst, .. } if burst.is_zero() || *burst > DURATION_MAX => {
                Err(CrowdError::Duration { what: "a burst", given_s: burst.as_secs_f64() })
            }
            Self::Steps { per_s, steps } => {
                let most = most_times(steps) * per_s;
                // Written so that NaN is refused too.
                if most > 0.0
                    && most <= RATE_MAX_PER_S
                    && steps.iter().all(|step| step.times >= 0.0)
                {
                    return Ok(());
                }
                Err(CrowdError::Rate { per_s: most })
            }
            Self::Closed { clients: 0 } => Err(CrowdError::NoClients),
            _ => Ok(()),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            driver: Driver::Sockets,
            interface: None,
            large_replies: false,
            targets: Vec::new(),
            sources: Vec::new(),
            ports: None,
            load: Load::Poisson { per_s: 100.0 },
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(10),
            cool_down: Duration::ZERO,
            seed: 1,
            classes: vec![Class::default()],
        }
    }
}

/// Those of them that are of a target's family, as ranges without overlap, in order.
pub(crate) fn ranges_of(sources: &[IpNet], target: SocketAddr) -> Vec<Range> {
    let of_family = sources.iter().filter(|net| net.addr().is_ipv4() == target.is_ipv4());
    Range::merged(of_family.map(|net| Range::of(*net)).collect())
}

impl Plan {
    /// Says whether the plan can be carried out.
    ///
    /// # Errors
    /// Whatever is wrong first, as a [`CrowdError`].
    pub fn check(&self) -> Result<(), CrowdError> {
        if self.targets.is_empty() {
            return Err(CrowdError::NoTarget);
        }
        let homes = self.homes();
        let is_one = homes.len() == 1;
        for &target in &self.targets {
            for home in &homes {
                let is_own = is_one && home.is_empty();
                if !is_own && ranges_of(home, target).is_empty() {
                    return Err(CrowdError::NoSource { target });
                }
            }
        }
        for &target in &self.targets {
            if !is_one && !can_number(&self.ranges_for(target)) {
                return Err(CrowdError::Addresses { target });
            }
        }
        self.load.check()?;
        if let Some(ports) = self.ports
            && (ports == 0 || ports > PORTS_MAX || self.driver == Driver::Sockets)
        {
            return Err(CrowdError::Ports { ports });
        }
        if let Some(ports) = self.ports
            && ports < 2
            && self.is_mixed()
        {
            return Err(CrowdError::SharedPorts { ports });
        }
        if self.classes.is_empty() {
            return Err(CrowdError::NoClasses);
        }
        for class in &self.classes {
            class.check()?;
        }
        let are_apart = self.parts() > 0 || self.homes().iter().any(|home| *home != self.sources);
        if are_apart && self.driver == Driver::Sockets {
            return Err(CrowdError::RawClasses);
        }
        for (what, given, zero_allowed) in [
            ("a duration", self.duration, false),
            ("a warm-up", self.warm_up, true),
            ("a cool-down", self.cool_down, true),
        ] {
            if given > DURATION_MAX || (given.is_zero() && !zero_allowed) {
                return Err(CrowdError::Duration { what, given_s: given.as_secs_f64() });
            }
        }
        Ok(())
    }

    /// The source addresses of a target's family that anyone has, as ranges without overlap, in order.
    pub(crate) fn ranges_for(&self, target: SocketAddr) -> Vec<Range> {
        let all: Vec<IpNet> = self.homes().into_iter().flatten().copied().collect();
        ranges_of(&all, target)
    }

    /// Where people come from: each list of sources that a class has, once.
    pub(crate) fn homes(&self) -> Vec<&[IpNet]> {
        let mut homes = Vec::new();
        for home in self.classes.iter().map(|class| self.home_of(class)) {
            if !homes.contains(&home) {
                homes.push(home);
            }
        }
        homes
    }

    /// Which of them each class has.
    pub(crate) fn home_of_each(&self) -> Vec<usize> {
        let homes = self.homes();
        let place = |own: &[IpNet]| homes.iter().position(|home| *home == own).unwrap_or(0);
        self.classes.iter().map(|class| place(self.home_of(class))).collect()
    }

    /// How many parts are counted apart.
    pub(crate) fn parts(&self) -> usize {
        self.classes.iter().filter_map(|class| class.part).max().map_or(0, |last| last + 1)
    }

    /// Where those of a class come from.
    pub(crate) fn home_of<'a>(&'a self, class: &'a Class) -> &'a [IpNet] {
        if class.sources.is_empty() { &self.sources } else { &class.sources }
    }

    /// Decides who comes, and what they do.
    pub(crate) fn chance(&self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed ^ PEOPLE)
    }

    /// Whether some browse and others do not.
    pub(crate) fn is_mixed(&self) -> bool {
        let browsing = self.classes.iter().filter(|class| class.browsing.is_some()).count();
        browsing > 0 && browsing < self.classes.len()
    }

    /// The longest that anybody waits.
    pub(crate) fn longest_timeout(&self) -> Duration {
        self.classes.iter().map(|class| class.timeout).max().unwrap_or_default()
    }

    /// Descriptors needed when every attempt waits out its timeout.
    pub(crate) fn descriptors_needed(&self) -> u64 {
        let waits = self.longest_timeout().min(self.whole());
        // A Poisson crowd is now and then larger than its mean.
        let at_rate = |per_s: f64| per_s * waits.as_secs_f64() * 1.1;
        let at_work = match &self.load {
            Load::Constant { per_s } | Load::Poisson { per_s } => at_rate(*per_s),
            Load::Bursts { per_s, burst, silence } => {
                at_rate(per_s * (*burst + *silence).as_secs_f64() / burst.as_secs_f64())
            }
            Load::Steps { per_s, steps } => at_rate(per_s * most_times(steps)),
            Load::Trace { trace, per_s: None } => trace.most_within(ns(waits)) as f64,
            Load::Trace { trace, per_s: Some(per_s) } => {
                let factor = per_s / trace.per_s().unwrap_or(*per_s);
                trace.most_within((ns(waits) as f64 * factor) as u64) as f64 + at_rate(*per_s)
            }
            Load::Closed { clients } => *clients as f64,
        };
        let connections = self.classes.iter().map(Class::connections_max).max().unwrap_or(1);
        (at_work * f64::from(connections)) as u64 + 1000
    }

    /// How long load is applied in all.
    pub(crate) fn whole(&self) -> Duration {
        self.warm_up + self.duration + self.cool_down
    }
}

/// The highest rate among steps, in multiples of the schedule's.
fn most_times(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.times).fold(0.0, f64::max)
}

/// A duration in ns.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Browsing;
    use rand_chacha::rand_core::Rng;
    use tidegate_client::Browser;

    fn good() -> Plan {
        Plan { targets: vec!["10.0.0.1:80".parse().unwrap()], ..Plan::default() }
    }

    fn visitors() -> Class {
        let browsing = Some(Browsing::with(Browser::named("chrome").unwrap()));
        Class { browsing, ..Class::default() }
    }

    /// One word of the schedule's stream is a gap: the next would be long or short with it.
    #[test]
    fn who_comes_has_nothing_to_do_with_when() {
        let words = |mut chance: ChaCha8Rng| [0; 8].map(|_: u32| chance.next_u32());
        let plan = good();
        let who = words(plan.chance());
        let when = words(ChaCha8Rng::seed_from_u64(plan.seed));
        assert!(who.iter().all(|word| !when.contains(word)));
    }

    #[test]
    fn one_port_is_enough_unless_two_kinds_share_it() {
        let raw = Plan { driver: Driver::Raw, ports: Some(1), ..good() };
        assert!(raw.check().is_ok());
        let browsing = Plan { classes: vec![visitors(), visitors()], ..raw.clone() };
        assert!(browsing.check().is_ok());
        let mixed = vec![visitors(), Class::default()];
        assert!(Plan { classes: mixed, ports: Some(2), ..raw }.check().is_ok());
    }

    /// Of one home, as many are used as can be counted through.
    #[test]
    fn homes_that_are_too_large_to_tell_apart_are_refused() {
        let of = |nets: &[&str]| {
            let home =
                |net: &&str| Class { sources: vec![net.parse().unwrap()], ..Class::default() };
            let classes = nets.iter().map(home).collect();
            let targets = vec!["[fd00::1]:80".parse().unwrap()];
            Plan { driver: Driver::Raw, targets, classes, ..good() }.check()
        };
        assert!(of(&["fd01::/64"]).is_ok());
        assert!(of(&["fd01::/97", "fd02::/97"]).is_ok());
        let refused = of(&["fd01::/64", "fd02::/64"]).unwrap_err().to_string();
        assert!(refused.contains("[fd00::1]:80"), "{refused}");
    }

    fn scaled(times: &str, per_s: f64) -> Load {
        Load::Trace { trace: Trace::parse(times).unwrap(), per_s: Some(per_s) }
    }

    #[test]
    fn impossible_plans_are_refused_with_the_value() {
        assert!(good().check().is_ok());
        let refused = |change: fn(&mut Plan)| {
            let mut plan = good();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(refused(|p| p.targets.clear()).contains("target"));
        assert!(refused(|p| p.sources = vec!["::1/128".parse().unwrap()]).contains("10.0.0.1:80"));
        assert!(refused(|p| p.load = Load::Poisson { per_s: f64::NAN }).contains("NaN"));
        assert!(refused(|p| p.ports = Some(28_232)).contains("28232 ports"));
        assert!(refused(|p| (p.driver, p.ports) = (Driver::Raw, Some(0))).contains("0 ports"));
        assert!(refused(|p| p.load = Load::Constant { per_s: -3.0 }).contains("-3"));
        assert!(refused(|p| p.classes[0].paths = vec!["/a b".to_owned()]).contains("/a b"));
        assert!(refused(|p| p.classes[0].requests = 0.5).contains("0.5 requests"));
        assert!(
            refused(|p| {
                let (burst, silence) = (Duration::ZERO, Duration::from_secs(5));
                p.load = Load::Bursts { per_s: 1.0, burst, silence };
            })
            .contains("burst of 0 s")
        );
        assert!(
            refused(|p| {
                let steps =
                    vec![Step { lasts_ns: 1, times: 3.0 }, Step { lasts_ns: 1, times: -1.0 }];
                p.load = Load::Steps { per_s: 2.0, steps };
            })
            .contains("6 attempts a second")
        );
        assert!(refused(|p| p.load = scaled("3\n3", 10.0)).contains("no rate"));
        assert!(refused(|p| p.load = scaled("3\n4", -10.0)).contains("-10"));
        assert!(
            refused(|p| {
                (p.driver, p.ports) = (Driver::Raw, Some(1));
                p.classes.push(visitors());
            })
            .contains("1 port a source")
        );
        assert!(refused(|p| p.classes.clear()).contains("class"));
        assert!(refused(|p| p.classes[0].share = 0.0).contains("class of 0"));
        assert!(refused(|p| p.duration = Duration::ZERO).contains("duration of 0 s"));
    }
}
