//! The limit on Update entries (API-187).

use std::collections::HashMap;

use super::entry::{Entry, EntryError, Identity, Operation};
use crate::field_set::FieldSet;

/// Kubernetes' limit on Update entries. Beyond it, the oldest are merged.
const MAX_UPDATERS: usize = 10;

/// The manager of the merged entries.
const OF_THE_OLDEST: &str = "ancient-changes";

/// Merges the oldest Update entries of each version into one, until at most [`MAX_UPDATERS`] are
/// left. The only entry of a version stays as it is.
///
/// # Errors
/// The fields of an entry can't be read.
pub(super) fn cap_updaters(mut entries: Vec<Entry>) -> Result<Vec<Entry>, EntryError> {
    let is_updater = |entry: &&Entry| entry.operation() == Operation::Update;
    let mut left = entries.iter().filter(is_updater).count();
    if left <= MAX_UPDATERS {
        return Ok(entries);
    }
    entries.sort_by_cached_key(|entry| (entry.time().to_owned(), entry.identity().key()));
    // By version: the merged entry, and the oldest entry until there is a merged one.
    let mut merged: HashMap<String, Entry> = HashMap::new();
    let mut oldest: HashMap<String, Entry> = HashMap::new();
    let mut kept = Vec::with_capacity(entries.len());
    let mut updaters = Vec::with_capacity(left);
    for entry in entries {
        match entry.operation() {
            Operation::Apply => kept.push(entry),
            Operation::Update if entry.is(&identity(entry.api_version())) => {
                merged.insert(entry.api_version().to_owned(), entry);
            }
            Operation::Update => updaters.push(entry),
        }
    }
    let mut updaters = updaters.into_iter();
    // The fields to add to each merged entry. They are collected, so that each entry is written
    // once.
    let mut given: HashMap<String, Vec<FieldSet>> = HashMap::new();
    while left > MAX_UPDATERS {
        let Some(mut entry) = updaters.next() else {
            break;
        };
        let version = entry.api_version().to_owned();
        if !merged.contains_key(&version) {
            let Some(mut first) = oldest.remove(&version) else {
                oldest.insert(version, entry);
                continue;
            };
            let mut bucket = Entry::new(&identity(&version), &version, FieldSet::default());
            bucket.set_fields(first.fields()?.clone());
            merged.insert(version.clone(), bucket);
        }
        if let Some(bucket) = merged.get_mut(&version) {
            let fields = entry.fields()?.clone();
            bucket.fields()?;
            given.entry(version).or_default().push(fields);
            // The merged entry takes the time of its most recent part.
            bucket.set_time(entry.time());
            left -= 1;
        }
    }
    for (version, fields) in given {
        if let Some(bucket) = merged.get_mut(&version) {
            let sets: Vec<&FieldSet> = fields.iter().chain([bucket.fields()?]).collect();
            let fields = FieldSet::union_of(&sets);
            bucket.set_fields(fields);
        }
    }
    kept.extend(updaters);
    kept.extend(oldest.into_values());
    kept.extend(merged.into_values());
    Ok(kept)
}

fn identity(api_version: &str) -> Identity {
    Identity {
        manager: OF_THE_OLDEST.to_owned(),
        operation: Operation::Update,
        api_version: api_version.to_owned(),
        subresource: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_set::FieldPath;

    fn entry(manager: &str, field: &str, second: usize) -> Entry {
        let identity = Identity {
            manager: manager.to_owned(),
            ..identity("v1")
        };
        let path = FieldPath::of(&["data", field]);
        let mut entry = Entry::new(&identity, "v1", FieldSet::of([&*path]));
        entry.set_time(&format!("2024-01-02T03:04:{second:02}Z"));
        entry
    }

    /// API-187: the oldest Update entries become one, with the time of the last of them.
    #[test]
    fn the_oldest_updaters_are_merged() {
        let entries = |count: usize| -> Vec<Entry> {
            let one = |number: usize| entry(&format!("m{number}"), &format!("f{number}"), number);
            (0..count).rev().map(one).collect()
        };
        assert_eq!(cap_updaters(entries(10)).unwrap().len(), 10);
        let mut capped = cap_updaters(entries(12)).unwrap();
        assert_eq!(capped.len(), 10);
        let oldest = capped
            .iter_mut()
            .find(|entry| entry.identity().manager == OF_THE_OLDEST)
            .unwrap();
        assert_eq!(oldest.time(), "2024-01-02T03:04:02Z");
        let fields = oldest.fields().unwrap().to_fields_v1();
        assert_eq!(fields, r#"{"f:data":{"f:f0":{},"f:f1":{},"f:f2":{}}}"#);
        // Further entries are merged into the same one.
        capped.push(entry("m12", "f12", 12));
        let mut capped = cap_updaters(capped).unwrap();
        let mut oldest = capped
            .iter_mut()
            .filter(|entry| entry.identity().manager == OF_THE_OLDEST);
        let fields = oldest.next().unwrap().fields().unwrap().len();
        assert_eq!((fields, oldest.count(), capped.len()), (4, 0, 10));
    }

    #[test]
    fn many_updaters_of_several_versions_are_merged_at_once() {
        let of = |number: usize| {
            let mut entry = entry(&format!("m{number}"), &format!("f{number}"), number % 60);
            let fields = entry.fields().unwrap().clone();
            entry.own(fields, ["v1", "v2"][number % 2]);
            entry
        };
        let mut capped = cap_updaters((0..4_000).map(of).collect()).unwrap();
        assert_eq!(capped.len(), 10);
        let merged = capped.iter_mut().map(|entry| entry.fields().unwrap().len());
        assert_eq!(merged.sum::<usize>(), 4_000);
    }
}
