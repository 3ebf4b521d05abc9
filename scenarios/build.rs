// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Has the shelf built anew when a scenario is added to it, which its compiler would not see.

fn main() {
    println!("cargo::rerun-if-changed=.");
}
