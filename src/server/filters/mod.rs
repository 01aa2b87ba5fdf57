//! The filters that every request passes before it is routed, one per file.
//!
//! This folder owns the checks that do not depend on the route. The headers and the parsed URL of a
//! request enter. A value for the next step or a refusal leaves. A filter must not know handlers,
//! stored objects or the other filters.
//!
//! [`crate::server::service`] calls them in the order of http.md 1.2, which decides which of two
//! errors a client sees.

pub mod audit_id;
pub mod authorization;
pub mod deadline;
pub mod impersonation;
pub mod in_flight;
pub mod seats;
pub mod warnings;
