//! An expression in CEL, and an object that it is evaluated over.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::expressions::by_bytes(data));
