// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients as files have them.

use super::*;

fn over(base: &Clients, text: &str) -> Clients {
    toml::from_str::<ClientKeys>(text).unwrap().over(base)
}

fn refused(base: &Clients, text: &str) -> String {
    over(base, text).check().unwrap_err()
}

#[test]
fn a_browser_decides_how_many_requests_a_connection_makes() {
    let plain = Clients { requests: 7.2, ..Clients::default() };
    let chrome = over(&plain, "browser = \"chrome\"\nobjects = 12");
    assert_eq!(chrome.check(), Ok(()));
    // The page on one connection, twelve objects on six.
    assert_eq!(chrome.requests, 13.0 / 7.0);
    assert!((chrome.connections_per_s(1300.0) - 700.0).abs() < 1e-9, "{chrome:?}");
    let browsing = chrome.browsing.as_ref().unwrap();
    assert_eq!((browsing.objects, browsing.requests_a_client()), (12, 13.0));
    let opera = over(&chrome, "browser = \"opera-6\"\npages = 2\nthink_s = 3");
    assert_eq!(opera.check(), Ok(()));
    let browsing = opera.browsing.as_ref().unwrap();
    assert_eq!((browsing.objects, browsing.requests_a_client()), (12, 26.0));
    assert!(opera.summary().contains("opera-6 to pages of 12 objects, 2 pages"), "{opera:?}");
    assert_eq!(over(&plain, "timeout_s = 1").browsing, None);
}

#[test]
fn impossible_visits_are_refused_with_the_value() {
    let plain = Clients::default();
    assert!(refused(&plain, "objects = 3").contains("browser = \"chrome\""));
    let lynx = refused(&plain, "browser = \"lynx\"");
    assert!(lynx.contains("`lynx`") && lynx.contains("chrome"), "{lynx}");
    let chrome = over(&plain, "browser = \"chrome\"");
    assert!(refused(&chrome, "objects = 1001").contains("1001"));
    assert!(refused(&chrome, "pages = 0.5").contains("0.5"));
    assert!(refused(&chrome, "think_s = -1").contains("-1"));
    assert!(refused(&chrome, "requests = 2").contains("a browser decides"));
}

#[test]
fn ports_can_be_short() {
    let plain = Clients::default();
    assert_eq!(plain.pairs(), None);
    let proxy = over(&plain, "addresses = 1\nports = 28232");
    assert_eq!((proxy.check(), proxy.pairs()), (Ok(()), Some(28_232)));
    assert!(proxy.summary().ends_with("1 address, 28232 ports each"), "{proxy:?}");
    assert_eq!(over(&plain, "ports = 100").pairs(), Some(25_400));
    assert!(refused(&plain, "addresses = 255").contains("1 to 254"));
    assert!(refused(&plain, "ports = 0").contains("1 to 64512"));
    assert!(refused(&proxy, "driver = \"sockets\"").contains("raw"));
}

#[test]
fn a_trace_lies_beside_its_scenario() {
    let clients = over(&Clients::default(), "arrivals = { trace = \"days/monday.txt\" }");
    assert_eq!(clients.check(), Ok(()));
    assert!(clients.summary().ends_with("arrivals as in monday.txt"), "{clients:?}");
    let seen = |folder| clients.clone().seen_from(Path::new(folder)).arrivals;
    assert_eq!(seen("mine"), Arrivals::Trace("mine/days/monday.txt".into()));
    assert_eq!(seen(""), Arrivals::Trace("days/monday.txt".into()));
    let nowhere = refused(&Clients::default(), "arrivals = { trace = \"\" }");
    assert!(nowhere.contains("names no file"), "{nowhere}");
}

/// Live it would be no delay, and simulated half of one.
#[test]
fn a_delay_that_is_spread_has_a_mean() {
    let plain = Clients::default();
    let told = refused(&plain, "delay = { mean_ms = 0, spread_ms = 20 }");
    assert!(told.contains("spread by 20 ms"), "{told}");
    assert_eq!(over(&plain, "delay = { mean_ms = 10, spread_ms = 20 }").check(), Ok(()));
}

#[test]
fn a_delay_that_cannot_be_is_told_by_what_is_wrong_with_it() {
    let plain = Clients::default();
    for wrong in ["-1.0", "10000.5", "nan", "inf"] {
        let told = refused(&plain, &format!("delay = {{ mean_ms = {wrong}, spread_ms = 1 }}"));
        assert!(told.starts_with("a delay of ") && told.ends_with(" 0 and 10000"), "{told}");
        let told = refused(&plain, &format!("delay = {{ mean_ms = 5, spread_ms = {wrong} }}"));
        assert!(told.starts_with("a spread_ms of ") && told.ends_with(" 0 and 10000"), "{told}");
    }
    assert_eq!(over(&plain, "delay = { mean_ms = 10000, spread_ms = 10000 }").check(), Ok(()));
}

/// A result says no more of them.
#[test]
fn a_summary_tells_who_makes_packets_and_how_they_come() {
    let words = |text: &str| over(&Clients::default(), text).summary();
    let plain = Clients::default().summary();
    assert_eq!(words("driver = \"sockets\""), format!("{plain}, kernel sockets"));
    assert_eq!(words("arrivals = \"constant\""), format!("{plain}, arrivals evenly spaced"));
}
