// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a paper says that a figure shows, in a form that can be checked.

use std::iter::once;

use serde::{Deserialize, Deserializer, Serialize};

use crate::arrivals::Arrivals;
use crate::curve::Setting;
use crate::{groups, steps};

/// How the points of a curve in a range become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// Their mean. In a ratio of two curves, the mean of the ratios point by point.
    #[default]
    Mean,
    /// The smallest: a bound on every point. In a ratio, the smallest ratio.
    Min,
    /// The largest: a bound on every point. In a ratio, the largest ratio.
    Max,
    /// The largest, as the curve's peak. In a ratio of two curves, the ratio of their peaks, each
    /// wherever its curve has it.
    Peak,
    /// The offered load, in multiples of capacity, at which the measure is largest: where a curve
    /// turns.
    PeakAt,
}

impl Take {
    /// Whether two curves each have their own number first, and these are divided: of what is of one
    /// curve a ratio load by load says nothing.
    #[must_use]
    pub fn is_of_one_curve(self) -> bool {
        matches!(self, Self::Peak | Self::PeakAt)
    }

    /// As a file has it.
    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Peak => "peak",
            Self::PeakAt => "peak-at",
        }
    }
}

/// The TCPs of simulated machines, as their files call them.
pub const TCPS: [&str; 4] = ["linux-2.4", "linux-6", "bsd", "windows"];

/// A sentence of a paper, and the number that decides whether it holds here.
///
/// The number is what [`Claim::take`] makes of [`Claim::measure`] on [`Claim::curve`] in the
/// range [`Claim::offered`]; with `over` the measure is divided by another of the same point, with
/// `than` by that of another curve at the same load, both before it is taken; with `than_offered`
/// what was taken is divided by what is taken in another range. With `peak` and `peak-at`, `than`
/// divides the two curves' peaks, and the places of these. Of several curves in `than` each load has
/// the one that is [best](Claim::BEST) there. Where a scenario has factors all of this is done in each
/// combination of their levels, and [`Claim::take`] makes one number of what came of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The sentence, in the paper's terms.
    pub says: String,
    /// Where the paper says it.
    pub source: String,
    /// The curve.
    pub curve: String,
    /// A number in a result, by its path.
    pub measure: String,
    /// Divided by another measure of the same points.
    pub over: Option<String>,
    /// Divided by another curve, or by the best of several: one that nobody could have chosen for
    /// all loads. Empty: by none.
    #[serde(default, deserialize_with = "one_or_several")]
    pub than: Vec<String>,
    /// From and to which offered load, in multiples of capacity, both included.
    pub offered: (f64, f64),
    /// Of a measure by the second (`seconds.replies`): from which second of the time that counts to
    /// which, both included and the first of all 0; [`Claim::take`] makes one number of them too.
    pub seconds: Option<(u32, u32)>,
    /// Divided by another range (a rise or fall along a curve).
    pub than_offered: Option<(f64, f64)>,
    /// What becomes of several points.
    #[serde(default)]
    pub take: Take,
    /// The claim holds from this number on.
    pub at_least: Option<f64>,
    /// The claim holds up to this number.
    pub at_most: Option<f64>,
    /// The paper's own number, for comparison.
    pub paper: Option<f64>,
    /// Why today's kernel cannot show the same: the number is reported, and not judged.
    pub not_comparable: Option<String>,
    /// Simulated TCPs that can, of [`TCPS`]: what was found on these is judged all the same.
    #[serde(default)]
    pub comparable_on: Vec<String>,
}

impl Claim {
    /// The measure by which one curve of several is the best at a load: the most of it, whatever the
    /// claim itself measures there.
    pub const BEST: &str = "replies_per_s";

    /// Whether this number is within its bounds.
    #[must_use]
    pub fn holds(&self, number: f64) -> bool {
        self.at_least.is_none_or(|least| number >= least)
            && self.at_most.is_none_or(|most| number <= most)
    }

    /// Why what was found on this TCP (`None` of a kernel that is not simulated) is not to be judged.
    #[must_use]
    pub fn not_comparable_on(&self, tcp: Option<&str>) -> Option<&str> {
        let is_listed = tcp.is_some_and(|tcp| self.comparable_on.iter().any(|one| one == tcp));
        self.not_comparable.as_deref().filter(|_| !is_listed)
    }

    pub(crate) fn check(&self, curves: &[String], has_factors: bool) -> Result<(), String> {
        for curve in once(&self.curve).chain(&self.than) {
            if !curves.contains(curve) {
                return Err(format!(
                    "a claim is about the curve \"{curve}\"; there are \"{}\"",
                    curves.join("\", \"")
                ));
            }
        }
        let ranges = [Some(self.offered), self.than_offered];
        if let Some((from, to)) = ranges.into_iter().flatten().find(|(from, to)| from > to) {
            return Err(format!("the range [{from}, {to}] of a claim is empty"));
        }
        if let Some((from, to)) = self.seconds
            && from > to
        {
            return Err(format!("the seconds [{from}, {to}] of a claim are none"));
        }
        self.check_take(has_factors)?;
        self.check_seconds_asked()?;
        self.check_bounds()
    }

    /// That its measures are of seconds where it is about some, and only there.
    fn check_seconds_asked(&self) -> Result<(), String> {
        if self.seconds.is_some() != self.measure.starts_with("seconds.") {
            return Err(format!(
                "{} and seconds belong together: a measure is that of some seconds",
                self.measure
            ));
        }
        if self.seconds.is_none() {
            self.over
                .iter()
                .try_for_each(|path| groups::check_one(path, "a claim without seconds"))?;
        }
        let is_of_one = |path: &&String| groups::of_one_second(path).is_some();
        if self.seconds.is_some()
            && let Some(path) = once(&self.measure).chain(&self.over).find(is_of_one)
        {
            return Err(format!(
                "{path} is of one second, and seconds say of which: leave its own out"
            ));
        }
        Ok(())
    }

    /// That something decides it wherever it is judged.
    fn check_bounds(&self) -> Result<(), String> {
        if self.at_least.is_none() && self.at_most.is_none() && self.not_comparable.is_none() {
            return Err(format!(
                "nothing decides \"{}\": give at_least, at_most or not_comparable",
                self.says
            ));
        }
        if self.not_comparable.is_none() && !self.comparable_on.is_empty() {
            return Err(format!(
                "\"{}\" is judged everywhere: comparable_on belongs to not_comparable",
                self.says
            ));
        }
        if let Some(other) = self.comparable_on.iter().find(|tcp| !TCPS.contains(&tcp.as_str())) {
            return Err(format!(
                "comparable_on names the TCP \"{other}\", which no simulated machine has; there are \"{}\"",
                TCPS.join("\", \"")
            ));
        }
        if !self.comparable_on.is_empty() && self.at_least.is_none() && self.at_most.is_none() {
            return Err(format!(
                "nothing decides \"{}\" on {}: give at_least or at_most",
                self.says,
                self.comparable_on.join(", ")
            ));
        }
        Ok(())
    }

    /// Whether it needs numbers of a curve, by its name in the file.
    pub(crate) fn is_about(&self, curve: &str) -> bool {
        once(&self.curve).chain(&self.than).any(|one| one == curve)
    }

    /// That a curve which it is about has the seconds that it is about.
    pub(crate) fn check_seconds(&self, setting: &Setting) -> Result<(), String> {
        let Some(last) = self.last_second() else { return Ok(()) };
        let Arrivals::Steps(steps) = &setting.clients.arrivals else {
            return Err(format!(
                "a claim is about seconds of \"{}\", whose clients do not come by steps",
                setting.curve
            ));
        };
        let whole = steps::whole_seconds(steps);
        if last >= whole {
            return Err(format!(
                "a claim is about the second {last}, and the steps of \"{}\" last for {whole}, the \
                 first of which is 0",
                setting.curve
            ));
        }
        Ok(())
    }

    /// The last second that its measure is of, or the only one that this is divided by.
    fn last_second(&self) -> Option<u64> {
        let of_one = || self.over.as_deref().and_then(groups::second_of);
        self.seconds.map(|(_, last)| u64::from(last)).or_else(of_one)
    }

    fn check_take(&self, has_factors: bool) -> Result<(), String> {
        let take = self.take.name();
        if has_factors && self.take.is_of_one_curve() {
            return Err(format!("{take} is of one curve, and factors make several of it"));
        }
        if self.than.len() > 1 && self.take.is_of_one_curve() {
            return Err(format!("{take} is of one curve: name one in than"));
        }
        if self.seconds.is_some() && self.take == Take::PeakAt {
            return Err(format!("{take} is a place among offered loads, and not among seconds"));
        }
        Ok(())
    }
}

/// A name, or a list of some.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "than names a curve, or several: [\"a\", \"b\"]")]
    enum Names {
        One(String),
        Several(Vec<String>),
    }
    match Names::deserialize(from)? {
        Names::One(name) => Ok(vec![name]),
        Names::Several(names) if names.is_empty() => {
            Err(serde::de::Error::custom("than names no curve: leave it out, or name one"))
        }
        Names::Several(names) => Ok(names),
    }
}
