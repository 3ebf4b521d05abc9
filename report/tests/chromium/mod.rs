// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A headless Chromium, driven by its DevTools protocol over a pipe, in a network namespace that
//! leads nowhere.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_lab::{Child, Namespace, skip_without};

/// Far beyond what any answer takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One browser with one page open.
pub struct Browser {
    /// `None` only while it is dropped.
    child: Option<Child>,
    to: ChildStdin,
    from: Receiver<Value>,
    folder: TempDir,
    session: Option<String>,
    last_id: u64,
    /// What the browser told without being asked.
    pub events: Vec<Value>,
}

/// Whether the test cannot run here, having said what is lacking.
///
/// # Panics
/// Under `CI=true`, where a test that does not run is a failure.
pub fn skip_without_chromium(test: &str) -> bool {
    skip_without(test, &[("chromium", "chromium")])
}

impl Browser {
    /// Opens a page, and waits until it is loaded.
    pub fn open(html: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let file = folder.path().join("page.html");
        fs::write(&file, html).expect("the page is written");
        // The protocol's pipe is descriptors 3 and 4; the shell turns the usual ones into them.
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "chromium"]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-breakpad"]);
        command.args(["--remote-debugging-pipe", "--window-size=1200,900"]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        command.env("HOME", folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let namespace = Namespace::new("browser").expect("a namespace");
        let mut child = namespace.spawn(command).expect("chromium starts");
        let to = child.take_stdin().expect("a pipe");
        let answers = BufReader::new(child.take_stdout().expect("a pipe"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let value = serde_json::from_slice(&message).expect("the protocol is JSON");
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child: Some(child),
            to,
            from,
            folder,
            session: None,
            last_id: 0,
            events: Vec::new(),
        };
        browser.attach();
        browser.load(&file);
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let session = self.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        self.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    fn load(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive();
        }
    }

    /// Asks for something and waits for the answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut request = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            if let Some(answer) = self.receive() {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// The answer to the last call; anything else is kept as an event.
    fn receive(&mut self) -> Option<Value> {
        let message = self.from.recv_timeout(PATIENCE).expect("the browser answers");
        if message["id"] == json!(self.last_id) {
            return Some(message);
        }
        self.events.push(message);
        None
    }

    /// The value of a JavaScript expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The middle of an element, scrolled into the window.
    pub fn middle(&mut self, element: &str) -> (f64, f64) {
        let middle = self.value(&format!(
            "(() => {{ const e = {element}; e.scrollIntoView({{ block: 'center' }});
               const box = e.getBoundingClientRect();
               return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        (middle[0].as_f64().expect("a place"), middle[1].as_f64().expect("a place"))
    }

    /// Moves the pointer.
    pub fn point(&mut self, (x, y): (f64, f64)) {
        self.mouse("mouseMoved", (x, y));
    }

    /// Clicks where the pointer would be.
    pub fn click(&mut self, place: (f64, f64)) {
        self.mouse("mousePressed", place);
        self.mouse("mouseReleased", place);
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 }),
        );
    }

    /// Presses and releases a key.
    pub fn key(&mut self, key: &str) {
        for kind in ["rawKeyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "ArrowLeft" => 37,
                "ArrowRight" => 39,
                _ => 27,
            };
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code }),
            );
        }
    }

    /// Ends the browser, and sees that nothing of it stays.
    pub fn close(mut self) {
        self.session = None;
        self.call("Browser.close", json!({}));
        let child = self.child.as_mut().expect("it runs");
        let ended = child.wait_for(PATIENCE).expect("its end can be waited for");
        assert!(ended.is_some(), "the browser ends when asked");
        let path = self.folder.path().to_owned();
        drop(self);
        assert_eq!(processes_with(&path.display().to_string()), Vec::<String>::new(), "left");
        assert!(!path.exists(), "{} is left", path.display());
    }
}

impl Drop for Browser {
    /// After a failed test too: the folder can only go once nobody writes into it.
    fn drop(&mut self) {
        drop(self.child.take());
        let word = self.folder.path().display().to_string();
        for _ in 0..400 {
            if processes_with(&word).is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }
}

fn processes_with(word: &str) -> Vec<String> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    all.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word))
        .collect()
}
