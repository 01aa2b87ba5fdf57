//! Taffrail's actors, and the engine interface that they need.
//!
//! The crate owns everything that lives as long as the daemon: watch caches, watches, turns of
//! contended keys, leases, and compaction. It gets the events of a store through
//! [`engine::Engine`], and requests to read and to watch through handles. It returns immutable
//! [`snapshot::Snapshot`]s, and streams of frames that are ready for the wire. The crate must not
//! depend on HTTP, JSON, files or databases.
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
//! Read the modules in this order: [`engine`] (the interface of a store), [`object`] and [`watch`]
//! (the types), [`ring`] and [`snapshot`] (what threads share), [`cacher`], `reflector`,
//! [`dispatcher`], [`writer`], [`compactor`], [`lessor`], [`supervisor`]. Below them are
//! [`actor_ref`], [`exit`], [`mailbox`], [`watchdog`], [`tasks`], `failure` and [`backoff`].
//!
//! | actor | owns | who sends to it | mailbox | when it ends |
//! |---|---|---|---|---|
//! | Supervisor, 1 | factories, restart budgets, the order of start and stop | the daemon | [`mailbox::SUPERVISOR`] | [`supervisor::ActorSystem::ended`] returns and the daemon ends |
//! | Cacher, 1 per resource | current objects, the ring, who wants which topic | its Reflector | [`mailbox::CACHER`] | not ready, its watches end; restarted empty and filled again |
//! | Reflector, 1 per Cacher | where it is between list and watch | nobody (stop) | [`mailbox::REFLECTOR`] | the Cacher serves what it has; the next incarnation continues there |
//! | Dispatcher, 1 per HTTP thread | the thread's watchers, their topics and groups | Cachers (hints) | [`mailbox::DISPATCHER`] | the thread's streams end; the next watch starts it again |
//! | Writer, a few shards | turns of contended keys | callers whose commit was refused | [`mailbox::WRITER`] | waiting callers get an error; preconditions protect the data |
//! | Compactor, 1 per store | when to compact and to give space back | operators | [`mailbox::COMPACTOR`] | restarted |
//! | Lessor, 1 per store | which lease is shared, when the next one runs out | nobody (stop); leases come from its handle | [`mailbox::LESSOR`] | restarted; leases are handed out meanwhile, expiry waits |
//!
//! Rules for actors:
//! - A plain struct without actix or tokio makes the decisions, in a file of its own with tests.
//!   Message handlers are a few lines over it.
//! - Nobody keeps an actor's address. Handles read it from an [`actor_ref::ActorRef`], which the
//!   Supervisor sets.
//! - Every queue has a bound, in [`mailbox`] or next to the queue.
//! - No actor blocks its thread. Slow work runs on a blocking thread or in the engine, and is
//!   awaited.
//! - `tests/tidy` of the daemon checks who may name whom: the Supervisor all; the Reflector the
//!   Cacher; Cacher and Dispatcher the ring; all of them the engine interface.
#![warn(missing_docs)]

pub mod actor_ref;
pub mod backoff;
pub mod cacher;
pub mod clock;
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
pub mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod threads;
pub mod watch;
pub mod watchdog;
pub mod writer;
