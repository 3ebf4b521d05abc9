// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server has to give.

use std::time::Instant;

use crate::error::ServerError;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::{Method, Refusal, Request, number};
use crate::settings::Settings;

/// What a server has to give.
#[derive(Debug)]
pub(crate) enum Content {
    /// Any number of bytes to who asks for `/bytes/N`, and so many to everyone else.
    Pattern {
        /// The body of an ordinary reply.
        ordinary_bytes: u64,
    },
    /// Files, to who asks for them by name.
    Files(Files),
}

impl Content {
    /// # Errors
    /// [`ServerError::Root`].
    pub(crate) fn of(settings: &Settings) -> Result<Self, ServerError> {
        match &settings.root {
            None => Ok(Self::Pattern { ordinary_bytes: settings.body_bytes }),
            Some(root) => Files::below(root).map(Self::Files),
        }
    }

    /// The reply to a request, or why it is refused.
    pub(crate) fn reply_to(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let files = match self {
            Self::Pattern { ordinary_bytes } => {
                return pattern_bytes(&request.target, *ordinary_bytes)
                    .map(|length| Reply::of_pattern(length, request));
            }
            Self::Files(files) => files,
        };
        if request.method == Method::Send {
            return Err(Refusal::MethodUnknown);
        }
        Ok(match files.find(&request.target, Instant::now()) {
            Ok(resource) if resource.is_known_to(request) => {
                Reply::not_modified(&resource, request)
            }
            Ok(resource) => Reply::of_resource(&resource, request),
            Err(absence) => Reply::absent(absence, request),
        })
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
    fn a_path_may_name_a_length() {
        assert_eq!(pattern_bytes("/bytes/12", 5), Ok(12));
        assert_eq!(pattern_bytes("/bytes", 5), Ok(5));
        for target in ["/bytes/-1", "/bytes/+1", "/bytes/", "/bytes/18446744073709551616"] {
            assert_eq!(pattern_bytes(target, 5), Err(Refusal::Malformed), "{target}");
        }
    }
}
