// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a paper's claim holds in the results.

use std::iter::once;

use tidegate_scenarios::{Claim, Combination, Form, Load, Scenario, Take};

use crate::number::load;
use crate::point::{Point, World};
use crate::statistics::{Cell, Estimate, mean, same_length, same_load};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The number is within the bounds.
    Held,
    /// It is not.
    NotHeld,
    /// The TCP that served cannot show the same; the number is for the reader.
    NotComparable,
    /// The results do not have what it takes.
    Undecided,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NotHeld => "not held",
            Self::NotComparable => "not comparable",
            Self::Undecided => "undecided",
        }
    }
}

/// A claim beside what the results say.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whose points were looked at.
    pub world: World,
    /// What became of it.
    pub verdict: Verdict,
    /// The number found; of an undecided claim, what the points that are there make of it.
    pub number: Option<f64>,
    /// The claim holds from this number on.
    pub at_least: Option<f64>,
    /// The claim holds up to this number.
    pub at_most: Option<f64>,
    /// The paper's own number.
    pub paper: Option<f64>,
    /// Why it is undecided or not comparable; empty otherwise.
    pub reason: String,
}

/// Judges every claim of a scenario in every world that has points of it, claim by claim.
#[must_use]
pub fn judge_all<'a>(scenario: &'a Scenario, points: &[Point]) -> Vec<(&'a Claim, Judgement)> {
    let worlds: Vec<World> = [World::Live, World::Sim]
        .into_iter()
        .filter(|world| points.iter().any(|p| p.scenario == scenario.name && p.world == *world))
        .collect();
    // Without any points a claim is still shown, as undecided.
    let worlds = if worlds.is_empty() { vec![World::Live] } else { worlds };
    let judged = |claim: &'a Claim, world: &World| (claim, judge(scenario, claim, *world, points));
    scenario.claims.iter().flat_map(|c| worlds.iter().map(move |w| judged(c, w))).collect()
}

/// Judges a claim on the points of one world.
///
/// The number is as [`Claim`] defines it. Numbers of a point are means over its runs. Quotients
/// by `over` and `than` are made point by point, at the same offered load, before
/// [`Claim::take`]; of several curves in `than` by the best at that load, and whichever lacks a load
/// leaves the claim undecided; only [`Take::Peak`] and [`Take::PeakAt`] with `than` divide the two
/// curves' peaks, and the places of these.
/// `than_offered` divides what `take` made of one range by what it made of the other. Where there are
/// factors `take` makes one number of those of all combinations. A claim is undecided when any rate of
/// its range is missing that the scenario asks for, or that another curve has, in any combination of
/// the form that was run; and when any run of a point lacks the number. Where all rates are of one's own
/// these are asked for alone.
#[must_use]
pub fn judge(scenario: &Scenario, claim: &Claim, world: World, points: &[Point]) -> Judgement {
    let cells = cells_of(scenario, world, points);
    let (number, lacking) = Evidence::new(scenario, claim, &cells).number();
    let not_comparable = not_comparable(claim, &cells);
    let verdict = match (not_comparable, number) {
        (Some(_), _) => Verdict::NotComparable,
        (None, Some(number)) if lacking.is_empty() => {
            if claim.holds(number) {
                Verdict::Held
            } else {
                Verdict::NotHeld
            }
        }
        _ => Verdict::Undecided,
    };
    let more = lacking.len().saturating_sub(REASONS);
    let more = (more > 0).then(|| format!("and {more} more"));
    let lacking = lacking.iter().take(REASONS).chain(&more).map(String::as_str);
    let reasons: Vec<&str> = not_comparable.into_iter().chain(lacking).collect();
    Judgement {
        world,
        verdict,
        number,
        at_least: claim.at_least,
        at_most: claim.at_most,
        paper: claim.paper,
        reason: reasons.join("; "),
    }
}

/// Why a claim is not to be judged on these: one point that cannot show it is enough.
fn not_comparable<'a>(claim: &'a Claim, cells: &[Cell]) -> Option<&'a str> {
    let mut tcps = cells.iter().flat_map(|cell| &cell.runs).map(|point| point.tcp.as_deref());
    match tcps.next() {
        None => claim.not_comparable_on(None),
        Some(first) => once(first).chain(tcps).find_map(|tcp| claim.not_comparable_on(tcp)),
    }
}

/// What a claim that divides one curve by others is judged on where there are factors: each combination
/// that was run, with the quotient at each load that has one. Of any other claim nothing.
pub(crate) fn quotients<'a>(
    scenario: &'a Scenario,
    claim: &'a Claim,
    world: World,
    points: &[Point],
) -> Vec<(&'a Combination, Series)> {
    if claim.than.is_empty() || claim.than_offered.is_some() {
        return Vec::new();
    }
    let cells = cells_of(scenario, world, points);
    let evidence = Evidence::new(scenario, claim, &cells);
    let series = |at| evidence.series_in(at, claim.offered, &mut Vec::new());
    let run = evidence.combinations.iter().filter(|at| evidence.was_run(at));
    run.map(|at| (*at, series(*at))).collect()
}

fn cells_of<'a>(scenario: &Scenario, world: World, points: &'a [Point]) -> Vec<Cell<'a>> {
    let all = Cell::gather(&scenario.name, points).into_iter();
    all.filter(|cell| cell.world == world).collect()
}

/// The form that was run, or begun; none where every load is of one's own.
///
/// A load that only the full form has is a part of that one. So is one that both have where it was counted
/// as long as in the full form alone, or in a combination that the short form has not; but not where the
/// short form's own loads were, too: such a time, and such levels, are of one's own.
fn form_run(scenario: &Scenario, cells: &[Cell], beyond_short: &[String]) -> Option<Form> {
    let [short, full] = [Form::Short, Form::Full].map(|form| scenario.load(form));
    let of = |in_short: bool, in_full: bool| -> Vec<&Cell> {
        let is = |cell: &&Cell| (has(&short, cell), has(&full, cell)) == (in_short, in_full);
        cells.iter().filter(is).collect()
    };
    if !cells.is_empty() && of(false, false).len() == cells.len() {
        return None;
    }
    let (of_short, of_both) = (of(true, false), of(true, true));
    let begun = |is_so: &dyn Fn(&Cell) -> bool| {
        of_both.iter().any(|cell| is_so(cell)) && !of_short.iter().any(|cell| is_so(cell))
    };
    let is_full = !of(false, true).is_empty()
        || begun(&|cell| is_only_as_long(scenario, cell, &full, &short))
        || begun(&|cell| is_any_of(beyond_short, cell));
    Some(if is_full { Form::Full } else { Form::Short })
}

fn is_any_of(curves: &[String], cell: &Cell) -> bool {
    curves.iter().any(|curve| curve == cell.curve)
}

fn has(load: &Load, cell: &Cell) -> bool {
    load.offered.iter().any(|offered| same_load(*offered, cell.offered))
}

/// Whether it was counted as long as this load says of it, and not as long as the other.
fn is_only_as_long(scenario: &Scenario, cell: &Cell, load: &Load, other: &Load) -> bool {
    let setting = scenario.settings.iter().find(|setting| setting.curve == cell.curve);
    setting.is_some_and(|setting| {
        let is_as_long = |load: &Load| {
            let asked = load.phases(&setting.clients, cell.offered).duration;
            same_length(asked.as_secs_f64(), cell.runs[0].duration_s)
        };
        is_as_long(load) && !is_as_long(other)
    })
}

/// Curves in the combinations that only the full form has.
fn curves_beyond_short(scenario: &Scenario) -> Vec<String> {
    let others = scenario.combinations.iter().filter(|at| !at.is_of(Form::Short));
    others.flat_map(|at| scenario.base_curves().map(|curve| at.curve(curve))).collect()
}

/// These loads and all others that any curve has, rising.
fn with_seen(mut loads: Vec<f64>, cells: &[Cell]) -> Vec<f64> {
    for cell in cells {
        if !loads.iter().any(|load| same_load(*load, cell.offered)) {
            loads.push(cell.offered);
        }
    }
    loads.sort_by(f64::total_cmp);
    loads
}

/// So many reasons why a claim is undecided are told.
const REASONS: usize = 6;

struct Evidence<'a, 'c> {
    claim: &'a Claim,
    /// Those that a whole run has: of the form that was run, and whatever else was seen.
    loads: Vec<f64>,
    combinations: Vec<&'a Combination>,
    cells: &'c [Cell<'c>],
}

/// A curve's numbers, each with its offered load.
pub(crate) type Series = Vec<(f64, f64)>;

/// What a number is compared with at one offered load.
struct Rival {
    load: f64,
    curve: String,
    number: f64,
    /// What the curve has of [`Claim::BEST`] there.
    merit: f64,
}

impl<'a, 'c> Evidence<'a, 'c> {
    fn new(scenario: &'a Scenario, claim: &'a Claim, cells: &'c [Cell<'c>]) -> Self {
        let beyond_short = curves_beyond_short(scenario);
        let form = form_run(scenario, cells, &beyond_short);
        let is_short =
            form == Some(Form::Short) && !cells.iter().any(|cell| is_any_of(&beyond_short, cell));
        let combinations = scenario.combinations.iter();
        let combinations = combinations.filter(|one| !is_short || one.is_of(Form::Short));
        let asked = form.map_or_else(Vec::new, |form| scenario.load(form).offered);
        Self { claim, loads: with_seen(asked, cells), combinations: combinations.collect(), cells }
    }

    /// The claim's number, and what lacks for it to be decided.
    fn number(&self) -> (Option<f64>, Vec<String>) {
        let mut lacking = Vec::new();
        let (mut there, elsewhere): (Vec<&Combination>, Vec<_>) =
            self.combinations.iter().partition(|at| self.was_run(at));
        // Of a part of the whole what else there is would be told at length.
        match elsewhere.first() {
            Some(_) if there.is_empty() => there = elsewhere,
            Some(first) => lacking.push(format!(
                "nothing was run in {} of {} combinations, such as {}",
                elsewhere.len(),
                self.combinations.len(),
                first.levels.join(", ")
            )),
            None => {}
        }
        let of = |at: &Combination| self.number_in(at, &mut lacking);
        let numbers: Vec<f64> = there.into_iter().filter_map(of).collect();
        let number = match &numbers[..] {
            [only] => Some(*only),
            several => taken(self.claim.take, &several.iter().map(|n| (0.0, *n)).collect()),
        };
        lacking.dedup();
        (number, lacking)
    }

    /// Whether there is a point in it of any curve that the claim is about.
    fn was_run(&self, at: &Combination) -> bool {
        let mut curves = std::iter::once(&self.claim.curve).chain(&self.claim.than);
        curves.any(|curve| {
            let curve = at.curve(curve);
            self.cells.iter().any(|cell| cell.curve == curve)
        })
    }

    fn number_in(&self, at: &Combination, lacking: &mut Vec<String>) -> Option<f64> {
        let number = self.taken_in(at, self.claim.offered, lacking);
        let Some(range) = self.claim.than_offered else { return number };
        let divisor = self.taken_in(at, range, lacking);
        let what = || format!("{} in {}", at.curve(&self.claim.curve), between(range));
        let (number, divisor) = number.zip(divisor)?;
        divided(number, divisor, what, lacking)
    }

    fn taken_in(
        &self,
        at: &Combination,
        range: (f64, f64),
        lacking: &mut Vec<String>,
    ) -> Option<f64> {
        let claim = self.claim;
        if !claim.take.is_of_one_curve() || claim.than.is_empty() {
            return taken(claim.take, &self.series_in(at, range, lacking));
        }
        let (own, others): (Series, Series) = self
            .pairs_in(at, range, lacking)
            .into_iter()
            .map(|(number, rival)| ((rival.load, number), (rival.load, rival.number)))
            .unzip();
        let (number, divisor) = taken(claim.take, &own).zip(taken(claim.take, &others))?;
        let what = || format!("{} in {}", at.curve(&claim.than[0]), between(range));
        divided(number, divisor, what, lacking)
    }

    /// Numbers or quotients in a range of loads.
    fn series_in(&self, at: &Combination, range: (f64, f64), lacking: &mut Vec<String>) -> Series {
        if self.claim.than.is_empty() {
            let loads = self.loads_in(range, lacking);
            return self.series(&at.curve(&self.claim.curve), &loads, lacking);
        }
        let pairs = self.pairs_in(at, range, lacking).into_iter();
        let quotients = pairs.filter_map(|(number, rival)| {
            let what = || format!("{} at {}", rival.curve, multiple(rival.load));
            Some((rival.load, divided(number, rival.number, what, lacking)?))
        });
        quotients.collect()
    }

    /// The curve's number at each load where there is one to divide it by.
    fn pairs_in(
        &self,
        at: &Combination,
        range: (f64, f64),
        lacking: &mut Vec<String>,
    ) -> Vec<(f64, Rival)> {
        let loads = self.loads_in(range, lacking);
        let own = self.series(&at.curve(&self.claim.curve), &loads, lacking);
        let rivals = self.rivals(at, &loads, lacking).into_iter();
        let number = |rival: &Rival| own.iter().find(|(load, _)| *load == rival.load);
        rivals.filter_map(|rival| Some((number(&rival)?.1, rival))).collect()
    }

    fn loads_in(&self, range: (f64, f64), lacking: &mut Vec<String>) -> Vec<f64> {
        let inside = |load: &&f64| {
            let above = **load >= range.0 || same_load(**load, range.0);
            above && (**load <= range.1 || same_load(**load, range.1))
        };
        let loads: Vec<f64> = self.loads.iter().filter(inside).copied().collect();
        if loads.is_empty() {
            lacking.push(format!("no rate was run in {}", between(range)));
        }
        loads
    }

    /// What a claim's numbers are divided by, load by load: those of the other curve, or of several
    /// that one's which is best there.
    fn rivals(&self, at: &Combination, loads: &[f64], lacking: &mut Vec<String>) -> Vec<Rival> {
        let mut best: Vec<Rival> = Vec::new();
        for curve in &self.claim.than {
            let curve = at.curve(curve);
            for (load, number) in self.series(&curve, loads, lacking) {
                let cell = self.cell(&curve, load);
                let merit = cell.and_then(|cell| cell.estimate(Claim::BEST));
                let merit = merit.map_or(f64::MIN, |estimate| estimate.mean);
                let rival = Rival { load, curve: curve.clone(), number, merit };
                match best.iter_mut().find(|known| known.load == load) {
                    Some(known) if merit > known.merit => *known = rival,
                    Some(_) => {}
                    None => best.push(rival),
                }
            }
        }
        best.sort_by(|a, b| a.load.total_cmp(&b.load));
        best
    }

    fn cell(&self, curve: &str, load: f64) -> Option<&Cell<'_>> {
        self.cells.iter().find(|cell| cell.curve == curve && same_load(cell.offered, load))
    }

    fn series(&self, curve: &str, loads: &[f64], lacking: &mut Vec<String>) -> Series {
        let mut series = Vec::new();
        // What is missing, each with the loads where it is.
        let mut missing: Vec<(String, Vec<f64>)> = Vec::new();
        for &load in loads {
            let cell = self.cell(curve, load);
            let mut note = |what: String| match missing.iter_mut().find(|(known, _)| *known == what)
            {
                Some((_, at)) => at.push(load),
                None => missing.push((what, vec![load])),
            };
            match cell.ok_or(format!("no point of {curve}")).and_then(|c| self.value(c)) {
                Ok(found) => {
                    series.push((load, found.number));
                    found.lacking.into_iter().for_each(note);
                }
                Err(what) => note(what),
            }
        }
        lacking.extend(missing.iter().map(|(what, at)| {
            let at: Vec<String> = at.iter().map(|at| load(*at)).collect();
            format!("{what} at {} capacity", at.join(", "))
        }));
        series
    }

    /// A cell's number, or what is wrong with it.
    fn value(&self, cell: &Cell) -> Result<Found, String> {
        let Claim { measure, over, .. } = self.claim;
        let Some((from, to)) = self.claim.seconds else {
            return number_of(cell, measure, over.as_deref());
        };
        let mut lacking = None;
        let each = (from..=to).map(|second| {
            let of_it = |path: &str| match path.starts_with("seconds.") {
                true => format!("{path}.{second}"),
                false => path.to_owned(),
            };
            let found = number_of(cell, &of_it(measure), over.as_deref().map(of_it).as_deref())?;
            lacking = lacking.take().or(found.lacking);
            Ok((f64::from(second), found.number))
        });
        let each: Series = each.collect::<Result<_, String>>()?;
        let number = taken(self.claim.take, &each).ok_or("no second")?;
        Ok(Found { number, lacking })
    }
}

/// A number of a cell.
struct Found {
    number: f64,
    /// What some of the runs have not, so that it is of the others alone.
    lacking: Option<String>,
}

/// A number of a cell, or its quotient.
fn number_of(cell: &Cell, measure: &str, over: Option<&str>) -> Result<Found, String> {
    let curve = cell.curve;
    // Those that lack it may be just the runs that went otherwise.
    let in_some = |estimate: &Estimate| {
        let (all, without) = (cell.runs.len(), cell.runs.len() - estimate.runs);
        (without > 0).then(|| format!("in {without} of {all} runs"))
    };
    let find = |measure: &str| {
        let found = cell.estimate(measure).ok_or_else(|| format!("{curve} has no {measure}"))?;
        let lacking = in_some(&found).map(|runs| format!("{curve} has no {measure} {runs}"));
        Ok::<_, String>(Found { number: found.mean, lacking })
    };
    let number = find(measure)?;
    let Some(over) = over else { return Ok(number) };
    let divisor = find(over)?;
    // Run by run where there are several, as the statistics of a quotient should be.
    let Some(quotient) = cell.quotient(measure, over) else {
        return Err(format!("division by {}: {over} of {curve}", divisor.number));
    };
    let by_none = in_some(&quotient).map(|runs| format!("division by 0 {runs}: {over} of {curve}"));
    let lacking = number.lacking.or(divisor.lacking).or(by_none);
    Ok(Found { number: quotient.mean, lacking })
}

fn divided(
    number: f64,
    divisor: f64,
    what: impl Fn() -> String,
    lacking: &mut Vec<String>,
) -> Option<f64> {
    let quotient = number / divisor;
    if !quotient.is_finite() {
        lacking.push(format!("division by {divisor}: {}", what()));
        return None;
    }
    Some(quotient)
}

/// What [`Take`] makes of a series; `None` of an empty one.
fn taken(take: Take, series: &Series) -> Option<f64> {
    let numbers = series.iter().map(|(_, number)| *number);
    match take {
        Take::Mean => mean(&numbers.collect::<Vec<_>>()),
        Take::Min => numbers.min_by(f64::total_cmp),
        Take::Max | Take::Peak => numbers.max_by(f64::total_cmp),
        Take::PeakAt => {
            let peak = numbers.max_by(f64::total_cmp)?;
            // Of equal peaks the first: there the curve turns.
            series.iter().find(|(_, number)| *number == peak).map(|(load, _)| *load)
        }
    }
}

fn multiple(offered: f64) -> String {
    format!("{} capacity", load(offered))
}

fn between((from, to): (f64, f64)) -> String {
    if from == to { multiple(from) } else { format!("{} to {} capacity", load(from), load(to)) }
}

#[cfg(test)]
mod tests;
