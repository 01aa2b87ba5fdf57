//! Tests of the repair of allocations, over a store in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use actors::testing::FaultyEngine;
use futures_util::future::{FutureExt, join_all};
use serde_json::json;
use tokio::sync::Semaphore;

use super::{PortRange, Repaired, ServiceAllocators};
use crate::api::object::Object;
use crate::api::options::DeleteOptions;
use crate::registry::NamespacedName;
use crate::registry::tests::fixture::Fixture;
use crate::registry::tests::hooked::Hooked;
use crate::storage::ResourceStorage;

const ADDRESSES: &str = "ipaddresses.networking.k8s.io";
const RANGE: (&str, PortRange) = (
    "10.9.8.0/26",
    PortRange {
        first: 30000,
        last: 30063,
    },
);
/// A port of the lower band, which is used last, so it is free. The first addresses are free for
/// the same reason.
const KEPT: u16 = 30001;

/// A daemon over an engine.
fn daemon(engine: &Arc<FaultyEngine>) -> Fixture {
    Fixture::with_network(engine, |storages| storages, RANGE)
}

async fn in_namespace(fixture: Fixture) -> Fixture {
    let namespace = r#"{"metadata":{"name":"d"}}"#;
    let made = fixture.create("namespaces", None, namespace).await;
    made.expect("created");
    fixture
}

/// A daemon with a Service `a` that has an address and a port.
async fn with_service() -> (Fixture, IpAddr, u16) {
    let fixture = in_namespace(daemon(&FaultyEngine::new())).await;
    let (address, port) = create(&fixture, "a").await;
    (fixture, address, port)
}

async fn create(fixture: &Fixture, name: &str) -> (IpAddr, u16) {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let body = json!({"metadata": {"name": name}, "spec": spec}).to_string();
    let made = fixture.create("services", Some("d"), &body).await;
    had_by(&made.expect("created"))
}

fn had_by(service: &Object) -> (IpAddr, u16) {
    let address = service.text(&["spec", "clusterIP"]).parse();
    let port = service.items(&["spec", "ports"])[0]["nodePort"].as_u64();
    (address.unwrap(), port.unwrap().try_into().unwrap())
}

async fn delete(fixture: &Fixture, resource: &str, namespace: Option<&str>, name: &str) {
    let options = DeleteOptions::default();
    let deleted = fixture.delete(resource, namespace, name, &options).await;
    deleted.expect("deleted");
}

fn allocators(fixture: &Fixture) -> &Arc<ServiceAllocators> {
    let allocators = fixture.registry.service_allocators();
    allocators.expect("services take of the cluster")
}

async fn repair(fixture: &Fixture, before: &Repaired) -> Repaired {
    let services = fixture.store("services");
    let repairing = allocators(fixture).repair(&services, before);
    repairing.await.expect("repaired")
}

/// Allocates a port for no Service.
async fn leak_port(fixture: &Fixture, port: u16) {
    let ports = &allocators(fixture).ports;
    let taken = ports.take(&[Some(port)], false, &|_, _| None).await;
    assert_eq!(taken.expect("it is free"), [port]);
}

/// Allocates an address for a Service of this name, which need not exist.
async fn leak_address(fixture: &Fixture, service: &str, address: IpAddr) {
    let named = NamespacedName::in_namespace("d", service);
    let taking = allocators(fixture).addresses.create(named, address);
    assert_eq!(taking.await, Ok(address));
}

/// Returns the allocated addresses, and the names of their Services.
async fn taken(fixture: &Fixture) -> BTreeMap<IpAddr, String> {
    let all = allocators(fixture).addresses.all().await.expect("listed");
    let all = all.into_iter().map(|(address, object)| {
        let name = object.text(&["spec", "parentRef", "name"]).to_owned();
        (address, name)
    });
    all.collect()
}

async fn taken_ports(fixture: &Fixture) -> BTreeSet<u16> {
    let taken = allocators(fixture).ports.taken().await.expect("read");
    let range = RANGE.1;
    let ports = range.first..=range.last;
    let has = |port: &u16| taken.bits.has(usize::from(port - range.first));
    ports.filter(has).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn what_a_service_lost_is_taken_for_it_again_api_228() {
    let (fixture, has, port) = with_service().await;
    delete(&fixture, ADDRESSES, None, &has.to_string()).await;
    let ports = &allocators(&fixture).ports;
    ports.give_back(&[port]).await.expect("given back");
    assert!(taken(&fixture).await.is_empty() && taken_ports(&fixture).await.is_empty());

    let first = repair(&fixture, &Repaired::default()).await;
    assert_eq!(first.mended, 2);
    let expected = BTreeMap::from([(has, "a".to_owned())]);
    assert_eq!(taken(&fixture).await, expected);
    assert_eq!(taken_ports(&fixture).await, BTreeSet::from([port]));
    assert_eq!(repair(&fixture, &first).await.mended, 0);
    // It can be released like any other.
    delete(&fixture, "services", Some("d"), "a").await;
    assert!(taken(&fixture).await.is_empty() && taken_ports(&fixture).await.is_empty());
}

#[tokio::test]
async fn what_nobody_has_is_given_back_by_the_second_repair_api_228() {
    let (fixture, has, port) = with_service().await;
    leak_port(&fixture, KEPT).await;
    // One for a Service that does not exist, and one for a Service that has another address.
    leak_address(&fixture, "absent", address("10.9.8.1")).await;
    leak_address(&fixture, "a", address("10.9.8.2")).await;

    let first = repair(&fixture, &Repaired::default()).await;
    assert_eq!(first.mended, 0);
    assert_eq!(taken(&fixture).await.len(), 3);
    assert_eq!(taken_ports(&fixture).await, BTreeSet::from([KEPT, port]));
    let second = repair(&fixture, &first).await;
    assert_eq!(second.mended, 3);
    let expected = BTreeMap::from([(has, "a".to_owned())]);
    assert_eq!(taken(&fixture).await, expected);
    assert_eq!(taken_ports(&fixture).await, BTreeSet::from([port]));
    assert_eq!(repair(&fixture, &second).await.mended, 0);
}

/// A Service gets its address, even if it is allocated to a Service that does not have it, or to
/// none.
#[tokio::test]
async fn an_address_that_is_taken_for_another_is_taken_for_who_has_it_api_228() {
    let (fixture, has, _) = with_service().await;
    let own = json!({"metadata": {"name": "10.9.8.3"}, "spec": {"parentRef": {
        "group": "example.com", "resource": "things", "name": "x"}}});
    let own = fixture.create(ADDRESSES, None, &own.to_string()).await;
    own.expect("users have addresses of their own");
    let unlabelled = json!({"metadata": {"name": has.to_string()}, "spec": {"parentRef": {
        "resource": "services", "namespace": "d", "name": "a"}}});
    for wrong in ["absent", ""] {
        delete(&fixture, ADDRESSES, None, &has.to_string()).await;
        match wrong {
            "" => {
                let body = unlabelled.to_string();
                let made = fixture.create(ADDRESSES, None, &body).await;
                made.expect("created");
            }
            name => leak_address(&fixture, name, has).await,
        }
        let before = taken(&fixture).await;
        let first = repair(&fixture, &Repaired::default()).await;
        assert_eq!((first.mended, taken(&fixture).await), (0, before));
        let second = repair(&fixture, &first).await;
        assert!(second.mended > 0);
        let expected = [(has, "a".to_owned()), (address("10.9.8.3"), "x".to_owned())];
        assert_eq!(taken(&fixture).await, BTreeMap::from(expected));
        let mended = fixture.get(ADDRESSES, None, &has.to_string()).await;
        assert!(super::addresses::is_managed(&mended.expect("there")));
        assert_eq!(repair(&fixture, &second).await.mended, 0);
    }
}

/// Only a writer can resolve the conflict. The repair must not make it worse.
#[tokio::test]
async fn an_address_that_two_services_have_stays_taken_api_228() {
    let (fixture, has, _) = with_service().await;
    delete(&fixture, ADDRESSES, None, &has.to_string()).await;
    let spec = json!({"clusterIP": has.to_string(), "ports": [{"port": 80}]});
    let body = json!({"metadata": {"name": "b"}, "spec": spec}).to_string();
    let made = fixture.create("services", Some("d"), &body).await;
    made.expect("the address is free");
    let mut before = Repaired::default();
    for _ in 0..3 {
        before = repair(&fixture, &before).await;
        assert_eq!(before.mended, 0);
        let expected = BTreeMap::from([(has, "b".to_owned())]);
        assert_eq!(taken(&fixture).await, expected);
    }
}

/// A Service is written after its allocations, which until then look unused.
#[tokio::test]
async fn a_repair_takes_nothing_from_a_service_that_is_being_created_api_228() {
    let may_go_on = Arc::new(Semaphore::new(0));
    let wrap = |storages: ResourceStorage| {
        let mut storage = Hooked::new(storages.storage);
        let may_go_on = may_go_on.clone();
        storage.before_create = Box::new(move |key| {
            let is_service = key.starts_with("/services/specs/");
            let may_go_on = may_go_on.clone();
            async move {
                if is_service {
                    may_go_on.acquire().await.expect("it stays open").forget();
                }
                Ok(())
            }
            .boxed()
        });
        ResourceStorage {
            storage: Arc::new(storage),
            ..storages
        }
    };
    let fixture = Fixture::with_network(&FaultyEngine::new(), wrap, RANGE);
    let fixture = in_namespace(fixture).await;
    let repairing = async {
        while taken_ports(&fixture).await.is_empty() {
            tokio::task::yield_now().await;
        }
        let first = repair(&fixture, &Repaired::default()).await;
        may_go_on.add_permits(1);
        first
    };
    let ((has, port), first) = tokio::join!(create(&fixture, "a"), repairing);
    assert_eq!((first.mended, first.addresses.len()), (0, 1));
    assert_eq!(first.ports, HashSet::from([port]));
    let second = repair(&fixture, &first).await;
    assert_eq!((second.mended, second.addresses.len()), (0, 0));
    let expected = BTreeMap::from([(has, "a".to_owned())]);
    assert_eq!(taken(&fixture).await, expected);
    assert_eq!(taken_ports(&fixture).await, BTreeSet::from([port]));
}

/// Writes of others between the list of Services and the repair of ports.
#[tokio::test]
async fn a_port_that_changes_hands_beside_a_repair_is_left_alone_api_228() {
    let (fixture, _, port) = with_service().await;
    let ports = &allocators(&fixture).ports;
    let (held, suspects) = (HashSet::from([port]), HashSet::from([KEPT]));
    leak_port(&fixture, KEPT).await;
    // Another daemon releases the leaked one, and a new Service allocates it.
    let before = ports.taken().await.expect("read");
    ports.give_back(&[KEPT]).await.expect("given back");
    leak_port(&fixture, KEPT).await;
    let repaired = ports.repair(&before, &held, &suspects).await;
    assert_eq!(repaired.expect("repaired"), (suspects, Vec::new()));
    assert!(taken_ports(&fixture).await.contains(&KEPT));

    // The Service that had a port is deleted.
    let before = ports.taken().await.expect("read");
    delete(&fixture, "services", Some("d"), "a").await;
    let repaired = ports.repair(&before, &held, &HashSet::new()).await;
    assert_eq!(repaired.expect("repaired").1, [0_u16; 0]);
    assert!(!taken_ports(&fixture).await.contains(&port));
}

/// After any number of lost and leaked allocations, each address and port belongs to its Service in
/// the end.
#[tokio::test]
async fn daemons_repair_at_once_beside_writes_api_228() {
    let engine = FaultyEngine::new();
    let daemons = [in_namespace(daemon(&engine)).await, daemon(&engine)];
    let mut before = [Repaired::default(), Repaired::default()];
    for round in 0..12_u16 {
        for number in 0..4 {
            create(&daemons[0], &format!("old-{round}-{number}")).await;
        }
        leak_address(
            &daemons[1],
            "absent",
            address(&format!("10.9.8.{}", round + 1)),
        )
        .await;
        let mut lost = taken(&daemons[0]).await.into_iter();
        let lost = lost.rfind(|(_, name)| name.starts_with("old"));
        let lost = lost.expect("some are old").0.to_string();
        delete(&daemons[0], ADDRESSES, None, &lost).await;
        let writing = (0..4).map(|number| {
            let daemon = &daemons[number % 2];
            async move {
                create(daemon, &format!("new-{round}-{number}")).await;
                let old = format!("old-{round}-{number}");
                delete(daemon, "services", Some("d"), &old).await;
                let new = format!("new-{round}-{number}");
                delete(daemon, "services", Some("d"), &new).await;
                create(daemon, &new).await;
            }
        });
        let repairing = join_all((0..2).map(|at| repair(&daemons[at], &before[at])));
        let (repaired, _) = tokio::join!(repairing, join_all(writing));
        before = repaired.try_into().expect("two of them");
        for number in 0..4 {
            let new = format!("new-{round}-{number}");
            delete(&daemons[1], "services", Some("d"), &new).await;
        }
        create(&daemons[0], &format!("stays-{round}")).await;
    }
    for _ in 0..3 {
        let repairing = (0..2).map(|at| repair(&daemons[at], &before[at]));
        let repaired: Vec<Repaired> = join_all(repairing).await;
        before = repaired.try_into().expect("two of them");
    }
    let (mut addresses, mut ports) = (BTreeMap::new(), BTreeSet::new());
    for name in daemons[0].names("services", Some("d")).await {
        let service = daemons[1].get("services", Some("d"), &name).await;
        let (address, port) = had_by(&service.expect("there"));
        assert!(ports.insert(port), "{port}");
        assert_eq!(addresses.insert(address, name), None, "{address}");
    }
    assert_eq!(addresses.len(), 12);
    assert_eq!(taken(&daemons[0]).await, addresses);
    assert_eq!(taken_ports(&daemons[1]).await, ports);
}
