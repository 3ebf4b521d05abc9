// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A claim and its number in words.

use tidegate_scenarios::{Claim, Take};

use crate::judge::Judgement;
use crate::number::{Unit, load};

/// The unit of a claim's number.
fn unit(claim: &Claim) -> Unit {
    if !claim.than.is_empty() || claim.than_offered.is_some() {
        return Unit::Ratio;
    }
    match (claim.take, &claim.over) {
        (Take::PeakAt, _) => Unit::Load,
        (_, Some(_)) => Unit::Ratio,
        _ => Unit::of(&claim.measure),
    }
}

/// A number that a person gave, with its unit.
pub(crate) fn number(claim: &Claim, number: f64) -> String {
    unit(claim).given(number)
}

/// The number found.
pub(crate) fn found(claim: &Claim, judgement: &Judgement) -> String {
    judgement.number.map_or_else(|| "–".to_owned(), |number| shown(claim, number))
}

/// A number that a claim is judged on; of one that is nearer to a bound than is shown, the next digits,
/// too.
pub(crate) fn shown(claim: &Claim, number: f64) -> String {
    let unit = unit(claim);
    let shown = unit.show(number);
    let mut bounds = [claim.at_least, claim.at_most].into_iter().flatten();
    // It seems to hold and does not, or the bound is written with more digits.
    let is_unclear = |bound: f64| {
        let same = unit.show(bound) == shown;
        same && (!claim.holds(number) || unit.given(bound).len() > shown.len())
    };
    if bounds.any(is_unclear) { format!("{shown} ({})", exact(claim, number)) } else { shown }
}

/// To four digits, or as many more as it takes to be on its own side of the bounds.
fn exact(claim: &Claim, number: f64) -> String {
    let is_true =
        |text: &String| text.parse().is_ok_and(|read| claim.holds(read) == claim.holds(number));
    let places = (3.0 - number.abs().log10().floor()).clamp(0.0, 20.0) as usize;
    let mut longer = (places..places + 14).map(|places| format!("{number:.places$}"));
    longer.find(is_true).unwrap_or_else(|| number.to_string())
}

/// From and to which number it holds.
pub(crate) fn bounds(claim: &Claim) -> Option<String> {
    match (claim.at_least, claim.at_most) {
        (Some(least), Some(most)) => {
            Some(format!("from {} to {}", number(claim, least), number(claim, most)))
        }
        (Some(least), None) => Some(format!("from {} on", number(claim, least))),
        (None, Some(most)) => Some(format!("up to {}", number(claim, most))),
        (None, None) => None,
    }
}

/// What the number is made of: `mean of replies_per_s, abort ÷ default, at 1.2× to 5× capacity`.
pub(crate) fn recipe(claim: &Claim) -> String {
    let take = match claim.take {
        Take::Mean => "mean of",
        Take::Min => "smallest",
        Take::Max => "largest",
        Take::Peak => "peak of",
        Take::PeakAt => "load of the largest",
    };
    let mut text = format!("{take} {}", claim.measure);
    if let Some(over) = &claim.over {
        text.push_str(&format!(" ÷ {over}"));
    }
    text.push_str(&format!(", {}", claim.curve));
    match &claim.than[..] {
        [] => {}
        [than] => text.push_str(&format!(" ÷ {than}")),
        several => text.push_str(&format!(" ÷ the best of {}", several.join(", "))),
    }
    text.push_str(&format!(", at {}", range(claim.offered)));
    if let Some((from, to)) = claim.seconds {
        text.push_str(&format!(", seconds {from} to {to}"));
    }
    if let Some(other) = claim.than_offered {
        text.push_str(&format!(" ÷ the same at {}", range(other)));
    }
    text
}

fn range((from, to): (f64, f64)) -> String {
    if from == to { load(from) } else { format!("{} to {}", load(from), load(to)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::scenario;
    use crate::judge::judge;
    use crate::point::World;

    #[test]
    fn a_claim_says_what_its_number_is() {
        let scenario = scenario(
            "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"syns_per_attempt.1.attempts\"\nover = \"attempts\"\noffered = [1, 3]\nthan_offered = [0.5, 0.5]\nat_least = 1.1\nat_most = 2\n\
             [[claim]]\nsays = \"y\"\nsource = \"us\"\ncurve = \"abort\"\nmeasure = \"response_ms.mean\"\noffered = [1, 3]\nat_most = 2500\n\
             [[claim]]\nsays = \"z\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"\noffered = [1, 3]\ntake = \"peak\"\nat_least = 1\n\
             [[claim]]\nsays = \"w\"\nsource = \"us\"\ncurve = \"abort\"\nmeasure = \"seconds.replies\"\nseconds = [12, 29]\noffered = [1, 3]\ntake = \"min\"\nat_least = 1",
        );
        let [ratio, plain, peak, late] = &scenario.claims[..] else { panic!("four claims") };
        assert_eq!(recipe(late), "smallest seconds.replies, abort, at 1× to 3×, seconds 12 to 29");
        assert_eq!(
            recipe(ratio),
            "mean of syns_per_attempt.1.attempts ÷ attempts, abort ÷ default, at 1× to 3× ÷ the same at 0.5×"
        );
        assert_eq!(recipe(peak), "peak of replies_per_s, abort ÷ default, at 1× to 3×");
        assert_eq!(bounds(ratio).unwrap(), "from 1.1 to 2");
        assert_eq!(bounds(plain).unwrap(), "up to 2,500 ms");
    }
    #[test]
    fn a_number_that_misses_its_bound_does_not_read_as_the_bound() {
        let shown = |bounds: &str, number| {
            let scenario = scenario(&format!(
                "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"\noffered = [1, 3]\n{bounds}"
            ));
            let claim = &scenario.claims[0];
            let judgement = judge(&scenario, claim, World::Sim, &[]);
            found(claim, &Judgement { number: Some(number), ..judgement })
        };
        let both = "at_least = 0.97\nat_most = 1.1";
        assert_eq!(shown(both, 0.9697), "0.97 (0.9697)");
        assert_eq!(shown(both, 1.1002), "1.10 (1.1002)");
        assert_eq!(shown(both, 0.9703), "0.97");
        assert_eq!(shown(both, 0.5), "0.50");
        // Four digits would round to the bound.
        assert_eq!(shown(both, 0.96996), "0.97 (0.96996)");
        assert_eq!(shown(both, 1.100_000_2), "1.10 (1.1000002)");
        assert_eq!(shown("at_least = 1", 1.0 - f64::EPSILON / 2.0), "1.00 (0.9999999999999999)");
        // Of a small number four places are fewer than four digits.
        assert_eq!(shown("at_most = 0.0477", 0.04773), "0.048 (0.04773)");
        assert_eq!(shown("at_least = 0.0563", 0.05627), "0.056 (0.05627)");
        assert_eq!(shown("at_most = 0.001", 0.00104), "0.001 (0.001040)");
        // It holds, as near to a bound that is written with more digits.
        assert_eq!(shown("at_most = 0.0477", 0.04752), "0.048 (0.04752)");
    }
}
