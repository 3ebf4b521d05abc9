// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF_PROG_TEST_RUN, and the measurements' own programs under it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

/// Runs a program `repeat` times on one packet and tells the kernel's mean in nanoseconds and
/// what the last run returned.
pub fn test_run(program: BorrowedFd<'_>, packet: &[u8], repeat: i32) -> (u32, u32) {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        repeat,
        ..Default::default()
    };
    // SAFETY: the program is open and the packet as long as its size says.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!(answer, 0, "BPF_PROG_TEST_RUN");
    (options.duration, options.retval)
}

/// Runs an XDP program on `frames` packets whose redirects and transmissions are carried out.
pub fn live_frames(program: BorrowedFd<'_>, packet: &[u8], frames: i32) {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        repeat: frames,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: 64,
        ..Default::default()
    };
    // SAFETY: the program is open and the packet as long as its size says.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    // EINTR and EAGAIN end a run early; the generator goes on with the next.
    let early = [nix::libc::EINTR, nix::libc::EAGAIN].contains(&-answer);
    assert!(answer == 0 || early, "BPF_PROG_TEST_RUN: {answer}");
}

/// The measurements' own programs.
pub struct Own(Object);

impl Own {
    /// Loads them.
    pub fn load() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
        let open = ObjectBuilder::default().open_memory(bytes).expect("our own object");
        Own(open.load().expect("the verifier takes our own programs"))
    }

    /// One of them.
    pub fn program(&self, name: &str) -> BorrowedFd<'_> {
        let program = self.0.progs().find(|p| p.name() == name).expect("a program of ours");
        // SAFETY: the descriptor stays open as long as its object, which self owns.
        unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) }
    }

    fn write(&self, map: &str, value: &[u8]) {
        let map = self.0.maps().find(|m| m.name() == map).expect("a map of ours");
        map.update(&0u32.to_ne_bytes(), value, MapFlags::ANY).expect("the map has an element 0");
    }

    /// The packet that is put back before each run; `interface` is where the generator sends.
    pub fn ask(&self, question: &[u8], interface: u32) {
        let mut value = [0; 88];
        value[..question.len()].copy_from_slice(question);
        value[80..84].copy_from_slice(&interface.to_ne_bytes());
        self.write("question", &value);
    }

    /// What runs behind the program that puts the question back.
    pub fn then(&self, map: &str, program: BorrowedFd<'_>) {
        self.write(map, &program.as_raw_fd().to_ne_bytes());
    }
}
