// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root with all sorts of files in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::running::{Running, Way};

/// A directory with a root in it, and a secret beside the root.
pub struct Site {
    directory: TempDir,
}

impl Site {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("root/deep/deeper")).unwrap();
        fs::create_dir(directory.path().join("roots")).unwrap();
        let site = Self { directory };
        site.write("../secret", b"secret");
        site.write("../roots/secret", b"secret");
        site.write("page.html", b"<p>page</p>");
        site.write("deep/index.html", b"<p>index</p>");
        site.write("deep/deeper/a b.txt", b"a b");
        let link = |to: &str, name: &str| symlink(to, site.root().join(name)).unwrap();
        link("../secret", "out");
        link("..", "up");
        link("/", "slash");
        link("deep/../../secret", "around");
        link("page.html", "in");
        link("deep", "in-deep");
        symlink("../../secret", site.root().join("deep/out")).unwrap();
        symlink(site.directory.path().join("secret"), site.root().join("absolute")).unwrap();
        site
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub fn write(&self, name: &str, contents: &[u8]) {
        fs::write(self.root().join(name), contents).unwrap();
    }

    pub fn serve(&self, way: Way) -> Running {
        way.start(|settings| settings.root = Some(self.root()))
    }
}
