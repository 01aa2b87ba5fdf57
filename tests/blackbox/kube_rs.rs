//! kube-rs, used as controllers use it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::watcher::{self, Event, InitialListStrategy, watcher};
use kube::{Api, Client, Config, ResourceExt};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{CONFIGMAPS, Call, Daemon, version};
use crate::load::churn::{Versions, churn, versions};
use crate::servers::proxy::Proxy;

pub async fn client(daemon: &Daemon) -> Client {
    client_over(daemon, None).await
}

/// A client that reaches the daemon some other way.
async fn client_over(daemon: &Daemon, way: Option<&Proxy>) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(daemon.kubeconfig()).unwrap();
    if let Some(way) = way {
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        cluster.server = Some(format!("https://{}", way.address));
    }
    client_by(kubeconfig).await
}

/// A client of the user of a kubeconfig.
pub async fn client_by(kubeconfig: Kubeconfig) -> Client {
    // Whoever else in the process chose one first chose the same.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

fn configmap(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The Status of what must be refused.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("no Status: {other:?}"),
    }
}

#[tokio::test]
async fn typed_objects_are_created_read_replaced_and_deleted() {
    let daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    let created = api
        .create(&PostParams::default(), &configmap("a", "1"))
        .await
        .unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    assert_eq!(api.get("a").await.unwrap(), created);

    let mut changed = created.clone();
    changed.data = configmap("a", "2").data;
    let replaced = api
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = refusal(api.replace("a", &PostParams::default(), &changed).await);
    assert!(stale.is_conflict(), "{stale:?}");
    let exists = refusal(
        api.create(&PostParams::default(), &configmap("a", "1"))
            .await,
    );
    assert!(exists.is_already_exists(), "{exists:?}");

    let deleted = api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(deleted.right().unwrap().is_success());
    assert!(api.get_opt("a").await.unwrap().is_none());
    assert!(refusal(api.delete("a", &DeleteParams::default()).await).is_not_found());
}

#[tokio::test]
async fn secrets_keep_bytes_and_leases_keep_microseconds() {
    // API-62, API-321.
    let daemon = Daemon::start().await;
    let client = client(&daemon).await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let bytes = k8s_openapi::ByteString((0..=255).collect());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("s".into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), bytes.clone())])),
        type_: Some("Opaque".into()),
        ..Secret::default()
    };
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    assert_eq!(secrets.get("s").await.unwrap().data.unwrap()["k"], bytes);

    let leases: Api<Lease> = Api::default_namespaced(client);
    let time: Timestamp = "2026-01-02T03:04:05.123456Z".parse().unwrap();
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some("l".into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some("me".into()),
            renew_time: Some(MicroTime(time)),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }),
    };
    let created = leases.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!(created.spec, lease.spec);
    let mut renewed = created.clone();
    let later = time + Duration::from_micros(1);
    renewed.spec.as_mut().unwrap().renew_time = Some(MicroTime(later));
    leases
        .replace("l", &PostParams::default(), &renewed)
        .await
        .unwrap();
    let lost = refusal(leases.replace("l", &PostParams::default(), &created).await);
    assert!(lost.is_conflict(), "who lost the race is told so: {lost:?}");
    assert_eq!(
        leases.get("l").await.unwrap().spec.unwrap().renew_time,
        Some(MicroTime(later))
    );
}

#[tokio::test]
async fn merge_and_json_patches_change_what_they_name() {
    let daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    api.create(&PostParams::default(), &configmap("a", "1"))
        .await
        .unwrap();
    let merge = json!({ "data": { "m": "2", "k": null } });
    let patched = api
        .patch("a", &PatchParams::default(), &Patch::Merge(merge))
        .await
        .unwrap();
    assert_eq!(
        patched.data,
        Some(BTreeMap::from([("m".to_owned(), "2".to_owned())]))
    );

    let patch = |value| -> Patch<ConfigMap> {
        let operations = json!([
            { "op": "test", "path": "/data/m", "value": value },
            { "op": "replace", "path": "/data/m", "value": "3" },
        ]);
        Patch::Json(serde_json::from_value(operations).unwrap())
    };
    let patched = api
        .patch("a", &PatchParams::default(), &patch("2"))
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap()["m"], "3");
    let failed = refusal(api.patch("a", &PatchParams::default(), &patch("2")).await);
    assert_eq!(failed.code, 422, "API-160");
    let stale = json!({ "metadata": { "resourceVersion": "1" } });
    let stale = api
        .patch("a", &PatchParams::default(), &Patch::Merge(stale))
        .await;
    assert!(refusal(stale).is_conflict(), "API-151");
}

#[tokio::test]
async fn a_dry_run_answers_and_stores_nothing() {
    // API-144.
    let daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let created = api.create(&dry, &configmap("a", "1")).await.unwrap();
    assert!(created.uid().is_some() && created.resource_version().is_none());
    assert!(api.get_opt("a").await.unwrap().is_none());

    let stored = api
        .create(&PostParams::default(), &configmap("a", "1"))
        .await
        .unwrap();
    api.replace("a", &dry, &configmap("a", "2")).await.unwrap();
    let merge = Patch::Merge(json!({ "data": { "k": "3" } }));
    api.patch("a", &PatchParams::default().dry_run(), &merge)
        .await
        .unwrap();
    api.delete("a", &DeleteParams::default().dry_run())
        .await
        .unwrap();
    assert_eq!(api.get("a").await.unwrap(), stored);
}

#[tokio::test]
async fn pages_are_of_one_state_and_lists_obey_selectors() {
    // LI-13, LI-45.
    let daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    for number in 0..25 {
        let mut object = configmap(&format!("a{number:02}"), "1");
        object
            .labels_mut()
            .insert("odd".into(), (number % 2).to_string());
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let mut parameters = ListParams::default().limit(10);
    let mut names = Vec::new();
    let mut versions = BTreeSet::new();
    loop {
        let page = api.list(&parameters).await.unwrap();
        names.extend(page.items.iter().map(ResourceExt::name_any));
        versions.insert(page.metadata.resource_version.clone());
        let Some(token) = page
            .metadata
            .continue_
            .clone()
            .filter(|token| !token.is_empty())
        else {
            break;
        };
        assert_eq!(
            page.metadata.remaining_item_count,
            Some(25 - names.len() as i64)
        );
        let late = format!("a{:02}-late", names.len());
        api.create(&PostParams::default(), &configmap(&late, "1"))
            .await
            .unwrap();
        parameters = parameters.continue_token(&token);
    }
    assert_eq!(
        names,
        (0..25)
            .map(|number| format!("a{number:02}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(versions.len(), 1, "pages of several states: {versions:?}");

    let odd = api
        .list(&ListParams::default().labels("odd=1"))
        .await
        .unwrap();
    assert_eq!(odd.items.len(), 12);
    let one = api
        .list(&ListParams::default().fields("metadata.name=a07"))
        .await
        .unwrap();
    assert_eq!(one.items.len(), 1);
}

#[tokio::test]
async fn a_deletion_with_preconditions_deletes_only_what_was_meant() {
    // API-111.
    let daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    let old = api
        .create(&PostParams::default(), &configmap("a", "1"))
        .await
        .unwrap();
    let new = api
        .replace("a", &PostParams::default(), &configmap("a", "2"))
        .await
        .unwrap();
    let only = |uid: Option<String>, resource_version: Option<String>| {
        DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version,
        })
    };
    let other = Some("11111111-1111-1111-1111-111111111111".to_owned());
    assert!(refusal(api.delete("a", &only(other, None)).await).is_conflict());
    let stale = api
        .delete("a", &only(old.uid(), old.resource_version()))
        .await;
    assert!(refusal(stale).is_conflict());
    api.delete("a", &only(new.uid(), new.resource_version()))
        .await
        .unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

/// The name of each event and of its object.
async fn next(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
) -> String {
    let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    match event.expect("an event in time").expect("no end").unwrap() {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("init {}", object.name_any()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

async fn an_informer_sees_everything_once(strategy: InitialListStrategy) {
    let mut daemon = Daemon::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &configmap(name, "1"))
            .await
            .unwrap();
    }
    let config = watcher::Config {
        initial_list_strategy: strategy,
        page_size: Some(1),
        ..watcher::Config::default()
    };
    let mut events = pin!(watcher(api.clone(), config));
    assert_eq!(next(&mut events).await, "init");
    // A streamed list is of version 0, any state: what it has not seen yet comes as an event.
    let mut missing = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let mut is_done = false;
    while !missing.is_empty() || !is_done {
        let event = next(&mut events).await;
        match event.split_once(' ') {
            Some((kind, name)) if (kind == "apply") == is_done => assert!(missing.remove(name)),
            None if event == "done" && !is_done => is_done = true,
            _ => panic!("{event}, while {missing:?} are missing"),
        }
    }
    api.create(&PostParams::default(), &configmap("c", "1"))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "apply c");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut events).await, "delete a");

    daemon.kill().await;
    daemon.restart().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&daemon).await);
    api.create(&PostParams::default(), &configmap("d", "1"))
        .await
        .unwrap();
    // It resumes where it was: what failed meanwhile it reports, and no event twice.
    loop {
        match tokio::time::timeout(Duration::from_secs(30), events.next())
            .await
            .unwrap()
        {
            Some(Ok(Event::Apply(object))) => {
                assert_eq!(object.name_any(), "d");
                break;
            }
            Some(Err(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_informer_that_lists_then_watches_sees_everything_once() {
    an_informer_sees_everything_once(InitialListStrategy::ListWatch).await;
}

#[tokio::test]
async fn an_informer_that_streams_its_list_sees_everything_once() {
    // API-133, API-314.
    an_informer_sees_everything_once(InitialListStrategy::StreamingList).await;
}

/// What an informer's watcher has told so far.
#[derive(Default)]
pub struct Informed {
    pub versions: Versions,
    /// The state that is being told anew.
    initial: Versions,
    pub lists: u64,
    pub errors: u64,
}

impl Informed {
    fn take(&mut self, event: watcher::Result<Event<ConfigMap>>) {
        let entry = |object: &ConfigMap| {
            let version = object.resource_version().unwrap();
            (object.name_any(), version.parse::<u64>().unwrap())
        };
        match event {
            Ok(Event::Init) => self.initial.clear(),
            Ok(Event::InitApply(object)) => self.initial.extend([entry(&object)]),
            Ok(Event::InitDone) => {
                self.versions = std::mem::take(&mut self.initial);
                self.lists += 1;
            }
            Ok(Event::Apply(object)) => {
                let (name, version) = entry(&object);
                let before = self.versions.insert(name, version);
                assert!(before < Some(version), "{before:?} came before {object:?}");
            }
            Ok(Event::Delete(object)) => {
                let removed = self.versions.remove(&object.name_any());
                assert!(removed.is_some(), "deleted, and was not there: {object:?}");
            }
            Err(_) => self.errors += 1,
        }
    }
}

/// Follows a watcher for good.
pub async fn inform(api: Api<ConfigMap>, config: watcher::Config, told: Arc<Mutex<Informed>>) {
    let mut events = pin!(watcher(api, config));
    while let Some(event) = events.next().await {
        let failed = event.is_err();
        told.lock().take(event);
        if failed {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until what follows a version is no longer in history.
async fn forgotten(daemon: &Daemon, version: u64) {
    let exact = format!("{CONFIGMAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let start = Instant::now();
    while daemon.client().call(Call::get(&exact)).await.status != 410 {
        assert!(start.elapsed() < Duration::from_secs(60), "never forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn an_informer_ends_equal_to_a_list(strategy: InitialListStrategy) {
    // A short history: who was away for longer than it has to list again.
    let arguments = ["--watch-ring-bytes", "16KiB", "--retention-age", "2s"];
    let mut daemon = Daemon::with(&arguments).await;
    let way = Proxy::to(daemon.target().address).await;
    let config = watcher::Config {
        initial_list_strategy: strategy,
        page_size: Some(7),
        // Streams also end by themselves.
        timeout: Some(3),
        ..watcher::Config::default()
    };
    let api: Api<ConfigMap> = Api::default_namespaced(client_over(&daemon, Some(&way)).await);
    let told: Arc<Mutex<Informed>> = Arc::default();
    let informer = tokio::spawn(inform(api, config, told.clone()));
    for round in 0..8 {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let writers: Vec<_> = (0..3)
            .map(|writer| tokio::spawn(churn(daemon.client(), writer, stopped.clone())))
            .collect();
        tokio::time::sleep(Duration::from_millis(400)).await;
        match round % 4 {
            0 => way.cut(),
            1 => {
                daemon.kill().await;
                daemon.restart().await;
            }
            2 => {
                daemon.stop(Signal::TERM).await;
                daemon.restart().await;
            }
            _ => {
                way.shut(true);
                let client = daemon.client();
                let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
                forgotten(&daemon, version(&list)).await;
                way.shut(false);
            }
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        stop.send(true).unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        let client = daemon.client();
        let end = json!({ "metadata": { "name": format!("end-{round}") } });
        client.call(Call::post(CONFIGMAPS, &end)).await.expect(201);
        let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
        let listed = versions(&list);
        let start = Instant::now();
        while told.lock().versions != listed {
            assert!(!informer.is_finished(), "{:?}", informer.await);
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "round {round}: told {:?}, listed {listed:?}",
                told.lock().versions
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let told = told.lock();
    assert!(told.versions.len() > 20, "hardly anything was written");
    assert!(told.errors > 0, "nothing was cut off");
    assert!(told.lists > 1, "it was never away for too long");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_informer_that_lists_then_watches_ends_equal_to_a_list_whatever_cuts_it_off() {
    an_informer_ends_equal_to_a_list(InitialListStrategy::ListWatch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_informer_that_streams_its_list_ends_equal_to_a_list_whatever_cuts_it_off() {
    // API-314, WA-15.
    an_informer_ends_equal_to_a_list(InitialListStrategy::StreamingList).await;
}

#[tokio::test]
async fn cluster_scoped_objects_and_discovery_work() {
    let daemon = Daemon::start().await;
    let client = client(&daemon).await;
    let api: Api<Namespace> = Api::all(client.clone());
    let names: Vec<String> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let discovery = kube::discovery::Discovery::new(client)
        .run_aggregated()
        .await
        .unwrap();
    let kinds: BTreeSet<String> = discovery
        .groups()
        .flat_map(|group| group.recommended_resources())
        .map(|(resource, _)| resource.kind)
        .collect();
    for kind in [
        "ConfigMap",
        "Deployment",
        "Lease",
        "Namespace",
        "Node",
        "Pod",
        "Secret",
    ] {
        assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
    }
}
