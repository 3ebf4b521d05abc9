// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the kernel decides and the server accepts meanwhile, our counts equal its own, but for what is
//! accepted between our look and its decision.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use tidegate_tests::{
    Books, Guard, Nginx, SERVER_V4, Stage, burst, more_addresses, skip_without_root,
};

/// The queue is drained and filled again and again while clients come from two processors.
/// Here our count is made a few hundred nanoseconds before the kernel's decision, and once in
/// some thousands the server accepts a connection in between: then one of our drops was let in.
/// Where the processor is taken away in between it is more often: 12 of 4,411 were seen beside three
/// programs that never sleep. A kind of drop that we missed would be hundreds.
#[test]
fn bursts_against_a_server_that_accepts() {
    if skip_without_root("bursts_against_a_server_that_accepts") {
        return;
    }
    let server = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    for mechanism in ["default", "abort"] {
        let stage = Stage::new("counts-load");
        let nginx = Nginx::start(&stage.server, &["80 backlog=32"]);
        let sources = more_addresses(&stage, 2);
        let guard = Guard::on_port(&stage.server, 80, mechanism, "ip");
        let books = Books::open(&stage);
        for _ in 0..5 {
            let attempts = burst(&stage.client, &sources, server, 1000, 1);
            nginx.freeze();
            let more = burst(&stage.client, &sources, server, 500, 2);
            nginx.thaw();
            drop((attempts, more));
        }
        sleep(Duration::from_millis(100));
        let (told, drops, ours) = books.both(&stage);
        assert!(drops.listen_drops > 1000, "a load that overflows: {drops:?}");
        let most = drops.listen_drops / 200;
        let between = told.listen_drops - drops.listen_drops;
        assert!(between.abs() <= most, "{mechanism}: {told:?}, {drops:?} of {ours}");
        let resets = told.embryonic_resets - drops.embryonic_resets;
        assert!(resets.abs() <= most, "{mechanism}: {told:?}, {drops:?} of {ours}");
        assert_eq!(drops.listen_drops, drops.listen_overflows, "nothing else was dropped");
        guard.stop();
    }
}
