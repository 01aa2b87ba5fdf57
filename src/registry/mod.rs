//! The processing of objects before and after storage, which is the same for every resource.
//!
//! This folder owns the served generations ([`catalog`], [`Registry`]), the capabilities of paths
//! ([`rest`]), the verbs of a stored resource ([`store`]), the application of the rules of kinds
//! (`strategy`) and the conversion of storage errors to a Status (`errors`). It takes decoded
//! objects, options and a request context, and returns stored objects, lists and watches, or a
//! `Status`. It must not know HTTP connections, wire encodings or storage engines.

mod admission_client;
pub mod catalog;
mod completeness;
pub mod component_statuses;
pub mod context;
mod defined_versions;
pub mod definition_check;
mod definition_ledger;
mod definition_limits;
pub mod deletion;
mod discovery_order;
pub mod errors;
pub mod hooks;
pub mod keys;
mod namespace_source;
mod namespaced_name;
mod node_authorizer;
pub mod parameters;
pub mod pending_creates;
pub mod rbac;
pub mod rest;
pub mod reviews;
mod served;
pub mod service_account_tokens;
pub mod services;
pub mod store;
mod stored_version;
pub mod strategy;

pub use catalog::Catalog;
pub use completeness::Completeness;
pub use context::RequestContext;
pub use defined_versions::DefinedVersions;
pub use definition_ledger::DefinitionLimits;
pub use discovery_order::{GROUPS, compare_versions};
pub use errors::decoded;
pub use namespaced_name::NamespacedName;
pub use node_authorizer::{NODE_CACHES, NodeAuthorizer};
pub use rest::RestStorage;
pub use served::{ClusterParts, Registry, ServiceNetwork};
pub use store::{
    Answer, Audience, Deletion, RegistryStore, Replacement, StoreOptions, UpdateSource,
    WatchRefusal, Written,
};
pub use stored_version::StoredVersion;

#[cfg(test)]
pub(crate) mod tests;
