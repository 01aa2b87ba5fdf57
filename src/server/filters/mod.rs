//! The filters that every request passes before routing, one per file.
//!
//! This folder owns the checks that do not depend on the route. A filter takes the headers and the
//! parsed URL of a request, and returns a value for the next step or a refusal. It must not know
//! handlers, stored objects or other filters.
//!
//! [`crate::server::service`] calls them in the order of http.md 1.2, which decides which of two
//! errors a client sees.

pub mod audit_id;
pub mod deadline;
pub mod in_flight;
pub mod response_headers;
pub mod seats;
pub mod warnings;
