//! Requests that are passed on to extensions (CN-28 to CN-36).
//!
//! This folder owns what an extension gets of a request and what the client gets of its answer.

mod headers;
mod path;

pub use headers::{
    Forwarded, Unnameable, is_circling, is_redirect, name_user, names_user, outgoing,
};
pub use path::{group_version, rewritten_query};
