//! Connections to pods, services and nodes (API-221). A connection needs a kubelet or a network,
//! which a store does not have, so each is refused once the object has been found.

use std::sync::Arc;

use futures_util::future::FutureExt;
use http::Method;
use serde_json::Value;

use super::{Answering, Connected, Connecter, RestStorage};
use crate::api::object::Object;
use crate::api::options::{Query, check_log_options};
use crate::api::resource::ResourceDefinition;
use crate::api::schema::{Scalar, Shape, Type};
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::kinds::definitions::core;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// The logs of a pod, which have the kind of pods in discovery.
const LOG: &str = "log";
/// The proxy to any path of a server.
const PROXY: &str = "proxy";

/// The path of one kind of connection.
pub struct ConnectionStore {
    store: Arc<RegistryStore>,
    subresource: &'static str,
    /// The kind in discovery.
    kind: Arc<ResourceDefinition>,
    /// The options kind of the connection.
    options: Arc<ResourceDefinition>,
    methods: Vec<Method>,
}

impl ConnectionStore {
    /// Returns the connection paths of a store's objects. Most resources have none.
    pub fn paths(store: &Arc<RegistryStore>) -> Vec<ConnectionStore> {
        let definition = store.definition();
        let streams = || vec![Method::GET, Method::POST];
        let proxied = || {
            let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
            let reads = [Method::GET, Method::HEAD, Method::OPTIONS];
            [&reads[..], &writes].concat()
        };
        let options = |kind| Arc::new(core::connection_options(kind));
        let all = match (definition.group.as_str(), definition.plural.as_str()) {
            ("", "pods") => vec![
                ("attach", options("core.v1.PodAttachOptions"), streams()),
                ("exec", options("core.v1.PodExecOptions"), streams()),
                (LOG, options("core.v1.PodLogOptions"), vec![Method::GET]),
                (
                    "portforward",
                    options("core.v1.PodPortForwardOptions"),
                    streams(),
                ),
                (PROXY, options("core.v1.PodProxyOptions"), proxied()),
            ],
            ("", "services") => vec![(PROXY, options("core.v1.ServiceProxyOptions"), proxied())],
            ("", "nodes") => vec![(PROXY, options("core.v1.NodeProxyOptions"), proxied())],
            _ => Vec::new(),
        };
        let path = |(subresource, options, methods)| ConnectionStore {
            store: Arc::clone(store),
            subresource,
            kind: match subresource {
                LOG => Arc::clone(definition),
                _ => Arc::clone(&options),
            },
            options,
            methods,
        };
        all.into_iter().map(path).collect()
    }

    /// Returns the name of the object. Proxies also accept `name:port` and `scheme:name:port`.
    fn name<'n>(&self, whole: &'n str) -> Result<&'n str, Box<Status>> {
        let parts: Vec<&str> = whole.split(':').collect();
        match (self.subresource, &*parts) {
            (PROXY, [""]) => Ok(whole),
            (PROXY, [name] | [name, _] | ["" | "http" | "https", name, _]) if !name.is_empty() => {
                Ok(name)
            }
            (PROXY, _) => {
                let definition = self.store.definition();
                let kind = definition.kind.to_ascii_lowercase();
                let why = format!("invalid {kind} request {}", go_quote(whole));
                Err(Box::new(Status::bad_request(why)))
            }
            _ => Ok(whole),
        }
    }

    /// Checks the options of a log, or runs admission for another connection (API-221).
    async fn admit(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        query: &Query,
    ) -> Result<(), Box<Status>> {
        // Kubernetes reads logs with GET, which has no admission.
        if self.subresource == LOG {
            return Ok(check_log_options(query, at.name)?);
        }
        if query.first("dryRun").is_some() {
            let status = Status::bad_request("dryRun is not supported");
            return Err(Box::new(status));
        }
        let mut options = options_of(&self.options, query);
        let admitting = self.store.admit_connection(self, context, at, &mut options);
        admitting.await
    }

    async fn refuse(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        query: &Query,
    ) -> Result<Option<Connected>, Box<Status>> {
        self.admit(context, at, query).await?;
        let name = self.name(at.name)?;
        let at = NamespacedName { name, ..at };
        // A cached pod may lack the node that it was bound to a moment ago.
        let object = self.store.read(at, "").await?;
        let definition = self.store.definition();
        if definition.plural == "pods" {
            self.check_container(&object, query)?;
            if let Some(answer) = self.of_waiting_pod(&object) {
                return answer;
            }
        }
        Err(Box::new(Status::method_not_allowed(definition, "connect")))
    }

    /// Returns the response for a pod without a node or an address, or `None` for other pods.
    fn of_waiting_pod(&self, pod: &Object) -> Option<Result<Option<Connected>, Box<Status>>> {
        let is_unset = |path: &[&str]| {
            let text = pod.at(path).and_then(Value::as_str);
            text.unwrap_or_default().is_empty()
        };
        let bad_request = |why: String| Some(Err(Box::new(Status::bad_request(why))));
        match self.subresource {
            PROXY if is_unset(&["status", "podIP"]) => {
                bad_request("address not allowed".to_owned())
            }
            PROXY => None,
            _ if !is_unset(&["spec", "nodeName"]) => None,
            // A pod without a node has not logged anything.
            LOG => Some(Ok(None)),
            _ => bad_request(format!("pod {} does not have a host assigned", pod.name())),
        }
    }

    /// Refuses a request that does not name one of several containers, or names one that does not
    /// exist.
    fn check_container(&self, pod: &Object, query: &Query) -> Result<(), Box<Status>> {
        if !matches!(self.subresource, "attach" | "exec" | LOG) {
            return Ok(());
        }
        let names = |list: &str| {
            let items = pod.items(&["spec", list]).iter();
            let names = items.filter_map(|item| item.get("name")?.as_str());
            names.map(str::to_owned).collect::<Vec<String>>()
        };
        let count = names("containers").len();
        let all = ["initContainers", "containers", "ephemeralContainers"]
            .map(names)
            .concat();
        let asked = query.first("container").unwrap_or_default();
        let name = pod.name();
        let why = match asked {
            "" if count == 1 => return Ok(()),
            "" => format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                all.join(" ")
            ),
            asked if all.iter().any(|known| known == asked) => return Ok(()),
            asked => format!("container {asked} is not valid for pod {name}"),
        };
        Err(Box::new(Status::bad_request(why)))
    }
}

impl RestStorage for ConnectionStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.store.definition()
    }

    fn subresource(&self) -> Option<&str> {
        Some(self.subresource)
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn connecter(&self) -> Option<&dyn Connecter> {
        Some(self)
    }
}

impl Connecter for ConnectionStore {
    fn methods(&self) -> &[Method] {
        &self.methods
    }

    fn options(&self) -> Option<&ResourceDefinition> {
        Some(&self.options)
    }

    fn takes_paths(&self) -> bool {
        self.subresource == PROXY
    }

    fn connect<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        _path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Option<Connected>> {
        self.refuse(context, at, query).boxed()
    }
}

/// Reads the options of a connection from the query. Skips values that do not have the type of
/// their field: kubelets would refuse them.
fn options_of(kind: &ResourceDefinition, query: &Query) -> Object {
    let mut options = Object::default();
    options.set_type(&kind.kind, &kind.api_version());
    let found = kind.object_type().found();
    let of = found.and_then(|(schema, id)| schema.get(id));
    for field in of.into_iter().flat_map(|of| of.fields()) {
        let texts = query.all(&field.name);
        let value = match (&field.of.shape, &*texts) {
            (_, []) => None,
            (Shape::List(item), texts) => Some(
                texts
                    .iter()
                    .filter_map(|text| value_of(item.as_ref(), text))
                    .collect(),
            ),
            (_, [first, ..]) => value_of(&field.of, first),
        };
        if let Some(value) = value {
            options.0.insert(field.name.clone(), value);
        }
    }
    options
}

/// Parses a parameter, as Kubernetes parses query parameters: any text but "false" and "0" is true.
fn value_of(of: &Type, text: &str) -> Option<Value> {
    match of.shape {
        Shape::Scalar(Scalar::String) => Some(text.into()),
        Shape::Scalar(Scalar::Bool) => {
            Some((!text.eq_ignore_ascii_case("false") && text != "0").into())
        }
        Shape::Scalar(Scalar::Int32 | Scalar::Int64) => Some(text.parse::<i64>().ok()?.into()),
        _ => None,
    }
}
