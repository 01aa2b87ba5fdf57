//! Variations of recorded bodies, patches and parameters: none causes a panic, and decoded ones
//! keep their rules. The targets in `fuzz` run the same checks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod seeds;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;

use checks::{apply, bodies, expressions, patches, policies, requests, structural};

/// A target of the fuzzer: its name, its check, and the start of its corpus.
type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

const TARGETS: &[Target] = &[
    ("body_json", bodies::json, seeds::json_bodies),
    ("body_yaml", bodies::yaml, seeds::yaml_bodies),
    ("body_protobuf", bodies::protobuf, seeds::protobuf_bodies),
    ("patch_json", patches::json, seeds::json_patches),
    ("patch_merge", patches::merge, seeds::merge_patches),
    ("patch_strategic", patches::strategic, seeds::merge_patches),
    ("fields_v1", apply::fields_v1, seeds::fields_v1),
    ("field_sets", apply::field_sets, seeds::field_sets),
    ("selectors", requests::selectors, seeds::selectors),
    ("path", requests::path, seeds::paths),
    ("query", requests::query, seeds::queries),
    ("token", requests::token, seeds::tokens),
    ("structural", structural::by_bytes, seeds::custom_objects),
    ("expressions", expressions::by_bytes, seeds::expressions),
    ("policies", policies::by_bytes, seeds::policies),
    (
        "delete_options",
        requests::delete_options,
        seeds::delete_options,
    ),
];

/// The time limit of one input. Most take less than a millisecond; quadratic costs exceed this.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns the duration of a check, or `None` if it panics.
fn taken(check: fn(&[u8]), input: &[u8]) -> Option<Duration> {
    let begun = Instant::now();
    let checked = std::panic::catch_unwind(|| check(input));
    checked.ok().map(|()| begun.elapsed())
}

/// A small change of an input.
#[derive(Clone, Debug)]
enum Change {
    Put(Index, u8),
    Remove(Index, u8),
    Insert(Index, &'static str),
    Repeat(Index, u8, u8),
}

fn change() -> impl Strategy<Value = Change> {
    const WORDS: &[&str] = &[
        "null",
        "{}",
        "[]",
        "\"\"",
        "-1",
        "1e400",
        "\"a\"",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\0",
        "99999999999999999999",
        "0.5",
        "true",
        "\\u0000",
        "\n",
        "- ",
        "&a ",
        "*a",
        "%00",
        "=",
        "!=",
        " in (",
        ")",
        "\u{ffff}",
        "\"$patch\":\"delete\",",
        "\"metadata\":",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Put(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, count)| Change::Remove(at, count)),
        (any::<Index>(), 0..WORDS.len()).prop_map(|(at, word)| Change::Insert(at, WORDS[word])),
        (any::<Index>(), 1..40_u8, 2..30_u8)
            .prop_map(|(at, count, times)| Change::Repeat(at, count, times)),
    ]
}

impl Change {
    fn make(&self, input: &mut Vec<u8>) {
        let places = input.len() + 1;
        match self {
            Change::Put(at, byte) => {
                let at = at.index(places);
                input.splice(at..(at + 1).min(input.len()), [*byte]);
            }
            Change::Remove(at, count) => {
                let at = at.index(places);
                input.drain(at..(at + usize::from(*count)).min(input.len()));
            }
            Change::Insert(at, word) => {
                let at = at.index(places);
                input.splice(at..at, word.bytes());
            }
            Change::Repeat(at, count, times) => {
                let at = at.index(places);
                let end = (at + usize::from(*count)).min(input.len());
                let part = input[at..end].repeat(usize::from(*times));
                input.splice(at..at, part);
            }
        }
    }
}

#[test]
fn bytes_near_recorded_ones_are_read_or_refused() {
    let corpora: Vec<Vec<Vec<u8>>> = TARGETS.iter().map(|(_, _, seeds)| seeds()).collect();
    for (target, corpus) in TARGETS.iter().zip(&corpora) {
        assert!(!corpus.is_empty(), "{}", target.0);
        // The recorded inputs themselves.
        for seed in corpus {
            let taken = taken(target.1, seed);
            let shown = String::from_utf8_lossy(seed);
            assert!(
                taken.is_some_and(|taken| taken < LIMIT),
                "{}: {taken:?}: {shown}",
                target.0
            );
        }
    }
    let changes = prop::collection::vec(change(), 0..6);
    let inputs = (0..TARGETS.len(), any::<Index>(), changes);
    seeds::run(4_000, &inputs, |(target, seed, changes)| {
        let (name, check, _) = TARGETS[target];
        let mut input = corpora[target][seed.index(corpora[target].len())].clone();
        changes.iter().for_each(|change| change.make(&mut input));
        let shown = String::from_utf8_lossy(&input).into_owned();
        let taken = taken(check, &input);
        prop_assert!(
            taken.is_some_and(|taken| taken < LIMIT),
            "{name}: {taken:?}: {shown}"
        );
        Ok(())
    });
}

/// `TAFFRAIL_CORPUS=fuzz/corpus` writes the initial corpus of the fuzzer.
#[test]
fn the_corpus_is_written_where_it_is_asked_for() {
    let Some(folder) = std::env::var_os("TAFFRAIL_CORPUS") else {
        return;
    };
    // Tests run in the folder of their crate.
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    for (name, _, seeds) in TARGETS {
        let place = folder.join(name);
        std::fs::create_dir_all(&place).unwrap();
        for (number, seed) in seeds().iter().enumerate() {
            std::fs::write(place.join(format!("recorded-{number}")), seed).unwrap();
        }
    }
}
