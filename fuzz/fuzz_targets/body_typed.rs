//! A body that is mostly of its type, made of the choices that bytes are.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::typed::by_bytes(data));
