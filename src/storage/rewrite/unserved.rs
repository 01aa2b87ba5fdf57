//! Encrypted values that belong to no served resource: another server serves their resource, or
//! the resource has another key prefix by now.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::{At, Key, Prefix, RangeRequest};

use super::rewritten_store::RewrittenStore;
use crate::storage::StorageError;
use crate::storage::transformer::ENCRYPTED;
use crate::storage::underlying::Underlying;

/// Keys of one page.
const PAGE: usize = 500;

/// Encrypted values that belong to no served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnservedValues {
    /// How many there are.
    pub(super) count: u64,
    /// The key of one of them.
    pub(super) example: String,
}

/// Finds them in the back ends of these stores.
pub(super) async fn find(
    stores: &[Arc<RewrittenStore>],
) -> Result<Option<UnservedValues>, StorageError> {
    let mut back_ends: BTreeMap<&str, Vec<&Underlying>> = BTreeMap::new();
    for one in stores {
        let kept = back_ends.entry(&one.back_end).or_default();
        kept.push(&one.store);
    }
    let mut unserved = None;
    for kept in back_ends.values() {
        scan(kept, &mut unserved).await?;
    }
    Ok(unserved)
}

/// Reads all keys of one back end except those of these stores.
async fn scan(
    kept: &[&Underlying],
    unserved: &mut Option<UnservedValues>,
) -> Result<(), StorageError> {
    let Some(any) = kept.first() else {
        return Ok(());
    };
    let root = any.keys.root_prefix();
    let served = Served::new(
        kept.iter()
            .map(|store| store.keys.resource_prefix().clone()),
    );
    let mut start = Some(root.as_bytes().to_vec());
    while let Some(from) = start {
        let request = RangeRequest {
            prefix: root.clone(),
            start: Some(from),
            at: At::Latest,
            limit: PAGE,
            count_only: false,
        };
        let answer = any.engine.range(request).await;
        let answer = answer.map_err(|error| any.engine_fault(&root.to_string(), error))?;
        for item in &answer.items {
            if item.value.starts_with(ENCRYPTED) && served.of(&item.key).is_none() {
                let found = unserved.get_or_insert_with(|| UnservedValues {
                    count: 0,
                    example: item.key.to_string(),
                });
                found.count += 1;
            }
        }
        start = match answer.items.last() {
            Some(last) if answer.more => served.after(&last.key),
            _ => None,
        };
    }
    Ok(())
}

/// The key prefixes of the served resources, sorted.
struct Served(Vec<Prefix>);

impl Served {
    fn new(prefixes: impl Iterator<Item = Prefix>) -> Served {
        let mut prefixes: Vec<Prefix> = prefixes.collect();
        prefixes.sort();
        Served(prefixes)
    }

    /// The prefix that covers a key.
    fn of(&self, key: &Key) -> Option<&Prefix> {
        self.0.iter().find(|prefix| prefix.covers(key))
    }

    /// Where to continue after a key. Whole prefixes are skipped.
    fn after(&self, key: &Key) -> Option<Vec<u8>> {
        match self.of(key) {
            Some(place) => place.end(),
            None => Some([key.as_bytes(), b"\0"].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_served_are_left_out_whole() {
        let places = ["/registry/secrets/", "/registry/pods/"];
        let served = Served::new(places.into_iter().map(Prefix::new));
        for (key, place) in [
            ("/registry/pods/a/b", Some("/registry/pods/")),
            ("/registry/podtemplates/a", None),
            ("/registry/secrets", None),
            ("/registry/secrets/a", Some("/registry/secrets/")),
        ] {
            let found = served.of(&Key::new(key));
            assert_eq!(found, place.map(Prefix::new).as_ref(), "{key}");
        }
        let after = |key: &str| served.after(&Key::new(key)).unwrap();
        assert_eq!(after("/registry/pods/a/b"), b"/registry/pods0");
        assert_eq!(after("/registry/a"), b"/registry/a\0");
    }
}
