//! Where each resource is stored, and in which form.

use std::sync::Arc;

use actors::engine::{Key, MemoryEngine, Revision};
use actors::object::Decode;
use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::options::{ResourceOverride, VersionOverride};
use super::*;
use crate::api::object::Object;
use crate::api::resource::{ConversionStrategy, Declared, ResourceScope, Rules, SelectableField};
use crate::storage::codec::{MediaType, object_of};
use crate::storage::transformer::{Identity, Transformer};

fn rows(rows: &[(&str, &str, &str)]) -> Vec<Arc<ResourceDefinition>> {
    let row = |&(group, version, plural): &(&str, &str, &str)| {
        Arc::new(ResourceDefinition::named(group, version, "Thing", plural))
    };
    rows.iter().map(row).collect()
}

/// Versions that differ in their type only.
fn convertible(rows: Vec<Arc<ResourceDefinition>>) -> Vec<Arc<ResourceDefinition>> {
    let convertible = |row: Arc<ResourceDefinition>| {
        let rules = Rules {
            conversion: ConversionStrategy::TypeOnly,
            ..row.rules().clone()
        };
        let declared = Declared {
            rules,
            ..Declared::default()
        };
        Arc::new(ResourceDefinition::clone(&row).with(declared))
    };
    rows.into_iter().map(convertible).collect()
}

/// Some resources of each kind that the rules speak of. All versions of one kind are convertible.
fn table() -> Vec<Arc<ResourceDefinition>> {
    convertible(rows(&[
        ("", "v1", "configmaps"),
        ("", "v1", "events"),
        ("apps", "v1", "deployments"),
        ("apps", "v1beta2", "deployments"),
        ("apps", "v1", "daemonsets"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("autoscaling", "v1", "horizontalpodautoscalers"),
        ("coordination.k8s.io", "v1", "leases"),
        ("coordination.k8s.io", "v1alpha2", "leasecandidates"),
        ("coordination.k8s.io", "v1beta1", "leasecandidates"),
        ("events.k8s.io", "v1", "events"),
        ("extensions", "v1beta1", "deployments"),
        ("extensions", "v1beta1", "ingresses"),
    ]))
}

fn factory(options: StorageOptions) -> StorageFactory {
    StorageFactory::new(options, table()).unwrap()
}

fn destination(options: StorageOptions, group: &str, resource: &str) -> Destination {
    let resource = GroupResource::new(group, resource);
    factory(options).destination(&resource).unwrap()
}

fn version(group: &str, version: &str) -> GroupVersion {
    GroupVersion {
        group: group.to_owned(),
        version: version.to_owned(),
    }
}

fn stored_as(group: &str, resource: Option<&str>, stored_as: GroupVersion) -> VersionOverride {
    VersionOverride {
        group: group.to_owned(),
        resource: resource.map(str::to_owned),
        stored_as,
    }
}

fn servers(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn kept_by(group: &str, resource: &str, names: &[&str]) -> ResourceOverride {
    ResourceOverride {
        servers: Some(servers(names)),
        ..ResourceOverride::of(GroupResource::new(group, resource))
    }
}

#[test]
fn by_default_everything_is_cached_json_in_one_store_sf_3_sf_7_kv_1() {
    for one in factory(StorageOptions::default()).table().unwrap() {
        assert_eq!(one.back_end, BASE);
        assert_eq!(one.media_type, MediaType::Json);
        assert!(one.is_cached);
        let prefix = format!("/registry/{}/", one.chosen.resource);
        assert_eq!(one.keys.resource_prefix().to_string(), prefix);
    }
}

#[test]
fn what_a_resource_has_for_itself_wins_over_its_group_and_that_over_all_sf_40_kv_4() {
    let options = StorageOptions {
        root: "custom//./place/x/..".into(),
        servers: servers(&["http://base"]),
        overrides: vec![
            kept_by("apps", "deployments", &["http://c", "http://b"]),
            ResourceOverride {
                prefix: Some("workloads".to_owned()),
                media_type: Some(MediaType::Yaml),
                ..kept_by("apps", "*", &["http://a"])
            },
        ],
        ..StorageOptions::default()
    };
    let of = |group, resource| destination(options.clone(), group, resource);
    let deployments = of("apps", "deployments");
    assert_eq!(deployments.back_end, "override-0");
    assert_eq!(deployments.media_type, MediaType::Yaml);
    let prefix = deployments.keys.resource_prefix().to_string();
    assert_eq!(prefix, "/custom/place/workloads/");
    assert_eq!(of("apps", "daemonsets").back_end, "override-1");
    assert_eq!(of("", "configmaps").back_end, BASE);
    let back_ends = factory(options).back_ends();
    let named = back_ends
        .iter()
        .map(|b| (b.name.as_str(), b.servers.join(";")));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            ("base", "http://base".to_owned()),
            ("override-0", "http://b;http://c".to_owned()),
            ("override-1", "http://a".to_owned()),
        ]
    );
}

#[test]
fn servers_in_another_order_are_the_same_back_end_op_23() {
    let options = StorageOptions {
        servers: servers(&["http://x", "http://y"]),
        overrides: vec![
            kept_by("", "events", &["http://b", "http://a"]),
            kept_by("", "configmaps", &["http://a", "http://b"]),
            kept_by("coordination.k8s.io", "leases", &["http://y", "http://x"]),
        ],
        ..StorageOptions::default()
    };
    assert_eq!(factory(options.clone()).back_ends().len(), 2);
    let events = destination(options.clone(), "", "events");
    assert_eq!(events.back_end, "override-0");
    let leases = destination(options, "coordination.k8s.io", "leases");
    assert_eq!(leases.back_end, BASE);
}

#[test]
fn groups_that_share_a_place_share_its_decisions_sf_41_sf_42_pf_23() {
    let options = StorageOptions {
        overrides: vec![
            kept_by("", "events", &["http://e"]),
            kept_by("apps", "deployments", &["http://d"]),
        ],
        watch_cache_sizes: [("events".to_owned(), 0)].into(),
        ..StorageOptions::default()
    };
    let events = destination(options.clone(), "events.k8s.io", "events");
    assert_eq!(events.requested.to_string(), "events");
    assert_eq!(events.chosen.to_string(), "events");
    assert_eq!(events.storage_version.to_string(), "v1");
    assert_eq!(events.memory_version.to_string(), "v1");
    assert_eq!(events.back_end, "override-0");
    assert!(!events.is_cached);
    let old = destination(options, "extensions", "deployments");
    assert_eq!(old.requested.to_string(), "deployments.extensions");
    assert_eq!(old.chosen.to_string(), "deployments.apps");
    assert_eq!(old.storage_version.to_string(), "apps/v1");
    assert_eq!(old.back_end, "override-1");
    // Where the group that would decide is not served, the next one does.
    let alone = rows(&[("extensions", "v1beta1", "ingresses")]);
    let alone = StorageFactory::new(StorageOptions::default(), alone.clone()).unwrap();
    let ingresses = alone.destination(&GroupResource::new("extensions", "ingresses"));
    assert_eq!(
        ingresses.unwrap().storage_version.to_string(),
        "extensions/v1beta1"
    );
}

#[test]
fn the_storage_version_is_the_resources_then_the_groups_then_the_usual_one_sf_43_sf_44() {
    let versions = vec![
        stored_as("apps", None, version("apps", "v1beta2")),
        stored_as("apps", Some("daemonsets"), version("apps", "v1")),
        stored_as("autoscaling", None, version("autoscaling", "v1")),
    ];
    let options = StorageOptions {
        versions,
        ..StorageOptions::default()
    };
    let of = |options: &StorageOptions, group, resource| {
        let found = destination(options.clone(), group, resource);
        (
            found.storage_version.to_string(),
            found.memory_version.to_string(),
        )
    };
    let usual = StorageOptions::default();
    let both = |stored: &str, memory: &str| (stored.to_owned(), memory.to_owned());
    assert_eq!(
        of(&usual, "apps", "deployments"),
        both("apps/v1", "apps/v1")
    );
    let autoscalers = of(&usual, "autoscaling", "horizontalpodautoscalers");
    assert_eq!(autoscalers, both("autoscaling/v2", "autoscaling/v2"));
    let candidates = of(&usual, "coordination.k8s.io", "leasecandidates");
    // The version that is stored is also the one in memory, if it is served.
    let candidate = "coordination.k8s.io/v1beta1";
    assert_eq!(candidates, both(candidate, candidate));
    assert_eq!(
        of(&options, "apps", "deployments"),
        both("apps/v1beta2", "apps/v1beta2")
    );
    assert_eq!(
        of(&options, "apps", "daemonsets"),
        both("apps/v1", "apps/v1")
    );
    let autoscalers = of(&options, "autoscaling", "horizontalpodautoscalers");
    assert_eq!(autoscalers, both("autoscaling/v1", "autoscaling/v1"));
}

#[test]
fn a_group_may_be_stored_in_another_one_that_shares_its_places_sf_43() {
    let options = StorageOptions {
        versions: vec![stored_as(
            "",
            Some("events"),
            version("events.k8s.io", "v1"),
        )],
        ..StorageOptions::default()
    };
    for group in ["", "events.k8s.io"] {
        let events = destination(options.clone(), group, "events");
        assert_eq!(events.storage_version.to_string(), "events.k8s.io/v1");
        assert_eq!(
            events.keys.resource_prefix().to_string(),
            "/registry/events/"
        );
    }
}

#[test]
fn the_group_chosen_alone_says_what_it_is_stored_as_sf_41_sf_42() {
    let options = StorageOptions {
        versions: vec![
            stored_as("events.k8s.io", None, version("events.k8s.io", "v1")),
            stored_as("extensions", None, version("extensions", "v1beta1")),
        ],
        ..StorageOptions::default()
    };
    let stored = |group, resource| {
        let found = destination(options.clone(), group, resource);
        found.storage_version.to_string()
    };
    for group in ["", "events.k8s.io"] {
        assert_eq!(stored(group, "events"), "v1");
    }
    for group in ["apps", "extensions"] {
        assert_eq!(stored(group, "deployments"), "apps/v1");
    }
    assert_eq!(stored("extensions", "ingresses"), "extensions/v1beta1");
}

#[test]
fn nothing_is_stored_nor_read_under_the_name_of_another_version_kv_24() {
    let table = rows(&[
        ("apps", "v1", "deployments"),
        ("apps", "v1beta2", "deployments"),
    ]);
    let options = |stored: &str| StorageOptions {
        versions: vec![stored_as("apps", None, version("apps", stored))],
        ..StorageOptions::default()
    };
    let refused = |options| {
        let refused = StorageFactory::new(options, table.clone()).err().unwrap();
        refused.to_string()
    };
    assert_eq!(
        refused(options("v1beta2")),
        "deployments.apps: it is served as Thing of apps/v1 and would be stored as Thing of \
         apps/v1beta2, and nothing turns one into the other; storage.versions must leave it as it \
         is served"
    );
    // A second version that is served can't be stored as the first one, either.
    assert!(refused(options("v1")).contains("served as Thing of apps/v1beta2"));
    let both = refused(options("v3"));
    assert_eq!(both.lines().count(), 2, "{both}");
    let factory = StorageFactory::new(options("v1beta2"), convertible(table.clone())).unwrap();
    let deployments = factory.destination(&GroupResource::new("apps", "deployments"));
    assert_eq!(
        deployments.unwrap().storage_version,
        version("apps", "v1beta2")
    );
}

#[test]
fn a_version_that_nothing_has_is_refused_and_what_there_is_named_sf_43() {
    for (one, words) in [
        (
            stored_as("app", None, version("app", "v1")),
            "no group app is served; there are core, apps, autoscaling",
        ),
        (
            stored_as("apps", Some("pods"), version("apps", "v1")),
            "no such resource; there are deployments, daemonsets",
        ),
        (
            stored_as("apps", None, version("apps", "v2")),
            "can be stored as apps/v2; there are apps/v1, apps/v1beta2, extensions/v1beta1",
        ),
        (
            stored_as("", Some("configmaps"), version("apps", "v1")),
            "there are v1",
        ),
    ] {
        let options = StorageOptions {
            versions: vec![one.clone()],
            ..StorageOptions::default()
        };
        let refused = StorageFactory::new(options, table());
        let refused = refused.err().unwrap();
        let refused = refused.to_string();
        assert!(
            refused.starts_with(&format!("storage.versions: {one}: ")),
            "{refused}"
        );
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_resource_that_nobody_knows_has_no_destination_sf_33() {
    let factory = factory(StorageOptions::default());
    let ask = |group, resource| {
        let asked = factory.destination(&GroupResource::new(group, resource));
        asked.err().unwrap().to_string()
    };
    assert_eq!(
        ask("ex.com", "things"),
        "no storage destination is known for things.ex.com: group \"ex.com\" is not registered"
    );
    assert!(ask("", "things").ends_with("group \"\" has no such resource"));
}

#[test]
fn a_size_of_0_or_the_switch_for_all_switches_caches_off_sf_7_sf_8_sf_49() {
    let sizes = [("configmaps", 0), ("deployments.apps", 100), ("things", 0)];
    let options = StorageOptions {
        watch_cache_sizes: sizes.map(|(name, size)| (name.to_owned(), size)).into(),
        ..StorageOptions::default()
    };
    assert!(!destination(options.clone(), "", "configmaps").is_cached);
    assert!(destination(options.clone(), "apps", "deployments").is_cached);
    assert!(destination(options.clone(), "", "events").is_cached);
    let warnings = factory(options).warnings();
    assert!(warnings[0].contains("deployments.apps#100"), "{warnings:?}");
    assert!(
        warnings[1].contains("things: no such resource"),
        "{warnings:?}"
    );
    assert_eq!(warnings.len(), 2);
    let off = StorageOptions {
        watch_cache: false,
        ..StorageOptions::default()
    };
    assert!(
        factory(off)
            .table()
            .unwrap()
            .iter()
            .all(|one| !one.is_cached)
    );
}

#[test]
fn servers_that_keep_nothing_are_warned_of_and_are_no_back_end_op_23() {
    let options = StorageOptions {
        overrides: vec![
            kept_by("batch", "jobs", &["http://jobs"]),
            kept_by("", "events", &["http://first"]),
            kept_by("events.k8s.io", "events", &["http://other"]),
            kept_by("autoscaling", "*", &["http://group"]),
            kept_by("", "events", &["http://last"]),
            kept_by("autoscaling", "horizontalpodautoscalers", &["http://own"]),
        ],
        ..StorageOptions::default()
    };
    let factory = factory(options);
    assert_eq!(
        factory.warnings(),
        [
            "etcd-servers-overrides: jobs.batch: no such resource is served",
            "etcd-servers-overrides: events: it is given more than once; the last one counts",
            "etcd-servers-overrides: events.events.k8s.io: it is stored with /events; name that one",
            "etcd-servers-overrides: *.autoscaling: every resource of the group has an override of its own",
        ]
    );
    let back_ends = factory.back_ends().into_iter();
    let named = back_ends.map(|one| (one.name, one.servers.join(";")));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            ("base".to_owned(), String::new()),
            ("override-0".to_owned(), "http://last".to_owned()),
            ("override-1".to_owned(), "http://own".to_owned()),
        ]
    );
    let table = factory.table().unwrap();
    let known = |one: &Destination| factory.back_ends().iter().any(|b| b.name == one.back_end);
    assert!(table.iter().all(known));
}

/// Fails with the resource that it was asked for.
struct Asked;

impl TransformerSource for Asked {
    fn transformer_for(&self, group: &str, resource: &str) -> Arc<dyn Transformer> {
        assert_ne!(group, "events.k8s.io", "{resource}");
        Arc::new(Identity)
    }
}

#[test]
fn plans_have_the_engine_of_their_back_end_and_the_transformer_of_whom_they_name_sf_42() {
    let options = StorageOptions {
        overrides: vec![kept_by("", "events", &["http://e"])],
        ..StorageOptions::default()
    };
    let (base, other) = (MemoryEngine::new(), MemoryEngine::new());
    let engines = Engines::of(base.clone());
    let factory = factory(options);
    let refused = factory.plans(&engines, &Asked).err().unwrap();
    assert_eq!(
        refused.to_string(),
        "there is no engine for the back end override-0"
    );
    let engines = engines.with("override-0", other.clone());
    let recorder = PrometheusBuilder::new().build_recorder();
    let planning = || factory.plans(&engines, &Asked).unwrap();
    let plans = metrics::with_local_recorder(&recorder, planning);
    // Both groups are measured as the one that is named.
    let page = recorder.handle().render();
    assert!(page.contains(r#"{group="",resource="events"} 0"#), "{page}");
    assert!(
        page.contains(r#"{group="apps",resource="deployments"} 0"#),
        "{page}"
    );
    assert!(!page.contains("events.k8s.io"), "{page}");
    for plan in plans {
        let is_other = plan.resource().hub.plural == "events";
        let engine: *const () = Arc::as_ptr(&plan.engine).cast();
        let expected: *const () = match is_other {
            true => Arc::as_ptr(&other).cast(),
            false => Arc::as_ptr(&base).cast(),
        };
        assert_eq!(engine, expected, "{}", plan.resource().name);
    }
}

/// OP-23: what the daemon starts with decides which back ends there are. A resource that is planned
/// alone, or that comes later, neither renumbers them nor gets another one's.
#[test]
fn a_resource_that_comes_later_finds_the_back_ends_that_there_are() {
    let options = StorageOptions {
        overrides: vec![
            kept_by("apps", "deployments", &["http://a"]),
            kept_by("", options::ALL_OF_GROUP, &["http://b"]),
            kept_by("example.com", "gadgets", &["http://c"]),
        ],
        ..StorageOptions::default()
    };
    let factory = factory(options);
    let engine = || MemoryEngine::new();
    let engines = Engines::of(engine())
        .with("override-0", engine())
        .with("override-1", engine());
    let plan = |group: &str, plural: &str| {
        let row = rows(&[(group, "v1", plural)]).remove(0);
        let plan = factory.plan(&row, &[], &engines, &Identity);
        plan.map(|plan| plan.destination().back_end.clone())
    };
    assert_eq!(plan("", "masterleases").unwrap(), "override-1");
    assert_eq!(plan("example.com", "widgets").unwrap(), BASE);
    let refused = plan("example.com", "gadgets").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no engine for the back end http://c"
    );
}

#[test]
fn plans_store_in_the_version_and_form_decided_and_read_all_there_are_kv_24_sf_45() {
    let options = StorageOptions {
        media_type: MediaType::Yaml,
        versions: vec![stored_as(
            "",
            Some("events"),
            version("events.k8s.io", "v1"),
        )],
        ..StorageOptions::default()
    };
    let engines = Engines::of(MemoryEngine::new());
    let plans = factory(options).plans(&engines, &Identity).unwrap();
    let mut events = plans.iter().filter(|plan| plan.resource().name == "events");
    let plan = events.next().unwrap();
    assert!(events.next().is_none(), "both groups have one plan");
    let hub = plan.resource().hub.api_version();
    assert_eq!(hub, "events.k8s.io/v1");
    assert_eq!(plan.versions().len(), 2);
    let key = Key::new("/registry/events/a");
    let codec = &plan.decoder.codec;
    // Of either group it is taken, and stored as the same.
    let [stored, same] = ["v1", "events.k8s.io/v1"].map(|given| {
        let mut object = Object::default();
        object.set_type("Thing", given);
        object.set_meta("name", "a");
        codec.encode(&object)
    });
    assert_eq!(stored, same);
    let text = String::from_utf8(stored.clone()).unwrap();
    assert!(text.starts_with("apiVersion: events.k8s.io/v1\n"), "{text}");
    let core = text.replace("events.k8s.io/v1", "v1");
    for value in [stored, core.into_bytes()] {
        let read = codec
            .decode(&key, Revision(1), &Bytes::from(value))
            .unwrap();
        assert_eq!(object_of(&read).unwrap().api_version(), hub);
    }
}

/// SF-41: what is stored below one prefix has one plan, whatever its names are.
#[test]
fn there_is_one_plan_for_each_stored_resource() {
    let plans = factory(StorageOptions::default())
        .plans(&Engines::of(MemoryEngine::new()), &Identity)
        .unwrap();
    let served: usize = plans.iter().map(|plan| plan.versions().len()).sum();
    assert_eq!(served, table().len());
    let of = |name: &str| {
        let mut plans = plans.iter().filter(|plan| plan.resource().name == name);
        let plan = plans.next().unwrap();
        assert!(plans.next().is_none(), "{name}");
        let hub = plan.resource().hub.api_version();
        let versions = plan.versions().iter().map(|row| row.api_version());
        (hub, versions.collect::<Vec<_>>())
    };
    let deployments = of("deployments.apps");
    assert_eq!(deployments.0, "apps/v1");
    let all = ["apps/v1", "apps/v1beta2", "extensions/v1beta1"];
    assert_eq!(deployments.1, all);
    let candidates = of("leasecandidates.coordination.k8s.io");
    assert_eq!(candidates.0, "coordination.k8s.io/v1beta1");
    assert_eq!(of("events").1, ["v1", "events.k8s.io/v1"]);
}

/// Versions share keys and caches, so these must suit all of them.
#[test]
fn versions_that_differ_in_keys_or_caches_are_refused() {
    let differing = |change: &dyn Fn(&mut ResourceDefinition)| {
        let mut table = convertible(rows(&[
            ("apps", "v1", "deployments"),
            ("apps", "v2", "deployments"),
        ]));
        change(Arc::make_mut(&mut table[1]));
        let refused = StorageFactory::new(StorageOptions::default(), table).err();
        refused.map_or_else(String::new, |refused| refused.to_string())
    };
    assert_eq!(differing(&|_| {}), "");
    let together = "Thing of apps/v2 cannot be stored together with Thing of apps/v1: ";
    let prefix = differing(&|row| row.key_prefix = "others".to_owned());
    assert_eq!(prefix, format!("{together}their key prefixes differ"));
    let scope = differing(&|row| row.scope = ResourceScope::Cluster);
    let why = "only one of them is namespaced";
    assert_eq!(scope, format!("{together}{why}"));
    let fields = differing(&|row| {
        let declared = Declared {
            rules: row.rules().clone(),
            selectable_fields: vec![SelectableField::flag("spec.a")],
            ..Declared::default()
        };
        row.behaviour = Arc::new(declared);
    });
    assert_eq!(fields, format!("{together}their selectable fields differ"));
}

#[test]
fn a_resource_without_a_place_is_refused_st_5() {
    let options = StorageOptions {
        overrides: vec![ResourceOverride {
            prefix: Some("/".to_owned()),
            ..ResourceOverride::of(GroupResource::new("", "configmaps"))
        }],
        ..StorageOptions::default()
    };
    let refused = StorageFactory::new(options, table())
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("key prefix is empty"), "{refused}");
}
