//! Taffrail: a storage daemon that speaks the Kubernetes API.
//!
//! Requests enter at the top and bytes are stored at the bottom. No part knows the parts above it.
//!
//! ```text
//!   client ── TLS, HTTP/1.1 or HTTP/2 ──> server      routes, negotiation, streams
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
//! - [`daemon`] builds the parts and owns the order of starting and stopping. [`controllers`]
//!   replace a controller manager.
//! - [`files`] opens files by name, [`clock`] reads the time, [`addresses`] finds those of the
//!   machine, [`build_info`] says what was built, and `coalescing_writer` combines small writes to
//!   a socket. They must not know other parts.
//!
//! README.md has a map of the whole system. `tests/tidy` has the rules for dependencies.

pub use api;
pub use api::schema;
pub use kinds;

pub mod addresses;
pub mod admission;
pub mod build_info;
pub mod cli;
pub mod clock;
mod coalescing_writer;
pub mod config;
pub mod controllers;
pub mod daemon;
pub mod files;
pub mod process_limits;
pub mod registry;
pub mod server;
pub mod shutdown;
pub mod storage;
pub mod telemetry;
