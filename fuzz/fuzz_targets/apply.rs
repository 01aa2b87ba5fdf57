//! Objects that several managers apply and update, made of the choices that bytes are.
#![no_main]

#[path = "../../kinds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::apply::by_bytes(data));
