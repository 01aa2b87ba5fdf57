//! The client for requests that the daemon sends to other servers: webhooks, issuers of tokens,
//! aggregated servers, kubelets.
//!
//! A [`Target`] says where a server is, how it is trusted, and with what credentials. An
//! [`EgressClient`] keeps a pool of connections for each target. Credentials of a target never go
//! to another host, the environment's proxies are ignored, and answers, time and connections are
//! bounded. No breaker stops requests: each one tries to reach its server.
//!
//! Requests of the daemon itself ([`EgressClient::send`]) have a deadline and bounded answers. A
//! request that is passed on for a client ([`EgressClient::forward`]) streams both bodies and lasts
//! as long as the client waits. [`EgressClient::upgrade`] makes a stream of bytes of a connection.
//!
//! This folder knows sockets, TLS and HTTP, but no objects: senders of requests to Services
//! implement [`ServiceResolver`]. Errors have the texts of Go's net/http (HK-37), because clients
//! of Kubernetes see them.

mod client;
mod dial;
mod error;
mod forward;
pub mod headers;
mod http2;
mod metrics;
mod outgoing;
mod pool;
mod redirect;
mod request;
mod services;
mod system_roots;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod trust;
mod upgrade;
mod wire;

pub use client::EgressClient;
pub use dial::HELD_BYTES_MAX;
pub use error::{EgressError, Failure};
pub use forward::{ForwardAnswer, ForwardRequest, ForwardedBody};
pub use outgoing::ForwardBody;
pub use request::{Answer, AnswerBody, EgressRequest, OpenAnswer};
pub use services::{
    RouteError, Routing, ServiceBackend, ServicePort, ServiceResolver, ServiceView, authority,
    route,
};
pub use target::{
    Address, Credentials, HttpPolicy, Identity, InvalidTarget, Peers, Redirects, Roots, Target,
    TargetSettings,
};
pub use upgrade::{Switched, UpgradeAnswer, UpgradeRequest};
