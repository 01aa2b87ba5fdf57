//! HTTP, from the requests on a connection to the responses.
//!
//! This folder owns the transport, authentication, routing and the handlers of all verbs.
//! Connections and a registry enter, and HTTP responses leave. It must not know how objects are
//! stored or what their fields mean.
//!
//! A connection passes each request to the [`service::Service`] of its thread. The service runs the
//! [`filters`] in order, finds the route in [`routes`] and calls the handler of the verb.
//! [`handlers`] decode the body, call the registry and answer. [`encoding`] turns objects into
//! bytes, and [`respond`] builds the response.

mod access_log;
pub mod audit;
pub mod auth;
pub mod body;
mod body_budget;
pub mod component_statuses;
mod connection_state;
pub mod discovery;
pub mod encoding;
mod fairness;
pub mod features;
pub mod filters;
mod frame_batch;
pub mod generation;
pub mod gzip;
pub mod handlers;
pub mod health;
mod http1;
mod http2;
pub mod large_requests;
pub mod limits;
mod lingering_close;
pub mod listener;
pub mod metrics;
pub mod negotiation;
pub mod openapi;
pub mod respond;
pub mod reviews;
pub mod routes;
pub mod service;
pub mod service_accounts;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod version;
pub mod watch_stream;
mod x509;
