//! The cost of the parts of a watch, without HTTP:
//! `cargo bench -p taffrail-actors --features testing --bench costs [NAME]`.
//!
//! Figures are for comparison on one machine; nothing is asserted.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use actors::dispatcher::{Caller, DispatcherConfig, LocalDispatcher, StartPoint, Watcher};
use actors::engine::Prefix;
use actors::ring::{RingBudget, RingLimits};
use actors::testing::{ColorField, FakeCacher, interest, key};
use actors::watch::{Predicate, Scope};

const MIB: f64 = 1_048_576.0;

fn main() {
    let only = std::env::args().skip(1).find(|name| !name.starts_with('-'));
    let costs: [(&str, fn()); 6] = [
        ("memory", memory),
        ("publish", publish),
        ("budget", budget),
        ("index", index),
        ("fanout", fanout),
        ("selective", selective),
    ];
    for (name, cost) in costs {
        if only.as_deref().is_none_or(|only| only == name) {
            println!("{name}");
            cost();
        }
    }
}

fn value(number: usize) -> String {
    format!("red {number:06} {}", "x".repeat(1_000))
}

/// A resource of so many objects of about 1 KiB, in ten namespaces.
fn fake(objects: usize, ring_bytes: usize) -> FakeCacher {
    let fake = FakeCacher::unfilled(ring_bytes);
    let names = (0..objects).map(|number| format!("ns-{}/name-{number:06}", number % 10));
    fake.fill_with(
        names
            .enumerate()
            .map(|(number, name)| (name, value(number))),
    );
    fake
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}

fn memory() {
    let before = resident_bytes();
    let started = Instant::now();
    let fake = fake(100_000, 16 << 20);
    let took = started.elapsed();
    let snapshot = fake.cacher.snapshot();
    let json = snapshot.map_or(0.0, |snapshot| {
        (snapshot.average_bytes() * snapshot.len() as u64) as f64
    });
    let taken = resident_bytes() - before;
    println!(
        "  100,000 objects: {:.1} MiB of JSON, {:.1} MiB resident, {:.2} times; filled in {took:?}",
        json / MIB,
        taken / MIB,
        taken / json
    );
}

fn publish() {
    for objects in [1_000, 100_000] {
        let fake = fake(objects, 16 << 20);
        for batch in [1, 16, 256] {
            let rounds = 4_096 / batch;
            let changes = (0..rounds * batch).map(|number| {
                let number = number * 7919 % objects;
                (
                    format!("ns-{}/name-{number:06}", number % 10),
                    value(number),
                )
            });
            let changes: Vec<(String, String)> = changes.collect();
            let batches = changes.chunks(batch).map(|batch| fake.prepare(batch));
            let batches: Vec<_> = batches.collect();
            let started = Instant::now();
            for batch in batches {
                fake.apply(batch);
            }
            let each = started.elapsed() / (rounds * batch) as u32;
            println!("  {objects} objects, batches of {batch}: {each:?} per event");
        }
    }
}

/// The cost and gain of an index of a field: 200,000 objects, 50 of each value.
fn index() {
    const OBJECTS: usize = 200_000;
    const EVENTS: usize = 20_000;
    let line = |number: usize| format!("node-{:04} {}", number * 7919 % 4_000, "x".repeat(100));
    let name = |number: usize| format!("ns-{}/name-{number:06}", number % 10);
    let mut taken = Vec::new();
    let mut filled = Vec::new();
    for places in [Vec::new(), vec![0]] {
        let how = ["without an index", "with one"][places.len()];
        let before = resident_bytes();
        let fake = FakeCacher::unfilled(1 << 20);
        fake.fill_indexed(
            (0..OBJECTS).map(|number| (name(number), line(number))),
            places,
        );
        taken.push(resident_bytes() - before);
        filled.push(fake);
        let Some(fake) = filled.last() else { return };
        let mut spent = Duration::ZERO;
        for number in 0..EVENTS {
            let number = number * 104_729 % OBJECTS;
            let batch = fake.prepare(&[(name(number), line(number))]);
            let started = Instant::now();
            fake.apply(batch);
            spent += started.elapsed();
        }
        let each = spent / EVENTS as u32;
        let Some(snapshot) = fake.cacher.snapshot() else {
            return;
        };
        let all = Prefix::new("/registry/things/");
        let started = Instant::now();
        let predicate = ColorField::new("node-0007");
        let found = snapshot.candidates(&all, None, &predicate);
        let found = found.flatten().filter(|object| predicate.matches(object));
        assert_eq!(found.count(), 50);
        println!(
            "  {how}: {each:?} per event, a list of 50 {:?}",
            started.elapsed()
        );
    }
    let more = (taken[1] - taken[0]) / OBJECTS as f64;
    println!("  the index takes {more:.1} bytes for each object");
}

/// The cost of an event when all rings together are full, by the number of rings.
fn budget() {
    const EVENTS: usize = 100_000;
    let limits = RingLimits::default();
    for resources in [10, 100, 1_000] {
        let budget = RingBudget::new(limits);
        let caches: Vec<FakeCacher> = (0..resources)
            .map(|_| {
                let fake = FakeCacher::within(&budget);
                fake.fill_with((0..10).map(|number| (format!("ns/{number}"), value(number))));
                fake
            })
            .collect();
        let event = |number: usize| {
            let fake = &caches[number % resources];
            fake.prepare(&[(format!("ns/{}", number % 10), value(number))])
        };
        // A ring takes what its events replace.
        for number in 0..limits.total_bytes / 1_000 {
            caches[number % resources].apply(event(number));
        }
        let mut spent = Duration::ZERO;
        for number in 0..EVENTS {
            let batch = event(number);
            let started = Instant::now();
            caches[number % resources].apply(batch);
            spent += started.elapsed();
        }
        let each = spent / EVENTS as u32;
        println!("  {resources} full rings: {each:?} per event");
    }
}

struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// Watchers and the task of the connection that each belongs to.
type Connected = Vec<(Watcher, Waker)>;

fn poll_all(watchers: &mut Connected) -> usize {
    let mut frames = 0;
    for (watcher, waker) in watchers {
        let caller = Caller::task(&Context::from_waker(waker));
        while let Poll::Ready(Some(frame)) = watcher.poll_next(&caller) {
            std::hint::black_box(frame);
            frames += 1;
        }
    }
    frames
}

fn fanout() {
    const WATCHERS: usize = 5_000;
    for burst in [1, 10] {
        actix_rt::System::new().block_on(async {
            let fake = fake(1_000, 16 << 20);
            let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
            let scope = Scope::Namespace(Prefix::new("/registry/things/ns-0/"));
            let tasks: Vec<Waker> = (0..100).map(|_| Waker::from(Arc::new(Task))).collect();
            let from = fake.engine.revision();
            let before = resident_bytes();
            let mut watchers: Connected = (0..WATCHERS)
                .map(|number| {
                    let start = fake.start(StartPoint::After(from), interest(scope.clone()));
                    (dispatcher.watch(start), tasks[number / 50].clone())
                })
                .collect();
            poll_all(&mut watchers);
            let taken = (resident_bytes() - before) / WATCHERS as f64;
            let (mut hinting, mut polling, mut frames) = (Duration::ZERO, Duration::ZERO, 0);
            for round in 0..200 {
                for number in 0..burst {
                    let value = value(round * burst + number);
                    fake.apply(fake.prepare(&[("ns-0/name-000000".to_owned(), value)]));
                }
                let hinted = Instant::now();
                tokio::task::yield_now().await;
                let polled = Instant::now();
                frames += poll_all(&mut watchers);
                hinting += polled - hinted;
                polling += polled.elapsed();
            }
            println!(
                "  {WATCHERS} watchers, {burst} events at once: {} frames; per frame {} ns to mark \
                 and wake, {} ns to take; {taken:.0} bytes per watcher",
                frames,
                hinting.as_nanos() / frames as u128,
                polling.as_nanos() / frames as u128,
            );
        });
    }
}

fn selective() {
    for count in [1_000, 10_000] {
        actix_rt::System::new().block_on(async {
            let fake = fake(count, 16 << 20);
            let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
            let from = fake.engine.revision();
            let before = resident_bytes();
            let name = |number: usize| format!("ns-{}/name-{number:06}", number % 10);
            let waker = Waker::from(Arc::new(Task));
            let mut watchers: Connected = (0..count)
                .map(|number| {
                    let scope = Scope::Object(key(&name(number)));
                    let start = fake.start(StartPoint::After(from), interest(scope));
                    (dispatcher.watch(start), waker.clone())
                })
                .collect();
            poll_all(&mut watchers);
            let taken = (resident_bytes() - before) / count as f64;
            let mut spent = Duration::ZERO;
            let events = 2_000;
            for number in 0..events {
                let number = number * 7919 % count;
                let batch = fake.prepare(&[(name(number), value(number))]);
                let started = Instant::now();
                fake.apply(batch);
                tokio::task::yield_now().await;
                let (watcher, waker) = &mut watchers[number];
                let caller = Caller::task(&Context::from_waker(waker));
                let polled = watcher.poll_next(&caller);
                assert!(matches!(polled, Poll::Ready(Some(_))), "event {number}");
                assert!(watcher.poll_next(&caller).is_pending());
                spent += started.elapsed();
            }
            println!(
                "  {count} watchers of one object each: {:?} per event; {taken:.0} bytes per watcher",
                spent / events as u32
            );
        });
    }
}
