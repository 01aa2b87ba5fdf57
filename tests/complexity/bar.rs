//! The time and the memory of each request, compared with the limits for a request. In a release
//! build:
//!
//! `TAFFRAIL_BAR=40 cargo test --release --test complexity -- --nocapture costs` prints the 40
//! requests that take the most.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;

use crate::items::{Items, items};
use crate::places::{Place, places};
use crate::requests::STEPS;
use crate::search::{LONGEST, MEMORY, MEMORY_PER_BYTE, Trial};

/// The time that a request may take for each byte, in nanoseconds.
const NANOSECONDS_PER_BYTE: f64 = 300.0;

/// Numbers of items: those that a body has room for, and fewer where the tree would be too large.
const SIZES: [usize; 3] = [1_000_000, 60_000, 16_000];

/// The requests that are tried.
const TRIED: [&str; 5] = [
    "create, empty",
    "create, distinct",
    "update, reversed",
    "update, equal",
    "apply, reversed",
];

/// The cost of a request as a ratio to its limit: 1 is the limit.
struct Taken {
    title: String,
    cpu: f64,
    memory: f64,
}

fn tried(place: &Place, all: &Mutex<Vec<Taken>>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for kind in [Items::Empty, Items::Distinct(0)] {
        let Some(few) = items(place, kind, 1_000) else {
            continue;
        };
        let item = few.to_string().len() / 1_000 + 1;
        let is_of_kind = |name: &str| (kind == Items::Empty) == name.ends_with("empty");
        for n in SIZES.map(|n| n.min(LONGEST / 2 / item)) {
            let mut trial = Trial::new(&runtime, place, n);
            for step in STEPS.iter().filter(|step| TRIED.contains(&step.name)) {
                if !is_of_kind(step.name) || !step.suits(place) {
                    continue;
                }
                // The search reports why such a request does not exist.
                let Ok(tried) = trial.carry_out(step) else {
                    continue;
                };
                let (bytes, cost) = (tried.bytes as f64, tried.cost);
                all.lock().unwrap().push(Taken {
                    title: format!("{}: {}: {n} items, {bytes} bytes", place.title(), step.name),
                    cpu: cost.cpu as f64 / NANOSECONDS_PER_BYTE / bytes,
                    memory: cost.peak as f64 / (MEMORY as f64 + MEMORY_PER_BYTE as f64 * bytes),
                });
            }
        }
    }
}

#[test]
fn costs_of_requests_are_printed_beside_what_they_may_be() {
    let Some(most) = std::env::var("TAFFRAIL_BAR").ok() else {
        println!("TAFFRAIL_BAR=40 prints those that take the most");
        return;
    };
    let most: usize = most.parse().expect("TAFFRAIL_BAR is a number");
    let mut places = places();
    let only = std::env::var("TAFFRAIL_PLACES").unwrap_or_default();
    places.retain(|place| place.title().contains(&only));
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    tried(place, &all);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    println!("{} requests", all.len());
    for (name, of) in [
        ("time", (|taken: &Taken| taken.cpu) as fn(&Taken) -> f64),
        ("memory", |taken| taken.memory),
    ] {
        let over = all.iter().filter(|taken| of(taken) > 1.0).count();
        println!("{name}: {over} take more than they may");
        all.sort_by(|one, other| of(other).total_cmp(&of(one)));
        for taken in all.iter().take(most) {
            println!("{:.2} {}", of(taken), taken.title);
        }
    }
}
