// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles one object per hook and makes the loader's types from the shared layout.
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const OBJECTS: [&str; 11] = [
    "xdp",
    "path",
    "tc",
    "netfilter",
    "iter",
    "clock",
    "sockopt",
    "time_wait",
    "sockops",
    "notice",
    "agree",
];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=../policy/include");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in OBJECTS {
        SkeletonBuilder::new()
            .clang(&clang)
            .source(format!("bpf/{name}.bpf.c"))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(["-mcpu=v3", "-I", "bpf", "-Wall", "-Werror", "-Wno-unused-function"])
            .build()
            .unwrap_or_else(|e| panic!("bpf/{name}.bpf.c does not build: {e:?}"));
    }
    bindgen::Builder::default()
        .header("bpf/layout.h")
        .allowlist_item("(tg|TG)_.*")
        // The policy's types come from the policy.
        .blocklist_file(".*policy/include/.*")
        .raw_line("use tidegate_policy::raw::*;")
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(true)
        .derive_eq(true)
        .generate()
        .expect("layout.h is valid C")
        .write_to_file(out.join("layout.rs"))
        .expect("OUT_DIR is writable");
}
