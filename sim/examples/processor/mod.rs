// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread had of the processor.

/// The processor time that this thread has had, in s: others may use the machine too.
pub fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(f64::NAN) / 1e9
}
