// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever the results hold, the page is HTML that says what they say.

mod samples;

use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tidegate_report::{Host, Point, Study, Summary, SynClass, Times, World, page};

const SCENARIO: &str = r#"title = "A title"
source = "A source"
[load]
offered = [0.5, 2]
[[curve]]
mechanism = "default"
[[panel]]
measure = "replies_per_s"
[[panel]]
measure = "response_ms.mean"
log = true
[[panel]]
measure = "kernel.TcpExtListenDrops"
[[bars]]
measure = "syns_per_attempt"
title = "by SYNs"
[[bars]]
measure = "errors_per_s"
title = "errors"
[[table]]
title = "A table"
[[table.columns]]
name = "errors"
measure = "errors_per_s"
over = "attempts"
[[claim]]
says = "x"
source = "y"
curve = "default"
measure = "replies_per_s"
offered = [0.5, 2]
at_least = 1
"#;

/// Attributes that say where something is drawn.
const PLACES: [&str; 9] = ["x", "y", "x1", "x2", "y1", "y2", "width", "height", "d"];

/// Every element's text and attributes, after a strict parse.
fn parsed(html: &str) -> Vec<String> {
    let options = ParseOpts::default();
    let dom = parse_document(RcDom::default(), options).one(html);
    let errors = dom.errors.borrow();
    assert!(errors.is_empty(), "{errors:?}");
    let mut found = Vec::new();
    gather(&dom.document, &mut found);
    found
}

fn gather(node: &Handle, into: &mut Vec<String>) {
    match &node.data {
        NodeData::Text { contents } => into.push(contents.borrow().to_string()),
        NodeData::Element { attrs, name, .. } => {
            into.push(format!("<{}>", name.local));
            for attribute in attrs.borrow().iter() {
                let value = attribute.value.to_string();
                // A drawing with a place that is no number is not drawn at all.
                let placed = PLACES.contains(&&*attribute.name.local);
                assert!(!placed || !(value.contains("NaN") || value.contains("inf")), "{value}");
                into.push(value);
            }
        }
        _ => {}
    }
    for child in node.children.borrow().iter() {
        gather(child, into);
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..1e6,
        1 => prop::num::f64::ANY,
        1 => prop::sample::select(vec![
            0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN,
            f64::MIN_POSITIVE, 5e-324, 1e-12,
        ]),
    ]
}

prop_compose! {
    fn times()(mean in number(), ci95 in number(), p99 in number()) -> Times {
        Times { mean, ci95: Some(ci95), p50: mean, p90: p99, p99, max: p99, deviation: ci95 }
    }
}

prop_compose! {
    fn point()(
        world in prop::sample::select(vec![World::Live, World::Sim]),
        curve in prop_oneof![Just("default".to_owned()), "\\PC{0,24}", any::<String>()],
        offered in prop_oneof![3 => prop::sample::select(vec![0.5, 2.0]), 1 => number()],
        capacity in number(),
        replies in (number(), number()),
        response_ms in times(),
        errors_per_s in btree_map(any::<String>(), number(), 0..12),
        syns in btree_map(any::<u32>(), (any::<u64>(), any::<u64>()), 0..7),
        kernel in btree_map("TcpExtListenDrops", any::<i64>(), 0..2),
        warnings in vec(any::<String>(), 0..3),
        words in any::<String>(),
        late_p99_ms in number(),
        attempts in any::<u64>(),
    ) -> Point {
        Point {
            curve,
            offered_over_capacity: offered,
            capacity_per_s: capacity,
            replies_per_s: replies.0,
            replies_per_s_ci95: Some(replies.1),
            response_ms,
            errors_per_s,
            syns_per_attempt: syns
                .into_iter()
                .map(|(syns, (attempts, errors))| (syns, SynClass { attempts, errors }))
                .collect(),
            kernel,
            warnings,
            server: words,
            late_p99_ms,
            attempts,
            ..samples::point("s", "default", 2.0, world)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_points_make_a_page(points in vec(point(), 0..12)) {
        let scenario = samples::parsed("s", SCENARIO);
        let summary = Summary { scenario: &scenario, points: &points }.to_string();
        prop_assert!(!summary.contains('\x1b'));
        let study = samples::study(scenario.clone(), points, "tidelab");
        let found = parsed(&page(&[study]));
        prop_assert_eq!(found.iter().filter(|text| *text == "<script>").count(), 1);
    }
}

#[test]
fn names_are_shown_and_never_obeyed() {
    let hostile = "</script><script>alert(1)</script>\"'&<b>";
    let mut points = vec![samples::point("s", hostile, 2.0, World::Live)];
    points[0].warnings = vec![hostile.to_owned()];
    points[0].errors_per_s.insert(hostile.to_owned(), 1.0);
    let mut study = samples::study(samples::parsed("s", SCENARIO), points, hostile);
    study.scenario.title = hostile.to_owned();
    let found = parsed(&page(&[study]));
    assert_eq!(found.iter().filter(|text| *text == "<script>").count(), 1);
    let whole = found.iter().filter(|text| text.contains(hostile)).count();
    assert!(whole >= 6, "title, heading, legend, figure, warning, command: {whole}");
}

#[test]
fn no_study_and_no_points_make_a_page_too() {
    let found = parsed(&page(&[])).join("");
    assert!(found.contains("No results were given"));
    let study = samples::study(samples::parsed("s", SCENARIO), Vec::new(), "tidelab");
    let found = parsed(&page(&[study])).join("");
    assert!(found.contains("There are no points") && found.contains("no point of default"));
}

#[test]
fn a_page_says_what_the_points_say() {
    let study = samples::overload();
    let found = parsed(&page(&[study.clone(), samples::both_worlds()])).join(" ");
    for text in [
        "Of 7 claims",
        "3 held",
        "1 not held",
        "the generator was late",
        "(default at 5×, reserv at 5×)",
        "abort rst-syn improves throughput by more than 27 %",
        "tidelab figure shukla-4.7",
        "6.12.48-amd64",
        "since Linux 4.4",
    ] {
        assert!(found.contains(text), "{text}");
    }
    let Study { points, .. } = study;
    let last = points.last().expect("fifty points");
    let shown = format!("{} ± ", thousands(last.replies_per_s));
    assert!(found.contains(&shown), "{shown}");
}

/// Folders from several machines may be drawn as one.
#[test]
fn a_page_names_every_machine_that_its_points_are_from() {
    let mut study = samples::overload();
    let other = Host { kernel: "6.1.0-other".to_owned(), processors: "2 processors".to_owned() };
    study.hosts.push(other);
    let found = parsed(&page(&[study])).join(" ");
    for text in ["6.12.48-amd64", "6.1.0-other", "AMD EPYC 7763", "2 processors"] {
        assert!(found.contains(text), "{text}");
    }
}

/// What was simulated was not measured on the host that drew it.
#[test]
fn a_page_says_what_is_simulated_and_of_which_machine() {
    let both = samples::both_worlds();
    let found = |live: bool, sim: bool| {
        let is_asked = |point: &&Point| if point.world == World::Live { live } else { sim };
        let points = both.points.iter().filter(is_asked).cloned().collect();
        parsed(&page(&[Study { points, ..both.clone() }]))
    };
    let has = |found: &[String], text: &str| found.iter().any(|known| known == text);
    let is_headed = |found: &[String]| found.iter().any(|text| text.ends_with(" · simulated"));
    let machine = "simulated, machine xeon";
    let simulated = found(false, true);
    assert!(has(&simulated, "World") && has(&simulated, machine));
    assert!(is_headed(&simulated), "at its head, too");
    let drawn_on = "Linux 6.12.48-amd64, 4 processors, AMD EPYC 7763";
    assert!(has(&simulated, "Simulated on") && has(&simulated, drawn_on));
    assert!(!has(&simulated, "Kernel") && !has(&simulated, "Processors"));
    let live = found(true, false);
    assert!(!is_headed(&live));
    assert!(has(&live, "Kernel") && !has(&live, "World") && !has(&live, machine));
    let both = found(true, true);
    for text in ["World", machine, "live", "Kernel", "Processors"] {
        assert!(has(&both, text), "{text}");
    }
}

/// An axis has bare numbers: what stands above the figure says of what, whoever named it.
#[test]
fn a_figure_says_its_unit_whatever_the_scenario_calls_it() {
    let measures = [
        ("replies_per_s", "replies/s"),
        ("queue_drops_per_s", "drops/s"),
        ("verdicts_per_s", "per second"),
        ("response_ms.mean", "ms"),
        ("kernel_s", "s"),
        ("cpu.idle", "%"),
        ("offered_over_capacity", "× capacity"),
        ("attempts", ""),
        ("time_wait.server_bytes", ""),
        // Bars, which are always named.
        ("cpu", "%"),
        ("errors_per_s", "errors/s"),
        ("syns_per_attempt", ""),
    ];
    let (panels, bars) = measures.split_at(measures.len() - 3);
    let figure = |kind: &str, (measure, _): &(&str, &str), title: &str| {
        format!("[[{kind}]]\nmeasure = \"{measure}\"\n{title}")
    };
    let named = "title = \"called so\"\n";
    let figures = panels.iter().flat_map(|m| ["", named].map(|title| figure("panel", m, title)));
    let figures: String = figures.chain(bars.iter().map(|m| figure("bars", m, named))).collect();
    let text = format!(
        "title = \"t\"\nsource = \"s\"\n[load]\noffered = [2]\n[[curve]]\nmechanism = \"abort\"\n{figures}"
    );
    let point = samples::point("s", "abort", 2.0, World::Live);
    let page = page(&[samples::study(samples::parsed("s", &text), vec![point], "tidelab")]);
    let captions = page.split("<figcaption>").skip(1);
    let captions: Vec<&str> =
        captions.filter_map(|rest| rest.split("</figcaption>").next()).collect();
    let twice = panels.iter().flat_map(|(_, unit)| [unit; 2]).chain(bars.iter().map(|(_, u)| u));
    assert_eq!(captions.len(), 2 * panels.len() + bars.len());
    for (caption, unit) in captions.into_iter().zip(twice) {
        let has_one = caption.split("</b>").nth(1).is_some_and(|title| title.contains(" ("));
        let has_its_own = caption.contains(&format!(" ({unit})"));
        assert!(if unit.is_empty() { !has_one } else { has_its_own }, "{caption}: {unit}");
    }
}

/// As a claim's recipe does.
#[test]
fn a_map_says_by_what_its_numbers_were_divided() {
    let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [2]\n\
                [[factor]]\nname = \"Server\"\nlevels = [{ name = \"quick\" }, { name = \"slow\" }]\n\
                [[curve]]\nmechanism = \"default\"\n[[curve]]\nmechanism = \"abort\"\n\
                [[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\n\
                measure = \"errors_per_s\"\nover = \"offered_per_s\"\noffered = [2, 2]\nat_most = 1.5";
    let curves = ["default, quick", "abort, quick"];
    let points = curves.map(|curve| samples::point("s", curve, 2.0, World::Live));
    let study = samples::study(samples::parsed("s", text), points.into(), "tidelab");
    let found = parsed(&page(&[study]));
    let title = "Errors ÷ Offered: abort as a multiple of default; up to 1.5";
    assert!(found.iter().any(|text| text == title), "{found:?}");
}

/// Nothing that was dropped is a number, too.
#[test]
fn bars_of_nothing_are_told_from_bars_of_what_was_not_measured() {
    let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [0.5]\n[[curve]]\nmechanism = \"abort\"\n\
                [[bars]]\ntitle = \"drops\"\nmeasure = \"queue_drops_per_s\"\n\
                [[bars]]\ntitle = \"calls\"\nmeasure = \"cpu_calls\"";
    let point = samples::point("s", "abort", 0.5, World::Live);
    let study = samples::study(samples::parsed("s", text), vec![point], "tidelab");
    let found = parsed(&page(&[study])).join("");
    assert!(found.contains("queue_drops_per_s is 0 at every load."), "{found}");
    assert!(found.contains("No point has a number for <code>cpu_calls"), "{found}");
}

/// Counts by the second have time along their axis, and none of the loads.
#[test]
fn counts_by_the_second_are_drawn_over_time() {
    let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\nmechanism = \"abort\"\n\
                [[panel]]\nmeasure = \"seconds.replies\"";
    let mut point = samples::point("s", "abort", 1.0, World::Sim);
    let counts = (0..120).map(|second| f64::from(1000 + second));
    point.seconds = [("replies".to_owned(), counts.collect())].into();
    let study = samples::study(samples::parsed("s", text), vec![point], "tidelab");
    let found = parsed(&page(&[study])).join(" ");
    for text in ["Throughput (replies/s)", "each second, from its beginning", "1,000/s at 0 s"] {
        assert!(found.contains(text), "{text}");
    }
    assert!(found.contains("1,119/s at 119 s") && !found.contains("offered load, ×"));
    // Their sum is no number a second.
    assert!(!found.contains("The figures' numbers") && !found.contains("127 k/s"));
}

/// Curves under other steps than each other's are no figure.
#[test]
fn what_is_drawn_over_time_is_of_one_load_and_says_of_which() {
    let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n[[curve]]\nmechanism = \"default\"\n\
                [[curve]]\nmechanism = \"abort\"\n[[panel]]\nmeasure = \"seconds.replies\"";
    let found = |loads: &[(&str, f64)]| {
        let point = |(curve, load): &(&str, f64)| {
            let mut point = samples::point("s", curve, *load, World::Live);
            point.seconds = [("replies".to_owned(), vec![1000.0 * load, 1001.0 * load])].into();
            point
        };
        let points = loads.iter().map(point).collect();
        let study = samples::study(samples::parsed("s", text), points, "tidelab");
        parsed(&page(&[study])).join(" ")
    };
    let several = found(&[("default", 1.0), ("abort", 1.0), ("abort", 2.0)]);
    for text in [", at 1× capacity", "Not drawn: abort at 2×.", "abort: from 1,000/s at 0 s"] {
        assert!(several.contains(text), "{text}: {several}");
    }
    assert!(!several.contains("2,002/s"), "{several}");
    // Of as many curves the highest; who has no such load is not drawn.
    let apart = found(&[("default", 1.0), ("abort", 2.0)]);
    for text in [", at 2× capacity", "Not drawn: default at 1×.", "abort: from 2,000/s at 0 s"] {
        assert!(apart.contains(text), "{text}: {apart}");
    }
    assert!(!apart.contains("1,001/s"), "{apart}");
    let one = found(&[("default", 1.0), ("abort", 1.0)]);
    assert!(!one.contains(", at 1×") && !one.contains("Not drawn"), "{one}");
}

fn thousands(number: f64) -> String {
    format!("{},{:03}/s", (number / 1e3) as u32, number.round() as u32 % 1000)
}
