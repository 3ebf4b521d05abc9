// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real nginx with one worker that can be stopped and continued.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_lab::{Child, Namespace};

/// nginx serving a small page and a 1 MB file.
pub struct Nginx {
    child: Child,
    worker: Pid,
    root: PathBuf,
}

impl Nginx {
    /// Starts nginx in `namespace`; `listens` are its `listen` directives, such as
    /// `[::]:80 ipv6only=off backlog=8`.
    pub fn start(namespace: &Namespace, listens: &[&str]) -> Self {
        let root = std::env::temp_dir().join(format!("tidegate-nginx-{}", namespace.tid()));
        fs::create_dir_all(root.join("html")).expect("a folder for nginx");
        fs::write(root.join("html/index.html"), "served\n").expect("a page");
        fs::write(root.join("html/megabyte"), vec![b'x'; 1 << 20]).expect("a large file");
        let listen: String = listens.iter().map(|l| format!("listen {l};\n")).collect();
        let folder = root.display();
        let configuration = format!(
            "daemon off;\nuser root;\nworker_processes 1;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
             server {{ {listen} root {folder}/html; }} }}\n"
        );
        fs::write(root.join("nginx.conf"), configuration).expect("a configuration");
        let command = namespace
            .command(&format!("nginx -p {folder} -c {folder}/nginx.conf -e {folder}/error.log"));
        let child = namespace.spawn(command).expect("nginx starts");
        let worker = wait_for_worker(child.id());
        Nginx { child, worker, root }
    }

    /// The folder that it serves.
    pub fn html(&self) -> PathBuf {
        self.root.join("html")
    }

    /// Stops the worker: its listen queue is no longer drained.
    pub fn freeze(&self) {
        kill(self.worker, Signal::SIGSTOP).expect("a running worker");
    }

    /// Lets the worker go on.
    pub fn thaw(&self) {
        kill(self.worker, Signal::SIGCONT).expect("a stopped worker");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A stopped worker would not hear its master.
        let _ = kill(self.worker, Signal::SIGKILL);
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The master's only child, once it has one.
fn wait_for_worker(master: u32) -> Pid {
    let path = format!("/proc/{master}/task/{master}/children");
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let children = fs::read_to_string(&path).unwrap_or_default();
        if let Some(worker) = children.split_whitespace().next() {
            // The listening sockets are the master's: they stand before the worker does.
            return Pid::from_raw(worker.parse().expect("a process number"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nginx started no worker");
}
