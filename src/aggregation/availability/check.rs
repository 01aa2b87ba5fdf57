//! Asks the server of an APIService whether it serves its group and version (CN-15).

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, Method};
use tokio::time::{Instant, timeout};

use super::decision::{Named, Verdict, by_objects};
use crate::admission::hooks::client::ServiceEndpoints;
use crate::aggregation::ApiService;
use crate::aggregation::proxy::name_user;
use crate::aggregation::remote::{NoServer, RemoteServers};
use crate::api::user_info::{MASTERS, UserInfo};
use crate::egress::{EgressRequest, Failure};

/// The requests that are sent at once. One success is enough.
const ATTEMPTS: usize = 5;
/// The time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The time for one attempt.
const ATTEMPT_TIME: Duration = Duration::from_secs(6);

/// The user that asks extensions.
const AGGREGATOR: &str = "system:kube-aggregator";

/// Returns what is said about a remote APIService. `None` if the certificates that its server is to
/// be trusted by cannot be read: the condition stays as it was then (CN-18).
pub async fn verdict(servers: &RemoteServers, apiservice: &ApiService) -> Option<Verdict> {
    let service = apiservice.service.as_ref()?;
    let named = Named {
        namespace: &service.namespace,
        name: &service.name,
        port: service.port,
    };
    let view = servers.services.service(named.namespace, named.name).await;
    let view = view.map_err(|status| status.to_string());
    let endpoints = match &view {
        Ok(Some(_)) => {
            let found = servers
                .services
                .endpoints(named.namespace, named.name)
                .await;
            found.map_err(|status| status.to_string())
        }
        _ => Ok(ServiceEndpoints::default()),
    };
    if let Some(verdict) = by_objects(named, &view, &endpoints) {
        return Some(verdict);
    }
    // Core is never asked.
    if apiservice.group.is_empty() {
        return Some(Verdict::passed());
    }
    let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS)
        .map(|_| attempt(servers, apiservice))
        .collect();
    let mut last = Verdict::passed();
    while let Some(outcome) = attempts.next().await {
        match outcome {
            Attempt::Good => return Some(Verdict::passed()),
            Attempt::Failed(message) => last = Verdict::failed_discovery(message),
            Attempt::Unusable => return None,
        }
    }
    Some(last)
}

/// The outcome of one request.
enum Attempt {
    Good,
    Failed(String),
    /// The certificates cannot be read.
    Unusable,
}

async fn attempt(servers: &RemoteServers, apiservice: &ApiService) -> Attempt {
    let address = match servers.address(apiservice).await {
        Ok(address) => address,
        Err(why) => return Attempt::Failed(why.to_string()),
    };
    let path = format!("/apis/{}/{}", apiservice.group, apiservice.version);
    let url = format!("https://{address}{path}");
    let missing =
        |why: String| Attempt::Failed(format!("failing or missing response from {url}: {why}"));
    let target = match servers.target(apiservice, &address) {
        Ok(target) => target,
        Err(NoServer::Local) => return Attempt::Unusable,
        Err(why) => return missing(why.to_string()),
    };
    let asking = servers.client.open(&target, request(path));
    let Ok(asked) = timeout(ATTEMPT_TIME, asking).await else {
        return Attempt::Failed(format!("timed out waiting for {url}"));
    };
    match asked {
        Ok(answer) if answer.status.is_success() => Attempt::Good,
        Ok(answer) => missing(format!("bad status from {url}: {}", answer.status.as_u16())),
        Err(error) => match &error.failure {
            Failure::Roots | Failure::Identity(_) => Attempt::Unusable,
            Failure::Deadline => missing(format!(
                "{error} (Client.Timeout exceeded while awaiting headers)"
            )),
            _ => missing(error.to_string()),
        },
    }
}

fn request(path: String) -> EgressRequest {
    let user = UserInfo {
        name: AGGREGATOR.to_owned(),
        groups: vec![MASTERS.to_owned()],
        ..UserInfo::default()
    };
    let mut headers = HeaderMap::new();
    // These names can be headers.
    let _ = name_user(&mut headers, &user);
    EgressRequest {
        method: Method::GET,
        path,
        headers,
        body: Bytes::new(),
        deadline: Instant::now() + ANSWER_TIME,
        answer_bytes_max: 0,
    }
}
