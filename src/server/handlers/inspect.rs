//! `GET /taffrail/v1/inspect` returns the contents of the daemon and the state of its parts.

use std::time::Duration;

use actors::engine::{At, Engine, Health, Prefix, RangeRequest};
use http::StatusCode;
use serde_json::{Value, json};

use super::Answered;
use crate::build_info;
use crate::server::request_scope::RequestScope;
use crate::server::respond;

/// The time limit for counting the keys of an etcd.
const COUNTING: Duration = Duration::from_secs(5);

/// The gauges of the metrics page that show how much is queued, and where.
const QUEUES: [&str; 5] = [
    "apiserver_current_inflight_requests",
    "apiserver_current_inqueue_requests",
    "taffrail_watch_ring_bytes",
    "taffrail_watch_ring_events",
    "taffrail_watchers",
];

/// Returns the current stores, resources, actors and queues.
///
/// # Errors
/// 406
pub async fn inspect(scope: &RequestScope<'_>) -> Answered {
    let form = scope.plain_form()?;
    let document = json!({
        "program": build_info::program(),
        "commit": build_info::COMMIT,
        "stores": stores(scope).await,
        "resources": resources(scope).await,
        "actors": actors(scope),
        "queues": queues(&scope.server.metrics_page()),
    });
    let document = document.to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

async fn stores(scope: &RequestScope<'_>) -> Vec<Value> {
    let mut documents = Vec::new();
    let stores = scope.server.own_store.iter();
    for (name, engine) in stores.flat_map(|store| &store.engines) {
        let stats = engine.stats();
        let health = match engine.health() {
            Health::Serving => "serving".to_owned(),
            Health::ReadOnly(why) | Health::Down(why) => why,
        };
        documents.push(json!({
            "name": name,
            "health": health,
            "revision": stats.revision.0,
            "compactedRevision": stats.compacted.0,
            "keys": keys(scope, engine.as_ref(), stats.live_keys).await,
            "retainedBytes": stats.retained_bytes,
            "fileBytes": stats.file_bytes,
        }));
    }
    documents
}

/// Returns the number of keys of a store. An etcd does not report it with its other statistics, so
/// a count request asks for it. `None` if that fails or times out.
async fn keys(scope: &RequestScope<'_>, engine: &dyn Engine, known: u64) -> Option<u64> {
    if known > 0 {
        return Some(known);
    }
    let root = &scope.server.own_store.as_ref()?.root;
    let counting = engine.range(RangeRequest {
        prefix: Prefix::new(root),
        start: None,
        at: At::Latest,
        limit: 0,
        count_only: true,
    });
    let counted = tokio::time::timeout(COUNTING, counting).await.ok()?;
    counted.ok().map(|counted| counted.count)
}

/// Lists the resources. A count that is not available now is null.
async fn resources(scope: &RequestScope<'_>) -> Vec<Value> {
    let mut documents = Vec::new();
    for store in scope.generation.catalog.stored_resources() {
        let resource = store.stored_resource();
        let stats = store.storage().stats().await.ok();
        documents.push(json!({
            "group": resource.group,
            "resource": resource.plural,
            "objects": stats.map(|stats| stats.object_count),
            "averageBytes": stats.map(|stats| stats.average_object_bytes),
        }));
    }
    documents
}

fn actors(scope: &RequestScope<'_>) -> Vec<Value> {
    let actors = scope.server.actor_system.state().actors.into_iter();
    let documents = actors.map(|actor| {
        json!({
            "name": actor.name,
            "isReady": actor.ready,
            "state": actor.text,
            "restarts": actor.restarts,
        })
    });
    documents.collect()
}

/// Extracts the samples of queues from the metrics page.
fn queues(page: &str) -> Vec<Value> {
    let samples = page.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let value: f64 = value.parse().ok()?;
        QUEUES.contains(&name).then(|| {
            let labels = labels.trim_end_matches('}');
            json!({ "name": name, "labels": labels, "value": value })
        })
    });
    samples.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_queues_are_found_on_the_page() {
        let page = "# HELP taffrail_watchers Watches\ntaffrail_watchers{resource=\"pods\"} 3\n\
                    other{resource=\"pods\"} 4\napiserver_current_inqueue_requests 0\n";
        let wanted = [
            json!({ "name": "taffrail_watchers", "labels": "resource=\"pods\"", "value": 3.0 }),
            json!({ "name": "apiserver_current_inqueue_requests", "labels": "", "value": 0.0 }),
        ];
        assert_eq!(queues(page), wanted);
    }
}
