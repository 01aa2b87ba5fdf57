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

use super::{Answering, Connected, Connecter, RestStorage};
use crate::api::object::Object;
use crate::api::options::{LogOptions, Query};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::definitions::core;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

use kubelet::Kubelet;
pub use kubelet::{KubeletRequest, NodeAddresses};
pub use options::CommandStreams;
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

    /// Reads the options of a connection, and runs admission (CN-48). Returns the options as
    /// admission has left them. The connection is made by these, because they are those that
    /// validating admission has seen (HK-16).
    async fn admit(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        path: &str,
        query: &Query,
    ) -> Result<Object, Box<Status>> {
        if query.first("dryRun").is_some() {
            let status = Status::bad_request("dryRun is not supported");
            return Err(Box::new(status));
        }
        let mut options = options::of(&self.options, query)?;
        // The path is that after the proxy. A query parameter `path` belongs to the other server.
        if self.takes_paths() {
            options.0.remove("path");
            if !path.is_empty() {
                options.0.insert("path".to_owned(), path.into());
            }
        }
        let admitting = self.store.admit_connection(self, context, at, &mut options);
        admitting.await?;
        Ok(options)
    }

    /// Finds the log of a container. Kubernetes reads it with GET, which has no admission.
    async fn log(&self, at: NamespacedName<'_>, query: &Query) -> Result<Connected, Box<Status>> {
        let log = LogOptions::read(query, at.name)?;
        let asked = query.first("container").unwrap_or_default();
        let place = self.place(at, Some(asked)).await?;
        // A pod without a node has not logged anything.
        let Some(kubelet) = place.kubelet else {
            return Ok(Connected::Nothing);
        };
        let path = self.path_of(at, "containerLogs", &place.container);
        Ok(Connected::Log {
            request: kubelet.request(path, &log.kubelet_query()),
            follow: log.follow,
            skips_verification: log.skips_verification,
        })
    }

    /// Finds the kubelet of a command, or of ports to forward. A client needs the right to create
    /// (CN-47).
    async fn stream(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        query: &Query,
    ) -> Result<Connected, Box<Status>> {
        let options = self.admit(context, at, "", query).await?;
        let rights = self.store.may_connect(context, at, self.subresource);
        rights.await?;
        let has_container = self.subresource != PORT_FORWARD;
        let asked = has_container.then(|| options.text(&["container"]));
        let place = self.place(at, asked).await?;
        let Some(kubelet) = place.kubelet else {
            let why = format!("pod {} does not have a host assigned", at.name);
            return Err(Box::new(Status::bad_request(why)));
        };
        let streams = CommandStreams::of(&options);
        let (path, query) = match self.subresource {
            PORT_FORWARD => {
                let namespace = at.namespace.unwrap_or_default();
                let path = format!("/portForward/{namespace}/{}", at.name);
                (path, options::ports_query(&options))
            }
            subresource => (
                self.path_of(at, subresource, &place.container),
                options::command_query(&options, streams),
            ),
        };
        Ok(Connected::Stream {
            request: kubelet.request(path, &query),
            streams,
        })
    }

    /// Says why a simulated node can't answer.
    fn lack(&self) -> &'static str {
        match self.subresource {
            LOG => "its pods have no logs",
            PORT_FORWARD => "nothing listens on the ports of its pods",
            _ => "no commands run in its pods",
        }
    }

    /// Returns the path at which a kubelet serves something of a container.
    fn path_of(&self, at: NamespacedName<'_>, what: &str, container: &str) -> String {
        let namespace = at.namespace.unwrap_or_default();
        format!("/{what}/{namespace}/{}/{container}", at.name)
    }

    /// Finds the place of a pod, and the container that is asked for, if it takes one.
    async fn place(
        &self,
        at: NamespacedName<'_>,
        asked: Option<&str>,
    ) -> Result<Place, Box<Status>> {
        // A cached pod may lack the node that it was bound to a moment ago.
        let pod = self.store.read(at, "").await?;
        let container = match asked {
            Some(asked) => container(&pod, asked)?,
            None => String::new(),
        };
        let kubelet = match pod.text(&["spec", "nodeName"]) {
            "" => None,
            node => {
                let nodes = &self.upstreams.nodes;
                let definition = self.store.definition();
                Some(nodes.find(definition, node, self.lack()).await?)
            }
        };
        Ok(Place { container, kubelet })
    }

    /// Finds the server of a proxy, and the path there.
    async fn proxy(
        &self,
        context: &RequestContext,
        at: NamespacedName<'_>,
        path: &str,
        query: &Query,
    ) -> Result<Connected, Box<Status>> {
        let path = match path {
            "" => String::new(),
            path => format!("/{}", path.trim_start_matches('/')),
        };
        let options = self.admit(context, at, &path, query).await?;
        let admitted = options.text(&["path"]);
        // The path of the URL may have bytes that no text has.
        let changed = (admitted != path).then(|| admitted.to_owned());
        Ok(Connected::Proxy {
            server: self.proxied(at).await?,
            path: changed,
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

/// The place of a pod.
struct Place {
    /// The name of the container that is asked for.
    container: String,
    /// The kubelet of the pod's node, if the pod is bound to one.
    kubelet: Option<Kubelet>,
}

/// Returns the container of a request, which may name one (CN-42).
///
/// # Errors
/// 400 for a request that does not name one of several containers, or names one that does not
/// exist.
fn container(pod: &Object, asked: &str) -> Result<String, Box<Status>> {
    let names = |list: &str| {
        let items = pod.items(&["spec", list]).iter();
        let names = items.filter_map(|item| item.get("name")?.as_str());
        names.map(str::to_owned).collect::<Vec<String>>()
    };
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
        match self.subresource {
            LOG => self.log(at, query).boxed(),
            PROXY => self.proxy(context, at, path, query).boxed(),
            _ => self.stream(context, at, query).boxed(),
        }
    }
}
