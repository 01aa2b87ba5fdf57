//! What happens to an object before and after storage, for every resource alike (RegistryStore).
//!
//! [`definitions`] is the table of built-in resources, [`catalog`] one generation of what is
//! served, [`Registry`] the current one and how resources come and go, [`rest`] what a path can do,
//! [`store`] the verbs of a stored resource,
//! `strategy` and `special` what differs between kinds, `errors` the one place where a storage
//! error becomes a Status.

pub mod canonical;
pub mod catalog;
pub mod context;
pub mod definitions;
pub mod deletion;
pub mod errors;
pub mod keys;
mod namespace_source;
pub mod pending_creates;
pub mod rest;
mod served;
pub mod special;
pub mod store;
pub mod strategy;

pub use catalog::Catalog;
pub use context::RequestContext;
pub use rest::{NamespacedName, RestStorage};
pub use served::Registry;
pub use store::{
    Answer, Audience, Deletion, RegistryStore, StoreOptions, UpdateSource, WatchRefusal, Written,
};

#[cfg(test)]
pub(crate) mod tests;
