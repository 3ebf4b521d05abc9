// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel gives SYN cookies of its own while its SYN queue is full, as clients far away make
//! it. Their ACKs are as good as any other's: what `abort` says of a full listen queue holds for
//! them, where the kernel alone drops them in silence whatever its sysctls say.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use tidegate_lab::Counters;
use tidegate_tests::wire::{
    ACK, FIN, HalfOpen, PSH, RST, Segment, TSVAL, WINDOWS_OPTIONS, usual_options,
};
use tidegate_tests::{
    Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, fill, guard_of, listen_queue, packets,
    skip_without_root, until,
};

const PORT: u16 = 80;
const BACKLOG: i32 = 4;
const PLACES: usize = 5;
const QUIET: Duration = Duration::from_millis(100);

/// A host that gives every client a cookie, and a client that has one.
struct Scene {
    stage: Stage,
    server: Stalled,
    guard: Guard,
    to: SocketAddr,
    client: HalfOpen,
}

impl Scene {
    fn set(label: &str, address: &str, mechanism: &str) -> Self {
        Self::before(label, address, mechanism, usual_options(TSVAL))
    }

    /// The client's SYN has these options.
    fn before(label: &str, address: &str, mechanism: &str, options: Vec<u8>) -> Self {
        let stage = Stage::new(label);
        let to = SocketAddr::new(address.parse().expect("an address"), PORT);
        stage.server.sysctl("net.ipv4.tcp_syncookies", 2).expect("the sysctl");
        stage.server.sysctl("net.ipv4.tcp_abort_on_overflow", 1).expect("the sysctl");
        let server = Stalled::new(&stage.server, to, BACKLOG);
        let guard = Guard::start(&stage.server, &["--port", "80", "--mechanism", mechanism]);
        let client = HalfOpen::open(&stage, 33000, to, options);
        Self { stage, server, guard, to, client }
    }

    fn fill(&self) -> Vec<Plain> {
        let crowd = fill(&self.stage.client, self.to, PLACES);
        until("the listen queue fills", || {
            listen_queue(&self.stage.server, self.to) as usize == PLACES
        });
        crowd
    }

    /// Clients that say at once what they want. Returns how many.
    fn speak(&self) -> usize {
        const ROUNDS: usize = 2;
        for _ in 0..ROUNDS {
            self.fill().iter_mut().for_each(|client| _ = client.request(Duration::ZERO));
            assert_eq!(self.server.accept_all().len(), PLACES);
        }
        ROUNDS * PLACES
    }

    /// What comes back for a segment.
    fn answers(&self, segment: &Segment) -> Vec<Segment> {
        self.client.send(segment);
        self.client.collect(QUIET)
    }

    /// A segment is answered with one RST, and counted for this reason.
    fn assert_refused(&self, segment: &Segment, reason: &str) {
        let (to, answers) = (self.to, self.answers(segment));
        let [refusal] = answers.as_slice() else { panic!("{to}, {reason}: {answers:?}") };
        assert_eq!((refusal.flags & RST, refusal.seq), (RST, segment.ack), "{refusal:?}");
        assert_eq!(self.counted(reason, "reset"), 1, "{to}, {reason}");
    }

    fn counted(&self, reason: &str, verdict: &str) -> u64 {
        packets(guard_of(&self.guard.status(), PORT, None), reason, verdict)
    }
}

const FAMILIES: [(&str, &str); 2] = [("4", SERVER_V4), ("6", SERVER_V6)];

#[test]
fn a_full_listen_queue_refuses_them_with_abort() {
    if skip_without_root("a_full_listen_queue_refuses_them_with_abort") {
        return;
    }
    for (family, address) in FAMILIES {
        let scene = Scene::set(&format!("kc-abort-{family}"), address, "abort");
        let _crowd = scene.fill();
        let request = scene.client.segment(ACK | PSH, 0, b"request");
        scene.assert_refused(&request, "ListenQOverflow other");
        scene.assert_refused(&scene.client.segment(ACK, 0, b""), "ListenQOverflow SYN/ACK ACK");
        // What it says right behind that was on its way, whatever room there is by now.
        assert_eq!(scene.server.accept_all().len(), PLACES, "{address}");
        let answers = scene.answers(&request);
        assert!(answers.is_empty(), "{address}: {answers:?}");
        assert_eq!(scene.counted("HollowAnswered", "drop"), 1, "{address}");
        assert_eq!(scene.server.accept_all().len(), 0, "{address}: told, and let in");
        // Who says it again has not heard.
        scene.answers(&request);
        assert_eq!(scene.server.accept_all().len(), 1, "{address}");
        scene.guard.stop();
    }
}

/// The control: the kernel's silence, counted; tcp_abort_on_overflow is for requests only.
#[test]
fn the_kernel_alone_drops_them_in_silence() {
    if skip_without_root("the_kernel_alone_drops_them_in_silence") {
        return;
    }
    for (family, address) in FAMILIES {
        let scene = Scene::set(&format!("kc-default-{family}"), address, "default");
        let _crowd = scene.fill();
        let before = Counters::of(&scene.stage.server).expect("kernel counters");
        let answers = scene.answers(&scene.client.segment(ACK, 0, b""));
        assert!(answers.is_empty(), "{address}: {answers:?}");
        let during = Counters::of(&scene.stage.server).and_then(|now| now.since(&before));
        let during = during.expect("kernel counters");
        for counter in ["TcpExtListenOverflows", "TcpExtListenDrops"] {
            assert_eq!(during.get(counter).expect(counter), 1, "{address}: the kernel's own count");
        }
        assert_eq!(scene.counted("ListenQOverflow SYN/ACK ACK", "pass"), 1, "{address}");
        scene.guard.stop();
    }
}

#[test]
fn where_there_is_a_place_they_are_let_in() {
    if skip_without_root("where_there_is_a_place_they_are_let_in") {
        return;
    }
    for (family, address) in FAMILIES {
        let scene = Scene::set(&format!("kc-room-{family}"), address, "abort");
        let forged = scene.client.segment(ACK, 0, b"");
        let forged = Segment { ack: forged.ack.wrapping_add(77), ..forged };
        scene.answers(&forged);
        assert_eq!(scene.counted("CookieForeign", "pass"), 1, "{address}");
        assert_eq!(listen_queue(&scene.stage.server, scene.to), 0, "{address}: a forged cookie");
        scene.answers(&scene.client.segment(ACK, 0, b""));
        assert_eq!(scene.counted("Handshake", "pass"), 1, "{address}");
        assert_eq!(scene.server.accept_all().len(), 1, "{address}");
        scene.guard.stop();
    }
}

const WINDOW_SCALE: [u8; 2] = [3, 3];

fn has_window_scale(segment: &Segment) -> bool {
    segment.options.windows(2).any(|pair| pair == WINDOW_SCALE)
}

#[test]
fn auto_answers_in_the_kernels_stead_and_keeps_what_its_cookie_loses() {
    if skip_without_root("auto_answers_in_the_kernels_stead_and_keeps_what_its_cookie_loses") {
        return;
    }
    for (family, address) in FAMILIES {
        let set = |mechanism: &str| {
            let label = format!("kc-{mechanism}-{family}");
            Scene::before(&label, address, mechanism, WINDOWS_OPTIONS.to_vec())
        };
        let kernels = set("default");
        assert!(!has_window_scale(&kernels.client.syn_ack), "{address}: the control");
        kernels.guard.stop();

        let scene = set("auto");
        assert_eq!(scene.counted("KernelCookie", "cookie"), 1, "{address}");
        assert!(has_window_scale(&scene.client.syn_ack), "{address}");
        let before = scene.speak();
        // The listen queue is full: silence, since this may be over in a moment.
        let crowd = scene.fill();
        let answers = scene.answers(&scene.client.segment(ACK, 0, b""));
        assert!(answers.is_empty(), "{address}: {answers:?}");
        assert_eq!(scene.counted("ListenQOverflow SYN/ACK ACK", "drop"), 1, "{address}");
        // Nor is what it says in more than one segment, of which the first only brings the cookie.
        let answers = scene.answers(&scene.client.segment(ACK | PSH, 1400, b"its end"));
        assert!(answers.is_empty(), "{address}: {answers:?}");
        // And no more: what it says next brings the cookie again.
        assert_eq!(scene.server.accept_all().len(), PLACES, "{address}");
        scene.answers(&scene.client.segment(ACK | PSH, 0, b"request"));
        assert_eq!(scene.server.accept_all().len(), 1, "{address}");
        let admitted = (before + PLACES + 1) as u64;
        assert_eq!(scene.counted("CookieValid", "admit"), admitted, "{address}");
        drop(crowd);
        scene.guard.stop();
    }
}

/// A client that gives up while it waits connected sends a FIN, and its host would go on asking for what it has asked.
#[test]
fn auto_has_the_host_of_one_who_has_given_up_told() {
    if skip_without_root("auto_has_the_host_of_one_who_has_given_up_told") {
        return;
    }
    for (family, address) in FAMILIES {
        let options = WINDOWS_OPTIONS.to_vec();
        let scene = Scene::before(&format!("kc-left-{family}"), address, "auto", options);
        scene.speak();
        let _crowd = scene.fill();
        let fin = scene.client.segment(ACK | FIN, 7, b"");
        scene.client.send(&scene.client.segment(ACK | PSH, 0, b"request"));
        let answers = scene.answers(&fin);
        assert!(answers.is_empty(), "{address}: it may be the end of a request: {answers:?}");
        sleep(Duration::from_millis(300));
        let answers = scene.answers(&fin);
        let [rst] = answers.as_slice() else { panic!("{address}: {answers:?}") };
        assert_eq!((rst.flags, rst.seq), (RST, fin.ack), "{address}");
        scene.guard.stop();
    }
}

/// Of clients that nobody has heard speak first: with a cookie, and nothing to say, it would wait for ever.
#[test]
fn auto_tells_who_may_wait_for_a_greeting() {
    if skip_without_root("auto_tells_who_may_wait_for_a_greeting") {
        return;
    }
    for (family, address) in FAMILIES {
        let scene = Scene::set(&format!("kc-greeting-{family}"), address, "auto");
        let _crowd = scene.fill();
        let ack = scene.client.segment(ACK, 0, b"");
        scene.assert_refused(&ack, "ListenQOverflow SYN/ACK ACK");
        // What it says right behind that was on its way. Who speaks comes again, and is left to.
        for counted in [("HollowAnswered", "drop"), ("ListenQOverflow other", "drop")] {
            let answers = scene.answers(&scene.client.segment(ACK | PSH, 0, b"request"));
            assert!(answers.is_empty(), "{address}: {answers:?}");
            assert_eq!(scene.counted(counted.0, counted.1), 1, "{address}, {counted:?}");
        }
        scene.guard.stop();
    }
}
