//! One bit is flipped anywhere in the files of a store. The store answers correctly, or refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use actors::engine::{
    At, Change, DataEngine, Engine, EngineError, Expect, HistoryRequest, Key, LeaseId, Mutation,
    Origin, Outcome, Prefix, Prepared, RangeRequest, Revision,
};
use bytes::Bytes;
use taffrail::storage::embedded::{EmbeddedEngine, EmbeddedOptions};

use crate::history_script::Dice;

const FILES: [&str; 4] = ["events.redb", "journal-0", "journal-1", "store"];
const KEYS: u64 = 300;

/// The seed of the flips of a change. A thorough run has others.
const SEED: u64 = 35;

/// The flips of one run.
fn flips() -> u64 {
    match std::env::var_os("TAFFRAIL_LONG") {
        Some(_) => 10_000,
        None => 300,
    }
}

fn key(number: u64) -> Key {
    Key::new(format!("/registry/things/ns/{number:03}"))
}

/// What a store holds: at each revision, the keys with the revisions and values of their puts.
#[derive(Default)]
struct Truth {
    now: BTreeMap<Key, (Revision, Bytes)>,
    /// An earlier state, and its revision.
    past: BTreeMap<Key, (Revision, Bytes)>,
    then: Revision,
    /// Keys and values in the order of their revisions, from the first one on.
    events: Vec<(Key, Bytes)>,
}

async fn commit(engine: &EmbeddedEngine, truth: &mut Truth, key: Key, value: Option<Bytes>) {
    let expect = match truth.now.get(&key) {
        Some((revision, _)) => Expect::Unchanged(*revision),
        None => Expect::Absent,
    };
    let change = match &value {
        Some(value) => Change::Put {
            value: value.clone(),
            lease: LeaseId(0),
        },
        None => Change::Delete,
    };
    let mutation = Mutation {
        key: key.clone(),
        expect,
        change,
        origin: Origin::default(),
        prepared: Prepared::default(),
    };
    let Outcome::Committed(event) = engine.commit(mutation).await.unwrap() else {
        panic!("a commit without rivals was refused")
    };
    truth
        .events
        .push((key.clone(), value.clone().unwrap_or_default()));
    match value {
        Some(value) => truth.now.insert(key, (event.revision, value)),
        None => truth.now.remove(&key),
    };
}

/// The files of a store by name.
type Files = Vec<(&'static str, Vec<u8>)>;

fn files(directory: &Path) -> Files {
    let read = |name| (name, fs::read(directory.join(name)).unwrap_or_default());
    FILES.into_iter().map(read).collect()
}

/// A store that was closed, the same when it had died before, and what it holds.
async fn stores(dice: &mut Dice) -> ([Files; 2], Truth) {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        checkpoint_bytes: 64 * 1024,
        ..EmbeddedOptions::new(directory.path())
    };
    let engine = EmbeddedEngine::open(options).unwrap();
    let mut truth = Truth::default();
    for round in 0..2 {
        for number in 0..KEYS {
            if round == 1 && number % 3 > 0 {
                continue;
            }
            let length = 20 + dice.roll(600);
            let value: Bytes = (0..length).map(|_| dice.roll(256) as u8).collect();
            commit(&engine, &mut truth, key(number), Some(value)).await;
        }
        if round == 0 {
            truth.past = truth.now.clone();
            truth.then = Revision(truth.events.len() as u64);
        }
    }
    for number in (0..KEYS).step_by(17) {
        commit(&engine, &mut truth, key(number), None).await;
    }
    let dead = files(directory.path());
    engine.close().await;
    ([files(directory.path()), dead], truth)
}

fn range(at: At, start: Option<Vec<u8>>, limit: usize) -> RangeRequest {
    RangeRequest {
        prefix: Prefix::new(b"/registry/"),
        start,
        at,
        limit,
        count_only: false,
    }
}

/// Asks a store in every way. Each answer is right, or an error.
async fn ask(engine: &Arc<EmbeddedEngine>, truth: &Truth, dice: &mut Dice) -> u64 {
    let mut refused = 0;
    let mut refuse = |error: EngineError| {
        assert!(!error.to_string().is_empty());
        refused += 1;
    };
    for (at, expected) in [
        (At::Latest, &truth.now),
        (At::Revision(truth.then), &truth.past),
    ] {
        for limit in [0, 7] {
            let mut found = BTreeMap::new();
            let mut start = None;
            let whole = loop {
                let page = match engine.range(range(at, start, limit)).await {
                    Ok(page) => page,
                    Err(error) => break Err(error),
                };
                let left = expected.len() - found.len();
                assert_eq!(page.count, left as u64, "the count at {at:?}");
                start = page
                    .items
                    .last()
                    .map(|item| [item.key.as_bytes(), b"\0"].concat());
                let items = page.items.into_iter();
                found.extend(items.map(|item| (item.key, (item.revision, item.value))));
                if !page.more {
                    break Ok(());
                }
            };
            match whole {
                Ok(()) => assert!(found == *expected, "a wrong list at {at:?}"),
                Err(error) => refuse(error),
            }
        }
        for _ in 0..8 {
            let key = key(dice.roll(KEYS + 20));
            match engine.get(key.clone(), at).await {
                Ok(answer) => {
                    let found = answer.item.map(|item| (item.revision, item.value));
                    assert_eq!(found.as_ref(), expected.get(&key), "{key} at {at:?}");
                }
                Err(error) => refuse(error),
            }
        }
    }
    let request = HistoryRequest {
        prefix: Prefix::new(b""),
        after: Revision::ZERO,
        until: Revision::MAX,
        bytes_max: usize::MAX,
    };
    match engine.history(request).await {
        Ok(answer) => {
            let events = answer.events.into_iter();
            let found: Vec<_> = events.map(|event| (event.key, event.value)).collect();
            assert!(found == truth.events, "a wrong history");
        }
        Err(error) => refuse(error),
    }
    refused
}

#[tokio::test]
async fn a_flipped_bit_gives_right_answers_or_a_refusal() {
    let rounds = flips();
    let seed = if rounds == 300 { SEED } else { crate::seed() };
    let mut dice = Dice::new(seed);
    let (stores, truth) = stores(&mut dice).await;
    let (mut unopened, mut refused, mut same) = (0, 0, 0);
    for round in 0..rounds {
        let files = &stores[round as usize % 2];
        // Most flips hit the pages of the database.
        let file = [0, 0, 0, 0, 0, 1, 2, 3][dice.roll(8) as usize];
        let (name, whole) = &files[file];
        if whole.is_empty() {
            continue;
        }
        // Most of a file is free. Three of four flips hit what is used.
        let mut at = dice.roll(whole.len() as u64) as usize;
        if dice.roll(4) > 0 {
            while whole[at] == 0 {
                at = (at + dice.roll(4096) as usize) % whole.len();
            }
        }
        let bit = dice.roll(8);
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        fs::write(directory.path().join(name), flipped).unwrap();
        println!("seed {seed}, round {round}: bit {bit} of byte {at} of {name}");
        match EmbeddedEngine::open(EmbeddedOptions::new(directory.path())) {
            Ok(engine) => {
                match ask(&engine, &truth, &mut dice).await {
                    0 => same += 1,
                    _ => refused += 1,
                }
                engine.close().await;
            }
            Err(refusal) => {
                let refusal = refusal.to_string();
                let path = directory.path().display().to_string();
                assert!(refusal.contains(&path), "{refusal}");
                unopened += 1;
            }
        }
    }
    println!("{unopened} did not open, {refused} refused a part, {same} were without effect");
    assert!(unopened > 0 && refused > 0 && same > 0);
}
