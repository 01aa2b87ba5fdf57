//! Where the server of an APIService is, and how it is trusted (CN-17, CN-18).

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;

use super::proxy::name_user;
use super::{ApiService, Ask, Asker, ServiceReference};
use crate::admission::hooks::client::ClusterServices;
use crate::api::user_info::{MASTERS, UserInfo};
use crate::egress::{
    Answer, EgressClient, EgressRequest, HttpPolicy, Identity, InvalidTarget, Roots, RouteError,
    ServiceResolver, Target, TargetSettings,
};

/// Returns the certificate of the front proxy. The same certificate is the same allocation.
pub type ProxyIdentitySource = Box<dyn Fn() -> Option<Arc<Identity>> + Send + Sync>;

/// The targets that are remembered. When there are more, all are forgotten.
const TARGETS_MAX: usize = 1024;

/// Finds the servers of APIServices.
pub struct RemoteServers {
    /// Sends requests to them.
    pub client: Arc<EgressClient>,
    /// Finds their Services.
    pub services: Arc<ClusterServices>,
    identity: ProxyIdentitySource,
    /// By the names of APIServices and by addresses. Making a target takes longer than a look-up,
    /// because it has a digest of certificates.
    targets: Mutex<HashMap<(String, String), Known>>,
}

/// A target, and what it was made from.
struct Known {
    service: ServiceReference,
    ca_bundle: Vec<u8>,
    insecure_skip_tls_verify: bool,
    identity: Option<Arc<Identity>>,
    target: Target,
}

impl Known {
    fn is_of(
        &self,
        apiservice: &ApiService,
        service: &ServiceReference,
        identity: Option<&Arc<Identity>>,
    ) -> bool {
        let has_identity = match (&self.identity, identity) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        has_identity
            && self.service == *service
            && self.ca_bundle == apiservice.ca_bundle
            && self.insecure_skip_tls_verify == apiservice.insecure_skip_tls_verify
    }
}

/// Why no server can be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoServer {
    /// The APIService is local.
    #[error("this server serves the group itself")]
    Local,
    /// The Service has no address.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The address is not that of a server.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
}

impl RemoteServers {
    /// Creates a finder of servers, which asks them as a front proxy with this certificate.
    pub fn new(
        client: Arc<EgressClient>,
        services: Arc<ClusterServices>,
        identity: ProxyIdentitySource,
    ) -> RemoteServers {
        RemoteServers {
            client,
            services,
            identity,
            targets: Mutex::default(),
        }
    }

    /// Returns the `host:port` where requests for an APIService go now. With endpoints each call
    /// may return another one.
    ///
    /// # Errors
    /// [`NoServer`]
    pub async fn address(&self, apiservice: &ApiService) -> Result<String, NoServer> {
        let service = apiservice.service.as_ref().ok_or(NoServer::Local)?;
        let ServiceReference {
            namespace,
            name,
            port,
        } = service;
        Ok(self.services.resolve(namespace, name, *port).await?)
    }

    /// Returns the server of an APIService at this address, with everything that a connection to it
    /// needs.
    ///
    /// # Errors
    /// [`NoServer`]
    pub fn target(&self, apiservice: &ApiService, address: &str) -> Result<Target, NoServer> {
        let service = apiservice.service.as_ref().ok_or(NoServer::Local)?;
        let identity = (self.identity)();
        let key = (apiservice.name.clone(), address.to_owned());
        if let Some(known) = self.targets.lock().get(&key)
            && known.is_of(apiservice, service, identity.as_ref())
        {
            return Ok(known.target.clone());
        }
        let target = Target::new(settings(apiservice, service, address, identity.as_deref()))?;
        let known = Known {
            service: service.clone(),
            ca_bundle: apiservice.ca_bundle.clone(),
            insecure_skip_tls_verify: apiservice.insecure_skip_tls_verify,
            identity,
            target: target.clone(),
        };
        let mut targets = self.targets.lock();
        if targets.len() >= TARGETS_MAX {
            targets.clear();
        }
        targets.insert(key, known);
        Ok(target)
    }
}

impl Asker for RemoteServers {
    fn ask<'a>(
        &'a self,
        service: &'a ApiService,
        ask: Ask,
    ) -> BoxFuture<'a, Result<Answer, String>> {
        async move {
            let address = self.address(service).await;
            let address = address.map_err(|why| why.to_string())?;
            let target = self.target(service, &address);
            let target = target.map_err(|why| why.to_string())?;
            let user = UserInfo {
                name: ask.user.to_owned(),
                groups: vec![MASTERS.to_owned()],
                ..UserInfo::default()
            };
            let mut headers = ask.headers;
            name_user(&mut headers, &user).map_err(|why| why.to_string())?;
            let request = EgressRequest {
                method: ask.method,
                path: ask.path,
                headers,
                body: ask.body,
                deadline: ask.deadline,
                answer_bytes_max: ask.bytes_max,
            };
            let answer = self.client.send(&target, request).await;
            answer.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

fn settings(
    apiservice: &ApiService,
    service: &ServiceReference,
    address: &str,
    identity: Option<&Identity>,
) -> TargetSettings {
    let roots = match (apiservice.insecure_skip_tls_verify, &*apiservice.ca_bundle) {
        (true, _) => Roots::Anyone,
        (false, []) => Roots::System,
        (false, bundle) => Roots::Bundle(bundle.to_vec()),
    };
    TargetSettings {
        identity: identity.cloned(),
        server_name: Some(format!("{}.{}.svc", service.name, service.namespace)),
        http: HttpPolicy::Http1AndHttp2,
        ..TargetSettings::new(format!("https://{address}"), roots)
    }
}
