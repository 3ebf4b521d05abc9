// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy on one set of inputs, to be held against its BPF build (`include/agree*.h`).

use crate::raw;

macro_rules! agree {
    ($($what:literal $name:ident by $native:ident: $case:ident -> $answers:ident;)+) => {$(
        #[doc = $what]
        pub fn $name(case: &raw::$case) -> raw::$answers {
            let mut answers = raw::$answers::default();
            // SAFETY: the function reads and writes only through these valid references.
            unsafe { raw::$native(case, &mut answers) };
            answers
        }
    )+};
}

agree! {
    "Every decision on one set of inputs."
    agree by tg_native_agree: tg_case -> tg_answers;
    "One step of persistent dropping on one set of inputs."
    agree_shed by tg_native_agree_shed: tg_shed_case -> tg_shed_answers;
    "Every decision about who holds TIME-WAIT on one set of inputs."
    agree_time_wait by tg_native_agree_time_wait: tg_tw_case -> tg_tw_answers;
    "Every decision about notices on one set of inputs."
    agree_notice by tg_native_agree_notice: tg_notice_case -> tg_notice_answers;
    "One SYN before a network's fair share, on one set of inputs."
    agree_share by tg_native_agree_share: tg_share_case -> tg_share_answers;
    "One look at how an application accepts, on one set of inputs."
    agree_accepts by tg_native_agree_accepts: tg_accepts_case -> tg_accepts_answers;
}
