//! The options of a deletion, in JSON or YAML.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::requests::delete_options(data));
