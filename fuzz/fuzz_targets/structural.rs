//! A schema of a custom resource, and an object of it.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::structural::by_bytes(data));
