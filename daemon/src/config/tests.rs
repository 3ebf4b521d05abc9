// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Good files and bad ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::part;

fn fails(text: &str) -> String {
    parse(Path::new("t.toml"), text).unwrap_err().to_string()
}

#[test]
fn a_whole_configuration() {
    let config = parse(
        Path::new("t.toml"),
        r#"
        interfaces = ["eth0"]
        socket_option = true
        [[listener]]
        port = 443
        mechanism = "reserv rst-syn"
        refusals_per_s = 1000
        reserv = { overbook = 1.5, when_exhausted = "cookie", early_drop_from = 0.75, clean_after_ms = 3000 }
        [[listener]]
        port = 443
        address = "192.0.2.1"
        mechanism = "abort early-syn-drop"
        hook = "tcp"
        fin = "rst-fin strict"
        "#,
    )
    .unwrap();
    assert!(config.socket_option);
    assert_eq!((config.guards[0].rules.fin, config.guards[1].rules.fin), (0, TG_RST_FIN_STRICT));
    assert_eq!(fin::mechanism_name(&config.guards[0].rules), "reserv rst-syn");
    assert_eq!(fin::mechanism_name(&config.guards[1].rules), "abort early-syn-drop rst-fin strict");
    let first = &config.guards[0].rules;
    assert_eq!((first.room, first.syn), (TG_ROOM_RESERVE, TG_SYN_RESET));
    assert_eq!((first.overbook_x256, first.cookie_when_reserved), (384, 1));
    assert_eq!((first.early_from_x256, first.early_probability_x256), (192, 256));
    assert_eq!((first.refusal_cost_ns, first.clean_after_ms), (1_000_000, 3000));
    assert_eq!(config.guards[1].hook, TG_HOOK_TCP);
}

/// Each bad file gets one line: the file, the line, what, and the fix.
#[test]
fn bad_files_are_answered_in_one_line() {
    for (text, expected) in [
        (
            "[[listener]]\nport = 70000",
            "t.toml:2: port = 70000 is out of range; give a number from 1 to 65535",
        ),
        (
            "[[listener]]\nport = \"http\"",
            "t.toml:2: port = \"http\" is of the wrong type; give a whole number",
        ),
        (
            "[[listener]]\nport = 80\nexempt = \"::/0\"",
            "t.toml:3: exempt = \"::/0\" is of the wrong type; give a list, [...]",
        ),
        ("[[listener]]", "t.toml:1: missing field `port`; see the documentation, configuration.md"),
        (
            "[[listener]]\nport = 80\n\n[[listener]]\nport = 80",
            "t.toml:4: port 80 on every address is guarded twice; remove one of the two [[listener]] sections",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"abrot\"",
            "t.toml:3: unknown mechanism \"abrot\"; did you mean \"abort\"? known: auto, default, abort, reserv, lazy, rst-syn, no-syn-drop, early-syn-drop",
        ),
        (
            "[[listener]]\nprot = 80",
            "t.toml:2: unknown field `prot`; expected one of `port`, `address`, `mechanism`, `hook`, `refusals_per_s`, `log`, `reserv`, `ahead`, `auto`, `shed`, `police`, `exempt`, `fair_share`, `fin`, `notice`, `time_wait`, `places`, `resize`, `backlog`",
        ),
        (
            "[[listener]]\nport = 80\nfin = \"reset\"",
            "t.toml:3: fin = \"reset\" is unknown; write \"half-close\", \"rst-fin\" or \"rst-fin strict\"",
        ),
        (
            "[[listener]]\nport = 80\ntime_wait = \"server\"\nfin = \"rst-fin\"",
            "t.toml:4: fin = \"rst-fin\" leaves no TIME-WAIT for the server to hold; use time_wait = \"client\" or \"off\", or take fin out",
        ),
        (
            "[time_wait]\nnegotiate = \"server\"\n[[listener]]\nport = 80\nfin = \"rst-fin strict\"",
            "t.toml:5: fin = \"rst-fin strict\" leaves no TIME-WAIT for the server to hold; use time_wait = \"client\" or \"off\", or take fin out",
        ),
        (
            "[[path]]\nport = 80\naddress = \"192.0.2.1\"\nfin = \"rst-fin\"",
            "t.toml:4: unknown field `fin`; expected one of `port`, `address`, `hook`, `refusals_per_s`, `log`, `shed`",
        ),
        (
            "[[listener]]\nport = 80\naddress = \"0.0.0.0\"",
            "t.toml:3: address = \"0.0.0.0\" stands for every address, and no packet is sent to it; leave address out to guard every address",
        ),
        (
            "[[path]]\nport = 80\naddress = \"::\"\nshed = { p = 0.1 }",
            "t.toml:3: address = \"::\" stands for every address, and no packet is sent to it; give the one address that the path leads to",
        ),
        ("", "t.toml:1: no listener is named; add a [[listener]] section with a port"),
        (
            "[[listener]]\nport = 80\nmechanism = \"rst-syn\"\nhook = \"tcp\"",
            "t.toml:4: \"rst-syn\" cannot be carried out at the tcp hook, which can only drop; use hook = \"auto\", or a mechanism such as \"abort early-syn-drop\"",
        ),
        (
            "[[listener]]\nport = 80\nreserv = { overbook = 2.0 }",
            "t.toml:3: reserv has options, but the mechanism names neither it nor \"lazy\"; add \"reserv\" to the mechanism, or take the options out",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"reserv\"\nreserv = { early_drop_probability = 0.5 }",
            "t.toml:4: early_drop_probability does nothing without early_drop_from; add early_drop_from = 0.75, or take it out",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"reserv\"\nreserv = { early_drop_from = 0.5, early_drop_probability = 0.001 }",
            "t.toml:4: early_drop_probability = 0.001 is counted in 256ths, and would be 0; give 0, or 0.004 or more",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"reserv\"\nreserv = { early_drop_from = 0.999 }",
            "t.toml:4: early_drop_from = 0.999 is counted in 256ths, and would be 1; give 1, or 0.996 or less",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"reserv\"\nreserv = { overbook = 1.001 }",
            "t.toml:4: overbook = 1.001 is counted in 256ths, and would be 1; give 1, or 1.004 or more",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"reserv\"\nahead = 2",
            "t.toml:4: ahead is lazy's, and the mechanism does not name it; add \"lazy\" to the mechanism, or take ahead out",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"lazy\"\nahead = 0",
            "t.toml:4: ahead = 0 is out of range; give a number from 1 to 2147483647",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"lazy reserv\"",
            "t.toml:3: \"lazy\" is \"reserv\" with few places; leave \"reserv\" out; its options are lazy's, too",
        ),
    ] {
        assert_eq!(fails(text), expected);
    }
    assert!(fails("[[listener]]\nport = ").starts_with("t.toml:2: "));
}

/// Each is what it is told to be; and so are the ends of a range, which are no fractions.
#[test]
fn the_fraction_that_is_next_to_an_end_is_not_the_end() {
    let rules = |options: &str| {
        let text =
            format!("[[listener]]\nport = 80\nmechanism = \"reserv\"\nreserv = {{ {options} }}");
        let rules = parse(Path::new("t.toml"), &text).unwrap().guards[0].rules;
        (rules.overbook_x256, rules.early_from_x256, rules.early_probability_x256)
    };
    assert_eq!(
        rules("overbook = 1.004, early_drop_from = 0.996, early_drop_probability = 0.004"),
        (257, 255, 1)
    );
    assert_eq!(
        rules("overbook = 1, early_drop_from = 1, early_drop_probability = 0"),
        (256, 256, 0)
    );
    assert_eq!(
        rules("overbook = 1000, early_drop_from = 0, early_drop_probability = 1"),
        (256_000, 0, 256)
    );
}

#[test]
fn lazy_is_sixteen_ahead_unless_it_is_said() {
    let rules = |lines: &str| {
        let text = format!("[[listener]]\nport = 80\nmechanism = \"lazy rst-syn\"\n{lines}");
        parse(Path::new("t.toml"), &text).unwrap().guards[0].rules
    };
    assert_eq!((rules("").room, rules("").ahead), (TG_ROOM_RESERVE, 16));
    let one = rules("ahead = 1\nreserv = { clean_after_ms = 100 }");
    assert_eq!((one.ahead, one.clean_after_ms), (1, 100));
}

/// A cookie from the driver would open a pair that is held in TIME-WAIT without its knowing.
#[test]
fn cookies_are_given_behind_the_table_of_held_pairs() {
    let parsed =
        |more: &str| parse(Path::new("t.toml"), &format!("[[listener]]\nport = 80\n{more}"));
    let hook = |more: &str| parsed(more).map(|config| config.guards[0].hook).unwrap();
    assert_eq!(hook("time_wait = \"server\""), TG_HOOK_IP);
    assert_eq!(hook("time_wait = \"server\"\nmechanism = \"abort rst-syn\""), TG_HOOK_AUTO);
    assert_eq!(hook("time_wait = \"client\""), TG_HOOK_AUTO);
    let told = parsed("hook = \"driver\"\ntime_wait = \"server\"").unwrap_err().to_string();
    assert_eq!(
        told,
        "t.toml:3: time_wait = \"server\" and SYN cookies do not go with hook = \"driver\"; \
         use hook = \"ip\", or mechanism = \"abort rst-syn\""
    );
}

#[test]
fn time_wait_is_asked_for_by_host_destination_and_listener() {
    let config = parse(
        Path::new("t.toml"),
        r#"
        [time_wait]
        negotiate = "client"
        close_swap = true
        [[destination]]
        network = "192.0.2.0/24"
        negotiate = "server"
        insist = true
        [[listener]]
        port = 80
        [[listener]]
        port = 81
        time_wait = "off"
        "#,
    )
    .unwrap();
    let rules = |negotiate, insist, close_swap| tg_tw_rules { negotiate, insist, close_swap };
    let listeners: Vec<tg_tw_rules> = config.guards.iter().map(|g| g.time_wait).collect();
    assert_eq!(listeners, [rules(TG_TW_CLIENT, 0, 0), rules(TG_TW_NOBODY, 0, 0)]);
    let destinations: Vec<(String, tg_tw_rules)> =
        config.ends.destinations.iter().map(|(n, r)| (n.to_string(), *r)).collect();
    let all = rules(TG_TW_CLIENT, 0, 1);
    let one = ("192.0.2.0/24".to_owned(), rules(TG_TW_SERVER, 1, 1));
    assert_eq!(destinations, [one, ("0.0.0.0/0".to_owned(), all), ("::/0".to_owned(), all)]);
    assert_eq!(config.sizes().held_blocks, 4096);

    // A client guards no listener, and a host that asks for nothing has no table.
    let client = parse(Path::new("t.toml"), "[time_wait]\nclose_swap = true\nentries = 9").unwrap();
    assert_eq!((client.guards.len(), client.sizes().held_blocks), (0, 2));
    let none = parse(Path::new("t.toml"), "[[listener]]\nport = 80").unwrap();
    assert_eq!(none.sizes().held_blocks, 0);
    for (text, told) in [
        ("[time_wait]\nnegotiate = \"us\"", "t.toml:2: \"us\" does not say who holds TIME-WAIT"),
        ("[time_wait]\nentries = 0", "t.toml:2: entries = 0 is out of range"),
        ("[[destination]]\nnetwork = \"here\"", "t.toml:2: network = \"here\" is no network"),
        ("[time_wait]\nnegotiate = \"off\"", "t.toml:1: no listener is named"),
        (
            "[time_wait]\ninsist = true",
            "t.toml:2: insist = true does nothing, for no destination is negotiated with",
        ),
        (
            "[time_wait]\ninsist = true\n[[listener]]\nport = 80\ntime_wait = \"server\"",
            "t.toml:2: insist = true does nothing, for no destination is negotiated with",
        ),
        (
            "[[destination]]\nnetwork = \"::/0\"\n[[destination]]\nnetwork = \"::/0\"",
            "t.toml:3: the destination ::/0 is named twice",
        ),
    ] {
        assert!(fails(text).starts_with(told), "{}", fails(text));
    }
}

/// As a default of the destinations alone it asks for nothing everywhere else.
#[test]
fn who_insists_names_an_end() {
    let config = parse(
        Path::new("t.toml"),
        r#"
        [time_wait]
        insist = true
        [[destination]]
        network = "192.0.2.0/24"
        negotiate = "server"
        [[destination]]
        network = "198.51.100.0/24"
        "#,
    )
    .unwrap();
    let rules = |negotiate, insist| tg_tw_rules { negotiate, insist, close_swap: 0 };
    let destinations: Vec<(String, tg_tw_rules)> =
        config.ends.destinations.iter().map(|(n, r)| (n.to_string(), *r)).collect();
    let named = ("192.0.2.0/24".to_owned(), rules(TG_TW_SERVER, 1));
    let other = ("198.51.100.0/24".to_owned(), rules(TG_TW_NOBODY, 0));
    assert_eq!(destinations, [named, other]);
}

#[test]
fn auto_has_options_of_its_own() {
    let config = parse(
        Path::new("t.toml"),
        "[[listener]]\nport = 80\nmechanism = \"auto\"\n[[listener]]\nport = 81\nmechanism = \"auto\"\n\
         auto = { patience_s = 2.5, wait_ms = 1, syn_us = 0.5 }",
    )
    .unwrap();
    let rules = [0, 1].map(|at| config.guards[at].rules);
    let options = rules.map(|rules| (rules.patience_ms, rules.wait_us, rules.syn_ns));
    assert_eq!(options, [(mechanism::PATIENCE_MS, mechanism::WAIT_US, 0), (2500, 1000, 500)]);
    for (text, told) in [
        (
            "[[listener]]\nport = 80\nmechanism = \"auto\"\nauto = { patience_s = -1 }",
            "t.toml:4: patience_s = -1 is out of range; give a number from 0 to 600",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"abort\"\nauto = { wait_ms = 1 }",
            "t.toml:4: auto has options, but the mechanism is another; write mechanism = \"auto\", \
             or take the options out",
        ),
        (
            "[[listener]]\nport = 80\nmechanism = \"auto rst-syn\"",
            "t.toml:3: \"auto\" chooses by itself and stands alone; drop it, or the others",
        ),
    ] {
        assert_eq!(fails(text), told);
    }
}

#[test]
fn a_backlog_is_changed_with_consent_only() {
    let config = parse(
        Path::new("t.toml"),
        "[[listener]]\nport = 80\nresize = true\nbacklog = 4096\nplaces = 1024\n\
         [[listener]]\nport = 81\nresize = false\nplaces = 9",
    )
    .unwrap();
    let asked: Vec<_> = config.guards.iter().map(|g| (g.backlog, g.rules.places)).collect();
    assert_eq!(asked, [(Some(4096), 1024), (None, 9)]);
    for (line, told) in [
        (
            "backlog = 4096",
            "t.toml:3: backlog is the application's, and may not be changed; add resize = true, or \
             take backlog out",
        ),
        (
            "resize = true",
            "t.toml:3: resize = true, and to what is not said; add backlog = 1024, or what `tidegate \
             size` recommends",
        ),
        (
            "backlog = 0\nresize = true",
            "t.toml:3: backlog = 0 is out of range; give a number from 1 to 2147483647",
        ),
        ("places = 0", "t.toml:3: places = 0 is out of range; give a number from 1 to 2147483647"),
        (
            "places = 9\nresize = true\nbacklog = 8",
            "t.toml:3: places = 9 is above backlog = 8, and limits nothing; give fewer places, or a \
             longer backlog",
        ),
    ] {
        assert_eq!(fails(&format!("[[listener]]\nport = 80\n{line}")), told);
    }
    let path = fails("[[path]]\nport = 80\naddress = \"192.0.2.1\"\nresize = true");
    assert!(path.starts_with("t.toml:4: unknown field `resize`"), "{path}");
}

#[test]
fn refusals_say_something_where_they_are_asked_to() {
    let said = |notice: &str| {
        let text = format!("[[listener]]\nport = 80\n{notice}");
        let rules = parse(Path::new("t.toml"), &text).unwrap().guards[0].rules;
        (rules.notice, rules.come_back_ticks)
    };
    assert_eq!(said(""), (0, 0));
    assert_eq!(said("notice = false"), (0, 0));
    assert_eq!(said("notice = true"), (1, 100));
    assert_eq!(said("notice = {}"), (1, 100));
    assert_eq!(said("notice = { come_back_s = 2.5 }"), (1, 250));
    assert_eq!(said("notice = { come_back_s = 0 }"), (1, 0));
    assert_eq!(said("mechanism = \"no-syn-drop\"\nnotice = true"), (1, 100));
    let shed = "mechanism = \"default\"\nshed = { p = 0.1, refuse = \"rst\" }\nnotice = true";
    assert_eq!(said(shed), (1, 100));
    for (notice, told) in [
        ("notice = 2", "t.toml:3: notice = 2 is neither true nor false nor a table"),
        ("notice = { come_back = 2 }", "t.toml:3: notice knows no come_back; write notice = true"),
        (
            "notice = { come_back_s = \"soon\" }",
            "t.toml:3: come_back_s = \"soon\" is no number; write notice = true",
        ),
        (
            "notice = { come_back_s = 656 }",
            "t.toml:3: come_back_s = 656 is out of range; give a number from 0 to 655.35",
        ),
        ("notice = { come_back_s = -1 }", "t.toml:3: come_back_s = -1 is out of range"),
        (
            "notice = true\nmechanism = \"abort\"",
            "t.toml:3: a notice goes with a RST to the SYN, and this listener sends none; add \"rst-syn\"",
        ),
    ] {
        let told_now = fails(&format!("[[listener]]\nport = 80\n{notice}"));
        assert!(told_now.starts_with(told), "{told_now}");
    }
}

#[test]
fn refusals_are_told_at_a_rate() {
    let costs = |log: &str| {
        let text = format!("[[listener]]\nport = 80\n{log}");
        parse(Path::new("t.toml"), &text).unwrap().guards[0].rules.log_cost_ns
    };
    assert_eq!(["", "log = false"].map(costs), [0, 0]);
    assert_eq!(["log = true", "log = 1000"].map(costs), [100_000_000, 1_000_000]);
    for wrong in ["0", "9", "10_001", "\"yes\"", "0.5"] {
        let told = fails(&format!("[[listener]]\nport = 80\nlog = {wrong}"));
        let fix = "is neither true or false nor a rate in range; give true, or a number of lines a \
                   second from 10 to 10000";
        assert!(told.starts_with("t.toml:3: log = ") && told.ends_with(fix), "{told}");
    }
}

/// Whoever reads a configuration, to check it or to run, learns of its keys before anything is done.
#[test]
fn the_files_of_keys_are_read_with_the_configuration() {
    let folder = std::env::temp_dir().join(format!("tidegate-keys-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [key, file] = ["key", "t.toml"].map(|name| folder.join(name));
    let told = |setting: &str, content: &str| {
        fs::write(&key, content).unwrap();
        let text = format!("{setting} = {key:?}\n[[listener]]\nport = 80");
        fs::write(&file, text).unwrap();
        read(&file).map(drop).map_err(|failure| failure.to_string())
    };
    let line = "000102030405060708090a0b0c0d0e0f\n";
    for setting in ["cookie_keys", "shed_key"] {
        assert_eq!(told(setting, line), Ok(()));
        assert!(told(setting, "none").unwrap_err().contains("key:1: this is no "), "{setting}");
    }
    assert_eq!(told("cookie_keys", &line.repeat(2)), Ok(()));
    assert!(told("shed_key", &line.repeat(2)).unwrap_err().contains("; write one line"));
    fs::remove_dir_all(&folder).unwrap();
    assert!(Given::read(Some(&key), None).unwrap_err().to_string().contains("No such file"));
}

/// Whoever has them is let in from any address, or is never shed.
#[test]
fn files_of_keys_that_every_user_may_read_are_told_of_and_taken() {
    let folder = std::env::temp_dir().join(format!("tidegate-open-keys-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [key, file] = ["key", "t.toml"].map(|name| folder.join(name));
    fs::write(&key, "000102030405060708090a0b0c0d0e0f\n").unwrap();
    let told = |setting: &str, mode| {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&file, format!("{setting} = {key:?}\n[[listener]]\nport = 80")).unwrap();
        let config = read(&file).unwrap();
        part::of(&config).map(|failure| failure.to_string()).collect::<Vec<_>>()
    };
    for (setting, can) in
        [("cookie_keys", "connect from any address"), ("shed_key", "connections that are not shed")]
    {
        assert_eq!(told(setting, 0o600), told(setting, 0o640));
        let before = told(setting, 0o600).len();
        for mode in [0o644, 0o602] {
            let told = told(setting, mode);
            assert_eq!(told.len(), before + 1, "{told:?}");
            assert!(told[before].contains(can), "{told:?}");
            assert!(told[before].contains(&format!("; chmod o= {}", key.display())), "{told:?}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// What the programs' maps have no room for is told with its line, before anything is done.
#[test]
fn more_than_the_maps_hold_is_refused_with_its_line() {
    let repeated = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect();
    let ports = |i: usize| format!("[[listener]]\nport = {}\n", i + 1);
    let addresses =
        |i: usize| format!("[[listener]]\nport = 80\naddress = \"192.0.2.{}\"\n", i + 1);
    let destinations =
        |i: usize| format!("[[destination]]\nnetwork = \"10.{}.{}.0/24\"\n", i >> 8, i & 255);
    let asks = "[time_wait]\nnegotiate = \"server\"\n";
    let read = |text: &str| parse(Path::new("t.toml"), text);
    let networks = |count: usize| {
        let quoted = (0..count).map(|i| format!("\"10.{}.{}.0/24\"", i >> 8, i & 255));
        let list = quoted.collect::<Vec<_>>().join(", ");
        format!("[[listener]]\nport = 80\nshed = {{ p = 0.1, preferred = [{list}] }}")
    };
    let fits: [String; 3] = [repeated(64, &ports), repeated(8, &addresses), networks(2048)];
    for text in fits {
        assert!(read(&text).is_ok(), "{text}");
    }
    let many: String = repeated(510, &destinations);
    let config = read(&format!("{asks}{many}")).unwrap();
    assert_eq!(config.ends.destinations.len() as u32, TG_DESTINATIONS / 2);
    let too_many: [(String, &str); 4] = [
        (
            repeated(65, &ports),
            "t.toml:129: there are more than 64 [[listener]] and [[path]] sections; join those of \
             one port: without address, one is for every address",
        ),
        (
            repeated(9, &addresses),
            "t.toml:25: port 80 has more than 8 sections; join some: without address, one is for \
             every address that has none of its own",
        ),
        (
            repeated(511, &destinations),
            "t.toml:1021: there are more than 510 [[destination]] sections; name fewer, larger \
             networks",
        ),
        (
            networks(2049),
            "t.toml:1: preferred names more than 2048 networks; name fewer, larger ones",
        ),
    ];
    for (text, told) in too_many {
        assert_eq!(fails(&text), told);
    }
}

/// A bucket that holds less than one refusal sends none at all.
#[test]
fn a_rate_of_refusals_is_none_or_one_that_the_bucket_can_keep() {
    let listener = |per_s: i64| format!("[[listener]]\nport = 80\nrefusals_per_s = {per_s}");
    for (per_s, cost_ns) in [(0, 0), (10, 100_000_000), (1_000, 1_000_000), (1_000_000_000, 1)] {
        let config = parse(Path::new("t.toml"), &listener(per_s)).unwrap();
        assert_eq!(config.guards[0].rules.refusal_cost_ns, cost_ns);
        assert!(cost_ns <= TG_BUCKET_DEPTH_NS, "the bucket holds one at {per_s} a second");
    }
    let path = "[[path]]\nport = 80\naddress = \"192.0.2.1\"\nshed = { p = 0.1 }";
    for unsaid in ["[[listener]]\nport = 80", path] {
        let config = parse(Path::new("t.toml"), unsaid).unwrap();
        assert_eq!(config.guards[0].rules.refusal_cost_ns, 1000, "a million a second: {unsaid}");
    }
    for per_s in [-1, 1, 9, 1_000_000_001] {
        assert_eq!(
            fails(&listener(per_s)),
            format!(
                "t.toml:3: refusals_per_s = {per_s} is out of range; give 0, which is no limit, or a \
                 number from 10 to 1000000000"
            )
        );
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_the_type_that_it_should_have() {
    let listener = |line: &str| format!("[[listener]]\nport = 80\n{line}");
    for (text, told) in [
        (
            "[listener]\nport = 80",
            "1: [listener] is of the wrong type; write [[listener]], with two brackets",
        ),
        ("[path]\nport = 80", "1: [path] is of the wrong type; write [[path]], with two brackets"),
        (
            "[destination]\nnetwork = \"::/0\"",
            "1: [destination] is of the wrong type; write [[destination]], with two brackets",
        ),
        ("listener = 5", "1: listener = 5 is of the wrong type; give a list, [...]"),
        (
            "[[time_wait]]\nentries = 5",
            "1: [[time_wait]] is of the wrong type; write [time_wait], with one bracket",
        ),
        ("time_wait = true", "1: time_wait = true is of the wrong type; give a table, { ... }"),
        (
            "interfaces = \"eth0\"",
            "1: interfaces = \"eth0\" is of the wrong type; give a list, [...]",
        ),
        ("cookie_keys = 5", "1: cookie_keys = 5 is of the wrong type; give a path in quotes"),
        (
            &listener("police = { network = \"::/0\", syns_per_s = 5 }"),
            "3: police = { network = \"::/0\", syns_per_s = 5 } is of the wrong type; write \
             police = [{ ... }], or [[listener.police]] with two brackets",
        ),
        (
            &listener("[listener.police]\nnetwork = \"::/0\""),
            "3: [listener.police] is of the wrong type; write [[listener.police]], with two brackets",
        ),
        (
            &listener("police = [{ network = 5 }]"),
            "3: network = 5 is of the wrong type; give a text in quotes",
        ),
        (
            &listener("exempt = [\"::/0\", 5]"),
            "3: 5 in exempt is of the wrong type; give a text in quotes",
        ),
        (&listener("exempt = {}"), "3: exempt = {} is of the wrong type; give a list, [...]"),
        (
            &listener("reserv = true"),
            "3: reserv = true is of the wrong type; give a table, { ... }",
        ),
        (&listener("auto = 1.5"), "3: auto = 1.5 is of the wrong type; give a table, { ... }"),
        (
            &listener("auto = { wait_ms = \"x\" }"),
            "3: wait_ms = \"x\" is of the wrong type; give a number",
        ),
        (&listener("shed = [0.1]"), "3: 0.1 in shed is of the wrong type; give a table, { ... }"),
        (
            &listener("[[listener.shed]]\np = 0.1"),
            "3: [[listener.shed]] is of the wrong type; write [listener.shed], with one bracket",
        ),
        (&listener("resize = 1"), "3: resize = 1 is of the wrong type; give true or false"),
        (&listener("hook = [\n\"ip\"]"), "3: hook is of the wrong type; give a text in quotes"),
        (&listener("hook = ip"), "3: ip is not in quotes; write \"ip\""),
        (&listener("port = 81"), "3: port stands twice; remove one of the two"),
    ] {
        assert_eq!(fails(text), format!("t.toml:{told}"));
    }
}
