//! The Kubernetes API over HTTP, from a request to its response.
//!
//! This folder owns the filters, the routes, the handlers of all verbs, and the documents of
//! discovery and OpenAPI. [`crate::transport`] passes requests to it and sends its responses,
//! [`crate::auth`] authenticates and authorizes, and the registry carries requests out. It must not
//! know how objects are stored or what their fields mean.
//!
//! A connection passes each request to the [`service::Service`] of its thread. The service runs the
//! [`filters`] in order, finds the route in [`routes`] and calls the handler of the verb.
//! [`handlers`] decode the body, call the registry and respond. [`encoding`] turns objects into
//! bytes, and [`respond`] builds the response. Handlers get the state that all threads share as
//! [`api_server::ApiServer`], and their request as [`request_scope::RequestScope`].

mod access_log;
pub mod api_server;
mod attached;
pub mod audit;
mod body_budget;
pub mod discovery;
pub mod encoding;
pub mod features;
pub mod filters;
pub mod generation;
pub mod gzip;
pub mod handlers;
pub mod health;
pub mod issuer_discovery;
pub mod large_requests;
pub mod leaving;
mod links;
pub mod metrics;
pub mod negotiation;
pub mod openapi;
pub mod passed_on;
pub mod request_record;
pub mod request_scope;
pub mod respond;
pub mod routes;
pub mod service;
mod sessions;
pub mod test_controls;
#[cfg(test)]
mod testing;
mod unattended;
pub mod version;
pub mod watch_stream;
mod web_sockets;
