//! Aggregation: group versions that other servers serve, and the APIServices that say so.
//!
//! This folder owns the APIServices as requests see them ([`View`]), those that this server makes
//! for itself ([`local`]), what the servers of the others say in discovery ([`discovery`]) and
//! OpenAPI ([`openapi`]), whether they are available ([`availability`]), where they are
//! ([`remote`]), what they have in namespaces that end ([`contents`]), and what they get of a
//! request that is passed on ([`proxy`]). It calls the registry and sends requests over `egress`.
//! The server calls it with each request that may belong to another server. This folder must not
//! know connections of clients, handlers or the storage.

mod asking;
pub mod availability;
pub mod contents;
pub mod discovery;
pub mod local;
pub mod metrics;
pub mod openapi;
pub mod proxy;
mod questions;
pub mod remote;
mod service;
mod view;

use std::sync::Arc;

use tokio::time::Instant;

pub use asking::{Ask, Asker, ExtensionAnswer};
pub use discovery::Discovered;
pub use local::{CUSTOM, OWN_GROUP, Priorities, Registrar, of_built_in};
pub use openapi::ExtensionDocuments;
pub use remote::RemoteServers;
pub use service::{AUTOMANAGED, ApiService, Condition, Keeper, ServiceReference, name_of};
pub use view::{APISERVICES, ApiServices, ListedGroup, View};

/// The parts that requests use.
pub struct Aggregation {
    /// The APIServices.
    pub services: Arc<ApiServices>,
    /// Keeps those of this server.
    pub registrar: Arc<Registrar>,
    /// The discovery documents of extensions.
    pub discovered: Arc<Discovered>,
    /// Finds and asks extensions.
    pub servers: Arc<RemoteServers>,
    /// The OpenAPI documents of extensions.
    pub documents: Arc<ExtensionDocuments>,
}

/// Waits for a moment, or for ever.
async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
