// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How browsers spread the objects of a page over connections.
//!
//! Five are of Jamjoom, table 2: `internet-explorer-6`, `netscape-7`, `opera-6` (on Windows),
//! `mozilla-1.2` and `netscape-4.7` (on Linux); `chrome` is of today.
//!
//! The table gives Weibull distributions as "(α, β)" without saying which is which. α is the shape
//! and β the scale: with that, the means of all five interarrival times are those that the table
//! gives, or shorter by at most half (157 ms for 161.2 ms with Internet Explorer); the other way
//! round they would be below 1 ms. Of parallel connections, four means of five are nearer this way.

use rand_core::Rng;
use rand_distr::{Distribution, Weibull};

const MS_NS: f64 = 1e6;

/// A browser.
#[derive(Debug, PartialEq)]
pub struct Browser {
    /// Its name in scenarios.
    pub name: &'static str,
    /// The most connections to one server at a time.
    pub parallel_max: u16,
    /// Connections at a time, of which a page has one draw; `None` is always the most.
    pub parallel: Option<Spread>,
    /// The time between two connections of a page, in ms; `None` is none.
    pub gap_ms: Option<Spread>,
    /// The least time between two connections, in ms.
    pub gap_least_ms: f64,
    /// Requests per connection, on average; `None` spreads a page's objects evenly over
    /// [`Browser::parallel_max`] connections.
    pub requests_per_connection: Option<f64>,
    /// After how long without a SYN/ACK a second connection is tried, in ms.
    pub spare_after_ms: Option<u32>,
}

/// A Weibull distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// α in Jamjoom's table.
    pub shape: f64,
    /// β in Jamjoom's table.
    pub scale: f64,
}

/// There is no browser of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no browser `{name}` is known: give one of {}", known())]
pub struct UnknownBrowser {
    /// What was given.
    pub name: String,
}

fn known() -> String {
    let names: Vec<&str> = Browser::all().iter().map(|browser| browser.name).collect();
    names.join(", ")
}

impl Spread {
    fn draw(self, rng: &mut impl Rng) -> f64 {
        // The parameters are those of the table below: they are positive.
        Weibull::new(self.scale, self.shape).map_or(self.scale, |weibull| weibull.sample(rng))
    }
}

impl Browser {
    /// The browser of this name.
    ///
    /// # Errors
    /// [`UnknownBrowser`], which lists the names there are.
    pub fn named(name: &str) -> Result<&'static Self, UnknownBrowser> {
        let found = Self::all().iter().find(|browser| browser.name == name);
        found.ok_or_else(|| UnknownBrowser { name: name.to_owned() })
    }

    /// All of them.
    #[must_use]
    pub fn all() -> &'static [Self] {
        ALL
    }

    /// How many connections a page gets at a time.
    pub fn parallel(&self, rng: &mut impl Rng) -> u16 {
        let Some(spread) = self.parallel else {
            return self.parallel_max;
        };
        let drawn = spread.draw(rng).round() as u16;
        drawn.clamp(1, self.parallel_max)
    }

    /// How long after a connection the next one starts, in ns.
    pub fn gap_ns(&self, rng: &mut impl Rng) -> u64 {
        let drawn_ms = self.gap_ms.map_or(0.0, |spread| spread.draw(rng));
        (drawn_ms.max(self.gap_least_ms) * MS_NS) as u64
    }

    /// How many connections a page with so many objects takes, in the mean: one for the page
    /// itself and those for its objects, spares left out.
    #[must_use]
    pub fn connections_a_page(&self, objects: u16) -> f64 {
        let Some(mean) = self.requests_per_connection else {
            let each = objects.div_ceil(self.parallel_max).max(1);
            return 1.0 + f64::from(objects.div_ceil(each));
        };
        // By what the first of them takes, from no objects up.
        let (few, more_often) = ((mean.floor() as usize).max(1), mean.fract());
        let mut connections = vec![0.0; usize::from(objects) + 1];
        for left in 1..connections.len() {
            let after = |taken: usize| connections[left.saturating_sub(taken)];
            connections[left] = 1.0 + (1.0 - more_often) * after(few) + more_often * after(few + 1);
        }
        1.0 + connections[usize::from(objects)]
    }

    /// How many requests the next connection makes when a page has so many objects.
    pub fn requests(&self, objects: u16, rng: &mut impl Rng) -> u16 {
        let Some(mean) = self.requests_per_connection else {
            return objects.div_ceil(self.parallel_max).max(1);
        };
        let chance = f64::from(rng.next_u32()) / f64::from(u32::MAX);
        let drawn = mean.floor() as u16 + u16::from(chance < mean.fract());
        drawn.max(1)
    }
}

const fn weibull(shape: f64, scale: f64) -> Option<Spread> {
    Some(Spread { shape, scale })
}

static ALL: &[Browser] = &[
    Browser {
        name: "chrome",
        parallel_max: 6,
        parallel: None,
        gap_ms: None,
        gap_least_ms: 0.0,
        requests_per_connection: None,
        spare_after_ms: Some(250),
    },
    Browser {
        name: "internet-explorer-6",
        parallel_max: 15,
        parallel: weibull(2.41, 7.75),
        gap_ms: weibull(0.58, 99.84),
        gap_least_ms: 0.2,
        requests_per_connection: Some(2.7),
        spare_after_ms: None,
    },
    Browser {
        name: "netscape-7",
        parallel_max: 14,
        parallel: weibull(4.21, 5.75),
        gap_ms: weibull(0.91, 142.08),
        gap_least_ms: 0.1,
        requests_per_connection: Some(1.0),
        spare_after_ms: None,
    },
    Browser {
        name: "opera-6",
        parallel_max: 32,
        parallel: weibull(1.13, 10.70),
        gap_ms: weibull(0.31, 38.84),
        gap_least_ms: 0.3,
        requests_per_connection: Some(1.3),
        spare_after_ms: None,
    },
    Browser {
        name: "mozilla-1.2",
        parallel_max: 16,
        parallel: weibull(1.20, 4.82),
        gap_ms: weibull(0.81, 133.67),
        gap_least_ms: 0.1,
        requests_per_connection: Some(2.1),
        spare_after_ms: None,
    },
    Browser {
        name: "netscape-4.7",
        parallel_max: 14,
        parallel: weibull(1.176, 7.10),
        gap_ms: weibull(0.53, 76.62),
        gap_least_ms: 0.1,
        requests_per_connection: Some(1.2),
        spare_after_ms: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn mean(count: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn drawn_means_are_those_of_the_table() {
        // Average parallel connections and average interarrival time of Jamjoom's table 2, and how
        // far its own Weibull parameters are from them.
        let rows = [
            ("internet-explorer-6", 5.9, 0.20, 161.2, 0.05),
            ("netscape-7", 4.5, 0.20, 281.8, 0.50),
            ("opera-6", 10.3, 0.10, 366.3, 0.20),
            ("mozilla-1.2", 5.9, 0.25, 200.2, 0.30),
            ("netscape-4.7", 7.8, 0.22, 274.4, 0.55),
        ];
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (name, parallel, parallel_off, gap_ms, gap_off) in rows {
            let browser = Browser::named(name).unwrap();
            let drawn = mean(100_000, || f64::from(browser.parallel(&mut rng)));
            assert!((drawn / parallel - 1.0).abs() < parallel_off, "{name}: {drawn} at a time");
            let drawn_ms = mean(200_000, || browser.gap_ns(&mut rng) as f64 / MS_NS);
            assert!((drawn_ms / gap_ms - 1.0).abs() < gap_off, "{name}: {drawn_ms} ms");
        }
    }

    #[test]
    fn alpha_is_the_shape() {
        let table_ms = [161.2, 281.8, 366.3, 200.2, 274.4];
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for (browser, table_ms) in Browser::all()[1..].iter().zip(table_ms) {
            let spread = browser.gap_ms.unwrap();
            let swapped = Spread { shape: spread.scale, scale: spread.shape };
            let mut off =
                |spread: Spread| (mean(50_000, || spread.draw(&mut rng)) - table_ms).abs();
            assert!(off(spread) < off(swapped), "{}", browser.name);
        }
    }

    #[test]
    fn a_page_takes_as_many_connections_as_its_draws_make() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for browser in Browser::all() {
            for objects in [0, 1, 6, 7, 21] {
                let drawn = mean(20_000, || {
                    let (mut left, mut connections) = (objects, 1.0);
                    while left > 0 {
                        left -= browser.requests(objects, &mut rng).min(left);
                        connections += 1.0;
                    }
                    connections
                });
                let expected = browser.connections_a_page(objects);
                assert!((drawn / expected - 1.0).abs() < 0.01, "{}: {drawn}", browser.name);
            }
        }
        assert_eq!(Browser::all()[0].connections_a_page(21), 7.0);
    }

    #[test]
    fn draws_keep_their_bounds() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for browser in Browser::all() {
            for _ in 0..10_000 {
                assert!((1..=browser.parallel_max).contains(&browser.parallel(&mut rng)));
                assert!(browser.gap_ns(&mut rng) >= (browser.gap_least_ms * MS_NS) as u64);
            }
            let requests = mean(100_000, || f64::from(browser.requests(21, &mut rng)));
            let expected = browser.requests_per_connection.unwrap_or(4.0);
            assert!((requests / expected - 1.0).abs() < 0.01, "{}: {requests}", browser.name);
        }
        let message = Browser::named("lynx").unwrap_err().to_string();
        assert!(message.contains("`lynx`") && message.contains("chrome"), "{message}");
    }
}
