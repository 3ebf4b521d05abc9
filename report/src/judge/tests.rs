// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each way to take a number, each verdict.

use super::*;
use crate::example::{point, scenario};
use crate::point::Times;

/// Both curves at every rate of the full form: default gives 100, 200, 400, 300 replies/s,
/// abort 110, 240, 400, 390.
fn points() -> Vec<Point> {
    let loads = [0.5, 1.0, 2.0, 4.0];
    let mut points = Vec::new();
    for (curve, numbers) in
        [("default", [100.0, 200.0, 400.0, 300.0]), ("abort", [110.0, 240.0, 400.0, 390.0])]
    {
        for (load, number) in loads.into_iter().zip(numbers) {
            points.push(Point { replies_per_s: number, ..point(curve, load) });
        }
    }
    points
}

fn judged(claim: &str, points: &[Point]) -> Judgement {
    let text = format!("[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\n{claim}");
    let scenario = scenario(&text);
    judge(&scenario, &scenario.claims[0], World::Live, points)
}

fn number(claim: &str) -> f64 {
    let judgement =
        judged(&format!("measure = \"replies_per_s\"\nat_least = 0\n{claim}"), &points());
    assert_eq!(judgement.verdict, Verdict::Held, "{judgement:?}");
    judgement.number.unwrap()
}

#[track_caller]
fn about(found: f64, right: f64) {
    assert!((found - right).abs() < 1e-9, "{found} is not {right}");
}

#[test]
fn each_take_of_a_curve() {
    about(number("offered = [0.5, 4]"), 285.0);
    about(number("offered = [0.5, 4]\ntake = \"mean\""), 285.0);
    about(number("offered = [1, 4]\ntake = \"min\""), 240.0);
    about(number("offered = [0.5, 4]\ntake = \"max\""), 400.0);
    about(number("offered = [0.5, 4]\ntake = \"peak\""), 400.0);
    about(number("offered = [0.5, 4]\ntake = \"peak-at\""), 2.0);
    about(number("offered = [0.5, 1]\ntake = \"peak-at\""), 1.0);
}

/// By the second default has 4, 8, 6 and abort 2, 10, 9 replies, at every rate.
#[test]
fn each_take_of_seconds() {
    let mut points = points();
    for point in &mut points {
        let counts = if point.curve == "abort" { [2.0, 10.0, 9.0] } else { [4.0, 8.0, 6.0] };
        point.seconds = [("replies".to_owned(), counts.to_vec())].into();
    }
    let judged = |claim: &str| {
        let bound = "measure = \"seconds.replies\"\nat_least = 0\noffered = [2, 2]";
        judged(&format!("{bound}\n{claim}"), &points)
    };
    let number = |claim: &str| judged(claim).number.unwrap();
    about(number("seconds = [0, 2]"), 7.0);
    about(number("seconds = [0, 2]\ntake = \"min\""), 2.0);
    about(number("seconds = [1, 2]\ntake = \"min\""), 9.0);
    about(number("seconds = [1, 1]\nover = \"capacity_per_s\""), 0.01);
    about(number("seconds = [0, 2]\nover = \"seconds.replies\""), 1.0);
    about(number("seconds = [0, 2]\ntake = \"max\"\nthan = \"default\""), 10.0 / 8.0);
    let beyond = judged("seconds = [1, 3]");
    assert_eq!((beyond.verdict, beyond.number), (Verdict::Undecided, None));
    assert!(beyond.reason.contains("seconds.replies.3"), "{beyond:?}");
}

#[test]
fn each_take_against_another_curve_goes_point_by_point() {
    let than = "than = \"default\"\noffered = [0.5, 4]";
    about(number(than), (1.1 + 1.2 + 1.0 + 1.3) / 4.0);
    about(number(&format!("{than}\ntake = \"min\"")), 1.0);
    about(number(&format!("{than}\ntake = \"max\"")), 1.3);
    about(number(&format!("{than}\ntake = \"peak-at\"")), 1.0);
}

/// Abort is ahead by most where default has long fallen, which says nothing of their peaks.
#[test]
fn a_peak_is_divided_by_the_others_peak() {
    let than = "than = \"default\"\noffered = [0.5, 4]\ntake = \"peak\"";
    about(number(than), 400.0 / 400.0);
    let judged = |points: &[Point]| {
        judged(&format!("measure = \"replies_per_s\"\nat_least = 0\n{than}"), points)
    };
    let mut later = points();
    later[7].replies_per_s = 440.0;
    about(judged(&later).number.unwrap(), 440.0 / 400.0);
    let mut nothing = points();
    nothing[..4].iter_mut().for_each(|point| point.replies_per_s = 0.0);
    let found = judged(&nothing);
    assert_eq!((found.verdict, found.number), (Verdict::Undecided, None));
    assert!(found.reason.contains("division by 0: default in 0.5× to 4×"), "{found:?}");
}

#[test]
fn each_take_against_another_range() {
    let range = "offered = [2, 4]\nthan_offered = [0.5, 1]";
    about(number(range), 395.0 / 175.0);
    about(number(&format!("{range}\ntake = \"min\"")), 390.0 / 110.0);
    about(number(&format!("{range}\ntake = \"max\"")), 400.0 / 240.0);
    about(number(&format!("{range}\ntake = \"peak-at\"")), 2.0);
    about(number(&format!("{range}\nthan = \"default\"")), 1.15 / 1.15);
    about(number(&format!("{range}\nthan = \"default\"\ntake = \"max\"")), 1.3 / 1.2);
}

#[test]
fn each_take_over_another_measure() {
    let over = "over = \"offered_per_s\"\noffered = [0.5, 4]";
    about(number(over), (0.22 + 0.24 + 0.2 + 0.0975) / 4.0);
    about(number(&format!("{over}\ntake = \"min\"")), 0.0975);
    about(number(&format!("{over}\ntake = \"max\"")), 0.24);
    about(number(&format!("{over}\ntake = \"peak-at\"")), 1.0);
    about(number(&format!("{over}\nthan = \"default\"\ntake = \"max\"")), 1.3);
    let all =
        "over = \"offered_per_s\"\nthan = \"default\"\noffered = [4, 4]\nthan_offered = [1, 1]";
    about(number(all), 1.3 / 1.2);
}

#[test]
fn bounds_decide_and_both_ends_belong_to_them() {
    let claim = |bounds: &str| {
        let text = format!("measure = \"replies_per_s\"\noffered = [4, 4]\npaper = 410\n{bounds}");
        let judgement = judged(&text, &points());
        assert_eq!((judgement.number, judgement.paper), (Some(390.0), Some(410.0)));
        judgement.verdict
    };
    assert_eq!(claim("at_least = 390"), Verdict::Held);
    assert_eq!(claim("at_most = 390"), Verdict::Held);
    assert_eq!(claim("at_least = 390.1"), Verdict::NotHeld);
    assert_eq!(claim("at_most = 389.9"), Verdict::NotHeld);
    assert_eq!(claim("at_least = 380\nat_most = 395"), Verdict::Held);
    assert_eq!(claim("at_least = 100\nat_most = 200"), Verdict::NotHeld);
}

#[test]
fn what_is_not_comparable_is_measured_and_not_judged() {
    let text = "measure = \"replies_per_s\"\noffered = [4, 4]\nat_least = 999\nnot_comparable = \"no such queue\"";
    let judgement = judged(text, &points());
    assert_eq!(judgement.verdict, Verdict::NotComparable);
    assert_eq!(judgement.number, Some(390.0));
    assert_eq!(judgement.reason, "no such queue");
    assert_eq!(judged(text, &[]).verdict, Verdict::NotComparable);
}

/// What today's TCP cannot show the theses' can, in the simulator; of points of both nothing is said.
#[test]
fn what_is_not_comparable_is_judged_on_a_tcp_that_can_show_it() {
    let text = "measure = \"replies_per_s\"\noffered = [4, 4]\nat_least = 999\n\
                not_comparable = \"no such queue\"\ncomparable_on = [\"linux-2.4\"]";
    let on = |tcp: &str| -> Vec<Point> {
        let served = |point| Point { tcp: Some(tcp.to_owned()), ..point };
        points().into_iter().map(served).collect()
    };
    let found = |points: &[Point]| {
        let judgement = judged(text, points);
        (judgement.verdict, judgement.reason)
    };
    let not_comparable = (Verdict::NotComparable, "no such queue".to_owned());
    assert_eq!(found(&on("linux-2.4")), (Verdict::NotHeld, String::new()));
    assert_eq!(found(&on("linux-6")), not_comparable);
    assert_eq!(found(&points()), not_comparable);
    let mut both = on("linux-2.4");
    both[7].tcp = Some("linux-6".to_owned());
    assert_eq!(found(&both), not_comparable);
    let lacking = judged(text, &on("linux-2.4")[..6]);
    assert_eq!(lacking.verdict, Verdict::Undecided, "{lacking:?}");
}

#[track_caller]
fn undecided(claim: &str, points: &[Point], because: &str) -> Option<f64> {
    let judgement = judged(&format!("{claim}\nat_least = 0"), points);
    assert_eq!(judgement.verdict, Verdict::Undecided, "{judgement:?}");
    assert!(judgement.reason.contains(because), "{}", judgement.reason);
    judgement.number
}

#[test]
fn a_missing_point_leaves_it_undecided_and_is_named() {
    let claim = "measure = \"replies_per_s\"\noffered = [1, 4]";
    let without = |curve: &str, load: f64| -> Vec<Point> {
        let other = |p: &Point| p.curve != curve || p.offered_over_capacity != load;
        points().into_iter().filter(other).collect()
    };
    let number = undecided(claim, &without("abort", 2.0), "no point of abort at 2× capacity");
    about(number.unwrap(), 315.0);
    undecided(
        &format!("{claim}\nthan = \"default\""),
        &without("default", 4.0),
        "no point of default at 4× capacity",
    );
    undecided(claim, &[], "no point of abort at 1×");
    undecided("measure = \"replies_per_s\"\noffered = [7, 9]", &points(), "7× to 9×");
}

#[test]
fn a_run_that_was_cut_short_decides_nothing_beyond_its_end() {
    let begun: Vec<Point> =
        points().into_iter().filter(|p| p.offered_over_capacity <= 2.0).collect();
    let because = "no point of abort at 4× capacity";
    undecided("measure = \"replies_per_s\"\noffered = [1, 4]", &begun, because);
}

#[test]
fn the_short_form_and_rates_of_ones_own_are_whole_runs_too() {
    let at = |loads: &[f64]| loads.iter().map(|load| point("abort", *load)).collect::<Vec<_>>();
    let claim = "measure = \"replies_per_s\"\noffered = [1, 4]\nat_least = 900";
    assert_eq!(judged(claim, &at(&[1.0, 3.0])).verdict, Verdict::Held);
    assert_eq!(judged(claim, &at(&[1.7])).verdict, Verdict::Held);
    // What a file makes of a rate is the same rate.
    assert_eq!(judged(claim, &at(&[1.0 - 1e-9, 3.0])).verdict, Verdict::Held);
    // One that is only near it is another.
    let three = "measure = \"replies_per_s\"\noffered = [3, 3]";
    undecided(three, &at(&[2.99]), "no rate was run in 3× capacity");
    undecided(three, &at(&[1.0, 2.99]), "no point of abort at 3× capacity");
}

/// It lacks what it lacked before.
#[test]
fn a_further_load_makes_no_whole_of_a_part() {
    let at = |loads: &[f64]| loads.iter().map(|load| point("abort", *load)).collect::<Vec<_>>();
    let claim = "measure = \"replies_per_s\"\noffered = [0.5, 4]";
    let lacks = "no point of abort at 1×, 2× capacity";
    undecided(claim, &at(&[0.5, 4.0]), lacks);
    undecided(claim, &at(&[0.5, 3.0, 4.0]), lacks);
    undecided(claim, &at(&[0.5, 1.7, 4.0]), lacks);
    undecided(claim, &at(&[1.0]), "no point of abort at 3× capacity");
    undecided(claim, &at(&[1.0, 1.7]), "no point of abort at 3× capacity");
    let held = |loads: &[f64]| judged(&format!("{claim}\nat_least = 900"), &at(loads)).verdict;
    assert_eq!(held(&[0.5, 1.0, 1.7, 2.0, 3.0, 4.0]), Verdict::Held);
    assert_eq!(held(&[1.0, 1.7, 3.0]), Verdict::Held);
}

/// A rate that both forms have is the one's or the other's by how long it was counted.
#[test]
fn a_part_of_the_full_form_is_no_whole_short_one() {
    let text = scenario(
        "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nmeasure = \"replies_per_s\"\n\
         offered = [0.5, 4]\nat_least = 900",
    )
    .text;
    let found = |short: &str, points: &[(f64, f64)]| {
        let text = text.replace("offered = [1, 3]", short);
        let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
        let point = |(load, duration_s): &(f64, f64)| Point {
            duration_s: *duration_s,
            ..point("abort", *load)
        };
        let points: Vec<Point> = points.iter().map(point).collect();
        let judgement = judge(&scenario, &scenario.claims[0], World::Live, &points);
        (judgement.verdict, judgement.reason)
    };
    let held = (Verdict::Held, String::new());
    let lacks = |at: &str| {
        let reason = format!("no point of abort at {at} capacity");
        (Verdict::Undecided, reason)
    };
    let one = "offered = [1]";
    assert_eq!(found(one, &[(1.0, 5.0)]), held);
    assert_eq!(found(one, &[(1.0, 30.0)]), held, "a time of one's own");
    assert_eq!(found(one, &[(1.0, 120.0)]), lacks("0.5×, 2×, 4×"));
    let same = "offered = [1], duration_s = 120";
    assert_eq!(found(same, &[(1.0, 120.0)]), held);
    let two = "offered = [1, 3]";
    assert_eq!(found(two, &[(1.0, 120.0), (3.0, 120.0)]), held, "a time of one's own, too");
    assert_eq!(found(two, &[(1.0, 120.0), (3.0, 5.0)]), lacks("0.5×, 2×, 4×"));
}

#[test]
fn division_by_zero_and_unmeasured_numbers_leave_it_undecided() {
    let mut zero = points();
    zero[3].replies_per_s = 0.0;
    let claim = "measure = \"replies_per_s\"\nthan = \"default\"\noffered = [1, 4]";
    let number = undecided(claim, &zero, "division by 0: default at 4× capacity");
    about(number.unwrap(), 1.1);
    let over = "measure = \"replies_per_s\"\nover = \"errors_per_s.reset\"\noffered = [1, 1]";
    undecided(over, &points(), "errors_per_s.reset of abort at 1×");
    let range = "measure = \"errors_per_s.reset\"\noffered = [1, 1]\nthan_offered = [2, 2]";
    undecided(range, &points(), "division by 0");
    let unknown = "measure = \"kernel.TcpExtListenDrops\"\noffered = [1, 1]";
    undecided(unknown, &points(), "abort has no kernel.TcpExtListenDrops at 1×");
    let mut none = points();
    none[7].response_ms = Times::default();
    let silent = "measure = \"response_ms.mean\"\noffered = [4, 4]";
    undecided(silent, &none, "abort has no response_ms.mean at 4×");
    let mut not_a_number = points();
    not_a_number[7].replies_per_s = f64::NAN;
    let claim = "measure = \"replies_per_s\"\noffered = [4, 4]";
    undecided(claim, &not_a_number, "abort has no replies_per_s at 4×");
}

#[test]
fn worlds_are_judged_apart_and_runs_together() {
    let mut both = points();
    both.extend(points().into_iter().map(|p| Point {
        seed: 2,
        replies_per_s: p.replies_per_s + 20.0,
        ..p
    }));
    both.extend(points().into_iter().map(|p| Point { world: World::Sim, ..p }));
    let scenario = scenario(
        "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nmeasure = \"replies_per_s\"\noffered = [4, 4]\nat_least = 395",
    );
    let judged: Vec<_> = judge_all(&scenario, &both)
        .into_iter()
        .map(|(_, j)| (j.world, j.number, j.verdict))
        .collect();
    assert_eq!(
        judged,
        [(World::Live, Some(400.0), Verdict::Held), (World::Sim, Some(390.0), Verdict::NotHeld)]
    );
}

/// Six times a sixth is less than one.
#[test]
fn a_mean_that_is_the_bound_is_within_it() {
    let runs: Vec<Point> =
        (1..=6).map(|seed| Point { seed, replies_per_s: 1.0, ..point("abort", 4.0) }).collect();
    let claim = "measure = \"replies_per_s\"\noffered = [4, 4]\nat_least = 1\nat_most = 1";
    assert_eq!(judged(claim, &runs).verdict, Verdict::Held);
}

/// A run in which nobody was answered has no times: those of the others are not the curve's.
#[test]
fn a_claim_is_undecided_where_some_runs_lack_its_number() {
    let runs = |silent: usize| -> Vec<Point> {
        let mut runs: Vec<Point> =
            (1..=5).map(|seed| Point { seed, ..point("abort", 4.0) }).collect();
        for run in &mut runs[..silent] {
            run.response_ms = Times::default();
            run.errors_per_s = [("reset".to_owned(), 5.0)].into();
        }
        runs
    };
    let told = |measure: &str, silent: usize| {
        let claim = format!("{measure}\noffered = [4, 4]\nat_most = 100");
        let found = judged(&claim, &runs(silent));
        (found.verdict, found.reason)
    };
    let mean = "measure = \"response_ms.mean\"";
    assert_eq!(told(mean, 0), (Verdict::Held, String::new()));
    let reason = "abort has no response_ms.mean in 4 of 5 runs at 4× capacity".to_owned();
    assert_eq!(told(mean, 4), (Verdict::Undecided, reason));
    let quotient = "measure = \"replies_per_s\"\nover = \"errors_per_s.timeout\"";
    let reason = "division by 0 in 2 of 5 runs: errors_per_s.timeout of abort at 4× capacity";
    assert_eq!(told(quotient, 2), (Verdict::Undecided, reason.to_owned()));
}

/// Against several curves a number stands beside the best of them at its load, by replies, whatever
/// it measures.
#[test]
fn the_best_of_several_curves_is_another_one_at_each_load() {
    let claim = "offered = [0.5, 4]\nthan = [\"default\", \"abort\"]\nat_least = 0";
    let judged = |claim: &str, points: &[Point]| {
        let text =
            format!("[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"default\"\n{claim}");
        let scenario = scenario(&text);
        judge(&scenario, &scenario.claims[0], World::Live, points)
    };
    let mut points = points();
    // Default's reply comes after 30 ms, abort's sooner; where both serve 400 the first named counts.
    for point in points.iter_mut().filter(|point| point.curve == "abort") {
        point.response_ms.mean = 10.0;
    }
    let replies = judged(&format!("{claim}\nmeasure = \"replies_per_s\"\ntake = \"min\""), &points);
    about(replies.number.unwrap(), 300.0 / 390.0);
    let waits = judged(&format!("{claim}\nmeasure = \"response_ms.mean\""), &points);
    about(waits.number.unwrap(), (3.0 + 3.0 + 1.0 + 3.0) / 4.0);
    points.pop();
    let lacking = judged(&format!("{claim}\nmeasure = \"replies_per_s\""), &points);
    assert_eq!(lacking.verdict, Verdict::Undecided);
    assert!(lacking.reason.contains("abort at 4×"), "{lacking:?}");
}

/// Two servers: before the quick one abort gives 110 and 150 where default gives 100, before the slow one
/// 90 and 80.
fn varied() -> (Scenario, Vec<Point>) {
    let scenario = scenario(
        "[[factor]]\nname = \"Server\"\nlevels = [{ name = \"quick\" }, { name = \"slow\", short = true }]
[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"
offered = [1, 4]\ntake = \"min\"\nat_least = 0.85",
    );
    let loads = [0.5, 1.0, 2.0, 4.0];
    let curve = |name: &str, numbers: [f64; 4]| {
        let points = loads.into_iter().zip(numbers);
        let one = |(load, number)| Point { replies_per_s: number, ..point(name, load) };
        points.map(one).collect::<Vec<_>>()
    };
    let points = [
        curve("default, quick", [50.0, 100.0, 100.0, 100.0]),
        curve("abort, quick", [50.0, 100.0, 110.0, 150.0]),
        curve("default, slow", [50.0, 100.0, 100.0, 100.0]),
        curve("abort, slow", [50.0, 100.0, 90.0, 80.0]),
    ];
    (scenario, points.concat())
}

#[test]
fn of_all_combinations_one_number_is_taken() {
    let (scenario, points) = varied();
    let claim = &scenario.claims[0];
    let judged = judge(&scenario, claim, World::Live, &points);
    assert_eq!(judged.verdict, Verdict::NotHeld);
    about(judged.number.unwrap(), 0.8);
    let mean = Claim { take: Take::Mean, ..claim.clone() };
    let each = quotients(&scenario, &mean, World::Live, &points);
    let found: Vec<_> = each.iter().map(|(at, series)| (&at.levels[..], series.len())).collect();
    assert_eq!(found, [(&["quick".to_owned()][..], 3), (&["slow".to_owned()][..], 3)]);
    // The mean of 1.2 and 0.9.
    about(judge(&scenario, &mean, World::Live, &points).number.unwrap(), 1.05);
}

#[test]
fn a_combination_that_lacks_leaves_a_claim_undecided_but_not_in_short() {
    let (scenario, mut points) = varied();
    let judged = |points: &[Point]| judge(&scenario, &scenario.claims[0], World::Live, points);
    points.retain(|point| !(point.curve == "abort, quick" && point.offered_over_capacity == 2.0));
    let found = judged(&points);
    assert_eq!(found.verdict, Verdict::Undecided);
    assert_eq!(found.reason, "no point of abort, quick at 2× capacity");
    points.retain(|point| point.curve.ends_with("slow"));
    let found = judged(&points);
    assert_eq!(found.verdict, Verdict::Undecided, "the loads are the full form's");
    assert_eq!(found.reason, "nothing was run in 1 of 2 combinations, such as quick");
    about(found.number.expect("what there is"), 0.8);
    let each = quotients(&scenario, &scenario.claims[0], World::Live, &points);
    assert_eq!(each.iter().map(|(at, _)| &at.levels[0]).collect::<Vec<_>>(), ["slow"]);
    points.retain(|point| [1.0, 4.0].contains(&point.offered_over_capacity));
    points
        .iter_mut()
        .for_each(|point| point.offered_over_capacity = 3.0_f64.min(point.offered_over_capacity));
    assert_eq!(judged(&points).verdict, Verdict::NotHeld);
}

#[test]
fn levels_of_ones_own_at_the_short_forms_loads_are_a_whole_run_too() {
    let (scenario, mut points) = varied();
    points.retain(|point| [1.0, 4.0].contains(&point.offered_over_capacity));
    points
        .iter_mut()
        .for_each(|point| point.offered_over_capacity = 3.0_f64.min(point.offered_over_capacity));
    let judged = |points: &[Point]| judge(&scenario, &scenario.claims[0], World::Live, points);
    assert_eq!(judged(&points).verdict, Verdict::NotHeld);
    points.retain(|point| point.curve.ends_with("quick"));
    let found = judged(&points);
    assert_eq!(found.reason, "nothing was run in 1 of 2 combinations, such as slow");
}
