//! The metrics of resources that were removed.

use std::collections::HashSet;
use std::sync::Arc;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, SharedString, Unit};
use parking_lot::Mutex;

use super::resources::{key_of, spec_of};
use super::streams::{next_line, start};
use super::{ActorSystem, config, spec};
use crate::dispatcher::{DispatcherConfig, LocalDispatcher};
use crate::engine::Revision;
use crate::object::Decode;
use crate::testing::{FaultyEngine, OneLiners};

/// Holds the series that name one of the resources of this test.
#[derive(Default)]
struct Series(Mutex<HashSet<Key>>);

const COUNTED: &str = "counted";

impl Series {
    fn note(&self, key: &Key) {
        let is_ours = |label: &Label| label.value().starts_with(COUNTED);
        if key.labels().any(is_ours) {
            self.0.lock().insert(key.clone());
        }
    }

    fn drop_those_of(&self, resource: &str) {
        let is_of = |label: &Label| label.value() == resource;
        self.0.lock().retain(|key| !key.labels().any(is_of));
    }
}

/// The recorder of the process that runs these tests.
struct Recorder(Arc<Series>);

impl ::metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.0.note(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.0.note(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.0.note(key);
        Histogram::noop()
    }
}

#[test]
fn nobody_counts_for_a_resource_once_its_removal_has_been_told() {
    let series = Arc::new(Series::default());
    // No other test of this crate has one.
    assert!(::metrics::set_global_recorder(Recorder(Arc::clone(&series))).is_ok());
    actix_rt::System::new().block_on(async {
        let engine = FaultyEngine::new();
        let mut config = config(&engine);
        let told = Arc::clone(&series);
        config.on_removed = Some(Arc::new(move |resource| told.drop_those_of(resource)));
        let actor_system = ActorSystem::start(config, vec![spec(&engine)]).unwrap();
        let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
        for cycle in 0..50 {
            let name = format!("{COUNTED}-{}", cycle % 5);
            let cacher = actor_system
                .add_resource(spec_of(&engine, &name))
                .await
                .unwrap();
            cacher.settled().await;
            let mut watcher = dispatcher.watch(start(&engine, &cacher, Revision::ZERO));
            engine.put(&key_of(&name, "ns/a"), "red");
            next_line(&mut watcher).await.unwrap();
            assert!(series.0.lock().len() > 10, "{:?}", series.0.lock());
            actor_system.remove_resource(&name).await.unwrap();
            // A late removal finds nothing and leaves nothing.
            drop(dispatcher.watch(start(&engine, &cacher, Revision::ZERO)));
            let decode: &dyn Decode = &OneLiners;
            let reader = engine.clone();
            cacher.backfill(&*reader, decode, Revision::ZERO).await;
            assert_eq!(next_line(&mut watcher).await, None);
            assert_eq!(*series.0.lock(), HashSet::new());
        }
        actor_system.stop().await;
    });
}
