// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles what the measurements need in the kernel besides the programs measured.
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=../datapath/bpf/vmlinux.h");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    SkeletonBuilder::new()
        .clang(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
        .source("bpf/bench.bpf.c")
        .obj(out.join("bench.bpf.o"))
        .clang_args(["-I", "../datapath/bpf", "-Wall", "-Werror"])
        .build()
        .unwrap_or_else(|e| panic!("bpf/bench.bpf.c does not build: {e:?}"));
}
