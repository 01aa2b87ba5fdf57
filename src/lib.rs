//! Taffrail: a storage daemon that speaks the Kubernetes API.
//!
//! Requests enter at the top and bytes are stored at the bottom. No part knows the parts above it.
//!
//! ```text
//!   client ── TLS, HTTP/1.1 or HTTP/2 ──> transport   connections, bodies, fairness, limits
//!                                           │
//!                                         server      routes, negotiation, one handler per verb
//!                                           │
//!                                        registry     strategies, admission, one method per verb
//!                                           │
//!                                         storage     objects: Cached, else Underlying; dry run
//!                                        ╱       ╲
//!     snapshots, rings  <── actors ──>  Cacher    Engine   bytes and revisions: embedded, etcd
//! ```
//!
//! - A **write** goes down through [`registry`] to [`storage::underlying`], which commits it to the
//!   engine. The response is sent once the write is durable.
//! - The engine feeds the event to the resource's Reflector and Cacher (crate `actors`), whose
//!   snapshot answers **reads** and whose ring answers **watches**, on the thread of the
//!   connection, by that thread's Dispatcher.
//! - [`daemon`] builds the parts and owns the order of starting and stopping. [`Server`] runs one
//!   inside another program. [`controllers`] replace a controller manager, and
//!   [`custom_resources`] follow the definitions of resources. [`aggregation`] knows the groups
//!   that other servers serve.
//! - [`auth`] finds the user of a request and decides what the user may do. The server asks it for
//!   each request, admission and the registry for what a request leads to.
//! - [`egress`] sends requests to other servers: webhooks, issuers, kubelets. [`kubelet`] has the
//!   files by which kubelets and this server trust each other, and [`upgraded`] relays the bytes of
//!   connections that have left HTTP.
//! - [`x509`] reads certificates and verifies their chains, for [`transport`], [`auth`] and
//!   [`egress`].
//! - [`config`] has the settings, [`cli`] the commands, [`telemetry`] logs and metrics,
//!   [`shutdown`] the signals, and [`process_limits`] refuses limits of the process that are too
//!   low. [`program`] is the daemon's binary, `library` the daemon as other programs see it.
//! - [`etcd_shim`] and [`kube_apiserver`] are the programs of these names, in whose places this
//!   binary can be started, and [`test_server`] is `taffrail test`, a throwaway server for tests.
//! - [`parent`] watches the process that started this one, for programs that end with it.
//! - [`documents`] reads files of the operator and answers of other servers by their types.
//! - [`files`] opens files by name, [`clock`] reads the time, [`addresses`] finds the machine's
//!   addresses, [`build_info`] describes the build, and `coalescing_writer` combines small writes
//!   to a socket. They must not know other parts.
//!
//! README.md has a map of the whole system. `tests/tidy` has the rules for dependencies.

pub use api;
pub use api::schema;
pub use controllers::Simulation;
pub use kinds;
pub use library::{Server, ServerBuilder, ServerError, ServerResources, Snapshot, StorageEngine};

pub mod addresses;
pub mod admission;
pub mod aggregation;
pub mod auth;
pub mod build_info;
pub mod cli;
pub mod clock;
mod coalescing_writer;
pub mod config;
pub mod controllers;
pub mod custom_resources;
pub mod daemon;
pub mod documents;
pub mod egress;
mod etcd_shim;
pub mod files;
pub mod kube_apiserver;
pub mod kubelet;
mod library;
pub mod parent;
pub mod process_limits;
pub mod program;
pub mod registry;
pub mod server;
pub mod shutdown;
pub mod storage;
pub mod telemetry;
pub mod test_server;
pub mod transport;
pub mod upgraded;
pub mod x509;
