// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where Prometheus asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tiny_http::{Header, Method, Request, Response, Server};

use crate::failure::{Failure, Result, tell};
use crate::{output, signals};

/// The only path that there is.
const PATH: &str = "/metrics";
/// OpenMetrics 1.0, section 3.2: "the media type".
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Status, media type and body.
type Answer = (u16, &'static str, String);

fn answer(method: &Method, url: &str, read: impl Fn() -> Result<String>) -> Answer {
    let path = url.split('?').next().unwrap_or_default();
    if path != PATH {
        return (404, PLAIN, format!("There is nothing here but {PATH}.\n"));
    }
    if !matches!(method, Method::Get | Method::Head) {
        return (405, PLAIN, format!("{PATH} is there to be read: GET it.\n"));
    }
    match read() {
        Ok(text) => (200, OPEN_METRICS, text),
        Err(failure) => (500, PLAIN, format!("{failure}\n")),
    }
}

fn respond(request: Request, (status, media_type, body): Answer) {
    let header = Header::from_bytes("Content-Type", media_type).expect("a header of ASCII");
    let response = Response::from_string(body).with_status_code(status).with_header(header);
    // Whoever asked may have gone.
    let _ = request.respond(response);
}

/// Ends the serving when the process is to end.
fn end_when_told(server: &Arc<Server>) -> Result<()> {
    let (server, mut signals) = (Arc::clone(server), signals::hear(&[])?);
    thread::spawn(move || signals.forever().for_each(|_| server.unblock()));
    Ok(())
}

/// Serves what `read` reads, anew for everyone who asks, until SIGTERM.
///
/// # Errors
/// [`Failure::Argument`] where nothing can listen there.
pub fn serve(at: SocketAddr, read: impl Fn() -> Result<String>) -> Result<()> {
    // Who may not read is told now, and not by HTTP only.
    read()?;
    let server = Arc::new(Server::http(at).map_err(|wrong| {
        Failure::argument(
            format!("--listen {at}: {wrong}"),
            "give an address of this host, and a port that is free",
        )
    })?);
    end_when_told(&server)?;
    let at = server.server_addr().to_ip().unwrap_or(at);
    output::print(&format!("serving http://{at}{PATH}\n"))?;
    for request in server.incoming_requests() {
        let answer = answer(request.method(), request.url(), &read);
        if answer.0 == 500 {
            tell(answer.2.trim_end());
        }
        respond(request, answer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, url: &str) -> (u16, String) {
        let (status, _, body) = answer(&method, url, || Ok("tidegate_up 1\n".to_owned()));
        (status, body)
    }

    #[test]
    fn who_asks_elsewhere_is_told_where() {
        assert_eq!(of(Method::Get, "/metrics").0, 200);
        assert_eq!(of(Method::Head, "/metrics?name[]=x").0, 200);
        assert_eq!(of(Method::Get, "/"), (404, "There is nothing here but /metrics.\n".into()));
        assert_eq!(of(Method::Post, "/metrics").0, 405);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_fix() {
        let (status, media_type, body) = answer(&Method::Get, PATH, || {
            Err(Failure::argument("it is not there", "put it there"))
        });
        assert_eq!((status, media_type), (500, PLAIN));
        assert_eq!(body, "it is not there; put it there\n");
    }
}
