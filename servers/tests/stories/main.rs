// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same stories, told of every server and every way in which it gets its events.

mod counts;
mod crowds;
mod files;
mod fuzz;
mod http;
#[cfg(feature = "in-kernel")]
mod in_kernel;
mod paths;
mod running;
mod site;
mod start;

macro_rules! tests {
    ($($module:ident: $($story:ident),+;)+) => {
        $($(
            #[test]
            fn $story() {
                crate::$module::$story(WAY);
            }
        )+)+
    };
}

macro_rules! long_tests {
    ($($module:ident: $($story:ident),+;)+) => {
        $($(
            #[test]
            #[ignore = "takes long"]
            fn $story() {
                crate::$module::$story(WAY);
            }
        )+)+
    };
}

/// All stories, with one server.
macro_rules! stories_of {
    ($name:ident, $server:ident, $events:expr) => {
        mod $name {
            use tidegate_servers::ServerKind;

            use crate::running::Way;

            const WAY: Way = Way { server: ServerKind::$server, events: $events };

            tests! {
                http:
                    pipelined_requests_are_all_answered,
                    a_large_download_is_whole,
                    a_long_reply_and_a_short_one_share_a_connection,
                    a_request_body_is_not_taken_for_a_request,
                    a_body_that_comes_behind_the_last_reply_does_not_cost_it,
                    requests_behind_the_last_one_do_not_cost_its_reply,
                    malformed_requests_get_400_and_the_server_goes_on,
                    half_a_request_is_given_up_even_when_it_trickles,
                    who_sends_without_end_is_given_up,
                    who_was_answered_a_moment_ago_is_not_idle,
                    whoever_stops_it_does_not_wait_for_all_its_work,
                    resets_are_counted_as_dead_and_harm_nobody,
                    the_cost_is_paid_for_every_reply,
                    http_1_0_closes_unless_asked_to_stay,
                    a_client_that_says_that_it_closes_gets_no_word_and_closes_first,
                    it_may_say_so_with_its_last_request_and_its_end,
                    a_client_that_only_listens_gets_all,
                    who_only_listens_and_does_not_read_is_waited_for,
                    half_a_request_gets_408,
                    who_says_nothing_is_closed_without_a_word,
                    an_empty_line_behind_a_body_begins_no_request,
                    who_sends_empty_lines_is_idle,
                    a_request_may_come_in_pieces,
                    what_is_not_served_is_refused_by_name,
                    a_page_is_computed_for_each_request;
                files:
                    files_of_every_size_are_whole_on_one_connection,
                    head_tells_the_length_and_sends_no_body,
                    who_has_the_file_is_told_so,
                    directories_and_links_inside_are_followed,
                    what_is_outside_is_not_found_and_the_connection_goes_on,
                    pipelined_requests_are_answered_in_order,
                    slow_readers_hold_up_nobody_and_get_all,
                    a_file_that_shrinks_ends_its_connection_early,
                    nothing_is_written_to_files;
                crowds:
                    two_thousand_are_held_at_once,
                    every_limit_serves_everyone,
                    saturated_dynamic_lets_in_one_for_each_that_has_left,
                    workers_share_the_port,
                    a_busy_worker_holds_up_no_other;
                counts:
                    what_clients_saw_accepted_is_what_was_accepted,
                    a_running_server_tells_how_it_does,
                    calls_for_events_are_counted;
                fuzz:
                    nonsense_harms_nobody;
            }

            long_tests! {
                crowds: ten_thousand_are_held_at_once;
                fuzz: much_nonsense_harms_nobody;
            }
        }
    };
}

stories_of!(userver_select, Userver, Some(tidegate_servers::EventsKind::Select));
stories_of!(userver_poll, Userver, Some(tidegate_servers::EventsKind::Poll));
stories_of!(userver_epoll, Userver, Some(tidegate_servers::EventsKind::Epoll));
stories_of!(userver_io_uring, Userver, Some(tidegate_servers::EventsKind::IoUring));
stories_of!(knot_c, KnotC, None);
stories_of!(knot_a, KnotA, None);
stories_of!(tux, Tux, None);
