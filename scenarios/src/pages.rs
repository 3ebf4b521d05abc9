// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server has, and what of it requests ask for: in both worlds the same pages, as often.

use serde::{Deserialize, Serialize};
use tidegate_client::{computed, specweb99};

use crate::server::{Page, Server};

/// Pages that the server computes for each request for one, among the others that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Computed {
    /// Their share in all requests; 0 where there are none.
    pub share: f64,
    /// Processor time that computing one takes, in µs, beside what every request takes.
    pub cost_us: u64,
}

/// A page that requests ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What is asked for.
    pub path: String,
    /// The length of its body.
    pub body_bytes: usize,
    /// From a file, not from memory.
    pub is_file: bool,
    /// Processor time that computing it takes, in µs.
    pub computed_us: u64,
}

impl Computed {
    /// The longest that our servers compute a page, in µs.
    pub const COST_MAX_US: u64 = 1_000_000;
    /// The least comes out within a hundredth of it; of the most the order is not long yet.
    const SHARES: std::ops::RangeInclusive<f64> = 0.001..=0.9;

    fn is_any(&self) -> bool {
        self.share > 0.0
    }

    /// In a few words, where there are any.
    pub(crate) fn name(&self) -> Option<String> {
        let (percent, cost_us) = ((self.share * 1000.0).round() / 10.0, self.cost_us);
        self.is_any().then(|| format!("{percent} % computed in {cost_us} µs"))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Ok(());
        }
        if !Self::SHARES.contains(&self.share) {
            let (least, most) = Self::SHARES.into_inner();
            return Err(format!(
                "the computed share {} is not between {least} and {most}; what all requests cost is cost_us",
                self.share
            ));
        }
        if self.cost_us == 0 || self.cost_us > Self::COST_MAX_US {
            return Err(format!(
                "a computed page's cost_us {} is not between 1 and {}",
                self.cost_us,
                Self::COST_MAX_US
            ));
        }
        Ok(())
    }
}

impl Server {
    /// All that requests ask for; what is computed is the last.
    #[must_use]
    pub fn pages(&self) -> Vec<Asked> {
        let mut pages = match self.page {
            Page::OnePacket => vec![Asked::plain("/".to_owned(), Page::ONE_PACKET_BYTES, false)],
            Page::Specweb99 => {
                let files = specweb99::files().into_iter();
                files.map(|file| Asked::plain(file.path, file.bytes, true)).collect()
            }
        };
        if self.computed.is_any() {
            let computed_us = self.computed.cost_us;
            let page = Asked::plain(computed::path(computed_us), computed::BODY_BYTES, false);
            pages.push(Asked { computed_us, ..page });
        }
        pages
    }

    /// Which of [`Server::pages`] requests ask for, by place, in turn: each as often as its share has it, in
    /// an order that `chance` chooses, called for uniform 64-bit numbers.
    #[must_use]
    pub fn order(&self, mut chance: impl FnMut() -> u64) -> Vec<u16> {
        let (others, count) = match self.page {
            Page::OnePacket => (vec![0], 1),
            Page::Specweb99 => (specweb99::order(&mut chance), specweb99::files().len()),
        };
        match self.computed.is_any() {
            true => computed::among(&others, count as u16, self.computed.share, chance),
            false => others,
        }
    }
}

impl Asked {
    fn plain(path: String, body_bytes: usize, is_file: bool) -> Self {
        Self { path, body_bytes, is_file, computed_us: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    fn read(server: &str, curve: &str) -> Result<Scenario, String> {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[server]\n{server}\n[load]\noffered = [1]\n\
             [[curve]]\nmechanism = \"default\"\n{curve}"
        );
        Scenario::parse("t", "t.toml", &text).map_err(|error| error.to_string())
    }

    /// One after the other.
    fn counting() -> impl FnMut() -> u64 {
        let mut next = 0;
        move || {
            next += 1;
            next
        }
    }

    #[test]
    fn a_share_of_the_requests_is_for_pages_that_are_computed() {
        let keys = "computed = { share = 0.3, cost_us = 2000 }";
        let server = &read(keys, "").unwrap().settings[0].server;
        assert_eq!(server.computed, Computed { share: 0.3, cost_us: 2000 });
        let [plain, computed] = &server.pages()[..] else { panic!("{:?}", server.pages()) };
        assert_eq!((plain.path.as_str(), plain.computed_us), ("/", 0));
        assert_eq!((computed.path.as_str(), computed.computed_us), ("/work/2000", 2000));
        let order = server.order(counting());
        let share = order.iter().filter(|place| **place == 1).count() as f64 / order.len() as f64;
        assert!((share - 0.3).abs() < 0.0001, "{share}");
        assert!(server.summary().ends_with(", one packet, 30 % computed in 2000 µs"));
    }

    /// Beside files each of these is asked for as often as it was, and by what it was.
    #[test]
    fn places_in_the_order_are_those_of_the_pages() {
        let keys = "page = \"specweb99\"\ncomputed = { share = 0.3, cost_us = 7 }";
        let server = &read(keys, "").unwrap().settings[0].server;
        let pages = server.pages();
        let order = server.order(counting());
        let of = |is: &dyn Fn(&Asked) -> bool| {
            order.iter().filter(|place| is(&pages[usize::from(**place)])).count() as f64
        };
        let (computed, files) = (of(&|page| page.computed_us > 0), of(&|page| page.is_file));
        assert!((computed / (computed + files) - 0.3).abs() < 0.0001, "{computed}, {files}");
        let bytes: usize = order
            .iter()
            .map(|place| &pages[usize::from(*place)])
            .filter(|p| p.is_file)
            .map(|p| p.body_bytes)
            .sum();
        assert!((14_000.0..16_000.0).contains(&(bytes as f64 / files)), "{bytes} bytes");
    }

    /// Results of before are those of now.
    #[test]
    fn where_nothing_is_computed_requests_ask_for_what_they_did() {
        let files = Server { page: Page::Specweb99, ..Server::default() };
        assert_eq!(files.order(counting()), specweb99::order(counting()));
        assert_eq!(files.pages().len(), specweb99::files().len());
        let packet = Server::default();
        assert_eq!((packet.pages().len(), packet.order(|| panic!("there is one"))), (1, vec![0]));
    }

    #[test]
    fn a_curve_may_compute_more_or_nothing_and_is_another_server_then() {
        let keys = "computed = { share = 0.3, cost_us = 2000 }";
        for (own, computed) in [
            ("{ share = 0.6, cost_us = 10 }", Computed { share: 0.6, cost_us: 10 }),
            ("{ share = 0, cost_us = 0 }", Computed::default()),
        ] {
            let curve = format!(
                "[[curve]]\nname = \"o\"\nmechanism = \"abort\"\nserver = {{ computed = {own} }}"
            );
            let scenario = read(keys, &curve).unwrap();
            let [first, second] = &scenario.settings[..] else { panic!("two curves") };
            assert_eq!(second.server.computed, computed);
            assert_ne!(first.server_use(), second.server_use());
            assert_eq!(first.for_capacity().server_use(), first.server_use());
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused_in_a_sentence() {
        let told = |server: &str| read(server, "").unwrap_err();
        for (share, cost_us) in [("0", "5"), ("-0.1", "5"), ("0.95", "5"), ("nan", "5")] {
            let wrong = told(&format!("computed = {{ share = {share}, cost_us = {cost_us} }}"));
            assert!(
                wrong.contains("between 0.001 and 0.9; ") && wrong.lines().count() == 1,
                "{wrong}"
            );
        }
        for cost_us in ["0", "1000001"] {
            let wrong = told(&format!("computed = {{ share = 0.3, cost_us = {cost_us} }}"));
            assert!(
                wrong.contains("between 1 and 1000000") && wrong.lines().count() == 1,
                "{wrong}"
            );
        }
        let wrong = told("computed = { share = 0.3 }");
        assert!(wrong.starts_with("t.toml:4: ") && wrong.contains("cost_us"), "{wrong}");
        for kind in ["nginx", "apache2", "lighttpd", "haproxy"] {
            let keys = format!("kind = \"{kind}\"\ncomputed = {{ share = 0.3, cost_us = 5 }}");
            let wrong = told(&keys);
            let ours =
                "computed is for our own servers: userver, knot-c, knot-a, tux; this server is";
            assert!(wrong.contains(&format!("{ours} {kind}")), "{wrong}");
        }
        for kind in ["tux", "knot-c", "knot-a"] {
            let keys = format!("kind = \"{kind}\"\ncomputed = {{ share = 0.3, cost_us = 5 }}");
            assert!(read(&keys, "").is_ok(), "{kind}");
        }
    }
}
