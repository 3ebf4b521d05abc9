// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever is wrong with what it is asked for, tidegate answers in one line that names what,
//! where and the fix, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use tidegate_datapath::cgroup;
use tidegate_tests::{
    Guard, Stage, bpf, bridge, copy_for_all, run_to_end, skip_without_root, tidegate_program, until,
};

/// Writes a configuration file into the /run of the stage's server, and returns its path.
fn file(stage: &Stage, content: &[u8]) -> &'static str {
    const PATH: &str = "/run/tidegate.toml";
    let content = content.to_vec();
    stage.server.run(|| fs::write(PATH, content).expect("a configuration"));
    PATH
}

fn nothing_is_left(stage: &Stage, after: &str) {
    assert!(bpf::pinned(&stage.server).is_empty(), "nothing is pinned after {after}");
    let left = stage.server.run(|| {
        let there = |path: &str| fs::exists(path).expect("a readable /run and /sys/fs/bpf");
        (there(bpf::PINS), there("/run/tidegate"))
    });
    assert_eq!(left, (false, false), "no folder of pins and none in /run after {after}");
    let links = stage.server.ip("-details link show").expect("ip shows links");
    assert!(!links.contains("xdp"), "no XDP program stands after {after}: {links}");
}

/// Runs `tidegate run`, and asserts that it is refused with one line of these parts.
fn refused(stage: &Stage, arguments: &[&str], expected: &[&str]) {
    command_refused(stage, "run", arguments, expected);
}

/// The same of what `check`, too, can tell: it has, before anybody runs it.
fn refused_by_both(stage: &Stage, arguments: &[&str], expected: &[&str]) {
    refused(stage, arguments, expected);
    // It tells first what this host can do.
    failed(stage, "check", arguments, expected);
}

/// The same of any command.
fn command_refused(stage: &Stage, command: &str, arguments: &[&str], expected: &[&str]) {
    let output = failed(stage, command, arguments, expected);
    assert!(output.stdout.is_empty(), "tidegate {command} {arguments:?} announces nothing");
}

/// Runs a command, and asserts that it ends with one line of these parts on standard error.
fn failed(stage: &Stage, command: &str, arguments: &[&str], expected: &[&str]) -> Output {
    let asked = format!("tidegate {command} {}", arguments.join(" "));
    let arguments: Vec<&str> = [command].into_iter().chain(arguments.iter().copied()).collect();
    let output = run_to_end(&stage.server, &arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{asked} fails");
    assert_eq!(stderr.lines().count(), 1, "{asked} is answered in one line: {stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{asked}: {stderr:?} should name {part:?}");
    }
    nothing_is_left(stage, &asked);
    output
}

#[test]
fn a_wrong_command_line_is_answered_with_what_and_the_fix() {
    if skip_without_root("a_wrong_command_line_is_answered_with_what_and_the_fix") {
        return;
    }
    let stage = Stage::new("bad-arguments");
    // `check` has something to tell all the same.
    refused(&stage, &[], &["nothing to guard is named; give --config FILE or --port P"]);
    for (arguments, expected) in [
        (&["--port", "0"][..], &["--port 0 is no port; give a number from 1 to 65535"][..]),
        (&["--port", "70000"], &["--port 70000 is no port"]),
        (&["--port", "eighty"], &["--port eighty is no port"]),
        (
            &["--port", "80", "--mechanism", "abrot"],
            &["unknown mechanism \"abrot\"; did you mean \"abort\"?"],
        ),
        (
            &["--port", "80", "--mechanism", "rst-syn no-syn-drop"],
            &["\"rst-syn\" and \"no-syn-drop\"", "; choose one"],
        ),
        (&["--port", "80", "--mechanism", "default abort"], &["\"default\"", "stands alone"]),
        (
            &["--port", "80", "--mechanism", "rst-syn", "--hook", "tcp"],
            &["\"rst-syn\" cannot be carried out at the tcp hook", "; use --hook auto, or"],
        ),
        (&["--port", "80", "--hook", "drvier"], &["--hook drvier is unknown; write \"auto\""]),
        (
            &["--port", "80", "--interface", "eth9"],
            &["interface \"eth9\" is not here or not up; name one of: lo, srv0"],
        ),
        (
            &["--port", "80", "--interface", "srv0", "--interface", "eth9"],
            &["interface \"eth9\" is not here or not up; name one of: lo, srv0"],
        ),
        (&["--port", "80", "--adress", "::1"], &["'--adress'", "'--address'"]),
        (
            &["--port", "80", "--address", "0.0.0.0"],
            &["--address 0.0.0.0 stands for every address", "; leave --address out"],
        ),
        (&["--port", "80", "--config", "x"], &["--config", "does not go with", "--port"]),
        (&["--mechanism", "abort"], &["--port"]),
    ] {
        refused_by_both(&stage, arguments, expected);
    }
}

#[test]
fn a_wrong_file_is_answered_with_file_line_and_fix() {
    if skip_without_root("a_wrong_file_is_answered_with_file_line_and_fix") {
        return;
    }
    let stage = Stage::new("bad-file");
    for (content, expected) in [
        (&b""[..], &[".toml:1: no listener is named; add a [[listener]]"][..]),
        (b"[[listener]]\nport = 0", &[".toml:2: port = 0 is out of range; give a number from 1"]),
        (b"[[listener]]\nport = 70000", &[".toml:2: port = 70000 is out of range", "65535"]),
        (
            b"[[listener]]\nport = \"80\"",
            &[".toml:2: port = \"80\" is of the wrong type; give a whole number"],
        ),
        (b"[listener]\nport = 80", &[".toml:1: [listener] ", "; write [[listener]], with two"]),
        (
            b"[[listener]]\nport = 80\n\n[[listener]]\nport = 80\n",
            &[".toml:4: port 80 on every address is guarded twice; remove one"],
        ),
        (
            b"[[listener]]\nport = 80\nmechanism = \"no-sin-drop\"",
            &[".toml:3: unknown mechanism \"no-sin-drop\"; did you mean \"no-syn-drop\"?"],
        ),
        (
            b"[[listener]]\nport = 80\nlog = 5",
            &[".toml:3: log = 5 is neither true or false nor", "10"],
        ),
        (b"[[listener]]\nprot = 80", &[".toml:2: unknown field `prot`; expected", "`port`"]),
        (b"[[listener]]\nport = \n", &[".toml:2: "]),
        (b"[[listener]\nport = 80\n", &[".toml:1: "]),
        (
            b"[[listener]]\nport = 80\nmechanism = \"no-syn-drop early-syn-drop\"",
            &[".toml:3: ", "leave \"early-syn-drop\" out"],
        ),
        (
            b"[[listener]]\nport = 80\nmechanism = \"no-syn-drop\"\nhook = \"tcp\"",
            &[".toml:4: \"no-syn-drop\" cannot be carried out at the tcp hook"],
        ),
        (b"[[listener]]\nport = 80\naddress = \"10.0.0.256\"", &[".toml:3: ", "is no IP address"]),
        // What an operator wrote is shown to him, and not carried out by his terminal.
        (
            b"[[listener]]\nport = 80\naddress = \"a\\nb\"",
            &[r#":3: address = "a\nb" is no IP address"#],
        ),
        (
            b"[[listener]]\nport = 80\nhook = \"a\\u001bb\\n\"",
            &[r#":3: hook = "a\u{1b}b\n" is unknown"#],
        ),
        (
            b"[[listener]]\nport = 80\nmechanism = \"reserv\"\n[listener.reserv]\noverbook = 0.5",
            &[".toml:5: overbook = 0.5 is out of range; give a number from 1"],
        ),
        (b"interfaces = [\"eth9\"]\n[[listener]]\nport = 80", &["interface \"eth9\" is not here"]),
        (
            b"cookie_keys = \"/nonexistent/keys\"\n[[listener]]\nport = 80",
            &["/nonexistent/keys: No such file", "openssl rand -hex 16"],
        ),
        (
            b"shed_key = \"/run/tidegate.toml\"\n[[listener]]\nport = 80",
            &["/run/tidegate.toml:1: this is no shed key; write 32 hexadecimal digits"],
        ),
        (
            b"[[listener]]\nport = 80\nbacklog = 4096",
            &[".toml:3: backlog is the application's", "; add resize = true"],
        ),
        (b"[[listener]]\nport = 80\nresize = true", &[".toml:3: ", "tidegate size"]),
        (
            b"[[path]]\nport = 80\naddress = \"192.0.2.1\"\nresize = true",
            &[".toml:4: unknown field `resize`"],
        ),
        (
            b"[[listener]]\nport = 80\nnotice = { come_back_s = 700 }",
            &[".toml:3: come_back_s = 700 is out of range; give a number from 0 to 655.35"],
        ),
        (
            b"[[listener]]\nport = 80\nmechanism = \"abort\"\nnotice = true",
            &[".toml:4: a notice goes with a RST to the SYN", "add \"rst-syn\" to the mechanism"],
        ),
        (b"\x7fELF\x02\x01\x01\0\xff\xfe\x80\0\0", &["tidegate.toml"]),
    ] {
        let path = file(&stage, content);
        refused_by_both(&stage, &["--config", path], expected);
    }
    refused_by_both(&stage, &["--config", "/run"], &["/run: ", "s a directory", "--config"]);
    refused_by_both(
        &stage,
        &["--config", "/nonexistent/tidegate.toml"],
        &["/nonexistent/tidegate.toml: No such file", "--config"],
    );
    // What `run` refuses because of a key, `check` has told before.
    let path = file(&stage, b"shed_key = \"/nonexistent/key\"\n[[listener]]\nport = 80");
    command_refused(&stage, "check", &["--config", path], &["/nonexistent/key: No such file"]);
}

#[test]
fn a_size_that_cannot_be_told_is_answered_with_what_and_the_fix() {
    if skip_without_root("a_size_that_cannot_be_told_is_answered_with_what_and_the_fix") {
        return;
    }
    let stage = Stage::new("bad-size");
    for (words, expected) in [
        ("", &["--drain-per-s", "--port"][..]),
        ("--drain-per-s 100", &["--burst-per-s", "--burst-s"]),
        ("--drain-per-s 100 --port 80", &["--drain-per-s", "does not go with", "--port"]),
        (
            "--drain-per-s 0 --burst-per-s 10 --burst-s 1",
            &["--drain-per-s 0 is out of range; give connections a second above 0"],
        ),
        (
            "--drain-per-s 10 --burst-per-s 20 --burst-s -1",
            &["--burst-s -1 is out of range; give seconds above 0, up to 86400"],
        ),
        (
            "--drain-per-s 10 --burst-per-s 20 --burst-s 1 --calm-per-s 10",
            &["no queue is long enough; refuse"],
        ),
        (
            "--drain-per-s 10 --burst-per-s 20 --burst-s 1 --patience-s 0",
            &["--patience-s 0 is out of range; give seconds"],
        ),
        ("--port 80 --for 0", &["--for 0 is no time to watch; give whole seconds from 1"]),
        ("--port 80 --drops 2", &["--drops 2 is out of range; give a share from 0 to 0.5"]),
        ("--port 80 --for 1", &["no guard stands here; start one"]),
    ] {
        let arguments: Vec<&str> = words.split_whitespace().collect();
        command_refused(&stage, "size", &arguments, expected);
    }
}

#[test]
fn a_port_of_which_nothing_can_be_seen_is_not_watched_for_an_hour() {
    if skip_without_root("a_port_of_which_nothing_can_be_seen_is_not_watched_for_an_hour") {
        return;
    }
    let stage = Stage::new("unseen");
    let guard = Guard::on_port(&stage.server, 80, "default", "ip");
    for (words, expected) in [
        ("--port 80 --for 3600", "nothing listens on port 80 here; start the server first\n"),
        ("--port 81", "port 81 is not guarded; give one of those that are: 80\n"),
        (
            "--port 80 --address 10.77.0.1",
            "10.77.0.1 has no guard of its own on port 80; name one that has by --address: 0.0.0.0\n",
        ),
    ] {
        let arguments = ["size"].into_iter().chain(words.split_whitespace()).collect::<Vec<_>>();
        let output = run_to_end(&stage.server, &arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{words}: {told}");
        assert_eq!(told, format!("tidegate: {expected}"));
    }
    guard.stop();
}

#[test]
fn a_wrong_agent_is_answered_with_what_and_the_fix() {
    if skip_without_root("a_wrong_agent_is_answered_with_what_and_the_fix") {
        return;
    }
    let stage = Stage::new("bad-agent");
    for (arguments, expected) in [
        (&[][..], &["nobody to heed is named; give --config FILE or --destination"][..]),
        (
            &["--destination", "here"],
            &["--destination here is no network", "; write one like 192.0.2.0/24"],
        ),
        (&["--destination", "192.0.2.1:0"], &["--destination 192.0.2.1:0 is no network"]),
        (&["--destination", "a\nb\u{1b}"], &[r"--destination a\nb\u{1b} is no network"]),
        (
            &["--destination", "::1", "--longest-s", "0"],
            &["--longest-s 0 is out of range; give seconds from 0.01 to 655.35"],
        ),
        (&["--longest-s", "5"], &["--destination"]),
        (&["--destination", "::1", "--config", "x"], &["does not go with"]),
    ] {
        command_refused(&stage, "agent", arguments, expected);
    }
    for (content, expected) in [
        (&b""[..], &[".toml:1: no destination is named; add a [[destination]]"][..]),
        (b"[[destination]]\nnetwork = \"x\"", &[".toml:2: network = \"x\" is no network; write"]),
        (b"[[destination]]\nport = 80", &[".toml:1: missing field `network`"]),
        (
            b"[[destination]]\nnetwork = \"::1\"\nlongest_s = 0",
            &[".toml:3: longest_s = 0 is out of range; give seconds from 0.01"],
        ),
        (b"[[listener]]\nport = 80", &[".toml:1: unknown field `listener`; expected"]),
    ] {
        let path = file(&stage, content);
        command_refused(&stage, "agent", &["--config", path], expected);
    }
}

#[test]
fn what_the_host_cannot_do_is_told_before_anything_is_attached() {
    if skip_without_root("what_the_host_cannot_do_is_told_before_anything_is_attached") {
        return;
    }
    let stage = Stage::new("bad-host");
    stage.server.sysctl("net.ipv4.tcp_syncookies", 0).expect("a sysctl");
    refused_by_both(
        &stage,
        &["--port", "80", "--mechanism", "no-syn-drop"],
        &["port 80", "net.ipv4.tcp_syncookies is 0", "sysctl -w net.ipv4.tcp_syncookies=1"],
    );
    // A bridge has no driver that takes an XDP program.
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let bridge = ["--port", "80", "--mechanism", "rst-syn", "--hook", "driver"];
    let expected = ["the driver of br0 takes no XDP program", "hook = \"ip\""];
    refused(&stage, &[&bridge[..], &["--interface", "br0"]].concat(), &expected);
    // Also where another that is named, and comes first, has such a driver.
    let both = ["--interface", "srv0", "--interface", "br0"];
    refused(&stage, &[&bridge[..], &both].concat(), &expected);
}

/// Does something to the stage's server.
fn does(stage: &Stage, line: &str) {
    stage.server.output(stage.server.command(line)).expect("it is done");
}

/// Asserts that `check` fails by this row, and with one line of these parts.
fn check_fails(stage: &Stage, output: &Output, row: &str, expected: &[&str]) {
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains(&format!("\n  no  {row} ")), "{told}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{stderr:?} should name {part:?}");
    }
    nothing_is_left(stage, "check");
}

/// As in a container that has not been given the host's, or to read it alone.
#[test]
fn where_no_guard_can_be_pinned_is_told_by_check_and_run() {
    if skip_without_root("where_no_guard_can_be_pinned_is_told_by_check_and_run") {
        return;
    }
    let fix = "give a container the host's (-v /sys/fs/bpf:/sys/fs/bpf)";
    for (label, line, why) in [
        ("bad-bpffs", "mount -o remount,bind,ro /sys/fs/bpf", "Read-only file system"),
        // With no folder to mount it on.
        ("no-bpffs", "mount -t tmpfs none /sys/fs", "No such file or directory"),
    ] {
        let stage = Stage::new(label);
        does(&stage, line);
        let expected = ["/sys/fs/bpf", why, fix];
        check_fails(&stage, &run_to_end(&stage.server, &["check"]), "bpffs", &expected);
        refused(&stage, &["--port", "80"], &expected);
    }
}

#[test]
fn check_says_that_bpffs_can_be_mounted_and_does_not_mount_it() {
    if skip_without_root("check_says_that_bpffs_can_be_mounted_and_does_not_mount_it") {
        return;
    }
    let stage = Stage::new("unmounted-bpffs");
    does(&stage, "umount /sys/fs/bpf");
    let output = run_to_end(&stage.server, &["check"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("\n  yes bpffs "), "{told}");
    let found = stage.server.output(stage.server.command("stat -f -c %T /sys/fs/bpf"));
    assert_ne!(found.expect("stat tells the file system").trim(), "bpf_fs");
}

/// As in a rootless container: it has all capabilities, and may do nothing with them.
#[test]
fn another_user_namespace_is_named() {
    if skip_without_root("another_user_namespace_is_named") {
        return;
    }
    let stage = Stage::new("bad-userns");
    let within = |words: &[&str]| {
        let mut command = stage.server.command("unshare --user --map-root-user");
        command.arg(tidegate_program()).args(words);
        ended(&stage, command)
    };
    let expected = ["this is a user namespace of its own", "; run as the host's root"];
    check_fails(&stage, &within(&["check"]), "privileges", &expected);
    let output = within(&["run", "--port", "80"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(expected[0]), "{stderr}");
}

/// (libbpf takes what a vmlinux on the disk says, where there is one.)
#[test]
fn a_kernel_without_btf_is_told_in_one_line() {
    if skip_without_root("a_kernel_without_btf_is_told_in_one_line") {
        return;
    }
    let stage = Stage::new("bad-btf");
    does(&stage, "mount -t tmpfs none /sys/kernel/btf");
    let expected = ["this kernel does not describe its types (BTF); boot one with CONFIG_DEBUG"];
    refused(&stage, &["--port", "80"], &expected);
    let output = run_to_end(&stage.server, &["check"]);
    check_fails(&stage, &output, "describes its types", &expected);
}

#[test]
fn a_full_run_is_told_and_nothing_is_left_in_it() {
    if skip_without_root("a_full_run_is_told_and_nothing_is_left_in_it") {
        return;
    }
    let stage = Stage::new("full-run");
    // A page, for an empty file takes none.
    does(&stage, "mount -t tmpfs -o size=4k none /run");
    stage.server.run(|| fs::write("/run/full", vec![0; 1 << 20]).expect_err("it is full"));
    refused(&stage, &["--port", "80"], &["/run/tidegate/net-", "No space left", "; make room"]);
}

/// As on a host with the hierarchies of v1 alone, or in a container that shows none.
#[test]
fn programs_about_sockets_are_refused_where_no_cgroup2_is_mounted() {
    if skip_without_root("programs_about_sockets_are_refused_where_no_cgroup2_is_mounted") {
        return;
    }
    let stage = Stage::new("no-cgroup2");
    while let Some(root) = stage.server.run(cgroup::root_path) {
        let mut unmount = stage.server.command("umount --lazy");
        unmount.arg(root);
        stage.server.output(unmount).expect("it is unmounted");
    }
    let told = "no cgroup2 hierarchy is mounted here, and programs about sockets stand at its root; \
                mount one (mount -t cgroup2 none DIR), or take";
    for (content, taken) in [
        (&b"socket_option = true\n[[listener]]\nport = 80"[..], "socket_option"),
        (b"[time_wait]\nnegotiate = \"server\"", "what asks for time_wait"),
        (
            b"socket_option = true\n[time_wait]\nclose_swap = true",
            "socket_option and what asks for time_wait",
        ),
    ] {
        let path = file(&stage, content);
        refused_by_both(&stage, &["--config", path], &[&format!("{told} {taken} out")]);
    }
    let path = file(&stage, b"[[listener]]\nport = 80");
    let checked = run_to_end(&stage.server, &["check", "--config", path]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    Guard::start(&stage.server, &["--config", path]).stop();
}

/// A copy of the program, in a folder that others may look into.
fn copied_for_nobody(stage: &Stage) -> &'static str {
    const PROGRAM: &str = "/run/tidegate-for-nobody";
    copy_for_all(&stage.server, &tidegate_program(), PROGRAM);
    stage.server.run(|| {
        fs::set_permissions("/run", fs::Permissions::from_mode(0o755)).expect("a readable /run");
    });
    PROGRAM
}

/// Runs it to its end as nobody, allowed what these further words of setpriv's say.
fn run_as_nobody(stage: &Stage, allowed: &str, program: &str, words: &str) -> Output {
    let line = format!(
        "setpriv --pdeathsig keep --reuid 65534 --regid 65534 --clear-groups {allowed} {program}"
    );
    let mut command = stage.server.command(&line);
    command.args(words.split(' '));
    ended(stage, command)
}

/// How a command ends on the stage's server, and what it says.
fn ended(stage: &Stage, mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = stage.server.spawn(command).expect("it starts");
    child.wait_with_output().expect("tidegate ends")
}

#[test]
fn without_privileges_it_says_which_are_missing() {
    if skip_without_root("without_privileges_it_says_which_are_missing") {
        return;
    }
    let stage = Stage::new("bad-user");
    let program = copied_for_nobody(&stage);
    let explain = "explain --from 10.0.0.1:1 --to 10.0.0.2:2";
    for words in ["run --port 80", "agent --destination ::1", "status", explain, "check"] {
        let output = run_as_nobody(&stage, "", program, words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "tidegate {words} fails");
        assert_eq!(stderr.lines().count(), 1, "tidegate {words}: {stderr}");
        for part in ["CAP_BPF", "CAP_NET_ADMIN", "run as root, or grant"] {
            assert!(stderr.contains(part), "tidegate {words}: {stderr:?} should name {part}");
        }
        nothing_is_left(&stage, words);
    }
}

/// As systemd mounts bpffs, and as tidegate does, only root may look into it.
#[test]
fn another_users_guard_is_not_taken_for_none() {
    if skip_without_root("another_users_guard_is_not_taken_for_none") {
        return;
    }
    let stage = Stage::new("bad-owner");
    let guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
    let chmod = stage.server.command("chmod 700 /sys/fs/bpf");
    stage.server.output(chmod).expect("a bpffs of root's");
    let program = copied_for_nobody(&stage);
    let run = |more: &str, words: &str| {
        let all = format!("+bpf,+perfmon,+net_admin,+sys_admin{more}");
        let allowed = format!("--inh-caps {all} --ambient-caps {all}");
        run_as_nobody(&stage, &allowed, program, words)
    };
    let explain = "explain --from 10.77.0.2:40000 --to 10.77.0.1:80";
    for words in ["status", "metrics", "size --port 80 --for 1", explain, "stop"] {
        let output = run("", words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "tidegate {words}: {told}");
        let missing = "missing CAP_DAC_OVERRIDE, as another user than the daemon's; run as root";
        assert!(told.contains(missing) && told.lines().count() == 1, "tidegate {words}: {told}");
    }
    for words in ["status", "metrics"] {
        let output = run(",+dac_override", words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tidegate {words}: {told}");
    }
    guard.stop();
}

/// A plain `mount -t bpf` lets everybody look into it, and whoever may open a folder may lock it.
#[test]
fn nobody_else_can_claim_the_guard_of_a_daemon_that_was_killed() {
    if skip_without_root("nobody_else_can_claim_the_guard_of_a_daemon_that_was_killed") {
        return;
    }
    let stage = Stage::new("bad-claim");
    let host = &stage.server;
    let output = |words: &str| host.output(host.command(words)).expect("it is done");
    let start = || Guard::on_port(host, 80, "rst-syn", "ip");
    start().kill();
    output("chmod 1777 /sys/fs/bpf");
    let folder = output(&format!("find {} -name net-*", bpf::PINS)).trim().to_owned();
    let claim = || run_as_nobody(&stage, "", "flock", &format!("-n {folder} true"));
    let is_denied = || {
        let claimed = claim();
        let told = String::from_utf8_lossy(&claimed.stderr).into_owned();
        assert!(!claimed.status.success() && told.contains("Permission denied"), "{told}");
    };
    is_denied();
    // As one stands that was made before.
    output(&format!("chmod 755 {} {folder}", bpf::PINS));
    assert!(claim().status.success(), "then it could");
    start().kill();
    is_denied();
    start().stop();
    nothing_is_left(&stage, "a stop");
}

/// A plain `mount -t bpf` lets everybody make a folder in it, before the first daemon does.
#[test]
fn a_folder_that_another_user_has_made_first_is_taken_for_no_guards() {
    if skip_without_root("a_folder_that_another_user_has_made_first_is_taken_for_no_guards") {
        return;
    }
    let stage = Stage::new("bad-folder");
    let host = &stage.server;
    let number = host.output(host.command("stat -Lc %i /proc/self/ns/net")).expect("a number");
    let folder = format!("{}/net-{}", bpf::PINS, number.trim());
    let asked = |words: &[&str]| {
        let output = run_to_end(host, words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.lines().count() == 1, "{words:?}: {told}");
        told
    };
    let is_told = || {
        let fix = format!("; remove it (rm -r {}), and mount bpffs with mode=0700", bpf::PINS);
        for words in [&["run", "--port", "80"][..], &["check"], &["stop"]] {
            let told = asked(words);
            let what = format!("{} belongs to user 65534, who", bpf::PINS);
            assert!(told.contains(&what) && told.trim_end().ends_with(&fix), "{words:?}: {told}");
        }
        for words in [&["status"][..], &["explain", "--from", "10.0.0.1:1", "--to", "10.0.0.2:2"]] {
            assert!(asked(words).contains("no guard stands here"));
        }
        assert!(bpf::pinned(host).is_empty(), "nothing is pinned there");
    };
    let made = run_as_nobody(&stage, "", "mkdir", &format!("-p {folder}/maps {folder}/links"));
    assert!(made.status.success(), "everybody may: {made:?}");
    is_told();
    let nobody = "setpriv --pdeathsig keep --reuid 65534 --regid 65534 --clear-groups";
    let lock = host.command(&format!("{nobody} flock {folder} sleep inf"));
    let lock = host.spawn(lock).expect("it starts");
    let is_free = || host.output(host.command(&format!("flock -n {folder} true"))).is_ok();
    until("nobody has it", || !is_free());
    is_told();
    drop(lock);
    // What is told is the fix.
    does(&stage, &format!("rm -r {}", bpf::PINS));
    does(&stage, "chmod 700 /sys/fs/bpf");
    Guard::on_port(host, 80, "rst-syn", "ip").stop();
    nothing_is_left(&stage, "a stop");
}

/// What `tidegate` says on standard error, and with which code it ends, when it writes to `stdout`.
fn told_when_writing_to(stdout: Stdio, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(tidegate_program());
    command.args(line.split(' ')).stdout(stdout);
    let output = command.output().expect("tidegate runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn whoever_reads_may_stop_and_a_full_disk_is_told() {
    if skip_without_root("whoever_reads_may_stop_and_a_full_disk_is_told") {
        return;
    }
    let size = "size --burst-s 1 --burst-per-s 200 --drain-per-s 100";
    for line in ["check", size, &format!("{size} --json"), "--help"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let told = told_when_writing_to(writer.into(), line);
        assert_eq!(told, (Some(0), String::new()), "tidegate {line} | true");
    }
    for line in ["check", size] {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let (code, stderr) = told_when_writing_to(full.into(), line);
        assert_eq!((code, stderr.lines().count()), (Some(1), 1), "tidegate {line}: {stderr}");
        assert!(stderr.contains("standard output: No space left"), "tidegate {line}: {stderr}");
    }
}
