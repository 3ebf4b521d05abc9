// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where Prometheus asks. Whoever can reach it may send anything, or nothing: each connection has a
//! time by which it is over, there are only so many at once, of a request no body is read, and what is
//! served is read only so often.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tokio::time;

use crate::failure::{Failure, Result, tell};
use crate::{signals, supervisor, writer};

/// The only path that there is.
const PATH: &str = "/metrics";
/// OpenMetrics 1.0, section 3.2: "the media type".
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What may be asked of this process by those who mean it no good.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// By then the request has come. Who says nothing has a place no longer.
    asks: Duration,
    /// A connection is over by then; Prometheus itself waits for 10 s unless told otherwise.
    lasts: Duration,
    /// Connections at one time; others wait to be accepted. As many may come in each `asks` and say
    /// nothing.
    at_once: usize,
    /// Of a request's head so much is kept.
    head_bytes: usize,
}

const BOUNDS: Bounds = Bounds {
    asks: Duration::from_secs(1),
    lasts: Duration::from_secs(5),
    at_once: 512,
    head_bytes: 16384,
};

/// What was read is told again for so long: to read it is work for this host.
const FRESH: Duration = Duration::from_millis(100);
/// Or for so many times as long as it took: whoever asks without a pause has a small part of a processor.
const FRESH_TIMES: u32 = 10;
/// But no longer than this: figures are to be of now.
const FRESH_MOST: Duration = Duration::from_secs(1);

/// Where no connection can be accepted (no descriptor is left) it is tried again after so long.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// Reads what is served.
type Read = fn() -> Result<String>;

/// What is served, as it was read last; or why it could not be. All who ask share it.
type Text = std::result::Result<Bytes, String>;

/// What the time is, and where it is told that nothing could be read.
#[derive(Clone, Copy)]
struct Surroundings {
    now: fn() -> Instant,
    tell: fn(&str),
}

const SURROUNDINGS: Surroundings = Surroundings { now: Instant::now, tell };

struct Last {
    fresh_until: Instant,
    text: Text,
}

struct Reading {
    read: Read,
    surroundings: Surroundings,
    last: Mutex<Last>,
}

/// Until when it is told again.
fn fresh_until(begun: Instant, read: Instant) -> Instant {
    read + ((read - begun) * FRESH_TIMES).clamp(FRESH, FRESH_MOST)
}

impl Reading {
    /// Reads for the first time.
    ///
    /// # Errors
    /// [`Failure::Privilege`]: this process can never read it.
    fn begin(read: Read, surroundings: Surroundings) -> Result<Arc<Self>> {
        let begun = (surroundings.now)();
        let text = match read() {
            Err(failure @ Failure::Privilege { .. }) => return Err(failure),
            // Such as a guard of another version, until its daemon has been started anew.
            read => text_of(read),
        };
        if let Err(failure) = &text {
            (surroundings.tell)(failure);
        }
        let fresh_until = fresh_until(begun, (surroundings.now)());
        let last = Mutex::new(Last { fresh_until, text });
        Ok(Arc::new(Reading { read, surroundings, last }))
    }

    /// What cannot be read is told once, until it can or it is for another reason that it cannot.
    fn text(&self) -> Text {
        let Surroundings { now, tell } = self.surroundings;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = now();
        if begun < last.fresh_until {
            return last.text.clone();
        }
        let text = text_of((self.read)());
        if let Err(failure) = &text
            && last.text != text
        {
            tell(failure);
        }
        *last = Last { fresh_until: fresh_until(begun, now()), text: text.clone() };
        text
    }
}

fn text_of(read: Result<String>) -> Text {
    read.map(Bytes::from).map_err(|failure| failure.to_string())
}

/// Status, media type and body.
type Answer = (StatusCode, &'static str, Bytes);

fn answer(method: &Method, path: &str, read: impl Fn() -> Text) -> Answer {
    if path != PATH {
        let text = format!("There is nothing here but {PATH}.\n");
        return (StatusCode::NOT_FOUND, PLAIN, text.into());
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let text = format!("{PATH} is there to be read: GET it.\n");
        return (StatusCode::METHOD_NOT_ALLOWED, PLAIN, text.into());
    }
    match read() {
        Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
        Err(failure) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{failure}\n").into()),
    }
}

fn response((status, media_type, body): Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    // RFC 9110, section 15.5.6: "MUST".
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// One request and its answer, or nothing of what was to come by then.
async fn converse(stream: TcpStream, reading: &Reading, bounds: Bounds) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), || reading.text());
        std::future::ready(Ok::<_, Infallible>(response(answer)))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.asks)
        .max_buf_size(bounds.head_bytes)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever asked may have gone.
    let _ = time::timeout(bounds.lasts, connection).await;
}

/// Answers everyone who asks, until it is told to end.
async fn answer_all(listener: TcpListener, reading: Arc<Reading>, bounds: Bounds, end: &Notify) {
    let places = Arc::new(Semaphore::new(bounds.at_once));
    let accept = async || {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        listener.accept().await.map(|(stream, _)| (stream, place))
    };
    loop {
        let accepted = tokio::select! {
            () = end.notified() => return,
            accepted = accept() => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let reading = Arc::clone(&reading);
                tokio::spawn(async move {
                    converse(stream, &reading, bounds).await;
                    drop(place);
                });
            }
            Err(wrong) => {
                tell(&format!("nobody is answered for now: {wrong}"));
                time::sleep(BETWEEN_TRIES).await;
            }
        }
    }
}

/// Ends the serving when the process is to end.
fn end_when_told(end: &Arc<Notify>) -> Result<()> {
    let (end, mut signals) = (Arc::clone(end), signals::hear(&[])?);
    let hear = move || signals.forever().for_each(|_| end.notify_one());
    thread::Builder::new().spawn(hear).map_err(signals::no_thread)?;
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

/// Serves what `read` reads, anew for everyone who asks, until SIGTERM.
///
/// # Errors
/// [`Failure::Privilege`] where this process can never read it, [`Failure::Argument`] where nothing can
/// listen there, or where nobody could be told to end.
pub fn serve(at: SocketAddr, read: Read) -> Result<()> {
    let reading = Reading::begin(read, SURROUNDINGS)?;
    let runtime = runtime().map_err(|source| Failure::File {
        path: PathBuf::from("epoll"),
        source,
        fix: "let this process have more descriptors (LimitNOFILE= in a unit)".to_owned(),
    })?;
    let listener = runtime.block_on(TcpListener::bind(at)).map_err(|wrong| {
        Failure::argument(
            format!("--listen {at}: {wrong}"),
            "give an address of this host, and a port that is free",
        )
    })?;
    let end = Arc::new(Notify::new());
    writer::start();
    end_when_told(&end)?;
    let at = listener.local_addr().unwrap_or(at);
    writer::print(format!("serving http://{at}{PATH}\n"));
    supervisor::stands();
    runtime.block_on(answer_all(listener, reading, BOUNDS, &end));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::{Read as _, Write as _};
    use std::net;

    use super::*;

    fn of(method: Method, path: &str) -> (u16, String) {
        let (status, _, body) = answer(&method, path, || Ok("tidegate_up 1\n".into()));
        (status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn who_asks_elsewhere_is_told_where() {
        assert_eq!(of(Method::GET, "/metrics").0, 200);
        assert_eq!(of(Method::HEAD, "/metrics").0, 200);
        assert_eq!(of(Method::GET, "/"), (404, "There is nothing here but /metrics.\n".into()));
        assert_eq!(of(Method::POST, "/metrics").0, 405);
    }

    #[test]
    fn who_asks_by_another_method_is_told_which_there_are() {
        let allowed = |method| {
            let response = response(answer(&method, PATH, || Ok("tidegate_up 1\n".into())));
            let allow = response.headers().get(ALLOW);
            (response.status().as_u16(), allow.map(|methods| methods.to_str().unwrap().to_owned()))
        };
        assert_eq!(allowed(Method::POST), (405, Some("GET, HEAD".to_owned())));
        assert_eq!(allowed(Method::GET), (200, None));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_fix() {
        let (status, media_type, body) =
            answer(&Method::GET, PATH, || Err("it is not there; put it there".to_owned()));
        assert_eq!((status.as_u16(), media_type), (500, PLAIN));
        assert_eq!(body, "it is not there; put it there\n");
    }

    /// Serves on loopback while `story` goes on.
    fn while_served(bounds: Bounds, story: impl FnOnce(SocketAddr)) {
        let runtime = runtime().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        let end = Arc::new(Notify::new());
        let told = Arc::clone(&end);
        let serving = thread::spawn(move || {
            let read: Read = || Ok("tidegate_up 1\n".to_owned());
            let reading = Reading::begin(read, SURROUNDINGS).unwrap();
            runtime.block_on(answer_all(listener, reading, bounds, &told));
        });
        story(at);
        end.notify_one();
        serving.join().unwrap();
    }

    fn open(at: SocketAddr, says: &str) -> net::TcpStream {
        let mut stream = net::TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(says.as_bytes()).unwrap();
        stream
    }

    /// All that comes until the other end closes.
    fn heard(mut stream: net::TcpStream) -> String {
        let mut heard = Vec::new();
        // What was sent and not read resets the connection behind the answer.
        let _ = stream.read_to_end(&mut heard);
        String::from_utf8(heard).unwrap()
    }

    fn is_answered(at: SocketAddr) -> bool {
        let heard = heard(open(at, "GET /metrics?name[]=x HTTP/1.1\r\nHost: x\r\n\r\n"));
        heard.starts_with("HTTP/1.1 200 ") && heard.ends_with("\r\n\r\ntidegate_up 1\n")
    }

    #[test]
    fn a_body_that_is_announced_is_neither_read_nor_waited_for() {
        while_served(BOUNDS, |at| {
            for length in ["2000", "1000000000000000", "18446744073709551615"] {
                let asked = format!("GET /metrics HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
                let begun = Instant::now();
                let heard = heard(open(at, &asked));
                assert!(heard.starts_with("HTTP/1.1 "), "{length}: {heard}");
                assert!(begun.elapsed() < Duration::from_secs(10), "{length}");
                assert!(is_answered(at), "after {length}");
            }
        });
    }

    /// Whoever asks waits less than Prometheus does, though none of those before it ever asks.
    #[test]
    fn who_says_nothing_or_never_ends_keeps_nobody_from_being_answered() {
        // A process may have a thousand descriptors, and both ends of each are here.
        let bounds = Bounds { at_once: 64, ..BOUNDS };
        while_served(bounds, |at| {
            let says = ["", "GET /met", "GET /metrics HTTP/1.1\r\nX: "];
            let mut idle: Vec<_> = (0..2 * bounds.at_once).map(|i| open(at, says[i % 3])).collect();
            let begun = Instant::now();
            assert!(is_answered(at));
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            // And each of them has been let go.
            for stream in &mut idle {
                stream.read_to_end(&mut Vec::new()).unwrap();
            }
        });
    }

    thread_local! {
        /// What the time is, what a reading takes, and how many there were.
        static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static TAKES: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static READ: Cell<u32> = const { Cell::new(0) };
        /// Why nothing can be read, if so, and what was told of that.
        static WRONG: Cell<Option<&'static str>> = const { Cell::new(None) };
        static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static BEGUN: Instant = Instant::now();
    }

    fn pass(time: Duration) {
        PASSED.set(PASSED.get() + time);
    }

    fn read_slowly() -> Result<String> {
        pass(TAKES.get());
        READ.set(READ.get() + 1);
        let wrong = |what| Failure::argument(what, "put it there");
        WRONG.get().map_or_else(|| Ok(READ.get().to_string()), |what| Err(wrong(what)))
    }

    /// Time passes when it is told to.
    fn begin(takes: Duration, wrong: Option<&'static str>) -> Arc<Reading> {
        PASSED.set(Duration::ZERO);
        TAKES.set(takes);
        READ.set(0);
        WRONG.set(wrong);
        let surroundings = Surroundings {
            now: || BEGUN.with(|begun| *begun) + PASSED.get(),
            tell: |text| TOLD.with_borrow_mut(|told| told.push(text.to_owned())),
        };
        Reading::begin(read_slowly, surroundings).unwrap()
    }

    /// How many times it is read in two seconds in which somebody asks every millisecond.
    fn read_in_two_seconds(takes: Duration) -> u32 {
        let reading = begin(takes, None);
        let (before, from) = (READ.get(), PASSED.get());
        while PASSED.get() - from < Duration::from_secs(2) {
            let _ = reading.text();
            pass(Duration::from_millis(1));
        }
        READ.get() - before
    }

    #[test]
    fn what_is_served_is_read_the_less_often_the_longer_it_takes() {
        let read = |ms| read_in_two_seconds(Duration::from_millis(ms));
        assert_eq!(read(0), 19, "every 100 ms");
        assert_eq!(read(50), 3, "every 550 ms");
        assert_eq!(read(500), 1, "every 1.5 s, so that it is still of now");
    }

    #[test]
    fn what_was_read_is_told_again_until_it_is_read_anew() {
        let reading = begin(Duration::ZERO, None);
        assert_eq!(reading.text().unwrap(), "1");
        pass(FRESH - Duration::from_millis(1));
        assert_eq!(reading.text().unwrap(), "1");
        pass(Duration::from_millis(1));
        assert_eq!(reading.text().unwrap(), "2");
    }

    /// A guard of another version stands for as long as its daemon does, and Prometheus asks every few seconds.
    #[test]
    fn what_cannot_be_read_is_told_once() {
        let is_missing = Some("it is not there");
        let reading = begin(Duration::ZERO, is_missing);
        let told = |wrong| {
            WRONG.set(wrong);
            pass(FRESH_MOST);
            assert_eq!(reading.text().is_err(), wrong.is_some());
            TOLD.take().len()
        };
        assert_eq!(TOLD.take(), ["it is not there; put it there"]);
        assert_eq!((told(is_missing), told(is_missing)), (0, 0));
        assert_eq!((told(Some("another is there")), told(is_missing)), (1, 1));
        assert_eq!((told(None), told(is_missing)), (0, 1), "it is lost again");
    }
}
