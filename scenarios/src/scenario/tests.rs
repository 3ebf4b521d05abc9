// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios as files have them.

use super::*;
use crate::{AcceptLimit, Arrivals, Fin, TimeWait, Treatment};

const GOOD: &str = r#"title = "Overload"
source = "today"
[server]
backlog = 64
[load]
offered = [0.5, 2]
short = { duration_s = 3 }
[[curve]]
mechanism = "default"
[[curve]]
name = "impatient"
mechanism = "abort rst-syn"
clients = { timeout_s = 1, arrivals = { bursts = { burst_s = 10, silence_s = 5 } } }
[[claim]]
says = "more"
source = "us"
curve = "impatient"
than = "default"
measure = "replies_per_s"
offered = [1, 5]
at_least = 1.1
"#;

fn refused(change: impl Fn(&str) -> String) -> String {
    Scenario::parse("s", "s.toml", &change(GOOD)).unwrap_err().to_string()
}

#[test]
fn a_curve_is_the_scenario_with_its_own_changes() {
    let scenario = Scenario::parse("s", "s.toml", GOOD).unwrap();
    let [first, second] = &scenario.settings[..] else { panic!("two curves") };
    assert_eq!(first.curve, "default");
    assert_eq!(first.clients.timeout_s, 10.0);
    assert_eq!(second.clients.timeout_s, 1.0);
    assert_eq!(second.treatment, Treatment::Mechanism("abort rst-syn".to_owned()));
    assert_eq!((second.server.backlog, second.server.accept_limit), (64, AcceptLimit::Inf));
    let load = scenario.load(Form::Short);
    assert_eq!((load.duration_s, load.warm_up_s), (3.0, None));
    assert_eq!(second.clients.arrivals, Arrivals::Bursts { burst_s: 10.0, silence_s: 5.0 });
    assert_eq!(scenario.load(Form::Full).duration_s, 120.0);
}

#[test]
fn what_changes_a_point_is_another_experiment() {
    let read = |text: &str| Scenario::parse("s", "s.toml", text).unwrap();
    let runs_what = |from: &str, to: &str| read(GOOD).runs_what(&read(&GOOD.replacen(from, to, 1)));
    for (from, to) in [
        ("says = \"more\"", "says = \"less\""),
        ("offered = [0.5, 2]", "offered = [1]"),
        ("[load]", "[load]\nduration_s = 7\nseed = 7"),
    ] {
        assert!(runs_what(from, to), "{to}");
    }
    for (from, to) in [
        ("backlog = 64", "backlog = 65"),
        ("[server]", "profile = true\n[server]"),
        ("[load]", "[load]\nwarm_up_s = 7"),
        ("duration_s = 3", "duration_s = 3, warm_up_s = 7"),
    ] {
        assert!(!runs_what(from, to), "{to}");
    }
}

#[test]
fn what_shed_leaves_open_is_as_if_it_were_said() {
    let with = |keys: &str| {
        let curve = "mechanism = \"default\"";
        let sheds = format!("name = \"default\"\n{curve}\nshed = {{ p = 0.1, {keys} }}");
        Scenario::parse("s", "s.toml", &GOOD.replacen(curve, &sheds, 1)).unwrap()
    };
    let open = with("refuse = \"rst\"");
    assert!(open.runs_what(&with("refuse = \"rst\", attempts = 1")));
    assert!(!open.runs_what(&with("refuse = \"rst\", attempts = 5")));
}

#[test]
fn a_trace_is_the_same_wherever_it_lies_and_two_are_not_one() {
    let traces = |file: &str, first: &str, second: &str| {
        let curve = |name: &str, trace: &str| {
            format!(
                "[[curve]]\nname = \"{name}\"\npeer = \"kernel\"\n\
                 clients = {{ arrivals = {{ trace = \"{trace}\" }} }}\n"
            )
        };
        let head = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n";
        let text = format!("{head}{}{}", curve("a", first), curve("b", second));
        Scenario::parse("s", file, &text).unwrap()
    };
    let two = traces("here/s.toml", "x.txt", "y.txt");
    assert!(two.runs_what(&traces("there/s.toml", "z/x.txt", "y.txt")));
    assert!(!two.runs_what(&traces("here/s.toml", "x.txt", "x.txt")));
    let told = two.recorded().unwrap_err().to_string();
    assert!(told.starts_with("here/x.txt: ") && told.contains("seconds, one a line"), "{told}");
    assert_eq!(Scenario::parse("s", "s.toml", GOOD).unwrap().recorded(), Ok(String::new()));
}

#[test]
fn the_short_form_is_never_longer_than_the_full_one() {
    let lasts_s = |full: &str| {
        let text = GOOD.replace("short = { duration_s = 3 }", full);
        Scenario::parse("s", "s.toml", &text).unwrap().load(Form::Short).duration_s
    };
    assert_eq!([lasts_s(""), lasts_s("duration_s = 2")], [5.0, 2.0]);
}

#[test]
fn rst_fin_is_part_of_what_is_done() {
    let text =
        GOOD.replace("mechanism = \"default\"", "mechanism = \"default\"\nfin = \"rst-fin\"");
    let text = text.replace("than = \"default\"", "than = \"default rst-fin\"");
    let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
    let [first, second] = &scenario.settings[..] else { panic!("two curves") };
    assert_eq!((first.curve.as_str(), first.done()), ("default rst-fin", "default rst-fin".into()));
    assert_eq!((first.fin, second.fin), (Fin::Ends, Fin::HalfClose));
    assert_eq!(first.for_capacity().fin, Fin::HalfClose);
    let peer = text.replace("mechanism = \"default\"", "peer = \"kernel\"");
    let wrong = Scenario::parse("s", "s.toml", &peer).unwrap_err().to_string();
    assert!(wrong.starts_with("s.toml:8: ") && wrong.contains("Tidegate's"), "{wrong}");
}

#[test]
fn who_holds_time_wait_is_part_of_what_is_done() {
    let first = "mechanism = \"default\"";
    let holder = |curve: &str| GOOD.replace(first, curve);
    let text = holder(&format!("{first}\nname = \"default\"\ntime_wait = \"negotiate-client\""));
    let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
    assert_eq!(scenario.settings[0].done(), "default, negotiate-client");
    assert_eq!(scenario.settings[0].for_capacity().time_wait, TimeWait::Today);
    let peer = refused(|_| holder("peer = \"kernel\"\ntime_wait = \"negotiate-server\""));
    assert!(peer.starts_with("s.toml:8: ") && peer.contains("give a mechanism"), "{peer}");
    let unknown = refused(|_| holder(&format!("{first}\ntime_wait = \"negotiate\"")));
    assert!(unknown.starts_with("s.toml:10: ") && unknown.contains("close-swap"), "{unknown}");
}

/// As `tidegate` refuses it, when every capacity has been measured.
#[test]
fn a_hook_that_cannot_carry_it_out_is_refused() {
    let with = |curve: &str| {
        let text = GOOD.replace("mechanism = \"default\"", &format!("name = \"default\"\n{curve}"));
        Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
    };
    for mechanism in ["auto", "rst-syn", "no-syn-drop", "lazy rst-syn", "abort rst-syn"] {
        let told = with(&format!("mechanism = \"{mechanism}\"\nhook = \"tcp\"")).unwrap_err();
        let begins = format!("s.toml:8: \"{mechanism}\" cannot be carried out at the tcp hook");
        assert!(told.starts_with(&begins), "{told}");
        assert_eq!(with(&format!("mechanism = \"{mechanism}\"\nhook = \"auto\"")), Ok(()));
    }
    for mechanism in ["default", "abort", "abort reserv", "abort early-syn-drop"] {
        assert_eq!(with(&format!("mechanism = \"{mechanism}\"\nhook = \"tcp\"")), Ok(()));
    }
    let exhausted = |word: &str| {
        with(&format!(
            "mechanism = \"reserv\"\nreserv = {{ when_exhausted = \"{word}\" }}\nhook = \"tcp\""
        ))
    };
    assert_eq!(exhausted("refuse"), Ok(()));
    let told = exhausted("cookie").unwrap_err();
    assert!(told.starts_with("s.toml:8: when_exhausted = \"cookie\" cannot be carried"), "{told}");
    let holds = |mechanism: &str, hook: &str| {
        let hook = format!("mechanism = \"{mechanism}\"\nhook = \"{hook}\"");
        with(&format!("{hook}\ntime_wait = \"negotiate-server\""))
    };
    for mechanism in ["auto", "no-syn-drop"] {
        let told = holds(mechanism, "driver").unwrap_err();
        assert!(told.starts_with("s.toml:8: time_wait = \"negotiate-server\" and"), "{told}");
        assert_eq!(holds(mechanism, "ip"), Ok(()));
    }
    assert_eq!(holds("abort rst-syn", "driver"), Ok(()));
    let unknown = with("mechanism = \"abort\"\nhook = \"xdp\"").unwrap_err();
    assert!(unknown.contains("hook \"xdp\" is not auto, driver, ip or tcp"), "{unknown}");
}

#[test]
fn steps_are_the_time_that_counts() {
    let steps = "steps = [{ lasts_s = 2, times = 0.5 }, { lasts_s = 7, times = 3 }]";
    let bursts = "bursts = { burst_s = 10, silence_s = 5 }";
    let several = refused(|text| text.replace(bursts, steps));
    assert!(several.starts_with("s.toml:10: ") && several.contains("offered = [1]"));
    let text = GOOD.replace(bursts, steps).replace("[0.5, 2]", "[1]");
    let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
    let clients = &scenario.settings[1].clients;
    assert!(clients.summary().ends_with("0.5× for 2 s, 3× for 7 s"), "{}", clients.summary());
    for form in [Form::Short, Form::Full] {
        let phases = scenario.load(form).phases(clients, 1.0);
        // The patience of these clients is less than what a calm start takes.
        assert_eq!((phases.warm_up.as_secs(), phases.duration.as_secs()), (1, 9));
    }
    let claim = "measure = \"replies_per_s\"";
    let part = |measure: &str| refused(|text| text.replace(claim, measure));
    assert!(part("measure = \"seconds.replies\"").contains("belong together"));
    assert!(part(&format!("{claim}\nseconds = [1, 2]")).contains("belong together"));
    assert!(part("measure = \"seconds.replies\"\nseconds = [2, 1]").contains("[2, 1]"));
}

#[test]
fn bursts_count_in_whole_periods_after_the_first() {
    let load = |warm_up_s: &str| GOOD.replace("[load]", &format!("[load]{warm_up_s}"));
    for (key, expected_s) in [("", 15), ("\nwarm_up_s = 40", 40), ("\nwarm_up_s = 0", 0)] {
        let scenario = Scenario::parse("s", "s.toml", &load(key)).unwrap();
        let clients = &scenario.settings[1].clients;
        let phases = scenario.load(Form::Full).phases(clients, 1.0);
        assert_eq!((phases.warm_up.as_secs(), phases.duration.as_secs() % 15), (expected_s, 0));
    }
}

pub(super) const FACTORS: &str = r#"[[factor]]
name = "Server"
levels = [{ name = "quick" }, { name = "slow", short = true, server = { cost_us = 500 } }]
[[factor]]
name = "Patience"
levels = [{ name = "10 s" }, { name = "3 s", clients = { timeout_s = 3 } }]
[[curve]]
mechanism = "default""#;

#[test]
fn each_curve_has_each_combination_of_levels() {
    let first = "[[curve]]\nmechanism = \"default\"";
    let text = GOOD.replacen(first, FACTORS, 1);
    let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
    let settings = scenario.settings.iter();
    let found: Vec<_> =
        settings.map(|s| (s.curve.as_str(), s.server.cost_us, s.clients.timeout_s)).collect();
    let right = [
        ("default, quick, 10 s", 0, 10.0),
        ("impatient, quick, 10 s", 0, 1.0),
        ("default, quick, 3 s", 0, 3.0),
        ("impatient, quick, 3 s", 0, 1.0),
        ("default, slow, 10 s", 500, 10.0),
        ("impatient, slow, 10 s", 500, 1.0),
        ("default, slow, 3 s", 500, 3.0),
        ("impatient, slow, 3 s", 500, 1.0),
    ];
    assert_eq!(found, right);
    assert_eq!(scenario.claims[0].curve, "impatient");
}

#[test]
fn a_factor_without_levels_is_refused() {
    let with = |factor: &str| refused(|text| text.replacen("[[curve]]", factor, 1));
    let none = with("[[factor]]\nname = \"Server\"\nlevels = []\n[[curve]]");
    assert!(none.starts_with("s.toml:8: ") && none.contains("Server"), "{none}");
    let level = "{ name = \"a\" }";
    let factor = format!("[[factor]]\nname = \"S\"\nlevels = [{level}, {level}]\n[[curve]]");
    let twice = with(&factor);
    assert!(twice.starts_with("s.toml:8: ") && twice.contains("\"a\""), "{twice}");
}

/// They are counted from the warm-up on, what they would be divided by later.
#[test]
fn segments_are_divided_by_segments_alone() {
    let with = |measure: &str, over: &str| {
        let keys = format!("measure = \"{measure}\"\nover = \"{over}\"");
        let text = GOOD.replace("measure = \"replies_per_s\"", &keys);
        Scenario::parse("s", "s.toml", &text).map_err(|error| error.to_string())
    };
    assert!(with("segments.syn_ack_received", "segments.syn_sent").is_ok());
    for (measure, over) in [("segments.syn_sent", "attempts"), ("errors_per_s", "segments")] {
        let wrong = with(measure, over).unwrap_err();
        assert!(wrong.starts_with("s.toml:14: ") && wrong.contains("all of the run"), "{wrong}");
    }
}

#[test]
fn attempts_are_no_share_of_requests_where_connections_have_several() {
    let within = "measure = \"answered_within_per_s.1500\"";
    let claim =
        GOOD.replace("measure = \"replies_per_s\"", &format!("{within}\nover = \"replies_per_s\""));
    let column = format!("{{ name = \"n\", {within}, over = \"offered_per_s\" }}");
    let table = format!("{GOOD}[[table]]\ntitle = \"t\"\ncolumns = [{column}]");
    for (text, line) in [(claim, 14), (table, 22)] {
        assert!(Scenario::parse("s", "s.toml", &text).is_ok(), "{text}");
        let several = text.replace("timeout_s = 1,", "timeout_s = 1, requests = 3,");
        let told = Scenario::parse("s", "s.toml", &several).unwrap_err().to_string();
        let is_placed = told.starts_with(&format!("s.toml:{line}: "));
        assert!(is_placed && told.contains("requests = 1"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// It would be 0 in every result, and a claim of it hold.
#[test]
fn a_misspelt_part_is_refused_wherever_a_number_is_asked_for() {
    let bad = "\"queue_drops_per_s.ListenQFullAtSYN\"";
    let measure = format!("measure = {bad}");
    let claim = GOOD.replace("measure = \"replies_per_s\"", &measure);
    let over = GOOD.replace("offered = [1, 5]", &format!("offered = [1, 5]\nover = {bad}"));
    let column = format!("columns = [{{ name = \"n\", {measure} }}]");
    let table = format!("{GOOD}[[table]]\ntitle = \"t\"\n{column}");
    let panel = format!("{GOOD}[[panel]]\n{measure}");
    let bars = format!("{GOOD}[[bars]]\ntitle = \"t\"\n{measure}");
    for (text, place) in [(claim, ":14"), (over, ":14"), (table, ":22"), (panel, ""), (bars, "")] {
        let told = Scenario::parse("s", "s.toml", &text).unwrap_err().to_string();
        let begins = format!("s.toml{place}: queue_drops_per_s has no part");
        assert!(told.starts_with(&begins) && told.contains("ListenQFullAtSyn\""), "{told}");
    }
}

/// After every run of it a claim of others would be undecided.
#[test]
fn a_claim_is_about_seconds_that_each_of_its_curves_has() {
    let steps = "{ steps = [{ lasts_s = 2, times = 0.5 }, { lasts_s = 7.5, times = 3 }] }";
    let of_all = format!("[clients]\narrivals = {steps}\n[load]");
    let bursts = "{ bursts = { burst_s = 10, silence_s = 5 } }";
    let one_rate = GOOD.replace("[0.5, 2]", "[1]");
    let [none, mine, all] = [
        one_rate.replace("[load]", &of_all),
        one_rate.replace(bursts, steps),
        one_rate.replace("[load]", &of_all).replace(bursts, steps),
    ];
    let with = |text: &str, keys: &str| {
        let text = text.replace("measure = \"replies_per_s\"", keys);
        Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
    };
    let until = |second: u32| format!("measure = \"seconds.replies\"\nseconds = [3, {second}]");
    let rate = "measure = \"replies_per_s\"";
    assert_eq!(with(&all, &until(8)), Ok(()));
    assert_eq!(with(&all, &format!("{rate}\nover = \"seconds.replies.8\"")), Ok(()));
    for (text, keys, told) in [
        (&all, until(9), "s.toml:16: a claim is about the second 9, and the steps of"),
        (&none, until(8), "s.toml:16: a claim is about seconds of \"impatient\", "),
        (&mine, until(8), "s.toml:14: a claim is about seconds of \"default\", "),
        (
            &all,
            "measure = \"seconds.replies.7\"\nseconds = [3, 8]".to_owned(),
            "s.toml:16: seconds.replies.7 is of one second, and seconds say of which",
        ),
        (
            &all,
            format!("{}\nover = \"seconds.started.7\"", until(8)),
            "s.toml:16: seconds.started.7 is of one second, and seconds say of which",
        ),
        // A rate divided by the sum of all seconds would be judged as a share of one.
        (
            &all,
            format!("{rate}\nover = \"seconds.replies\""),
            "s.toml:16: seconds.replies has a number each second, and a claim without seconds one: \
             name a second, as in \"seconds.replies.7\"",
        ),
        (
            &all,
            format!("{rate}\nover = \"seconds.replies.9\""),
            "s.toml:16: a claim is about the second 9, and the steps of",
        ),
        (
            &none,
            format!("{rate}\nover = \"seconds.replies.8\""),
            "s.toml:16: a claim is about seconds of \"impatient\", ",
        ),
    ] {
        let error = with(text, &keys).unwrap_err();
        assert!(error.starts_with(told) && error.lines().count() == 1, "{error}");
    }
}

/// A table would have the sum of all seconds, as a rate, and a panel nothing.
#[test]
fn a_table_has_one_second_and_a_panel_all() {
    let with = |more: String| {
        let text = format!("{GOOD}{more}");
        Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
    };
    let table = |keys: &str| {
        with(format!("[[table]]\ntitle = \"t\"\ncolumns = [{{ name = \"n\", {keys} }}]"))
    };
    let panel = |measure: &str| with(format!("[[panel]]\nmeasure = \"{measure}\""));
    let second = "measure = \"seconds.failed.7\"";
    assert_eq!(table(&format!("{second}, over = \"seconds.started.7\"")), Ok(()));
    for keys in ["measure = \"seconds.failed\"", &format!("{second}, over = \"seconds.failed\"")] {
        let told = table(keys).unwrap_err();
        let is_placed = told.starts_with("s.toml:22: seconds.failed has a number each second");
        assert!(is_placed && told.ends_with("as in \"seconds.failed.7\""), "{told}");
    }
    assert_eq!(panel("seconds.failed"), Ok(()));
    let told = panel("seconds.failed.7").unwrap_err();
    assert!(told.ends_with("and a panel of all: ask for seconds.failed"), "{told}");
}

#[test]
fn a_number_of_networks_is_one_of_the_scenarios() {
    let asks = |part: &str, networks: &str| {
        let measure = format!("measure = \"networks.{part}\"");
        let text = GOOD.replace("measure = \"replies_per_s\"", &measure);
        let text = text.replacen("[load]", &format!("[clients]\n{networks}[load]"), 1);
        Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
    };
    let two =
        "networks = [{ name = \"a\", share = 1 }, { name = \"b\", share = 1, networks = 2 }]\n";
    assert_eq!(asks("b.success_least", two), Ok(()));
    let told = asks("a.success_least", two).unwrap_err();
    assert!(told.starts_with("s.toml:16: networks has no part \"a.success_least\""), "{told}");
    assert!(told.contains("\"a.success\"") && told.contains("\"b.success_most\""), "{told}");
    let told = asks("a.success", "").unwrap_err();
    assert!(told.ends_with("networks has no part \"a.success\"; there are none"), "{told}");
}

#[test]
fn a_peak_is_of_one_curve() {
    let told = refused(|text| {
        let several = "than = [\"default\", \"impatient\"]\ntake = \"peak\"";
        text.replace("than = \"default\"", several)
    });
    assert!(told.starts_with("s.toml:14: peak is of one curve"), "{told}");
    let told = refused(|text| {
        let peak = text.replace("than = \"default\"", "than = \"default\"\ntake = \"peak-at\"");
        peak.replacen("[[curve]]\nmechanism = \"default\"", FACTORS, 1)
    });
    assert!(told.contains("peak-at is of one curve, and factors"), "{told}");
}

#[test]
fn what_is_comparable_somewhere_is_not_so_everywhere_and_has_a_bound() {
    let with = |keys: &str| {
        let text = GOOD.replace("than = \"default\"", &format!("than = \"default\"\n{keys}"));
        Scenario::parse("s", "s.toml", &text).map_err(|error| error.to_string())
    };
    let on = "comparable_on = [\"linux-2.4\"]";
    let told = with(on).unwrap_err();
    assert!(told.starts_with("s.toml:14: ") && told.contains("not_comparable"), "{told}");
    let keys = format!("not_comparable = \"no such queue\"\n{on}");
    let claim = &with(&keys).unwrap().claims[0];
    assert_eq!(claim.not_comparable_on(None), Some("no such queue"));
    assert_eq!(claim.not_comparable_on(Some("linux-6")), Some("no such queue"));
    assert_eq!(claim.not_comparable_on(Some("linux-2.4")), None);
    let told = with(&keys.replace("linux-2.4", "linux-2.5")).unwrap_err();
    let names = "the TCP \"linux-2.5\", which no simulated machine has; there are \"linux-2.4\"";
    assert!(told.starts_with("s.toml:14: ") && told.contains(names), "{told}");
    let unbounded = GOOD.replace("at_least = 1.1", &keys);
    let told = Scenario::parse("s", "s.toml", &unbounded).unwrap_err().to_string();
    assert!(told.contains("give at_least or at_most"), "{told}");
}

/// Pariag, section 3.1.2: Knot-A has as many threads as connections, without a limit.
#[test]
fn either_knot_has_as_many_threads_as_it_is_given() {
    let knot = |kind: &str| {
        let keys = format!("kind = \"{kind}\"\nthreads = 15000");
        Scenario::parse("s", "s.toml", &GOOD.replace("backlog = 64", &keys))
    };
    for (kind, says) in [("knot-c", "15000 threads"), ("knot-a", "at most 15000 threads")] {
        let server = knot(kind).unwrap().settings.remove(0).server;
        assert_eq!(server.threads, 15_000);
        let words = server.summary();
        assert!(words.starts_with(&format!("{kind}, backlog 128, {says}")), "{words}");
    }
    let tux = knot("tux").unwrap_err().to_string();
    assert!(tux.contains("threads is for knot-c and knot-a; this server is tux"), "{tux}");
    let many = refused(|text| text.replace("backlog = 64", "kind = \"knot-a\"\nthreads = 16500"));
    assert!(many.contains("threads 16500 is not between 1 and 16000"), "{many}");
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_fix() {
    let unknown = refused(|text| text.replace("backlog", "backlogg"));
    assert!(unknown.starts_with("s.toml:4: ") && unknown.contains("backlogg"), "{unknown}");
    let lacks = refused(|text| text.replace("source = \"today\"", ""));
    assert!(lacks.contains("`source`; docs/experiments.md has every key"), "{lacks}");
    let rate = refused(|text| text.replace("[0.5, 2]", "[0.5, -2]"));
    assert!(rate.starts_with("s.toml:5: ") && rate.contains("-2"), "{rate}");
    let bursts = refused(|text| text.replace("burst_s = 10", "burst_s = 0"));
    assert!(bursts.starts_with("s.toml:10: ") && bursts.contains("above 0 s"), "{bursts}");
    let server = refused(|text| text.replace("backlog = 64", "kind = \"iis\""));
    assert!(server.starts_with("s.toml:4: ") && server.contains("nginx"), "{server}");
    let twice = refused(|text| text.replace("impatient", "default"));
    assert!(twice.starts_with("s.toml:10: ") && twice.contains("name"), "{twice}");
    let claim = refused(|text| text.replace("than = \"default\"", "than = \"defualt\""));
    assert!(claim.starts_with("s.toml:14: ") && claim.contains("defualt"), "{claim}");
    let capacity = refused(|text| format!("capacity_of = \"nobody\"\n{text}"));
    assert!(capacity.starts_with("s.toml:1: ") && capacity.contains("impatient"), "{capacity}");
    let abort = "mechanism = \"abort rst-syn\"";
    let hook = refused(|text| text.replace(abort, &format!("{abort}\nhook = \"tcp\"")));
    let told = hook.contains("\"abort rst-syn\" cannot be carried out at the tcp hook");
    assert!(hook.starts_with("s.toml:10: ") && told, "{hook}");
    let close = refused(|text| text.replace("timeout_s = 1", "close = \"later\""));
    let told = close.contains("later") && close.contains("client-close");
    assert!(close.starts_with("s.toml:13: ") && told, "{close}");
    assert_eq!((unknown.lines().count(), close.lines().count()), (1, 1));
}
