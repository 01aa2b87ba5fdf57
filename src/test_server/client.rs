//! The client by which objects are loaded: the admin's, over one connection.

use std::collections::HashMap;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::auth::AdminAccess;
use crate::egress::{
    Credentials, EgressClient, EgressRequest, HttpPolicy, Roots, Target, TargetSettings,
};

/// The time limit for one request. A webhook may take half of it.
const TIME: Duration = Duration::from_secs(60);
/// More than any object takes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often something is looked at that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The longest wait for nodes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A resource as discovery names it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    plural: String,
    is_namespaced: bool,
}

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) message: String,
}

/// A client of the server.
pub(super) struct Client {
    egress: EgressClient,
    target: Target,
    /// The resources of a group and version, by kind.
    discovered: Mutex<HashMap<String, HashMap<String, Resource>>>,
}

impl Client {
    /// A client that trusts the server and has the admin's token.
    ///
    /// # Errors
    /// The token can't be sent.
    pub(super) fn new(access: &AdminAccess) -> Result<Client, String> {
        let url = format!("https://{}", access.address);
        let roots = Roots::Bundle(access.trust_pem.clone().into_bytes());
        let token = Zeroizing::new(access.token.secret().to_owned());
        let target = Target::new(TargetSettings {
            credentials: Some(Credentials::Bearer(token)),
            http: HttpPolicy::Http1AndHttp2,
            ..TargetSettings::new(url, roots)
        });
        Ok(Client {
            egress: EgressClient::new(),
            target: target.map_err(|error| error.to_string())?,
            discovered: Mutex::default(),
        })
    }

    /// Sends a request and reads the JSON of its answer.
    ///
    /// # Errors
    /// [`Refusal`], with code 0 if the server did not answer.
    pub(super) async fn call(
        &self,
        method: Method,
        path: String,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Value, Refusal> {
        let mut headers = HeaderMap::new();
        let mut bytes = Vec::new();
        if let Some((media_type, body)) = body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            bytes = body;
        }
        let request = EgressRequest {
            method,
            path,
            headers,
            body: bytes.into(),
            deadline: Instant::now() + TIME,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let answer = self.egress.send(&self.target, request).await;
        let answer = answer.map_err(|error| Refusal {
            code: 0,
            message: error.to_string(),
        })?;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status.is_success() {
            return Ok(value);
        }
        let message = value.get("message").and_then(Value::as_str);
        Err(Refusal {
            code: answer.status.as_u16(),
            message: message.unwrap_or("the server gave no reason").to_owned(),
        })
    }

    /// Reads the object at a path.
    ///
    /// # Errors
    /// [`Refusal`]
    pub(super) async fn get(&self, path: String) -> Result<Value, Refusal> {
        self.call(Method::GET, path, None).await
    }

    /// The path of the collection that an object belongs to.
    ///
    /// # Errors
    /// The kind is not served.
    pub(super) async fn collection(&self, object: &Value) -> Result<String, Refusal> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").unwrap_or_default();
        let kind = text("/kind").unwrap_or_default();
        let base = match version.contains('/') {
            true => format!("/apis/{version}"),
            false => format!("/api/{version}"),
        };
        let unknown = || Refusal {
            code: 404,
            message: format!("no resource of kind {kind} in {version} is served"),
        };
        let known = || {
            let discovered = self.discovered.lock();
            discovered.get(version)?.get(kind).cloned()
        };
        let resource = match known() {
            Some(resource) => resource,
            None => {
                let list = self
                    .get(base.clone())
                    .await
                    .map_err(|refusal| match refusal.code {
                        404 => unknown(),
                        _ => refusal,
                    })?;
                let resources = resources(&list);
                self.discovered.lock().insert(version.to_owned(), resources);
                known().ok_or_else(unknown)?
            }
        };
        let plural = &resource.plural;
        Ok(match resource.is_namespaced {
            true => {
                let namespace = text("/metadata/namespace").filter(|text| !text.is_empty());
                let namespace = namespace.unwrap_or("default");
                format!("{base}/namespaces/{namespace}/{plural}")
            }
            false => format!("{base}/{plural}"),
        })
    }

    /// Waits until this many nodes are Ready.
    ///
    /// # Errors
    /// They are not in time.
    pub(super) async fn nodes_ready(&self, count: u32) -> Result<(), String> {
        if count == 0 {
            return Ok(());
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let nodes = self.get("/api/v1/nodes".to_owned()).await;
            let nodes = nodes.map_err(|refusal| refusal.message)?;
            let nodes = nodes.get("items").and_then(Value::as_array);
            let ready = nodes.into_iter().flatten().filter(|node| is_ready(node));
            if ready.count() >= count as usize {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err("--nodes: the nodes did not become ready".to_owned());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Whether a node is Ready and nothing keeps pods away.
fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        let is = |name: &str, text: &str| one.get(name).and_then(Value::as_str) == Some(text);
        is("type", "Ready") && is("status", "True")
    }) && node.pointer("/spec/taints").is_none()
}

/// The resources of a list of discovery, by kind. Subresources are left out.
fn resources(list: &Value) -> HashMap<String, Resource> {
    let entries = list.get("resources").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    let found = entries.filter_map(|entry| {
        let plural = entry.get("name")?.as_str()?;
        let kind = entry.get("kind")?.as_str()?.to_owned();
        let is_namespaced = entry.get("namespaced")?.as_bool()?;
        let resource = Resource {
            plural: plural.to_owned(),
            is_namespaced,
        };
        (!plural.contains('/')).then_some((kind, resource))
    });
    found.collect()
}
