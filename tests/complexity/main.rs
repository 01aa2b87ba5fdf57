//! Searches for work that grows faster than the request: each list and map of each type is made
//! long and written by all verbs, in this process and without HTTP.
//!
//! The tests count memory and the steps that the code counts (`api::cost`): twice the items may
//! cost at most 2.5 times as much. CPU time is too noisy for that limit. A case that seems to
//! exceed it is repeated with more items, where quadratic growth is unmistakable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bar;
mod cost;
#[allow(dead_code, unused_imports)]
#[path = "../blackbox/harness/mod.rs"]
mod harness;
mod items;
mod over_http;
mod pairs;
mod places;
mod requests;
mod search;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pairs::pairs;
use crate::places::{Place, places};
use crate::search::{Outcome, search};

/// What grows too fast and is known to, a line for each request.
const GAPS: &str = include_str!("../fixtures/complexity-gaps.txt");

/// The lists and maps of the types of all kinds with bodies: those that are stored, and reviews.
/// Those of lists of objects, of options and of what only the server writes are not among them.
const PLACES: usize = 348;

/// What has become of all requests.
#[derive(Default)]
struct Found {
    tried: usize,
    left_out: BTreeMap<String, usize>,
    too_much: BTreeMap<String, String>,
    /// Those which may be too much: neither a gap nor the end of one.
    unsure: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, place: &Place, step: &str, outcome: Outcome) {
        let title = format!("{}: {step}", place.title());
        self.tried += 1;
        match outcome {
            Outcome::Linear => {}
            Outcome::LeftOut(why) => {
                self.tried -= 1;
                *self.left_out.entry(why).or_default() += 1;
            }
            Outcome::Unsure => _ = self.unsure.insert(title),
            Outcome::TooMuch(what) => {
                println!("{title}\n    {what}");
                self.too_much.insert(title, what);
            }
        }
    }
}

/// Works on the places with all processors.
fn search_all(places: &[Place]) -> Found {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Found::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (step, outcome) in search(place) {
                        found.lock().unwrap().add(place, step, outcome);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn every_list_and_map_costs_as_much_as_it_is_long() {
    let mut places = places();
    assert_eq!(places.len(), PLACES, "lists and maps");
    places.extend(pairs(&places));
    // TAFFRAIL_PLACES=PodSpec.tolerations tries those that have this in their names.
    let only = std::env::var("TAFFRAIL_PLACES").unwrap_or_default();
    places.retain(|place| place.title().contains(&only));
    let found = search_all(&places);
    println!("{} places, {} requests", places.len(), found.tried);
    for (why, count) in &found.left_out {
        println!("{count} left out: {why}");
    }
    let gaps: BTreeSet<&str> = GAPS.lines().filter(|line| !line.starts_with('#')).collect();
    let unknown = found.too_much.iter();
    let unknown = unknown.filter(|(title, _)| !gaps.contains(title.as_str()));
    let unknown: Vec<String> = unknown
        .map(|(title, what)| format!("{title}\n    {what}"))
        .collect();
    assert!(
        unknown.is_empty(),
        "{} grow faster than what is sent:\n{}",
        unknown.len(),
        unknown.join("\n")
    );
    let is_closed = |gap: &&str| {
        let open = found.too_much.contains_key(*gap) || found.unsure.contains(*gap);
        !open && gap.contains(&only)
    };
    let closed: Vec<&str> = gaps.into_iter().filter(is_closed).collect();
    assert!(
        closed.is_empty(),
        "listed gaps that no longer exist: {closed:#?}"
    );
}
