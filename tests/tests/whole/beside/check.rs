// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate check` tells, before anything is attached, what this kernel takes, where connections
//! were lost so far, and what would come of a configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_datapath::cgroup;
use tidegate_lab::Counters;
use tidegate_tests::{
    Answer, Guard, SERVER_V4, SERVER_V6, Stage, Stalled, bpf, fetch, fill, run_to_end,
    skip_without_root, tidegate_program,
};

const CONFIGURATION: &str = r#"interfaces = ["srv0", "late0"]
[[listener]]
port = 80
mechanism = "rst-syn"
hook = "driver"
"#;

#[test]
fn what_the_kernel_takes_where_connections_were_lost_and_what_would_be_guarded_is_told() {
    if skip_without_root("what_the_kernel_takes_where_connections_were_lost") {
        return;
    }
    let stage = Stage::new("check");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    // A backlog of 4 holds 5.
    let _listener = Stalled::new(&stage.server, to, 4);
    let _clients = fill(&stage.client, to, 5);
    for _ in 0..3 {
        let seen = fetch(&stage.client, to, Duration::from_millis(100));
        assert_eq!(seen.answer, Answer::Silence, "the kernel drops it");
    }
    let dropped = Counters::of(&stage.server).expect("counters").get("TcpExtListenDrops");
    let dropped = dropped.expect("a counter");
    assert!(dropped >= 3, "{dropped} dropped");

    let file = "/run/tidegate.toml";
    stage.server.run(move || fs::write(file, CONFIGURATION).expect("a configuration"));
    let output = run_to_end(&stage.server, &["check", "--config", file]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let line = |begins: &str| {
        let found = told.lines().map(str::trim_start).find(|line| line.starts_with(begins));
        let found = found.unwrap_or_else(|| panic!("a line `{begins}`: {told}"));
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for answer in ["describes its types", "privileges", "programs"] {
        assert!(told.contains(&format!("\n  yes {answer} ")), "{told}");
    }
    let listener = format!("{to} listen queue 5 of 4 SYN queue 0 drops {dropped}");
    assert_eq!(line(&to.to_string()), listener, "{told}");
    assert!(told.contains("\nwould be guarded\n"), "{told}");
    assert!(line("* port 80: ").contains("rst-syn at driver; 1 listening now"), "{told}");
    let place = "on srv0 at the driver if it takes XDP, else `run` refuses";
    assert_eq!(line("on "), place, "{told}");
    assert!(line("interface \"late0\" ").contains("is not here or not up"), "{told}");
    let warning = line("srv0 is a veth: ");
    assert!(warning.contains("is lost unless the other end has GRO on"), "{told}");
    assert!(told.contains("hook = \"ip\" needs neither"), "{told}");
    assert!(bpf::pinned(&stage.server).is_empty(), "nothing is attached or pinned");
}

/// A section for each family before one socket for both: the queues that each measures are the other's, too.
#[test]
fn a_socket_that_several_sections_of_auto_watch_is_told_of() {
    if skip_without_root("a_socket_that_several_sections_of_auto_watch_is_told_of") {
        return;
    }
    let stage = Stage::new("shared");
    let both = SocketAddr::new("::".parse().expect("an address"), 80);
    let _listener = Stalled::with(&stage.server, both, 4, |socket| {
        socket.set_only_v6(false).expect("a dual-stack socket");
    });
    let section = |address| format!("[[listener]]\naddress = \"{address}\"\nport = 80\n");
    let file = "/run/tidegate.toml";
    let sections = section(SERVER_V4) + &section(SERVER_V6);
    stage.server.place_file(file, sections).expect("a configuration");
    let warning = "several sections of auto take one listening socket's queues for their own: [::]:80; write one";
    let output = run_to_end(&stage.server, &["check", "--config", file]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains(warning), "{told}");
    let mut guard = Guard::start(&stage.server, &["--config", file]);
    let complaint = guard.complaint().expect("what is shared");
    assert!(complaint.contains(warning), "{complaint}");
    guard.stop();
}

/// A cgroup of the host's, which goes when nobody is in it any more.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(label: &str) -> Self {
        let root = cgroup::root_path().expect("cgroup2 is mounted");
        let folder = root.join(format!("tidegate-{label}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a cgroup");
        Cgroup(folder)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs `tidegate` in a cgroup and a cgroup namespace of its own, as a container's engine does.
fn contained(cgroup: &Path, arguments: &[&str]) -> Command {
    const IN_CGROUP: &str =
        r#"echo $$ > "$0/cgroup.procs" && exec unshare --cgroup --mount sh -c "$@""#;
    const IN_NAMESPACE: &str =
        r#"mkdir -p /run/cgroup && mount -t cgroup2 none /run/cgroup && exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", IN_CGROUP]).arg(cgroup).arg(IN_NAMESPACE).arg(tidegate_program());
    command.args(arguments);
    command
}

/// With the host's network, but a cgroup namespace of its own.
#[test]
fn a_container_whose_cgroups_are_not_the_hosts_is_told_of() {
    if skip_without_root("a_container_whose_cgroups_are_not_the_hosts_is_told_of") {
        return;
    }
    let warning =
        "only the sockets of this container's cgroup are seen; start it with --cgroupns=host";
    let stage = Stage::new("contained");
    let host = &stage.server;
    let file = "/run/tidegate.toml";
    let text = "socket_option = true\n[[listener]]\nport = 80\n";
    host.run(move || fs::write(file, text).expect("a configuration"));
    let cgroup = Cgroup::new("contained");

    let here = run_to_end(host, &["check", "--config", file]);
    let told = String::from_utf8_lossy(&here.stdout);
    let is_whole = !cgroup::shows_a_part();
    assert_eq!(told.contains("  yes root of the cgroups "), is_whole, "{told}");
    assert_eq!(!told.contains(warning), is_whole, "{told}");
    let told = host.output(contained(&cgroup.0, &["check", "--config", file])).expect("it checks");
    assert!(told.contains("  no  root of the cgroups "), "{told}");
    assert_eq!(told.matches(warning).count(), 2, "of the host, and of what would be: {told}");
    let run = contained(&cgroup.0, &["run", "--config", file]);
    let mut guard = Guard::launch(host, run, "guarding ").expect("it guards all the same");
    assert!(guard.complaint().expect("it is told").contains(warning));
    guard.terminate();
}
