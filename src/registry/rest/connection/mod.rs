//! Connections to pods, services and nodes: what they lead to (CN-37 to CN-55, CN-66, CN-70 to
//! CN-77).
//!
//! A path of this folder checks a request and finds the object, its container and the kubelet of
//! its node, or the server that a proxy leads to. It returns where the request goes, and the
//! handler of the request carries it out.

mod kubelet;
mod options;
mod proxied;
pub mod simulated;

use std::sync::Arc;

use actors::backoff::random_unit;
use futures_util::future::FutureExt;
use http::Method;
use serde_json::Value;

use super::{Answering, Connected, Connecter, RestStorage};
use crate::api::object::Object;
use crate::api::options::{LogOptions, Query};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::definitions::core;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

pub use kubelet::{KubeletRequest, NodeAddresses};
pub use proxied::ProxiedServer;
use proxied::{ProxiedName, ServicePods};

/// The logs of a pod, which have the kind of pods in discovery.
const LOG: &str = "log";
/// Commands in a container.
const EXEC: &str = "exec";
const ATTACH: &str = "attach";
/// Ports of a pod.
const PORT_FORWARD: &str = "portforward";
/// The proxy to any path of a server.
const PROXY: &str = "proxy";

/// Finds the servers that connections lead to. Clones share everything.
#[derive(Clone, Default)]
pub struct Upstreams {
    nodes: NodeAddresses,
    services: ServicePods,
}

impl Upstreams {
    /// Finds nodes at these addresses, and the pods of services by their endpoints, which are of
    /// the core group.
    pub fn new(
        nodes: NodeAddresses,
        endpoints: Option<Arc<RegistryStore>>,
        pods: Option<Arc<RegistryStore>>,
    ) -> Upstreams {
        Upstreams {
            nodes,
            services: ServicePods { endpoints, pods },
        }
    }
}

/// The path of one kind of connection.
pub struct ConnectionStore {
    store: Arc<RegistryStore>,
    upstreams: Upstreams,
    subresource: &'static str,
    /// The kind in discovery.
    kind: Arc<ResourceDefinition>,
    /// The options kind of the connection.
    options: Arc<ResourceDefinition>,
    methods: Vec<Method>,
}

impl ConnectionStore {
    /// Returns the connection paths of a store's objects. Most resources have none.
    pub fn paths(store: &Arc<RegistryStore>, upstreams: &Upstreams) -> Vec<ConnectionStore> {
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
                (ATTACH, options("core.v1.PodAttachOptions"), streams()),
                (EXEC, options("core.v1.PodExecOptions"), streams()),
                (LOG, options("core.v1.PodLogOptions"), vec![Method::GET]),
                (
                    PORT_FORWARD,
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
            upstreams: upstreams.clone(),
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

    /// Reads the options of a stream, runs admission, and asks for the right to create (CN-47,
    /// CN-48).
    async fn admit(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        path: &str,
        query: &Query,
    ) -> Result<(), Box<Status>> {
        if query.first("dryRun").is_some() {
            let status = Status::bad_request("dryRun is not supported");
            return Err(Box::new(status));
        }
        let mut options = options::of(&self.options, query)?;
        // The path is that after the proxy. A parameter `path` is one of the other server.
        if self.takes_paths() {
            options.0.remove("path");
            if !path.is_empty() {
                let path = format!("/{}", path.trim_start_matches('/'));
                options.0.insert("path".to_owned(), path.into());
            }
        }
        let admitting = self.store.admit_connection(self, context, at, &mut options);
        admitting.await?;
        match self.subresource {
            PROXY => Ok(()),
            subresource => self.store.may_connect(context, at, subresource).await,
        }
    }

    async fn find(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        path: &str,
        query: &Query,
    ) -> Result<Connected, Box<Status>> {
        // Kubernetes reads logs with GET, which has no admission.
        let log = match self.subresource {
            LOG => Some(LogOptions::read(query, at.name)?),
            _ => {
                self.admit(context, at, path, query).await?;
                None
            }
        };
        if self.subresource == PROXY {
            return self.proxied(at).await.map(Connected::Proxy);
        }
        // A cached pod may lack the node that it was bound to a moment ago.
        let pod = self.store.read(at, "").await?;
        let definition = self.store.definition();
        let container = match self.subresource {
            ATTACH | EXEC | LOG => container(&pod, query)?,
            _ => String::new(),
        };
        let node = pod.at(&["spec", "nodeName"]).and_then(Value::as_str);
        let Some(node) = node.filter(|node| !node.is_empty()) else {
            // A pod without a node has not logged anything.
            if self.subresource == LOG {
                return Ok(Connected::Nothing);
            }
            let why = format!("pod {} does not have a host assigned", at.name);
            return Err(Box::new(Status::bad_request(why)));
        };
        let lack = match self.subresource {
            LOG => "its pods have no logs",
            PORT_FORWARD => "nothing listens on the ports of its pods",
            _ => "no commands run in its pods",
        };
        let kubelet = self.upstreams.nodes.find(definition, node, lack).await?;
        let (name, namespace) = (at.name, at.namespace.unwrap_or_default());
        let of_container = |what| format!("/{what}/{namespace}/{name}/{container}");
        let (path, query) = match (self.subresource, &log) {
            (_, Some(log)) => (of_container("containerLogs"), log.kubelet_query()),
            (PORT_FORWARD, None) => (
                format!("/portForward/{namespace}/{name}"),
                options::ports_query(query)?,
            ),
            (subresource, None) => (of_container(subresource), options::command_query(query)),
        };
        let request = kubelet.request(path, &query);
        Ok(match log {
            Some(log) => Connected::Log {
                request,
                follow: log.follow,
                skips_verification: log.skips_verification,
            },
            None => Connected::Stream(request),
        })
    }

    /// Finds the server that a proxy leads to.
    async fn proxied(&self, at: NamespacedName<'_>) -> Result<ProxiedServer, Box<Status>> {
        let definition = self.store.definition();
        let asked = ProxiedName::parse(definition, at.name)?;
        let at = NamespacedName {
            name: asked.name,
            ..at
        };
        match definition.plural.as_str() {
            "nodes" => proxied::of_node(&self.upstreams.nodes, definition, &asked).await,
            "services" => {
                let services = &self.upstreams.services;
                let choice = random_unit();
                services.find(&self.store, at, &asked, choice).await
            }
            _ => proxied::of_pod(&self.store.read(at, "").await?, &asked),
        }
    }
}

/// Returns the container of a request (CN-42).
///
/// # Errors
/// 400 for a request that does not name one of several containers, or names one that does not
/// exist.
fn container(pod: &Object, query: &Query) -> Result<String, Box<Status>> {
    let names = |list: &str| {
        let items = pod.items(&["spec", list]).iter();
        let names = items.filter_map(|item| item.get("name")?.as_str());
        names.map(str::to_owned).collect::<Vec<String>>()
    };
    let asked = query.first("container").unwrap_or_default();
    let containers = names("containers");
    if let (true, [only]) = (asked.is_empty(), &*containers) {
        return Ok(only.clone());
    }
    let (first, last) = (names("initContainers"), names("ephemeralContainers"));
    let all = [first, containers, last].concat();
    let name = pod.name();
    let why = match asked {
        "" => format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ),
        // linear: looked for once, in one pod.
        asked if all.iter().any(|known| known == asked) => return Ok(asked.to_owned()),
        asked => format!("container {asked} is not valid for pod {name}"),
    };
    Err(Box::new(Status::bad_request(why)))
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
        path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Connected> {
        self.find(context, at, path, query).boxed()
    }
}
