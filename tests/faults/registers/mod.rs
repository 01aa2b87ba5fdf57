//! Registers with compare-and-swap.
//!
//! This folder owns the clients of registers on several daemons and the check of their records.
//! Answers enter, a verdict leaves. The check must not know the fault of a test.

pub mod check;
pub mod client;
