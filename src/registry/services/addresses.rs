//! The cluster IPs of Services. Each allocated address is an IPAddress object, whose name is the
//! address.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use actors::backoff::random_unit;
use serde_json::{Value, json};

use super::context;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::api::version::Preconditions;
use crate::kinds::strategies::services::allocations::{AddressDemand, Family};
use crate::kinds::validation::addresses::Range;
use crate::registry::errors::decoded;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// The label that names the manager of an IPAddress.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of that label for cluster IPs, as in kube-apiserver.
const MANAGER: &str = "ipallocator.k8s.io";

/// The number of random attempts before addresses are tried in order.
const TRIES: usize = 32;

/// The most addresses of a band that are tried in order.
const STEPS: u128 = 1 << 20;

/// The reason why an address cannot be allocated. The texts are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AddressRefusal {
    /// The address is taken.
    #[error("provided IP is already allocated")]
    Allocated,
    /// The address is outside all ranges, or is a network address.
    #[error("the provided network does not match the current range")]
    NotInRange,
    /// The address is outside this range. Dry runs have this message.
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    NotInRangeOf(IpAddr, String),
    /// No address is free.
    #[error("range is full")]
    Full,
    /// The storage has failed.
    #[error("{0}")]
    Storage(Box<Status>),
}

/// The allocator of cluster IPs.
pub struct AddressAllocator {
    /// The IPAddress resource.
    addresses: Arc<RegistryStore>,
    /// The configured ranges, the primary family first.
    configured: Vec<Range>,
    /// The ServiceCIDR resource, whose objects may add ranges.
    cidrs: Arc<RegistryStore>,
}

impl AddressAllocator {
    /// Creates an allocator for the configured ranges and those of ServiceCIDRs.
    pub fn new(
        addresses: Arc<RegistryStore>,
        cidrs: Arc<RegistryStore>,
        configured: Vec<Range>,
    ) -> AddressAllocator {
        AddressAllocator {
            addresses,
            configured,
            cidrs,
        }
    }

    /// Returns the IP families of the cluster, the primary one first.
    pub(super) fn families(&self) -> Vec<Family> {
        let families = self.configured.iter();
        families.map(|range| Family::of(range.address)).collect()
    }

    /// Returns the ranges of a family: the configured one, and those of ServiceCIDRs that are
    /// ready.
    async fn ranges(&self, family: Family) -> Result<Vec<Range>, Box<Status>> {
        let of_family = |range: &Range| Family::of(range.address) == family;
        let mut ranges: Vec<Range> = self.configured.iter().copied().filter(of_family).collect();
        let key = |range: &Range| (range.address, range.bits);
        let mut seen: HashSet<_> = ranges.iter().map(key).collect();
        let everything = Arc::new(Selection::default());
        let options = cached_list();
        let listed = self.cidrs.list(None, &options, everything).await?;
        for item in listed.items {
            let object = decoded(&item)?;
            if object.is_being_deleted() || !is_ready(&object) {
                continue;
            }
            let texts = object.items(&["spec", "cidrs"]).iter();
            let texts = texts.filter_map(Value::as_str);
            let found = texts.filter_map(Range::parse).filter(of_family);
            ranges.extend(found.filter(|range| seen.insert(key(range))));
        }
        Ok(ranges)
    }

    /// Allocates an address for a Service. A dry run without a requested address returns the
    /// network address, as in kube-apiserver.
    pub(super) async fn take(
        &self,
        service: &Object,
        demand: AddressDemand,
        dry_run: bool,
    ) -> Result<IpAddr, AddressRefusal> {
        let ranges = self.ranges(demand.family).await;
        let ranges = ranges.map_err(AddressRefusal::Storage)?;
        let service = NamespacedName::in_namespace(service.namespace(), service.name());
        match (demand.address, dry_run) {
            (Some(address), _) => {
                if !ranges
                    .iter()
                    .any(|range| Usable::of(*range).contains(address))
                {
                    return Err(match ranges.first() {
                        Some(range) if dry_run => {
                            let range = format!("{}/{}", range.first(), range.bits);
                            AddressRefusal::NotInRangeOf(address, range)
                        }
                        _ => AddressRefusal::NotInRange,
                    });
                }
                match dry_run {
                    true if self.is_taken(address).await? => Err(AddressRefusal::Allocated),
                    true => Ok(address),
                    false => self.create(service, address).await,
                }
            }
            (None, true) => {
                let range = ranges.first().ok_or(AddressRefusal::Full)?;
                Ok(range.first())
            }
            (None, false) => self.take_any(service, &ranges).await,
        }
    }

    /// Allocates any free address, beginning with random ones. The band for static allocation comes
    /// last.
    async fn take_any(
        &self,
        service: NamespacedName<'_>,
        ranges: &[Range],
    ) -> Result<IpAddr, AddressRefusal> {
        let parts = ranges.iter().map(|range| Usable::of(*range));
        let parts: Vec<Usable> = parts.flat_map(Usable::parts).collect();
        for part in &parts {
            if part.count == 0 {
                continue;
            }
            for _ in 0..TRIES {
                let address = part.at((part.count as f64 * random_unit()) as u128);
                match self.try_create(service, address).await {
                    Err(AddressRefusal::Allocated) => {}
                    outcome => return outcome,
                }
            }
            // Random attempts failed, so the band is nearly full.
            let begin = (part.count as f64 * random_unit()) as u128;
            for step in 0..part.count.min(STEPS) {
                let address = part.at((begin + step) % part.count);
                match self.try_create(service, address).await {
                    Err(AddressRefusal::Allocated) => {}
                    outcome => return outcome,
                }
            }
        }
        self.take_given_back(service, &parts).await
    }

    /// Allocates an address that was released a moment ago, which the cache still shows as taken.
    async fn take_given_back(
        &self,
        service: NamespacedName<'_>,
        parts: &[Usable],
    ) -> Result<IpAddr, AddressRefusal> {
        let all = self.all().await.map_err(AddressRefusal::Storage)?;
        let taken: HashSet<IpAddr> = all.into_iter().map(|(address, _)| address).collect();
        for part in parts {
            let all = (0..part.count.min(STEPS)).map(|step| part.at(step));
            for address in all.filter(|address| !taken.contains(address)) {
                match self.create(service, address).await {
                    Err(AddressRefusal::Allocated) => {}
                    outcome => return outcome,
                }
            }
        }
        Err(AddressRefusal::Full)
    }

    /// Creates an IPAddress, unless the cache already has it.
    async fn try_create(
        &self,
        service: NamespacedName<'_>,
        address: IpAddr,
    ) -> Result<IpAddr, AddressRefusal> {
        match self.is_taken(address).await? {
            true => Err(AddressRefusal::Allocated),
            false => self.create(service, address).await,
        }
    }

    async fn is_taken(&self, address: IpAddr) -> Result<bool, AddressRefusal> {
        let name = address.to_string();
        match self
            .addresses
            .get(NamespacedName::in_cluster(&name), "0")
            .await
        {
            Ok(_) => Ok(true),
            Err(status) if status.code == 404 => Ok(false),
            Err(status) => Err(AddressRefusal::Storage(status)),
        }
    }

    /// Allocates this address for a Service.
    pub(super) async fn create(
        &self,
        service: NamespacedName<'_>,
        address: IpAddr,
    ) -> Result<IpAddr, AddressRefusal> {
        let object = ip_address(service, address);
        let options = WriteOptions::default();
        let context = context();
        let creating = self.addresses.create(&context, None, object, &options);
        match creating.await {
            Ok(_) => Ok(address),
            Err(status) if status.reason == StatusReason::ALREADY_EXISTS => {
                Err(AddressRefusal::Allocated)
            }
            Err(status) => Err(AddressRefusal::Storage(status)),
        }
    }

    /// Releases addresses of a Service. If that fails, the repair finds them later.
    pub(super) async fn give_back(&self, service: &Object, addresses: &[IpAddr]) {
        for address in addresses {
            if let Err(status) = self.remove(service, *address).await {
                tracing::warn!(
                    %status,
                    %address,
                    "releasing an address of a service failed; the repair retries"
                );
            }
        }
    }

    async fn remove(&self, service: &Object, address: IpAddr) -> Result<(), Box<Status>> {
        let name = address.to_string();
        let at = NamespacedName::in_cluster(&name);
        let object = match self.addresses.read(at, "").await {
            Ok(object) => object,
            Err(status) if status.code == 404 => return Ok(()),
            Err(status) => return Err(status),
        };
        if holder(&object) != Some((service.namespace(), service.name())) {
            return Ok(());
        }
        self.delete(&object).await
    }

    /// Deletes an IPAddress, if its uid has not changed.
    pub(super) async fn delete(&self, object: &Object) -> Result<(), Box<Status>> {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                resource_version: None,
            },
            ..DeleteOptions::default()
        };
        let at = NamespacedName::in_cluster(object.name());
        match self.addresses.delete(&context(), at, &options).await {
            Err(status) if !matches!(status.code, 404 | 409) => Err(status),
            _ => Ok(()),
        }
    }

    /// Returns all IPAddresses, including those of other managers.
    pub(super) async fn all(&self) -> Result<Vec<(IpAddr, Object)>, Box<Status>> {
        let everything = Arc::new(Selection::default());
        let listed = self
            .addresses
            .list(None, &ListOptions::default(), everything)
            .await?;
        let mut all = Vec::new();
        for item in listed.items {
            // The name of an IPAddress is its address.
            if let Ok(address) = item.attributes().name().parse() {
                all.push((address, decoded(&item)?));
            }
        }
        Ok(all)
    }
}

/// Returns whether the allocator of Services manages an IPAddress.
pub(super) fn is_managed(address: &Object) -> bool {
    let manager = address.at(&["metadata", "labels", MANAGED_BY]);
    manager.and_then(Value::as_str) == Some(MANAGER)
}

/// Returns options for a list from the cache as it is.
fn cached_list() -> ListOptions {
    ListOptions {
        resource_version: "0".to_owned(),
        ..ListOptions::default()
    }
}

/// Returns whether a ServiceCIDR is ready. It counts as ready until a controller reports that it is
/// not.
fn is_ready(cidr: &Object) -> bool {
    let mut conditions = cidr.items(&["status", "conditions"]).iter();
    let ready = conditions.find(|condition| condition.get("type") == Some(&"Ready".into()));
    ready.is_none_or(|ready| ready.get("status") != Some(&"False".into()))
}

/// Returns the namespace and name of the Service that an IPAddress belongs to.
pub(super) fn holder(address: &Object) -> Option<(&str, &str)> {
    let parent = address.at(&["spec", "parentRef"])?;
    let text = |name| parent.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_service = text("group").is_empty() && text("resource") == "services";
    is_service.then(|| (text("namespace"), text("name")))
}

fn ip_address(service: NamespacedName<'_>, address: IpAddr) -> Object {
    let mut object = Object::default();
    object.set_type("IPAddress", "networking.k8s.io/v1");
    let metadata = json!({
        "name": address.to_string(),
        "labels": {
            "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
            (MANAGED_BY): MANAGER,
        },
    });
    let parent = json!({
        "resource": "services",
        "namespace": service.namespace,
        "name": service.name,
    });
    object.0.insert("metadata".to_owned(), metadata);
    object
        .0
        .insert("spec".to_owned(), json!({ "parentRef": parent }));
    object
}

/// The addresses of a range that Services may have, or one band of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usable {
    family: Family,
    first: u128,
    count: u128,
}

impl Usable {
    /// Returns all but the network address and the broadcast address.
    fn of(range: Range) -> Usable {
        let (first, bits) = match range.first() {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32 - range.bits),
            IpAddr::V6(address) => (u128::from(address), 128 - range.bits),
        };
        let size = 1_u128.checked_shl(bits).unwrap_or(u128::MAX);
        let family = Family::of(range.address);
        let beside = match family {
            Family::V4 => 2,
            Family::V6 => 1,
        };
        Usable {
            family,
            first: first.saturating_add(1),
            count: size.saturating_sub(beside),
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let offset = number.checked_sub(self.first);
        Family::of(address) == self.family && offset.is_some_and(|offset| offset < self.count)
    }

    fn at(&self, offset: u128) -> IpAddr {
        let number = self.first + offset.min(self.count.saturating_sub(1));
        match self.family {
            Family::V4 => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
            Family::V6 => Ipv6Addr::from(number).into(),
        }
    }

    /// Returns the bands of a range: the upper one for dynamic allocation, then the lower one,
    /// which is used last, so that requested addresses are likely free there.
    fn parts(self) -> [Usable; 2] {
        let kept = match self.count < 16 {
            true => 0,
            false => (self.count / 16).clamp(16, 256).min(self.count),
        };
        [
            Usable {
                first: self.first + kept,
                count: self.count - kept,
                ..self
            },
            Usable {
                count: kept,
                ..self
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(text: &str) -> Usable {
        Usable::of(Range::parse(text).unwrap())
    }

    /// API-228.
    #[test]
    fn a_service_can_have_all_but_the_ends_of_a_range() {
        let range = usable("10.0.0.0/24");
        assert_eq!(range.count, 254);
        let has = |text: &str| range.contains(text.parse().unwrap());
        assert!(has("10.0.0.1") && has("10.0.0.254"));
        assert!(!has("10.0.0.0") && !has("10.0.0.255") && !has("10.0.1.1") && !has("fd00::1"));
        let wide = usable("fd00::/108");
        assert_eq!(wide.count, (1 << 20) - 1);
        assert!(wide.contains("fd00::f:ffff".parse().unwrap()));
        assert!(!wide.contains("fd00::".parse().unwrap()));
        assert_eq!(usable("10.0.0.1/32").count, 0);
    }

    /// API-228.
    #[test]
    fn the_beginning_of_a_range_is_kept_for_choice() {
        let [rest, kept] = usable("10.0.0.0/24").parts();
        assert_eq!((kept.at(0), kept.count), ("10.0.0.1".parse().unwrap(), 16));
        assert_eq!(
            (rest.at(0), rest.count),
            ("10.0.0.17".parse().unwrap(), 238)
        );
        let [rest, kept] = usable("10.0.0.0/29").parts();
        assert_eq!((rest.count, kept.count), (6, 0));
        let [_, kept] = usable("10.0.0.0/12").parts();
        assert_eq!(kept.count, 256);
    }
}
