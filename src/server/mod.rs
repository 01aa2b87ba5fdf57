//! HTTP: from a request on a connection to bytes on it.
//!
//! A connection hands each request to its thread's [`service::Service`], which runs the
//! [`filters`] in order, finds the route in [`routes`] and calls the handler of the verb.
//! [`handlers`] decode, ask the registry, and answer; [`encoding`] turns what it gives into bytes,
//! and [`respond`] makes them an answer.

pub mod auth;
pub mod body;
mod body_budget;
mod connection_state;
pub mod discovery;
pub mod encoding;
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
pub mod request_info;
pub mod respond;
pub mod routes;
pub mod service;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod version;
pub mod watch_stream;
