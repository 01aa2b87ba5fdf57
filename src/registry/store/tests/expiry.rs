//! The expiry of objects.

use actors::engine::{At, DataEngine, Key, KeyValue, LeaseEngine, LeaseId};

use crate::api::options::{DeleteOptions, WriteOptions};
use crate::registry::tests::fixture::Fixture;

const PATH: (Option<&str>, &str, Option<&str>) = (Some("d"), "e", None);

fn event(reason: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"e","namespace":"d"}},"involvedObject":{{"namespace":"d"}},
            "reason":"{reason}"}}"#
    )
}

async fn stored(fixture: &Fixture, key: &str) -> KeyValue {
    let key = Key::new(format!("/registry/{key}"));
    let found = fixture.engine.get(key, At::Latest).await;
    found.expect("it can be read").item.expect("it is there")
}

/// OP-4, RG-8: events get a lease when they are created, and a new one at every real change.
#[tokio::test]
async fn events_expire_after_their_last_change_op_4_rg_8() {
    let fixture = Fixture::new().await;
    fixture
        .create("events", Some("d"), &event("Made"))
        .await
        .expect("created");
    let made = stored(&fixture, "events/d/e").await;
    assert_ne!(made.lease, LeaseId(0));
    let merge = r#"{"reason":"Changed"}"#;
    fixture.merge("events", PATH, merge).await.expect("patched");
    let changed = stored(&fixture, "events/d/e").await;
    assert!(changed.revision > made.revision && changed.lease != LeaseId(0));
    fixture.merge("events", PATH, merge).await.expect("a no-op");
    assert_eq!(stored(&fixture, "events/d/e").await, changed);
    fixture
        .put("events", PATH, &event("Put"))
        .await
        .expect("replaced");
    let replaced = stored(&fixture, "events/d/e").await;
    assert!(replaced.revision > changed.revision && replaced.lease != LeaseId(0));
    fixture
        .delete("events", Some("d"), "e", &DeleteOptions::default())
        .await
        .expect("deleted");
    let (created, _) = fixture
        .put("events", PATH, &event("Again"))
        .await
        .expect("created by PUT");
    assert!(created);
    assert_ne!(stored(&fixture, "events/d/e").await.lease, LeaseId(0));
}

/// PF-5: no other object inherits a lease.
#[tokio::test]
async fn nothing_but_events_expires_pf_5() {
    let fixture = Fixture::new().await;
    let body = r#"{"metadata":{"name":"e","namespace":"d"}}"#;
    for (resource, key) in [
        ("configmaps", "configmaps/d/e"),
        ("leases.coordination.k8s.io", "leases/d/e"),
    ] {
        fixture
            .create(resource, Some("d"), body)
            .await
            .expect("created");
        assert_eq!(stored(&fixture, key).await.lease, LeaseId(0));
        let merge = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        fixture.merge(resource, PATH, merge).await.expect("patched");
        assert_eq!(stored(&fixture, key).await.lease, LeaseId(0));
    }
}

/// A dry run takes no lease.
#[tokio::test]
async fn a_dry_run_leaves_no_lease() {
    let fixture = Fixture::new().await;
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    fixture
        .create_with("events", Some("d"), &event("Dry"), &dry)
        .await
        .expect("it would be created");
    let next = fixture.engine.grant(std::time::Duration::ZERO).await;
    assert_eq!(next.expect("granted").id, LeaseId(1));
}
