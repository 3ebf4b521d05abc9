// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cookie of ours: what it keeps, and for how long.

use super::*;

#[test]
fn a_cookie_keeps_its_options_and_ages() {
    let mut case = tg_case { epoch: 1000, client_isn: 7, ..Default::default() };
    case.options = tg_cookie_options { mss: 1460, wscale: 7, sack: 1, ecn: 0, padding: [0; 3] };
    case.keys.current = tg_key { k0: 1, k1: 2 };
    let made = agree(&case).made.isn;
    case.cookie = made;
    for (later, good) in [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0), (u32::MAX, 1)] {
        case.epoch = 1000u32.wrapping_add(later);
        let answers = agree(&case);
        assert_eq!(answers.opened_ok, good, "after {later} epochs");
        if good == 1 {
            assert_eq!(answers.opened, case.options);
        }
    }
    // A rotation: the key that made it is now the previous one.
    case.epoch = 1000;
    case.keys.previous = case.keys.current;
    case.keys.current = tg_key { k0: 3, k1: 4 };
    assert_eq!(agree(&case).opened_ok, 1);
    case.keys.previous = tg_key { k0: 5, k1: 6 };
    assert_eq!(agree(&case).opened_ok, 0);
}
