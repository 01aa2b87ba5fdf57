//! The algebra of sets of fields.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::apply::field_sets(data));
