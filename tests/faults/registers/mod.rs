//! Registers with compare-and-swap, kept by clients of several daemons at once.

pub mod check;
pub mod client;
