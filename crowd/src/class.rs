// SPDX-License-Identifier: Apache-2.0 OR MIT
//! People of one kind.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tidegate_client::{Browser, Close, Os};
use tidegate_policy::raw::tg_tw_rules;

use crate::error::CrowdError;
use crate::network::Network;
use crate::plan::Plan;

const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
const REQUESTS_MAX: f64 = 10_000.0;
const OBJECTS_MAX: u16 = 10_000;

/// People of one kind: their system, their patience, their manners, their network.
#[derive(Clone, Debug)]
pub struct Class {
    /// Their part of all attempts, in any unit: only the ratios of the classes' shares count.
    pub share: f64,
    /// Whose TCP they use. Kernel sockets can only be the kernel's own, [`Os::linux`].
    pub os: &'static Os,
    /// How long they wait for their whole reply, from the actual start.
    pub timeout: Duration,
    /// How they end their side of a connection.
    pub close: Close,
    /// What they want of TIME-WAIT, as the client's end of connections (raw packets only); all zero:
    /// TCP as it is today.
    pub time_wait: tg_tw_rules,
    /// Requests over one connection, on average. Numbers are drawn from a geometric distribution:
    /// after each reply the client goes on with the same chance. 1 is always exactly one.
    pub requests: f64,
    /// What is asked for, in turn; where they browse, pages and objects each in their own turn.
    pub paths: Vec<String>,
    /// How they visit pages, if they do: each start is then a client's, whose browser opens the
    /// connections, and [`Class::timeout`] is a connection's.
    pub browsing: Option<Browsing>,
    /// What the crowd does to their packets (raw packets only).
    pub network: Network,
    /// Where they come from (raw packets only), as [`Plan::sources`], which it stands in place of; empty:
    /// from there. Not where they browse.
    pub sources: Vec<IpNet>,
    /// The part of the crowd that counts them, if any: its place in [`Outcome::parts`].
    ///
    /// [`Outcome::parts`]: tidegate_client::Outcome::parts
    pub part: Option<usize>,
}

impl Default for Class {
    fn default() -> Self {
        Self {
            share: 1.0,
            os: Os::linux(),
            timeout: Duration::from_secs(10),
            close: Close::Fin,
            time_wait: tg_tw_rules::default(),
            requests: 1.0,
            paths: vec!["/".to_owned()],
            browsing: None,
            network: Network::default(),
            sources: Vec::new(),
            part: None,
        }
    }
}

/// How clients visit pages (Jamjoom, sections 2.2 and 2.3). A client has one address and one way.
///
/// A visit is the page, then its objects over the browser's parallel connections. It is abandoned
/// when one of its connections fails or is given up after [`Class::timeout`], and the client
/// leaves.
#[derive(Clone, Debug)]
pub struct Browsing {
    /// Whose connections they are.
    pub browser: &'static Browser,
    /// Objects embedded in a page.
    pub objects: u16,
    /// What a page is asked for by; `None` takes the next of [`Class::paths`], as objects do.
    pub page: Option<String>,
    /// Pages that a client visits one after the other, on average: after each it goes on with the
    /// same chance, as with [`Class::requests`].
    pub pages: f64,
    /// How long it thinks between two, on average (an exponential distribution). The next visit
    /// counts from its end, whether or not the server was slow before.
    pub think: Duration,
}

impl Browsing {
    /// One visit to a page of 21 objects, as Jamjoom's table 2 has them on average.
    #[must_use]
    pub fn with(browser: &'static Browser) -> Self {
        Self { browser, objects: 21, page: None, pages: 1.0, think: Duration::ZERO }
    }

    fn check(&self, class: &Class) -> Result<(), CrowdError> {
        let wrong = |what, given, fix| Err(CrowdError::Browsing { what, given, fix });
        if class.requests > 1.0 {
            let fix = "1 to a class that browses, since its browser decides";
            return wrong("requests a connection of", class.requests, fix);
        }
        if self.objects > OBJECTS_MAX {
            return wrong("objects a page of", self.objects.into(), "0 to 10000");
        }
        if !(1.0..=REQUESTS_MAX).contains(&self.pages) {
            return wrong("pages a client of", self.pages, "1 to 10000 on average");
        }
        if self.think > TIMEOUT_MAX {
            return wrong("thinking for s", self.think.as_secs_f64(), "up to 86400 s");
        }
        self.page.iter().try_for_each(|page| check_path(page))
    }
}

impl Class {
    pub(crate) fn check(&self) -> Result<(), CrowdError> {
        if !(self.share > 0.0 && self.share.is_finite()) {
            return Err(CrowdError::Weight { share: self.share });
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            let given_s = self.timeout.as_secs_f64();
            return Err(CrowdError::Duration { what: "a timeout", given_s });
        }
        if !(1.0..=REQUESTS_MAX).contains(&self.requests) {
            return Err(CrowdError::Requests { given: self.requests });
        }
        if self.paths.is_empty() {
            return Err(CrowdError::Path { path: String::new() });
        }
        self.paths.iter().try_for_each(|path| check_path(path))?;
        if !self.sources.is_empty() && self.browsing.is_some() {
            return Err(CrowdError::VisitorsSources);
        }
        if let Some(browsing) = &self.browsing {
            browsing.check(self)?;
        }
        self.network.check()
    }

    /// The most connections that one of them has at a time.
    pub(crate) fn connections_max(&self) -> u16 {
        self.browsing.as_ref().map_or(1, |browsing| {
            let spares = if browsing.browser.spare_after_ms.is_some() { 2 } else { 1 };
            browsing.browser.parallel_max * spares
        })
    }
}

fn check_path(path: &str) -> Result<(), CrowdError> {
    let fits_a_line = path.bytes().all(|byte| byte.is_ascii_graphic());
    if path.starts_with('/') && fits_a_line {
        return Ok(());
    }
    Err(CrowdError::Path { path: path.to_owned() })
}

/// A target as requests name it: a zone is this host's own, and is not told (RFC 6874, section 4).
pub(crate) fn host(target: SocketAddr) -> String {
    SocketAddr::new(target.ip(), target.port()).to_string()
}

/// Something for each class at each target, the targets of a class together; behind them, in the
/// same order, for those who browse the same for the objects of their pages. It is made from the
/// class, the target, what is asked for, and where it is for pages, from the place of that for
/// their objects.
pub(crate) fn each_at_each<T>(
    plan: &Plan,
    make: impl Fn(&Class, SocketAddr, &[String], Option<usize>) -> T,
) -> Vec<T> {
    let (mut pages, mut objects) = (Vec::new(), Vec::new());
    for class in &plan.classes {
        for &target in &plan.targets {
            let Some(browsing) = &class.browsing else {
                pages.push(make(class, target, &class.paths, None));
                continue;
            };
            let page = browsing.page.as_ref().map_or(&class.paths[..], std::slice::from_ref);
            let place = plan.classes.len() * plan.targets.len() + objects.len();
            pages.push(make(class, target, page, Some(place)));
            objects.push(make(class, target, &class.paths, None));
        }
    }
    pages.append(&mut objects);
    pages
}

/// Draws a class for each attempt, by their shares.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Up to which number each class reaches, of 2^32.
    upper: Vec<u64>,
}

impl Classes {
    pub(crate) fn of(plan: &Plan) -> Self {
        let whole: f64 = plan.classes.iter().map(|class| class.share).sum();
        let mut reached = 0.0;
        let upper = plan.classes.iter().map(|class| {
            reached += class.share;
            (reached / whole * 4_294_967_296.0).round() as u64
        });
        Self { upper: upper.collect() }
    }

    /// The place of the class in the plan.
    #[inline]
    pub(crate) fn draw(&self, chance: &mut ChaCha8Rng) -> usize {
        if self.upper.len() == 1 {
            return 0;
        }
        let number = u64::from(chance.next_u32());
        self.upper.partition_point(|upper| *upper <= number).min(self.upper.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn impossible_visits_are_refused_with_the_value() {
        let refused = |change: fn(&mut Browsing)| {
            let mut browsing = Browsing::with(Browser::named("chrome").unwrap());
            change(&mut browsing);
            let class = Class { browsing: Some(browsing), ..Class::default() };
            class.check().map_err(|error| error.to_string())
        };
        assert_eq!(refused(|_| {}), Ok(()));
        assert!(refused(|b| b.objects = 10_001).unwrap_err().contains("a page of 10001"));
        assert!(refused(|b| b.pages = f64::NAN).unwrap_err().contains("a client of NaN"));
        assert!(refused(|b| b.think = Duration::MAX).unwrap_err().contains("up to 86400 s"));
        assert!(refused(|b| b.page = Some("a b".to_owned())).unwrap_err().contains("`a b`"));
        let browsing = Some(Browsing::with(Browser::named("chrome").unwrap()));
        let several = Class { requests: 3.0, browsing, ..Class::default() };
        assert!(several.check().unwrap_err().to_string().contains("browser decides"));
    }

    #[test]
    fn a_zone_is_in_no_request() {
        let named = |target: &str| host(target.parse().unwrap());
        assert_eq!(named("[fe80::1%2]:80"), "[fe80::1]:80");
        assert_eq!(named("10.0.0.1:81"), "10.0.0.1:81");
    }

    #[test]
    fn pages_and_their_objects_find_each_other() {
        let browsing = |page: Option<&str>| {
            let chrome = Browsing::with(Browser::named("chrome").unwrap());
            Some(Browsing { page: page.map(ToOwned::to_owned), ..chrome })
        };
        let class = |paths: &[&str], browsing| Class {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            browsing,
            ..Class::default()
        };
        let plan = Plan {
            targets: vec!["10.0.0.1:80".parse().unwrap(), "10.0.0.1:81".parse().unwrap()],
            classes: vec![
                class(&["/"], None),
                class(&["/a", "/b"], browsing(Some("/page"))),
                class(&["/c"], browsing(None)),
            ],
            ..Plan::default()
        };
        let made = each_at_each(&plan, |_, target, paths, objects| {
            (target.port(), paths.join(" "), objects)
        });
        let objects = |place: usize| made[made[place].2.unwrap()].clone();
        assert_eq!(made.len(), 3 * 2 + 2 * 2);
        assert_eq!(made[1], (81, "/".to_owned(), None));
        assert_eq!((made[3].0, &made[3].1[..]), (81, "/page"));
        assert_eq!(objects(3), (81, "/a /b".to_owned(), None));
        assert_eq!((made[4].0, &made[4].1[..]), (80, "/c"));
        assert_eq!(objects(4), (80, "/c".to_owned(), None));
    }

    #[test]
    fn classes_come_by_their_shares() {
        let class = |share| Class { share, ..Class::default() };
        let plan = Plan { classes: vec![class(1.0), class(5.0), class(2.0)], ..Plan::default() };
        let classes = Classes::of(&plan);
        let mut chance = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0.0; 3];
        for _ in 0..80_000 {
            counts[classes.draw(&mut chance)] += 1.0;
        }
        for (count, expected) in counts.into_iter().zip([10_000.0, 50_000.0, 20_000.0]) {
            assert!((count / expected - 1.0_f64).abs() < 0.03, "{counts:?}");
        }
    }
}
