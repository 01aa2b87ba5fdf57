//! Registers with compare-and-swap.
//!
//! Clients use registers on several daemons, and a check decides whether their records are
//! linearizable. The check does not know the fault of a test.

pub mod check;
pub mod client;
