//! The recorded CEL expressions by two other crates, `cel` and `kube-cel`, and by cel-go (CRD-177).
//!
//! An answer agrees if both have the same value, or neither has one. Every other one is counted by
//! its reason in `differences.txt`, with the shortest expression, cel-go's answer and the crate's.
//! `SECOND_OPINION_WRITE=1` writes the list, and `SECOND_OPINION_SHOW=REASON` prints expressions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flate2::read::GzDecoder;
use second_opinion::CRATES;
use second_opinion::reason::{Answer, reason};
use serde_json::Value as Json;

/// Our own answers to the same expressions, by the list of differences there.
#[path = "../../../api/tests/cel.rs"]
mod ours;

/// The answers of cel-go. `tools/facts/cel.py` documents the form.
const RECORDED: &[u8] = include_bytes!("../../../api/tests/recorded/cel.json.gz");
const LISTED: &str = include_str!("../differences.txt");
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/differences.txt");
/// Both crates evaluate by recursion.
const STACK: usize = 64 << 20;
/// How often an answer is compared with the first one, if it may depend on the order of a map.
const RUNS: usize = 20;
/// The name of what has no reason.
const UNEXPLAINED: &str = "UNEXPLAINED";

/// The differences of one crate for one reason.
#[derive(Default)]
struct Differences {
    count: usize,
    /// The shortest expression, cel-go's answer, and the crate's.
    example: (String, String, String),
}

/// Returns whether an expression may have a map and a function that depends on its order.
fn may_show_order(text: &str) -> bool {
    let has = |part: &&str| text.contains(*part);
    ["{", "self"].iter().any(has)
        && ["format(", "map(", "transform", "filter(", "exists", "all("]
            .iter()
            .any(has)
}

/// Returns the list of all differences.
fn compared(shown: &str) -> String {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let about: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    let (schema, object) = (&about["schema"], &about["object"]);
    let mut all: BTreeMap<(&str, &str), Differences> = BTreeMap::new();
    let mut agreed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unordered: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let (text, recorded): (String, Json) = serde_json::from_str(line).unwrap();
        let theirs = Answer::recorded(&recorded);
        for (name, evaluate) in CRATES {
            let evaluated = || {
                let evaluated = catch_unwind(AssertUnwindSafe(|| evaluate(&text, schema, object)));
                evaluated.unwrap_or(Answer::Panic)
            };
            let found = evaluated();
            // The crates have another order of a map each time.
            if may_show_order(&text) && (0..RUNS).any(|_| evaluated() != found) {
                *unordered.entry(name).or_default() += 1;
                continue;
            }
            if found.agrees(&theirs) {
                *agreed.entry(name).or_default() += 1;
                continue;
            }
            let reason = reason(&text, &found, &theirs).unwrap_or(UNEXPLAINED);
            if reason == shown {
                println!("{name}: {text}\n  cel-go: {theirs}\n  {name}: {found}");
            }
            let known = all.entry((name, reason)).or_default();
            known.count += 1;
            if known.count == 1 || text.len() < known.example.0.len() {
                known.example = (text.clone(), theirs.to_string(), found.to_string());
            }
        }
    }
    let mut list = String::new();
    for (name, _) in CRATES {
        let (agreed, unordered) = (
            agreed[name],
            unordered.get(name).copied().unwrap_or_default(),
        );
        writeln!(
            list,
            "{name}: {agreed} agree, {unordered} show the order of a map"
        )
        .unwrap();
        for ((_, reason), known) in all.iter().filter(|((of, _), _)| *of == name) {
            let (text, theirs, found) = &known.example;
            writeln!(list, "  {} {reason}", known.count).unwrap();
            writeln!(
                list,
                "    {text:?}\n      cel-go: {theirs}\n      {name}: {found}"
            )
            .unwrap();
        }
    }
    list
}

#[test]
fn other_evaluators_differ_from_cel_go_for_listed_reasons_crd_177() {
    let shown = std::env::var("SECOND_OPINION_SHOW").unwrap_or_default();
    // A panic of a crate is a difference like others.
    let comparing = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || compared(&shown))
        .unwrap();
    let list = comparing.join().unwrap();
    if std::env::var_os("SECOND_OPINION_WRITE").is_some() {
        std::fs::write(LIST, &list).unwrap();
    } else {
        assert!(list == LISTED, "the differences are now:\n{list}");
    }
    assert!(!list.contains(UNEXPLAINED), "{list}");
}
