//! A body in JSON, behind a byte that chooses its kind.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::bodies::json(data));
