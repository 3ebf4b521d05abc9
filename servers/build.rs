// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the programs that answer inside the kernel, where they are wanted.

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    #[cfg(feature = "in-kernel")]
    compile();
}

#[cfg(feature = "in-kernel")]
fn compile() {
    println!("cargo:rerun-if-changed=../datapath/bpf/vmlinux.h");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    libbpf_cargo::SkeletonBuilder::new()
        .clang(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
        .source("bpf/page.bpf.c")
        .obj(std::path::Path::new(&out).join("page.bpf.o"))
        .clang_args(["-I", "../datapath/bpf", "-Wall", "-Werror"])
        .build()
        .unwrap_or_else(|error| panic!("bpf/page.bpf.c does not build: {error:?}"));
}
