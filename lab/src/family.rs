// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process and what hangs on it.

use std::fs;

/// A process, its children, theirs, and so on, the process itself first.
#[must_use]
pub fn family(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[next]));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        next += 1;
    }
    found
}
