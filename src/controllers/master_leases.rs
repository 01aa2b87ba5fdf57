//! Finds the live servers of one etcd: each keeps a lease at its own key, in the form and at the
//! place where kube-apiservers keep theirs (KV-5). A server that dies is forgotten when its lease
//! expires.

use std::net::IpAddr;
use std::sync::Arc;

use actors::engine::Origin;
use actors::object::CachedObject;
use actors::watch::Everything;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use crate::api::object::{Object, put};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::registry::{StoredVersion, decoded};
use crate::storage::{
    Asked, Current, DeleteRequest, ListRequest, NewObject, Preconditions, Storage, StorageError,
    StorageErrorKind, Unconditional, UpdateFunction, UpdateRequest, VersionUse, WriteDecision,
};

/// The prefix of the keys, below that of the store.
const KEYS: &str = "/masterleases";
/// Seconds after which a lease expires unless it is renewed.
const TIME_TO_LIVE: u64 = 15;

/// The leases of all servers.
#[derive(Clone)]
pub struct MasterLeases {
    definition: Arc<ResourceDefinition>,
    storage: Arc<dyn Storage>,
}

impl MasterLeases {
    /// The leases, over their storage.
    pub fn new((definition, storages): StoredVersion) -> MasterLeases {
        MasterLeases {
            definition,
            storage: storages.storage,
        }
    }

    /// Creates or renews the lease of a server.
    ///
    /// # Errors
    /// The failed write.
    pub async fn renew(&self, server: IpAddr, origin: Origin) -> Result<(), StorageError> {
        let request = UpdateRequest {
            key: key(server),
            ignore_not_found: true,
            preconditions: Preconditions::default(),
            suggestion: None,
            version: VersionUse::Ignores,
            origin,
        };
        let mut renewal = Renewal {
            definition: &self.definition,
            server,
        };
        self.storage
            .guaranteed_update(request, &mut renewal)
            .await?;
        Ok(())
    }

    /// The servers whose leases have not expired, in order.
    ///
    /// # Errors
    /// The failed read.
    pub async fn servers(&self) -> Result<Vec<IpAddr>, StorageError> {
        let request = ListRequest {
            key: KEYS.to_owned(),
            recursive: true,
            asked: Asked::Unset,
            version_match: None,
            limit: 0,
            continue_token: None,
            predicate: Arc::new(Everything),
        };
        let list = self.storage.get_list(request).await?;
        let mut servers: Vec<IpAddr> = list.items.iter().filter_map(|item| server(item)).collect();
        servers.sort_unstable();
        servers.dedup();
        Ok(servers)
    }

    /// Removes the lease of a server.
    ///
    /// # Errors
    /// The failed write. A missing lease is not an error.
    pub async fn remove(&self, server: IpAddr, origin: Origin) -> Result<(), StorageError> {
        let request = DeleteRequest {
            key: key(server),
            preconditions: Preconditions::default(),
            suggestion: None,
            origin,
        };
        match self.storage.delete(request, &mut Unconditional).await {
            Err(error) if !matches!(error.kind, StorageErrorKind::KeyNotFound) => Err(error),
            _ => Ok(()),
        }
    }
}

fn key(server: IpAddr) -> String {
    format!("{KEYS}/{server}")
}

/// The server of a lease.
fn server(lease: &CachedObject) -> Option<IpAddr> {
    let lease = decoded(lease).ok()?;
    let address = lease.0.get("subsets")?.pointer("/0/addresses/0/ip")?;
    address.as_str()?.parse().ok()
}

/// Writes a lease.
struct Renewal<'r> {
    definition: &'r ResourceDefinition,
    server: IpAddr,
}

impl Renewal<'_> {
    fn renewed(&self, current: Option<&CachedObject>) -> Result<Object, Box<Status>> {
        let mut lease = match current {
            Some(lease) => decoded(lease)?,
            None => Object::default(),
        };
        let kind = self.definition;
        lease.set_type(&kind.kind, &kind.api_version());
        let subset = json!([{ "addresses": [{ "ip": self.server.to_string() }] }]);
        lease.0.insert("subsets".to_owned(), subset);
        // Without a change nothing would be written, so the generation counts renewals.
        let generation = lease
            .at(&["metadata", "generation"])
            .and_then(Value::as_i64);
        let generation = generation.unwrap_or_default().wrapping_add(1);
        put(&mut lease, &["metadata", "generation"], generation.into());
        Ok(lease)
    }
}

impl UpdateFunction for Renewal<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        let renewed = self.renewed(current.object.as_deref()).map(|object| {
            WriteDecision::Write(NewObject {
                ttl: Some(TIME_TO_LIVE),
                ..NewObject::from(object)
            })
        });
        std::future::ready(renewed).boxed()
    }
}
