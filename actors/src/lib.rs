//! Taffrail's actors, and the port they need of a storage engine.
//!
//! What enters: the events of a store, through [`engine::Engine`]; wishes to read and to watch,
//! through handles. What leaves: immutable [`snapshot::Snapshot`]s, and streams of frames that
//! are ready for the wire. Nothing in here knows HTTP, JSON or files.
//!
//! ```text
//!   Engine ──range, feed──▶ Reflector ──Replace, Apply──▶ Cacher ──▶ Snapshot ──▶ GET, LIST
//!     │                                                     │
//!     │                                                     ▼
//!     └──history──────────────▶ Dispatcher ◀──hint, ring────┘
//!                              (one per HTTP thread)
//!                                   │
//!                                   ▼
//!                     Watcher::poll_next ──▶ one stream of one connection
//! ```
//!
//! In reading order: [`engine`] (the port), [`object`] and [`watch`] (the nouns), [`ring`] and
//! [`snapshot`] (what is watch_cache between threads), [`cacher`], `reflector`, [`dispatcher`],
//! [`writer`], [`compactor`], [`lessor`], [`supervisor`]; below them [`actor_ref`], [`exit`],
//! [`mailbox`], `failure` and [`backoff`].
//!
//! | actor | owns | who may send | mailbox | when it dies |
//! |---|---|---|---|---|
//! | Supervisor, 1 | factories, restart budgets, the order of start and stop | the daemon | [`mailbox::SUPERVISOR`] | [`supervisor::ActorSystem::ended`] comes back and the daemon ends |
//! | Cacher, 1 per resource | current objects, the ring, who wants which topic | its Reflector | [`mailbox::CACHER`] | not ready, its watches end; restarted empty and filled anew |
//! | Reflector, 1 per Cacher | where it is between list and watch | nobody (stop) | [`mailbox::REFLECTOR`] | the Cacher serves what it has; the next one goes on from there |
//! | Dispatcher, 1 per HTTP thread | the thread's watchers, their topics and groups | Cachers (hints) | [`mailbox::DISPATCHER`] | the thread's streams end; the next watch starts it anew |
//! | Writer, a few shards | turns of contended keys | who was refused | [`mailbox::WRITER`] | who waits is told so; preconditions protect the data |
//! | Compactor, 1 per store | when to forget and to give space back | operators | [`mailbox::COMPACTOR`] | restarted |
//! | Lessor, 1 per store | which lease is watch_cache, when the next one runs out | nobody (stop); who wants a lease asks its handle | [`mailbox::LESSOR`] | restarted; leases are handed out meanwhile, expiry waits |
//!
//! ActorSystem rules. Whatever decides is a plain struct without actix or tokio, in a file of its own
//! with tests; handlers are a few lines over it. Nobody keeps an address: handles read it from a
//! [`actor_ref::ActorRef`], which the Supervisor refills. Every queue has a bound, written down in
//! [`mailbox`] or beside the queue. An actor never blocks its thread: what takes long runs on a
//! blocking thread or in the engine, and is awaited. `tests/tidy` of the daemon holds who may
//! know whom: supervisor → all; reflector → cacher; cacher, dispatcher → ring; all → the port.
#![warn(missing_docs)]

pub mod actor_ref;
pub mod backoff;
pub mod cacher;
pub mod compactor;
pub mod dispatcher;
pub mod engine;
pub mod exit;
mod failure;
pub mod lessor;
pub mod mailbox;
pub mod object;
mod reflector;
pub mod ring;
pub mod snapshot;
pub mod supervisor;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch;
pub mod writer;
