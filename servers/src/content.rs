// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server has to give.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::ServerError;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::{Method, Refusal, Request, number};
use crate::settings::Settings;
use crate::work::Work;

/// The longest that a page is computed, in µs: it holds up everyone else.
pub const COMPUTED_MAX_US: u64 = 1_000_000;

/// What a server has to give: to all its threads the same.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Any number of bytes to who asks for `/bytes/N`, and so many to everyone else.
    Pattern {
        /// The body of an ordinary reply.
        ordinary_bytes: u64,
    },
    /// Files, to who asks for them by name.
    Files(Arc<Mutex<Files>>),
}

impl Content {
    /// # Errors
    /// [`ServerError::Root`].
    pub(crate) fn of(settings: &Settings) -> Result<Self, ServerError> {
        match &settings.root {
            None => Ok(Self::Pattern { ordinary_bytes: settings.body_bytes }),
            Some(root) => Files::below(root).map(|files| Self::Files(Arc::new(Mutex::new(files)))),
        }
    }

    /// The reply to a request and the steps of work that computing it took, or why it is refused.
    pub(crate) fn reply_to(
        &self,
        request: &Request,
        work: &mut Work,
    ) -> Result<(Reply, u64), Refusal> {
        if let Some(cost_us) = computed_us(&request.target)? {
            let (steps, end) = work.burn(cost_us);
            return Ok((Reply::of_text(&format!("{end:016x}\n"), request), steps));
        }
        let files = match self {
            Self::Pattern { ordinary_bytes } => {
                return pattern_bytes(&request.target, *ordinary_bytes)
                    .map(|length| (Reply::of_pattern(length, request), 0));
            }
            Self::Files(files) => files,
        };
        if request.method == Method::Send {
            return Err(Refusal::MethodUnknown);
        }
        // What a thread that panicked has left of it is as good as any.
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = match files.find(&request.target, Instant::now()) {
            Ok(resource) if resource.is_known_to(request) => {
                Reply::not_modified(&resource, request)
            }
            Ok(resource) => Reply::of_resource(&resource, request),
            Err(absence) => Reply::absent(absence, request),
        };
        Ok((reply, 0))
    }
}

fn computed_us(target: &str) -> Result<Option<u64>, Refusal> {
    let Some(cost_us) = target.strip_prefix("/work/") else {
        return Ok(None);
    };
    match number(cost_us.as_bytes()) {
        Some(cost_us) if cost_us <= COMPUTED_MAX_US => Ok(Some(cost_us)),
        _ => Err(Refusal::Malformed),
    }
}

fn pattern_bytes(target: &str, ordinary_bytes: u64) -> Result<u64, Refusal> {
    match target.strip_prefix("/bytes/") {
        None => Ok(ordinary_bytes),
        Some(count) => number(count.as_bytes()).ok_or(Refusal::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_name_a_cost() {
        assert_eq!(computed_us("/work/30"), Ok(Some(30)));
        assert_eq!(computed_us("/works/30"), Ok(None));
        for target in ["/work/", "/work/-1", "/work/1000001", "/work/x"] {
            assert_eq!(computed_us(target), Err(Refusal::Malformed), "{target}");
        }
    }

    #[test]
    fn a_path_may_name_a_length() {
        assert_eq!(pattern_bytes("/bytes/12", 5), Ok(12));
        assert_eq!(pattern_bytes("/bytes", 5), Ok(5));
        for target in ["/bytes/-1", "/bytes/+1", "/bytes/", "/bytes/18446744073709551616"] {
            assert_eq!(pattern_bytes(target, 5), Err(Refusal::Malformed), "{target}");
        }
    }
}
