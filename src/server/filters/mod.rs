//! What every request passes before it is routed, each filter in a file of its own.
//!
//! [`crate::server::service`] calls them in the order of http.md 1.2, which decides which of two
//! errors a client sees.

pub mod audit_id;
pub mod authorization;
pub mod deadline;
pub mod impersonation;
pub mod in_flight;
pub mod warnings;
