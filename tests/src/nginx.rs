// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real nginx with one worker that can be stopped and continued.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};

/// nginx serving a small page and a 1 MB file. It is one process, master and worker at once:
/// a worker of its own would outlive a master that dies with the test.
pub struct Nginx {
    child: Child,
    namespace: Namespace,
    root: PathBuf,
}

impl Nginx {
    /// Starts nginx in `namespace`; `listens` are its `listen` directives, such as
    /// `[::]:80 ipv6only=off backlog=8`.
    pub fn start(namespace: &Namespace, listens: &[&str]) -> Self {
        Self::with(namespace, listens, "")
    }

    /// The same as the proxy before an application at this address.
    pub fn before(namespace: &Namespace, listen: &str, application: SocketAddr) -> Self {
        let hands_on = format!("location / {{ proxy_pass http://{application}; }}");
        Self::with(namespace, &[listen], &hands_on)
    }

    fn with(namespace: &Namespace, listens: &[&str], location: &str) -> Self {
        // The stage's own /run: its files end with the namespace.
        let root = PathBuf::from(format!("/run/nginx-{}", namespace.tid()));
        let listen: String = listens.iter().map(|l| format!("listen {l};\n")).collect();
        let folder = root.display();
        let configuration = format!(
            "daemon off;\nmaster_process off;\nuser root;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
             server {{ {listen} root {folder}/html; {location} }} }}\n"
        );
        write(namespace, &root.join("html/index.html"), b"served\n".to_vec());
        write(namespace, &root.join("html/megabyte"), vec![b'x'; 1 << 20]);
        write(namespace, &root.join("nginx.conf"), configuration.into_bytes());
        let mut command = namespace
            .command(&format!("nginx -p {folder} -c {folder}/nginx.conf -e {folder}/error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = namespace.spawn(command).expect("nginx starts");
        wait_for_pid(namespace, &root);
        Nginx { child, namespace: namespace.clone(), root }
    }

    /// Serves `content` under `/name`.
    pub fn serve(&self, name: &str, content: &[u8]) {
        write(&self.namespace, &self.root.join("html").join(name), content.to_vec());
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the worker: its listen queue is no longer drained.
    pub fn freeze(&self) {
        self.child.signal(Signal::SIGSTOP).expect("a running worker");
    }

    /// Lets the worker go on.
    pub fn thaw(&self) {
        self.child.signal(Signal::SIGCONT).expect("a stopped worker");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.signal(Signal::SIGKILL);
        let _ = self.child.wait();
        let root = self.root.clone();
        let _ = self.namespace.run(move || fs::remove_dir_all(root));
    }
}

fn write(namespace: &Namespace, path: &Path, content: Vec<u8>) {
    let path = path.to_owned();
    namespace.run(move || {
        fs::create_dir_all(path.parent().expect("a folder's file")).expect("a folder for nginx");
        fs::write(path, content).expect("a file for nginx");
    });
}

/// nginx writes its process number when its listening sockets stand.
fn wait_for_pid(namespace: &Namespace, root: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if namespace.read_file(root.join("pid")).is_ok_and(|text| text.ends_with('\n')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = namespace.read_file(root.join("error.log")).unwrap_or_default();
    panic!("nginx did not start: {log}");
}
