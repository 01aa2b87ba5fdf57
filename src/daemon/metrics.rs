//! The page of metrics: its descriptions, its lines of each scrape, and its port.

use std::net::SocketAddr;
use std::sync::Arc;

use actix_rt::task::JoinHandle;

use super::options;
use super::stores::Measured;
use crate::config::Config;
use crate::controllers;
use crate::server::api_server::ApiServer;
use crate::server::service::MetricsService;
use crate::server::{discovery, health, version};
use crate::storage::encryption as at_rest;
use crate::storage::{object_count, storage_size};
use crate::telemetry;
use crate::transport::listener::PlainListener;

/// Returns the function for those lines of the metrics page that are measured at each scrape.
pub(super) fn further_lines(measured: Measured) -> Box<dyn Fn() -> String + Send + Sync> {
    Box::new(move || storage_size::metric_lines(&measured) + "\n" + &telemetry::process_lines())
}

/// Describes all metrics, and serves them at a port of their own if there is one. Returns its
/// address.
pub(super) fn serve(
    config: &Config,
    listener: Option<PlainListener>,
    api_server: &Arc<ApiServer>,
    background: &mut Vec<JoinHandle<()>>,
) -> Option<SocketAddr> {
    describe(config);
    let address = listener.as_ref().map(PlainListener::local_address);
    background.extend(listener.map(|listener| {
        let api_server = Arc::clone(api_server);
        listener.serve(MetricsService::new(move || api_server.metrics_page()))
    }));
    address
}

fn describe(config: &Config) {
    options::measure_features(config);
    actors::supervisor::describe_metrics();
    crate::storage::metrics::describe();
    object_count::describe();
    controllers::describe_metrics();
    at_rest::describe();
    health::describe_metrics();
    discovery::describe();
    crate::admission::hooks::client::describe_metrics();
    version::measure();
}
