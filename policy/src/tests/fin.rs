// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A FIN: whether it ends its connection.

use super::*;

/// A bare FIN in its place, to a connection with nothing left to read or to acknowledge.
fn bare_fin() -> tg_fin {
    tg_fin {
        connection: TG_CONNECTION_OPEN,
        seq: 1000,
        rcv_nxt: 1000,
        rcv_end: 1500,
        copied_seq: 1000,
        ack: 77,
        snd_una: 70,
        snd_nxt: 77,
        write_seq: 77,
        ..Default::default()
    }
}

/// Shukla 4.2.1: a FIN is the end, one with data is not; and only the very next segment is.
#[test]
fn a_fin_ends_the_connection_in_its_place_alone() {
    let left = |change: &dyn Fn(&mut tg_fin)| {
        let mut fin = bare_fin();
        change(&mut fin);
        let d = decide_fin(TG_RST_FIN, &fin);
        assert_eq!(d.verdict == TG_RESET, d.reason == TG_FIN_ENDS, "{fin:?}");
        d.reason
    };
    assert_eq!(left(&|_| ()), TG_FIN_ENDS);
    assert_eq!(left(&|f| f.payload_bytes = 1), TG_FIN_WITH_DATA);
    assert_eq!(left(&|f| f.is_signed = 1), TG_FIN_SIGNED);
    assert_eq!(left(&|f| f.connection = TG_CONNECTION_NONE), TG_FIN_NO_CONNECTION);
    assert_eq!(left(&|f| f.connection = TG_CONNECTION_CLOSING), TG_FIN_CLOSING);
    for (seq, reason) in [
        (999, TG_FIN_OUTSIDE),
        (1001, TG_FIN_OUT_OF_ORDER),
        (1500, TG_FIN_OUT_OF_ORDER),
        (1501, TG_FIN_OUTSIDE),
        (1000 + 0x8000_0000, TG_FIN_OUTSIDE),
    ] {
        assert_eq!(left(&|f| f.seq = seq), reason, "sequence number {seq}");
    }
    for (ack, reason) in
        [(69, TG_FIN_BAD_ACK), (70, TG_FIN_ENDS), (77, TG_FIN_ENDS), (78, TG_FIN_BAD_ACK)]
    {
        assert_eq!(left(&|f| f.ack = ack), reason, "acknowledges {ack}");
    }
    // A window that is closed still takes a FIN.
    assert_eq!(left(&|f| f.rcv_end = f.rcv_nxt), TG_FIN_ENDS);
    assert_eq!(decide_fin(TG_HALF_CLOSE, &bare_fin()).reason, TG_FIN_HALF_CLOSE);
}

#[test]
fn strictly_nothing_may_be_unread_or_on_its_way() {
    let reason = |rule, fin: &tg_fin| decide_fin(rule, fin).reason;
    let unread = tg_fin { copied_seq: 999, ..bare_fin() };
    let unacked = tg_fin { ack: 76, ..bare_fin() };
    let unsent = tg_fin { write_seq: 78, ..bare_fin() };
    for (fin, strict) in
        [(unread, TG_FIN_UNREAD), (unacked, TG_FIN_UNACKED), (unsent, TG_FIN_UNACKED)]
    {
        assert_eq!(reason(TG_RST_FIN, &fin), TG_FIN_ENDS);
        assert_eq!(reason(TG_RST_FIN_STRICT, &fin), strict);
    }
    assert_eq!(reason(TG_RST_FIN_STRICT, &bare_fin()), TG_FIN_ENDS);
}

/// What an application says of its own socket goes before the configuration.
#[test]
fn the_application_has_the_last_word() {
    let mut case = tg_case { fin: bare_fin(), ..Default::default() };
    for (configured, said, verdict) in [
        (TG_HALF_CLOSE, 0, TG_PASS),
        (TG_RST_FIN, 0, TG_RESET),
        (TG_RST_FIN, TG_HALF_CLOSE + 1, TG_PASS),
        (TG_HALF_CLOSE, TG_RST_FIN + 1, TG_RESET),
        (TG_HALF_CLOSE, TG_RST_FIN_STRICT + 1, TG_RESET),
    ] {
        (case.rules.fin, case.fin_said) = (configured, said);
        assert_eq!(agree(&case).fin.verdict, verdict, "{configured}, said {said}");
    }
}
