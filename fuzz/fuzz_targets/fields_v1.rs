//! Text that may be FieldsV1.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::apply::fields_v1(data));
