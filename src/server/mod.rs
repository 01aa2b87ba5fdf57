//! HTTP: from sockets to handlers.

pub mod body;
pub mod auth;
