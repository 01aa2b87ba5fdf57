//! Taffrail: a storage daemon that speaks the Kubernetes API.
//!
//! Requests enter at the top, bytes rest at the bottom; nothing knows what stands above it.
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
//!   engine; it is answered once it is durable.
//! - The engine feeds the event to the resource's Reflector and Cacher (crate `actors`), whose
//!   snapshot answers **reads** and whose ring answers **watches**, on the thread of the
//!   connection, by that thread's Dispatcher.
//! - [`daemon`] puts the parts together and owns the order of starting and stopping;
//!   [`controllers`] do what a controller manager would.
//! - [`files`] opens whatever is opened by name, [`clock`] says what time it is, and
//!   `coalescing_writer` lets small writes to a socket leave in one piece. They know nothing of the
//!   rest.
//!
//! README.md has the map of the whole actor_system, `tests/tidy` holds who may name whom.

pub mod admission;
pub mod api;
pub mod cli;
pub mod clock;
mod coalescing_writer;
pub mod config;
pub mod controllers;
pub mod daemon;
pub mod files;
pub mod registry;
pub mod server;
pub mod shutdown;
pub mod storage;
pub mod telemetry;
