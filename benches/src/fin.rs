// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What rst-fin costs a packet, by BPF_PROG_TEST_RUN.

use std::net::{SocketAddr, TcpListener, TcpStream};

use tidegate_policy::raw::{TG_RST_FIN, tg_rules};

use crate::guard::{self, PORT};
use crate::numbers::Rounds;
use crate::segment;
use crate::shed::Row;
use crate::test_run::{self, Own};

const ROUNDS: usize = 11;
const REPEAT: i32 = 400_000;
/// Each sends a RST by loopback, which has to be worked off.
const REPEAT_ENDED: i32 = 40_000;
const ADDRESS: &str = "127.0.0.3";
/// What tc programs return to pass.
const PASS: u32 = u32::MAX;

/// Measures at the IP entry: what rst-fin costs those whom it does not concern, and those whom it
/// does.
pub fn measure(own: &Own) -> Vec<Row> {
    let address = SocketAddr::new(ADDRESS.parse().expect("an address"), PORT);
    let listener: TcpListener = guard::listener(address, 128);
    let client = TcpStream::connect(address).expect("there is room");
    let (server, _) = listener.accept().expect("it has come");
    let from = client.local_addr().expect("connected");
    let fin = segment::fin(from, address, segment::sequence_numbers(&server));
    let early = segment::fin(from, address, (7, 7));
    let ack = segment::ack(from, address);

    let without = guard::with_rules(tg_rules::default());
    let with = guard::with_rules(tg_rules { fin: TG_RST_FIN, ..Default::default() });
    for programs in [&without, &with] {
        guard::watch(programs, 0);
    }
    let mut rows = Vec::new();
    for (name, programs, packet, target_ns) in [
        ("established, calm, rst-fin, tc", &with, &ack, Some(15.0)),
        ("FIN, no rst-fin, tc", &without, &fin, Some(15.0)),
        ("FIN, rst-fin, left alone, tc", &with, &early, None),
    ] {
        let program = programs.program("tidegate_ip").expect("a program");
        let rounds = (0..ROUNDS).map(|_| {
            let (nothing_ns, _) = test_run::test_run(own.program("empty_tc"), packet, REPEAT);
            let (gross_ns, returned) = test_run::test_run(program, packet, REPEAT);
            assert_eq!(returned, PASS, "{name}: another verdict");
            f64::from(gross_ns) - f64::from(nothing_ns)
        });
        rows.push((name.to_owned(), Rounds(rounds.collect()), target_ns));
    }

    // It leaves as a RST: the FIN is put back before each run, as a SYN is.
    own.ask(&fin, 0);
    let wrapper = own.program("fresh_tc");
    let rounds = (0..ROUNDS).map(|_| {
        own.then("next_tc", own.program("empty_tc"));
        let (nothing_ns, _) = test_run::test_run(wrapper, &fin, REPEAT_ENDED);
        own.then("next_tc", with.program("tidegate_ip").expect("a program"));
        let (gross_ns, returned) = test_run::test_run(wrapper, &fin, REPEAT_ENDED);
        assert_eq!(returned, PASS, "it goes up");
        f64::from(gross_ns) - f64::from(nothing_ns)
    });
    rows.push(("FIN -> RST both ways, sent, tc".to_owned(), Rounds(rounds.collect()), None));
    let ended = guard::counted(&with, "FinEnds");
    assert!(ended >= ROUNDS as u64 * REPEAT_ENDED as u64, "only {ended} were ended");
    rows
}
