// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page in a real browser: it asks nobody for anything, reads values, hides curves, is legible
//! in light and dark, on paper and on a telephone.

mod chromium;
mod samples;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chromium::{Browser, skip_without_chromium};
use serde_json::{Value, json};
use tidegate_report::{Point, Study, Times, World, page};

fn sample() -> String {
    page(&[samples::overload(), samples::both_worlds()])
}

/// What the page says of the number, made from the number and not from the page.
fn replies(point: &Point) -> String {
    let number = point.replies_per_s.round() as u64;
    format!("{},{:03}/s", number / 1000, number % 1000)
}

fn tip(browser: &mut Browser) -> String {
    browser.value("document.getElementById('tip').innerText").as_str().unwrap().to_owned()
}

#[test]
fn it_asks_nobody_for_anything_and_nothing_goes_wrong() {
    if skip_without_chromium("it_asks_nobody_for_anything_and_nothing_goes_wrong") {
        return;
    }
    let mut browser = Browser::open(&sample());
    let plots = browser.value("document.querySelectorAll('.plot').length").as_u64().unwrap();
    assert!(plots > 10, "{plots}");
    for plot in 0..plots {
        let middle = browser.middle(&format!("document.querySelectorAll('.plot')[{plot}]"));
        browser.point(middle);
        assert!(!tip(&mut browser).is_empty(), "plot {plot} reads nothing");
    }
    let method = |event: &&Value, name: &str| event["method"] == name;
    let asked: Vec<String> = browser
        .events
        .iter()
        .filter(|event| method(event, "Network.requestWillBeSent"))
        .map(|event| event["params"]["request"]["url"].to_string())
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("/page.html"), "{asked:?}");
    for complaint in ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"] {
        let heard: Vec<&Value> =
            browser.events.iter().filter(|event| method(event, complaint)).collect();
        assert!(heard.is_empty(), "{heard:?}");
    }
    browser.close();
}

#[test]
fn the_browser_would_have_told_of_a_request_or_an_error() {
    if skip_without_chromium("the_browser_would_have_told_of_a_request_or_an_error") {
        return;
    }
    let html = "<!DOCTYPE html><img src=\"http://192.0.2.1/a.png\"><script>throw 1</script>";
    let browser = Browser::open(html);
    let told = |method: &str| browser.events.iter().filter(|e| e["method"] == method).count();
    assert_eq!(told("Network.requestWillBeSent"), 2);
    assert_eq!(told("Runtime.exceptionThrown"), 1);
    browser.close();
}

#[test]
fn pointer_and_keys_read_the_values_of_the_points() {
    if skip_without_chromium("pointer_and_keys_read_the_values_of_the_points") {
        return;
    }
    let study = samples::overload();
    let of = |curve: &str, load: f64| {
        let found = |p: &&Point| p.curve == curve && p.offered_over_capacity == load;
        replies(study.points.iter().find(found).unwrap())
    };
    let mut browser = Browser::open(&sample());
    let panel = "document.querySelector('#study-1 .panel')";
    let mark = format!("{panel}.querySelector('g[data-name=\"abort rst-syn\"] [data-k=\"7\"]')");
    let (x, y) = browser.middle(&mark);
    browser.point((x + 4.0, y + 30.0));
    let read = tip(&mut browser);
    assert!(read.starts_with("3× capacity, 26.1 k/s offered"), "{read}");
    let row = |curve: &str, load: f64| format!("{curve}\t{}", of(curve, load));
    for curve in ["default", "abort", "reserv", "abort rst-syn", "reserv rst-syn"] {
        assert!(read.contains(&row(curve, 3.0)), "{curve} in {read}");
    }
    browser.value(&format!("{panel}.querySelector('.plot').focus()"));
    browser.key("ArrowRight");
    let read = tip(&mut browser);
    assert!(read.starts_with("4× capacity") && read.contains(&row("default", 4.0)), "{read}");
    browser.key("ArrowLeft");
    browser.key("ArrowLeft");
    assert!(tip(&mut browser).contains(&row("default", 2.0)));
    browser.key("Escape");
    assert_eq!(browser.value("document.getElementById('tip').hidden"), json!(true));
    let bar = "document.querySelector('#study-1 .facet [data-k=\"9\"]')";
    let middle = browser.middle(bar);
    browser.point(middle);
    let read = tip(&mut browser);
    assert!(read.contains("1 SYN") && read.contains("3 SYNs") && read.contains("failed"), "{read}");
    browser.close();
}

#[test]
fn the_legend_hides_a_curve_everywhere_and_shows_it_again() {
    if skip_without_chromium("the_legend_hides_a_curve_everywhere_and_shows_it_again") {
        return;
    }
    let mut browser = Browser::open(&sample());
    let seen = |browser: &mut Browser, what: &str| {
        let query = format!(
            "[...document.querySelectorAll('#study-2 .plots {what}')]
              .filter((e) => e.getClientRects().length).length"
        );
        browser.value(&query).as_u64().unwrap()
    };
    let press = |browser: &mut Browser, button: &str| {
        let place = browser.middle(&format!("document.querySelector('#study-2 {button}')"));
        browser.click(place);
    };
    let (abort, sim) = ("[data-c=\"1\"]", "[data-w=\"sim\"]");
    let (aborts, sims) = (seen(&mut browser, abort), seen(&mut browser, sim));
    let others = seen(&mut browser, "[data-c=\"2\"]");
    // Two lines in each of four panels, a label each, two sets of bars.
    assert!(aborts >= 12 && sims >= 12, "{aborts} {sims}");
    press(&mut browser, "button[data-c=\"1\"]");
    assert_eq!(seen(&mut browser, abort), 0);
    assert_eq!(seen(&mut browser, "[data-c=\"2\"]"), others);
    let plot = browser.middle("document.querySelector('#study-2 .plot')");
    browser.point(plot);
    let read = tip(&mut browser);
    assert!(read.contains("abort rst-syn\t") && !read.contains("abort\t"), "{read}");
    press(&mut browser, "button[data-w=\"sim\"]");
    assert_eq!(seen(&mut browser, sim), 0);
    press(&mut browser, "button[data-c=\"1\"]");
    press(&mut browser, "button[data-w=\"sim\"]");
    assert_eq!((seen(&mut browser, abort), seen(&mut browser, sim)), (aborts, sims));
    browser.close();
}

/// The least contrast of text, of curves and of bars, each with what has it (WCAG 2.2, 1.4.3 and
/// 1.4.11).
const CONTRASTS: &str = r"(() => {
  const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => p - q);
    return (y + 0.05) / (x + 0.05); };
  const least = (elements, property) => {
    let worst = [99, 'nothing'];
    for (const e of elements) {
      if (!e.getClientRects().length) continue;
      const style = getComputedStyle(e);
      const c = rgb(style[typeof property === 'string' ? property : property(e)]).slice(0, 3);
      const found = contrast(c, behind(e));
      if (found < worst[0]) worst = [found, e.outerHTML.slice(0, 120)];
    }
    return worst;
  };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const texts = [...document.querySelectorAll('body *')]
    .filter((e) => own(e) && !e.closest('script, title, desc'));
  return {
    text: least(texts, (e) => e instanceof SVGElement ? 'fill' : 'color'),
    curves: least(document.querySelectorAll('.curve .stroke, .key .stroke'), 'stroke'),
    bars: least(document.querySelectorAll('.part:not(.idle)'), 'fill'),
    count: texts.length,
    paper: light(rgb(getComputedStyle(document.body).backgroundColor).slice(0, 3)),
  };
})()";

#[test]
fn it_is_legible_in_light_and_in_dark() {
    if skip_without_chromium("it_is_legible_in_light_and_in_dark") {
        return;
    }
    // Ten curves use every colour.
    let mut browser = Browser::open(&page(&[samples::overload(), many()]));
    for scheme in ["light", "dark"] {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
        let found = browser.value(CONTRASTS);
        let least = |what: &str| {
            assert_ne!(found[what][1], "nothing", "there are some {what}");
            found[what][0].as_f64().unwrap()
        };
        assert!(found["count"].as_u64().unwrap() > 200, "{found}");
        assert_eq!(found["paper"].as_f64().unwrap() > 0.5, scheme == "light", "{found}");
        assert!(least("text") >= 4.5, "{scheme}: {}", found["text"]);
        assert!(least("curves") >= 3.0, "{scheme}: {}", found["curves"]);
        assert!(least("bars") >= 3.0, "{scheme}: {}", found["bars"]);
    }
    browser.close();
}

#[test]
fn it_prints_with_its_figures_on_white() {
    if skip_without_chromium("it_prints_with_its_figures_on_white") {
        return;
    }
    let mut browser = Browser::open(&sample());
    let dark = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print", "features": dark }));
    let found = browser.value(CONTRASTS);
    assert_eq!(found["paper"].as_f64(), Some(1.0), "{found}");
    let split = "[...document.querySelectorAll('figure.panel, .facet')]
        .filter((e) => getComputedStyle(e).breakInside !== 'avoid').length";
    assert_eq!(browser.value(split), json!(0));
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
    let pages = |browser: &mut Browser| {
        let printed = browser.call("Page.printToPDF", json!({ "printBackground": true }));
        let pdf = BASE64_STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
        String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count()
    };
    let whole = pages(&mut browser);
    browser.value("document.querySelectorAll('figure').forEach((e) => e.remove())");
    let without = pages(&mut browser);
    assert!(without >= 1 && whole > without, "{whole} pages, without figures {without}");
    browser.close();
}

/// Ten curves at thirty rates, with one far longer name.
fn many() -> Study {
    let names = [
        "default",
        "abort",
        "reserv",
        "abort rst-syn",
        "reserv rst-syn",
        "no-syn-drop",
        "early-syn-drop",
        "close-rst",
        "rst-fin",
        "abort rst-syn early-syn-drop on impatient clients",
    ];
    let curves: String = names
        .iter()
        .map(|name| format!("[[curve]]\nname = \"{name}\"\nmechanism = \"default\"\n"))
        .collect();
    let text = format!(
        "title = \"Many\"\nsource = \"us\"\n[load]\noffered = [1]\n{curves}
         [[bars]]\nmeasure = \"errors_per_s\"\ntitle = \"Errors\"\n"
    );
    let points = names
        .iter()
        .flat_map(|name| {
            (1..=30).map(|step| samples::point("many", name, f64::from(step) / 6.0, World::Live))
        })
        .collect();
    samples::study(samples::parsed("many", &text), points, "tidelab figure many")
}

/// One curve with one point, numbers far apart, nothing measured: each a study.
fn corners() -> Vec<Study> {
    let text = "title = \"One\"\nsource = \"us\"\n[load]\noffered = [1]\n[[curve]]\nmechanism = \"default\"\n
        [[panel]]\nmeasure = \"replies_per_s\"\n[[panel]]\nmeasure = \"response_ms.mean\"\nlog = true\n
        [[panel]]\nmeasure = \"cpu.user\"\n[[panel]]\nmeasure = \"segments.rst_sent\"\n[[panel]]\nmeasure = \"time_wait.server\"\n
        [[bars]]\nmeasure = \"cpu_components\"\ntitle = \"Components\"\n[[bars]]\nmeasure = \"verdicts_per_s\"\ntitle = \"Verdicts\"\n";
    let study =
        |points: Vec<Point>| samples::study(samples::parsed("one", text), points, "tidelab");
    let point = |load: f64| samples::point("one", "default", load, World::Live);
    let far = [(0.1, 3e-7), (1.0, 0.0), (10.0, 4e11), (100.0, 7e15)].map(|(load, number)| Point {
        replies_per_s: number,
        response_ms: Times { mean: number, max: 1.0, ..Times::default() },
        ..point(load)
    });
    let silent = [1.0, 2.0].map(|load| Point {
        replies_per_s: 0.0,
        response_ms: Times::default(),
        capacity_per_s: load,
        ..point(load)
    });
    vec![
        study(vec![point(1.0)]),
        study(far.into()),
        study(silent.into()),
        study(Vec::new()),
        many(),
    ]
}

/// The page's own, a narrow one and a wide one: a fresh machine has what its packages brought.
const FONTS: [&str; 3] = ["", "Liberation Sans", "DejaVu Sans"];

/// Texts of a drawing that overlap, or reach beyond it.
const CLUTTER: &str = r"[...document.querySelectorAll('.plot svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].filter((e) => e.getClientRects().length)
    .map((e) => ({ text: e.textContent, box: e.getBoundingClientRect() }));
  const title = svg.querySelector('title').textContent;
  const beyond = boxes.filter(({ box }) => box.left < frame.left - 2 || box.right > frame.right + 2
    || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
    .map(({ text }) => `${title}: ${text} is cut`);
  const clash = boxes.flatMap(({ text, box: a }, i) => boxes.slice(i + 1)
    .filter(({ box: b }) => a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 3 && b.top < a.bottom - 3)
    .map((other) => `${title}: ${text} on ${other.text}`));
  return [...beyond, ...clash];
})";

/// What makes the page wider than the screen; tables may scroll by themselves.
const SPILLS: &str = r"document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('body *')]
    .filter((e) => !e.closest('.scroll, pre') && e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => e.outerHTML.slice(0, 100))";

#[test]
fn nothing_overlaps_or_is_cut_on_any_screen() {
    if skip_without_chromium("nothing_overlaps_or_is_cut_on_any_screen") {
        return;
    }
    let mut studies = vec![samples::overload(), samples::both_worlds()];
    studies.extend(corners());
    let mut browser = Browser::open(&page(&studies));
    for font in FONTS {
        browser.value(&format!(
            "document.querySelectorAll('.plot svg').forEach((e) => {{ e.style.fontFamily = '{font}' }})"
        ));
        for width in [1200, 800, 360] {
            let size =
                json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
            browser.call("Emulation.setDeviceMetricsOverride", size);
            assert_eq!(browser.value(CLUTTER), json!([]), "at {width} px in {font}");
            assert_eq!(browser.value("innerWidth"), json!(width));
            assert_eq!(browser.value(SPILLS), json!([]), "at {width} px in {font}");
        }
    }
    browser.close();
}
