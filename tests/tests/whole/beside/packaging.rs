// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A minute after it has the program a host is guarded: `make install` and the Debian package put in
//! place what the units name, the units allow what the daemons need, and removal leaves nothing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_lab::{Namespace, skip_without};
use tidegate_tests::{Guard, Stage, bpf, tidegate_program};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Both daemons' units, their configurations, and how each says that it stands.
const DAEMONS: [(&str, &str, &str); 2] = [
    ("tidegate.service", "tidegate.toml", "guarding * port 443 with auto"),
    ("tidegate-agent.service", "agent.toml", "heeding 192.0.2.0/24 port 443"),
];

/// A socket on the host, as `NOTIFY_SOCKET` names systemd's.
const SUPERVISOR: &str = "/run/supervisor";

/// What systemctl answers of a unit that runs as it is shipped, or with one drop-in, and where it writes what it is
/// asked.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >>/run/asked
case "$1" in
show)
	drop_in="/run/systemd/system/$5.conf"
	[ -e "$drop_in" ] || drop_in=
	value=$(sed -n "s/^$3=//p" "/usr/lib/systemd/system/$5" $drop_in)
	case "$3" in
	ExecStart) echo "{ path=/usr/bin/tidegate ; argv[]=$value ; pid=7 }" ;;
	*) echo "$value" | tr A-Z a-z ;;
	esac ;;
esac
"#;

/// A command of somebody whose new files nobody else may read.
fn private(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$@\"", "sh", program]);
    command
}

/// `make` with the program that the workspace built, in a folder that stands for `/`.
fn make(target: &str, folder: &Path, settings: &[&str]) -> Output {
    let mut command = private("make");
    command.args(["--no-print-directory", "-C", WORKSPACE, target]).args(settings);
    command.arg(format!("DESTDIR={}", folder.display()));
    command.arg(format!("TIDEGATE={}", tidegate_program().display()));
    command.output().expect("make runs")
}

/// The value of a unit's setting.
fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{unit} sets {name}"))
}

/// A shipped configuration whose examples are taken in.
fn taken_in(configuration: &str) -> String {
    let lines = configuration.lines().map(|line| match line.strip_prefix('#') {
        Some(example) if !example.starts_with(' ') => example,
        _ => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_is_installed_is_where_the_units_say_and_an_operators_configuration_stays() {
    let root = TempDir::new().expect("a temporary folder");
    let place = |path: &str| root.path().join(path.trim_start_matches('/'));
    let settings = ["PREFIX=/opt/tidegate", "SYSCONFDIR=/opt/etc"];
    let done = make("install", root.path(), &settings);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut hidden = Command::new("find");
    hidden.arg(root.path()).args(["-mindepth", "1", "!", "-perm", "-o=r"]);
    let hidden = String::from_utf8(hidden.output().expect("find runs").stdout).expect("names");
    assert_eq!(hidden, "", "everyone may read it");
    for (unit, configuration, _) in DAEMONS {
        let path = place("/opt/tidegate/lib/systemd/system").join(unit);
        let unit = fs::read_to_string(path).expect("a unit");
        let starts: Vec<&str> = setting(&unit, "ExecStart").split(' ').collect();
        assert!(place(starts[0]).is_file(), "{} is installed", starts[0]);
        let configured = starts.last().expect("a configuration is named");
        assert!(configured.ends_with(configuration), "{unit}");
        assert!(place(configured).is_file(), "{configured} is installed");
        assert_eq!(setting(&unit, "ExecReload"), "/bin/kill -HUP $MAINPID");
        let manual = setting(&unit, "Documentation").trim_start_matches("file://");
        assert!(place(manual).is_file(), "{manual} is installed");
    }
    let mine = "[[listener]]\nport = 8443\n";
    fs::write(place("/opt/etc/tidegate/tidegate.toml"), mine).expect("a configuration");
    for target in ["install", "uninstall"] {
        assert!(make(target, root.path(), &settings).status.success(), "make {target}");
        let left = fs::read_to_string(place("/opt/etc/tidegate/tidegate.toml"));
        assert_eq!(left.expect("a configuration"), mine, "after make {target}");
    }
    let mut left = Command::new("find");
    left.arg(root.path()).args(["-type", "f", "-printf", "%f "]);
    let left = String::from_utf8(left.output().expect("find runs").stdout).expect("names");
    let mut left: Vec<&str> = left.split_whitespace().collect();
    left.sort_unstable();
    assert_eq!(left, ["agent.toml", "tidegate.toml"], "nothing else is left");
}

#[test]
fn without_a_program_make_install_says_what_makes_it() {
    let root = TempDir::new().expect("a temporary folder");
    for (setting, program) in [
        ("TIDEGATE=nowhere/tidegate", "nowhere/tidegate"),
        ("CARGO_TARGET_DIR=nowhere", "nowhere/release/tidegate"),
    ] {
        let mut command = Command::new("make");
        command.args(["--no-print-directory", "-C", WORKSPACE, "install", setting]);
        command.arg(format!("DESTDIR={}", root.path().display()));
        let done = command.output().expect("make runs");
        assert!(!done.status.success());
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(told.starts_with(&format!("{program} is missing: make build makes it")), "{told}");
    }
    assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 0, "nothing half-installed");
}

/// This host, but for what is changed on it: that ends with its namespace.
struct Host {
    namespace: Namespace,
}

impl Host {
    const ROOT: &str = "/run/host/root";

    fn new(namespace: &Namespace) -> Self {
        let host = Host { namespace: namespace.clone() };
        let root = Self::ROOT;
        for line in [
            "mkdir -p /run/host",
            "mount -t tmpfs none /run/host",
            "mkdir /run/host/changed /run/host/work /run/host/root",
            "mount -t overlay none -o lowerdir=/,upperdir=/run/host/changed,workdir=/run/host/work /run/host/root",
            &format!("mount --rbind /dev {root}/dev"),
            &format!("mount --rbind /proc {root}/proc"),
            &format!("mount --rbind /sys {root}/sys"),
            &format!("mount -t tmpfs none {root}/run"),
            &format!("mount -t tmpfs none {root}/tmp"),
        ] {
            host.namespace.output(host.namespace.command(line)).expect("it is mounted");
        }
        host
    }

    /// systemd is said to run, with every unit active; returns what it is asked by a command, and what
    /// that tells.
    fn under_systemd(&self, line: &str) -> (String, String) {
        self.told("mkdir -p /run/systemd/system");
        self.write("/run/asked", String::new());
        self.write("/usr/bin/systemctl", SYSTEMCTL.to_owned());
        let told = self.told(line);
        self.told("rm -r /run/systemd");
        (self.read("/run/asked"), told)
    }

    /// The same when the package is put on once more.
    fn upgraded(&self) -> (String, String) {
        self.under_systemd("dpkg --install /tmp/tidegate.deb")
    }

    /// The same with a drop-in to the guard's unit.
    fn upgraded_with(&self, drop_in: &str) -> (String, String) {
        self.told("mkdir -p /run/systemd/system");
        self.write("/run/systemd/system/tidegate.service.conf", format!("[Service]\n{drop_in}"));
        self.upgraded()
    }

    /// What a command prints there, which must end well.
    fn told(&self, line: &str) -> String {
        let line = format!("chroot {} {line}", Self::ROOT);
        self.namespace.output(self.namespace.command(&line)).expect("it ends well")
    }

    fn path(path: &str) -> String {
        format!("{}{path}", Self::ROOT)
    }

    fn read(&self, path: &str) -> String {
        self.namespace.read_file(Self::path(path)).expect("a file")
    }

    fn has(&self, path: &str) -> bool {
        let path = Self::path(path);
        self.namespace.run(move || fs::exists(path).expect("a readable folder"))
    }

    fn write(&self, path: &str, text: String) {
        let path = Self::path(path);
        self.namespace.run(move || fs::write(path, text).expect("a written file"));
    }

    /// Starts what a unit starts, allowed no more than the unit allows.
    fn start_unit(&self, unit: &str, sign: &str) -> Guard {
        let path = format!("/usr/lib/systemd/system/{unit}");
        // What it does not know it tells on standard error, and ends well.
        self.write("/run/verify", format!("exec systemd-analyze verify {path} 2>&1\n"));
        assert_eq!(self.told("sh /run/verify"), "", "{unit} is a unit");
        let unit = self.read(&path);
        let manual = setting(&unit, "Documentation").trim_start_matches("file://");
        assert!(self.has(manual), "{manual} is installed");
        assert_eq!(setting(&unit, "NoNewPrivileges"), "yes");
        let allowed = setting(&unit, "CapabilityBoundingSet").to_lowercase();
        let allowed = allowed.replace("cap_", "+").replace(' ', ",");
        let as_allowed = format!("setpriv --no-new-privs --bounding-set -all,{allowed}");
        let told = self.supervisor();
        let line = format!("env NOTIFY_SOCKET={SUPERVISOR} {as_allowed}");
        let daemon = self.start(&format!("{line} {}", setting(&unit, "ExecStart")), sign);
        assert_eq!(setting(&unit, "Type"), "notify");
        let mut said = [0; 64];
        let length = told.recv(&mut said).expect("it says that it stands");
        assert_eq!(String::from_utf8_lossy(&said[..length]), "READY=1\n");
        daemon
    }

    /// Where systemd would hear what a daemon says of itself.
    fn supervisor(&self) -> UnixDatagram {
        let path = Self::path(SUPERVISOR);
        self.namespace.run(move || {
            let _ = fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
            socket
        })
    }

    /// Starts a daemon there, whose first line begins so.
    fn start(&self, line: &str, sign: &str) -> Guard {
        let command = self.namespace.command(&format!("chroot {} {line}", Self::ROOT));
        Guard::launch(&self.namespace, command, sign).unwrap_or_else(|told| panic!("{told:?}"))
    }
}

/// The package of the program that the workspace built, in this folder.
fn package(folder: &Path) -> PathBuf {
    let mut build = private("packaging/deb/build");
    build.current_dir(WORKSPACE).arg(tidegate_program()).arg(folder);
    let built = build.output().expect("the package is built");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut files = fs::read_dir(folder).expect("a folder").flatten();
    files.next().expect("a package").path()
}

/// MIT, Apache-2.0 and the BSD licences ask for it of whoever hands a binary on.
#[test]
fn the_package_brings_the_notices_of_all_whose_code_is_in_the_program() {
    const TEST: &str = "the_package_brings_the_notices_of_all_whose_code_is_in_the_program";
    if skip_without(TEST, &[("dpkg-shlibdeps", "dpkg-dev"), ("python3", "python3")]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let unpacked = folder.path().join("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package(folder.path())).arg(&unpacked);
    assert!(unpack.status().expect("dpkg-deb runs").success());
    let read = |name: &str| fs::read_to_string(unpacked.join("usr/share/doc/tidegate").join(name));
    let copyright = read("copyright").expect("what Debian asks for");
    let named = copyright.split_whitespace().map(|word| word.trim_end_matches(['.', ',']));
    let licences: Vec<&str> = named.filter(|word| word.ends_with(".txt")).collect();
    assert_eq!(licences.len(), 5, "{copyright}");
    for text in licences {
        assert!(read(text).is_ok(), "{text} is installed");
    }
    let notices = read("third-party.txt").expect("the notices");
    for part in ["libbpf, in libbpf-sys ", "Redistribution and use in source and binary forms"] {
        assert!(notices.contains(part), "{part}");
    }
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    tree.current_dir(WORKSPACE).args(["tree", "--locked", "--offline", "--package", "tidegate"]);
    tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let tree = String::from_utf8(tree.output().expect("cargo tells").stdout).expect("names");
    let mut others = 0;
    for line in tree.lines().filter(|line| !line.starts_with("tidegate")) {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let version = words.next().expect("a version").trim_start_matches('v');
        assert!(notices.contains(&format!("\n{name} {version} (")), "{name} {version}");
        others += 1;
    }
    assert!(others > 50, "{tree}");
    let [double, single] = ["=", "-"].map(|line| line.repeat(78));
    let texts = notices.split(&double).filter_map(|part| part.split_once(&single));
    let texts: Vec<Vec<_>> = texts.map(|(_, text)| text.split_whitespace().collect()).collect();
    let mut once = BTreeSet::new();
    assert!(texts.iter().all(|text| once.insert(text)), "each text is there once");
}

#[test]
fn the_package_is_put_on_runs_as_its_units_allow_and_is_gone_when_removed() {
    const TEST: &str = "the_package_is_put_on_runs_as_its_units_allow_and_is_gone_when_removed";
    let needed = [
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("systemd-analyze", "systemd"),
        ("setpriv", "util-linux"),
        ("curl", "curl"),
    ];
    if skip_without(TEST, &needed) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let package = package(folder.path());
    let mut depends = Command::new("dpkg-deb");
    depends.arg("--field").arg(&package).arg("Depends");
    let depends = String::from_utf8(depends.output().expect("it is read").stdout).expect("names");
    assert!(depends.contains("libelf"), "it is linked with what it depends on: {depends}");
    assert!(depends.contains("procps"), "the units reload by /bin/kill: {depends}");
    let package = fs::read(package).expect("a readable package");

    let stage = Stage::new("packaging");
    let host = Host::new(&stage.server);
    let put = Host::path("/tmp/tidegate.deb");
    stage.server.run(move || fs::write(put, package).expect("the package on the host"));
    host.told("dpkg --install /tmp/tidegate.deb");
    assert!(host.told("dpkg-query --list tidegate").contains("\nii  tidegate"));

    for (unit, configuration, sign) in DAEMONS {
        let configuration = format!("/etc/tidegate/{configuration}");
        host.write(&configuration, taken_in(&host.read(&configuration)));
        let mut daemon = host.start_unit(unit, sign);
        assert!(host.told("tidegate status").contains("443"), "{unit} is at work");
        daemon.terminate();
        assert!(bpf::pinned(&stage.server).is_empty(), "nothing is pinned after {unit}");
    }

    let mut figures = host.start_unit("tidegate-metrics.service", "serving http://127.0.0.1:9818");
    let curl = stage.server.command("curl --silent http://127.0.0.1:9818/metrics");
    let told = stage.server.output(curl).expect("they are served");
    assert!(told.contains("\ntidegate_guard_attached 0.0\n"), "{told}");
    figures.terminate();

    let (asked, _) = host.upgraded();
    for unit in ["tidegate.service", "tidegate-agent.service", "tidegate-metrics.service"] {
        assert!(asked.contains(&format!("try-restart {unit}\n")), "{asked}");
    }
    let good = host.read("/etc/tidegate/tidegate.toml");
    host.write("/etc/tidegate/tidegate.toml", "[[listener]]\nport = 80\nrefusals = 9\n".to_owned());
    let (asked, told) = host.upgraded();
    assert!(asked.contains("try-restart tidegate-agent.service\n"), "{asked}");
    assert!(!asked.contains("try-restart tidegate.service"), "{asked}");
    assert!(!asked.contains("try-restart tidegate-metrics.service"), "it reads that one: {asked}");
    assert!(
        told.contains("goes on as it was: tidegate: /etc/tidegate/tidegate.toml:3: "),
        "{told}"
    );
    host.write("/etc/tidegate/tidegate.toml", good);

    // Root may read it, and the unit's root may not.
    for (unit, configuration, _) in DAEMONS {
        let configuration = format!("/etc/tidegate/{configuration}");
        host.told(&format!("chown 1000 {configuration}"));
        host.told(&format!("chmod 600 {configuration}"));
        let (asked, told) = host.upgraded();
        assert!(!asked.contains(&format!("try-restart {unit}")), "{asked}");
        assert!(told.contains(&format!("{unit} was not started anew and goes on as it was: ")));
        assert!(told.contains(&format!("(chown root {configuration})")), "{told}");
        host.told(&format!("chown root {configuration}"));
        host.told(&format!("chmod 644 {configuration}"));
    }

    // Nor in a folder of another's, which it may not look into. Making root the file's owner would not do.
    let configuration = "/etc/tidegate/tidegate.toml";
    host.told(&format!("cp {configuration} /tmp/tidegate.toml"));
    host.told("install --directory --owner 1000 --mode 700 /tmp/home");
    host.told(&format!("mv {configuration} /tmp/home/tidegate.toml"));
    host.told(&format!("ln --symbolic /tmp/home/tidegate.toml {configuration}"));
    let (_, told) = host.upgraded();
    assert!(told.contains("put it where root may look into every folder"), "{told}");
    host.told(&format!("mv /tmp/tidegate.toml {configuration}"));

    // What runs as another user pins as that one, in folders that the unit's root could not look into.
    let pins = bpf::PINS;
    host.told(&format!("install --directory --owner nobody --mode 700 {pins}"));
    assert!(!host.upgraded().0.contains("try-restart tidegate.service"));
    let (asked, told) = host.upgraded_with(
        "User=nobody\nAmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN CAP_SYS_ADMIN\n",
    );
    assert!(asked.contains("try-restart tidegate.service\n"), "{asked}{told}");
    host.told(&format!("rmdir {pins}"));

    let good = host.read("/etc/tidegate/agent.toml");
    host.write("/etc/tidegate/agent.toml", "[[destination]]\nnetworks = 9\n".to_owned());
    let (asked, told) = host.upgraded();
    assert!(asked.contains("try-restart tidegate.service\n"), "{asked}");
    assert!(!asked.contains("try-restart tidegate-agent.service"), "{asked}");
    assert!(told.contains("goes on as it was: tidegate: /etc/tidegate/agent.toml:2: "), "{told}");
    host.write("/etc/tidegate/agent.toml", good);

    let mut by_hand = host.start("tidegate run --port 8080", "guarding * port 8080");
    let run = "ip link set lo up && exec tidegate run --port 8081\n";
    host.write("/run/elsewhere", run.to_owned());
    let mut elsewhere = host.start("unshare --net sh /run/elsewhere", "guarding * port 8081");
    let (asked, _) = host.under_systemd("dpkg --remove tidegate");
    by_hand.ends("when the package is removed");
    elsewhere.ends("in whichever network namespace it is");
    let stopped = asked.lines().find_map(|line| line.strip_prefix("disable --now "));
    let stopped: Vec<&str> = stopped.unwrap_or_default().split(' ').collect();
    for unit in ["tidegate.service", "tidegate-agent.service", "tidegate-metrics.service"] {
        assert!(stopped.contains(&unit), "{unit} is stopped for good: {asked}");
    }
    assert!(asked.ends_with("daemon-reload\n"), "and forgotten: {asked}");
    assert!(bpf::pinned(&stage.server).is_empty(), "nothing is pinned without the package");
    assert!(!host.has("/usr/bin/tidegate"), "the program is gone");
    assert!(host.has("/etc/tidegate/tidegate.toml"), "what was configured stays");
    host.told("dpkg --purge tidegate");
    assert!(!host.has("/etc/tidegate"), "but not when the package is purged");
}
