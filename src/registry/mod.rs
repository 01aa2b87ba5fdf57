//! The processing of objects before and after storage, which is the same for every resource.
//!
//! This folder owns the served generations ([`catalog`], [`Registry`]), the capabilities of paths
//! ([`rest`]), the verbs of a stored resource ([`store`]), the application of the rules of kinds
//! (`strategy`) and the conversion of storage errors to a Status (`errors`). Decoded objects and
//! options enter with a request context. Stored objects, lists and watches leave, or a `Status`.
//! This folder must not know HTTP connections, wire encodings or storage engines.

mod admission_client;
pub mod catalog;
pub mod context;
pub mod definition_check;
pub mod deletion;
pub mod errors;
pub mod keys;
mod namespace_source;
mod namespaced_name;
pub mod pending_creates;
pub mod rest;
mod served;
pub mod services;
pub mod store;
pub mod strategy;

pub use catalog::Catalog;
pub use context::RequestContext;
pub use errors::decoded;
pub use namespaced_name::NamespacedName;
pub use rest::RestStorage;
pub use served::{ClusterParts, Registry, ServiceNetwork, StoredVersion};
pub use store::{
    Answer, Audience, Deletion, RegistryStore, Replacement, StoreOptions, UpdateSource,
    WatchRefusal, Written,
};

#[cfg(test)]
pub(crate) mod tests;
