//! An index returns the same objects as a scan of everything, for random objects, changes, values,
//! pages and revisions. A failure prints its seed, and `TAFFRAIL_SEED` runs it again.

use smol_str::SmolStr;

use super::*;
use crate::cacher::{AppliedUpdate, CacheContent, NewValue, Update};
use crate::object::Attributes;
use crate::ring::{ObjectChange, Ring};
use crate::watch::Predicate;

/// Indexed fields of the objects below: the first and the last of three.
const INDEXED: [u32; 2] = [0, 2];

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Empty now and then.
    fn value(&mut self) -> SmolStr {
        ["", "a", "ab", "b"][self.below(4) as usize].into()
    }

    fn key(&mut self) -> Key {
        let (namespace, name) = (self.below(3), self.below(12));
        Key::new(format!("/r/ns{namespace}/{name:02}"))
    }
}

/// Selects by values of fields.
#[derive(Debug)]
struct Demand(Vec<(usize, SmolStr)>);

impl Predicate for Demand {
    fn matches(&self, object: &CachedObject) -> bool {
        let mut demands = self.0.iter();
        demands.all(|(place, value)| object.attributes().field(*place) == value)
    }

    fn identity(&self) -> &str {
        "demand"
    }

    fn demanded_value(&self, place: usize) -> Option<&str> {
        let demand = self.0.iter().find(|(other, _)| *other == place)?;
        Some(&demand.1)
    }
}

fn object(dice: &mut Dice, key: &Key, revision: Revision) -> Arc<CachedObject> {
    let attributes = Attributes {
        fields: Box::new([dice.value(), dice.value(), dice.value()]),
        ..Attributes::default()
    };
    Arc::new(crate::testing::object(
        key,
        revision,
        &revision.to_string(),
        &attributes,
    ))
}

fn update(dice: &mut Dice, key: Key, revision: Revision) -> Update {
    let value = match dice.below(12) {
        0..3 => NewValue::Deleted,
        3 => NewValue::Unreadable(Arc::new(DecodeError {
            key: key.to_string(),
            revision,
            reason: "random".to_owned(),
        })),
        _ => NewValue::Object(object(dice, &key, revision)),
    };
    Update {
        revision,
        key,
        value,
    }
}

/// The selected values of a page, by their keys and revisions.
fn page<'a>(
    stored: impl Iterator<Item = Stored<'a>>,
    demand: &Demand,
    limit: usize,
) -> Vec<(String, Revision)> {
    let selected = stored.filter_map(|stored| match stored {
        Ok(object) => {
            let shown = (Key::new(object.key()).to_string(), object.revision);
            demand.matches(object).then_some(shown)
        }
        Err(error) => Some((error.key.clone(), error.revision)),
    });
    selected.take(limit).collect()
}

fn check(dice: &mut Dice, snapshot: &Snapshot) {
    let places = dice.below(4);
    let demands = (0..places).map(|_| (dice.below(3) as usize, dice.value()));
    let demand = Demand(demands.collect());
    let prefix = Prefix::new(["/r/", "/r/ns1/", "/r/ns9/"][dice.below(3) as usize]);
    let key = dice.key();
    let start = (dice.below(2) == 0).then_some(key.as_bytes());
    let limit = 1 + dice.below(20) as usize;
    assert_eq!(
        page(snapshot.candidates(&prefix, start, &demand), &demand, limit),
        page(snapshot.range(&prefix, start), &demand, limit),
        "{demand:?} below {prefix}, from {key} on if {start:?}"
    );
}

/// The index holds each object with a value, in its present state, and nothing else.
fn check_entries(snapshot: &Snapshot) {
    for place in INDEXED {
        for value in ["a", "ab", "b"] {
            let has =
                |object: &&Arc<CachedObject>| object.attributes().field(place as usize) == value;
            let found = snapshot.fields.having(place, value, b"");
            let wanted = snapshot.objects_from(b"").filter(has);
            assert!(found.map(Arc::as_ptr).eq(wanted.map(Arc::as_ptr)));
        }
    }
    let has_value = |object: &&Arc<CachedObject>, place: u32| {
        !object.attributes().field(place as usize).is_empty()
    };
    let count = |place| {
        snapshot
            .objects_from(b"")
            .filter(|o| has_value(o, place))
            .count()
    };
    assert_eq!(snapshot.fields.len(), INDEXED.into_iter().map(count).sum());
}

fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let first: std::collections::BTreeSet<Key> = (0..dice.below(20)).map(|_| dice.key()).collect();
    let first = first.iter().map(|key| object(&mut dice, key, Revision(1)));
    let first: Vec<_> = first.collect();
    let mut content = CacheContent::default();
    content.replace(Snapshot::of(first, Revision(1)).indexed_by(INDEXED.to_vec()));
    let mut states = vec![content.snapshot()];
    let mut changes: Vec<Option<ObjectChange>> = vec![None];
    for revision in 2..40 {
        let key = dice.key();
        let update = update(&mut dice, key, Revision(revision));
        let applied = content.apply(vec![update], Revision(revision));
        changes.push(applied.into_iter().find_map(|applied| match applied {
            AppliedUpdate::Change(_, change) => Some(change),
            AppliedUpdate::Gap(_) => None,
        }));
        states.push(content.snapshot());
    }
    // Earlier snapshots are as they were, and undoing leads from each to the one before.
    for (index, state) in states.iter().enumerate() {
        check_entries(state);
        (0..5).for_each(|_| check(&mut dice, state));
        let mut undone = state.clone();
        if let Some(change) = &changes[index] {
            let mut ring = Ring::default();
            let sequence = ring.push(state.revision, change.clone());
            undone.undo(ring.get(sequence).unwrap());
            check_entries(&undone);
            assert!(undone.fields.same(&states[index - 1].fields));
        }
    }
}

#[test]
fn an_index_finds_what_reading_everything_finds_li_39() {
    let given = std::env::var("TAFFRAIL_SEED").ok();
    let seeds = match given.and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..=seed,
        None => 1..=200,
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "run again with TAFFRAIL_SEED={seed}");
    }
}
