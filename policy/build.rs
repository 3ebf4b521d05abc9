// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the policy natively and makes its Rust types from the same headers.
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=native.c");
    cc::Build::new()
        .compiler("clang")
        .file("native.c")
        .flag("-std=gnu11")
        .flag("-Wpadded")
        .warnings_into_errors(true)
        .compile("tidegate_policy");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindgen::Builder::default()
        .header("include/native.h")
        .allowlist_item("(tg|TG)_.*")
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(true)
        .derive_eq(true)
        .layout_tests(true)
        .generate()
        .expect("the policy headers are valid C")
        .write_to_file(out.join("policy.rs"))
        .expect("OUT_DIR is writable");
}
