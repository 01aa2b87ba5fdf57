//! An expression in the places of admission policies, and an object that it is evaluated over.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::policies::by_bytes(data));
