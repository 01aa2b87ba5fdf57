//! The owners of an object's replicas, as managedFields of its Scale (API-180).

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, OnceLock};

use super::entry::{Entry, EntryError, Identity, kept_entries, write_entries};
use super::error::ApplyError;
use super::field_manager::FieldManager;
use crate::field_set::{FieldPath, FieldSet, Filter, PathElement};
use crate::object::Object;
use crate::resource::{REPLICAS, Scaling};

/// The fields of a Scale that correspond to the object's replicas.
static OF_SCALE: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of([&*FieldPath::of(&REPLICAS)]));

/// The only field that counts when a Scale is written.
static COUNTED: LazyLock<Filter> = LazyLock::new(|| {
    let path = REPLICAS.map(|name| Some(PathElement::Field(name.into())));
    Filter::Include(vec![path.into()])
});

/// The canonical form of a Scale without any values.
static EMPTY: OnceLock<Object> = OnceLock::new();

impl<'m> FieldManager<'m> {
    /// Returns the field manager for the Scales of the objects. Scales have one version.
    pub fn of_scales(&self, scaling: &'m Scaling) -> FieldManager<'m> {
        FieldManager {
            definition: &scaling.kind,
            versions: &[],
            filter: Some(&COUNTED),
            empty: &EMPTY,
            ..*self
        }
    }

    /// Returns the Scale of an object. Its managers are the owners of the object's replicas.
    ///
    /// # Errors
    /// A plain 500 for managedFields that can't be read.
    pub fn scale_of(&self, object: &Object) -> Result<Object, ApplyError> {
        let scale = self.definition.scale_of(object);
        let mut scale = scale.ok_or(ApplyError::NoScale)?;
        let owners = self.owners_of_replicas(object, scale.api_version());
        scale.set_managed_fields(write_entries(owners?));
        Ok(scale)
    }

    /// Writes the replicas of a Scale, and their owners, into the object.
    ///
    /// # Errors
    /// A plain 500 for managedFields that can't be read.
    pub fn write_scale(
        &self,
        scale: &Object,
        scaling: &Scaling,
        object: &mut Object,
    ) -> Result<(), ApplyError> {
        let entries = self.entries_with_owners(object, scale)?;
        scaling.write(scale, object);
        object.set_managed_fields(write_entries(entries));
        Ok(())
    }

    fn owners_of_replicas(
        &self,
        object: &Object,
        api_version: &str,
    ) -> Result<Vec<Entry>, EntryError> {
        let mut owners = Vec::new();
        for mut entry in kept_entries(object)? {
            let path = self.replicas(entry.api_version());
            if let Some(path) = path
                && entry.fields()?.has(&path)
            {
                entry.own(OF_SCALE.clone(), api_version);
                owners.push(entry);
            }
        }
        Ok(owners)
    }

    /// Returns the entries of an object after a write to its Scale with these owners. Other
    /// managers lose the replicas. A new owner gets an entry without a time. A manager may get a
    /// second Update entry of the same name for the replicas alone, next to the one for its other
    /// fields, as in Kubernetes.
    fn entries_with_owners(
        &self,
        object: &Object,
        scale: &Object,
    ) -> Result<Vec<Entry>, EntryError> {
        let owners = kept_entries(scale)?;
        let known: HashSet<Identity> = owners.iter().map(Entry::identity).collect();
        let own_version = self.definition.api_version();
        let mut entries = Vec::new();
        let mut are_there = HashSet::new();
        for mut entry in kept_entries(object)? {
            let Some(path) = self.replicas(entry.api_version()) else {
                // Entries of unknown versions are dropped.
                continue;
            };
            if entry.fields()?.has(&path) {
                let identity = entry.identity();
                if known.contains(&identity) {
                    are_there.insert(identity);
                } else {
                    let others = entry.fields()?.difference(&FieldSet::of([&*path]));
                    entry.set_fields(others);
                }
            }
            entries.push(Some(entry).filter(|entry| !entry.is_empty()));
        }
        let mut places: HashMap<Identity, Vec<usize>> = HashMap::new();
        for (place, entry) in entries.iter().enumerate() {
            let identity = entry.as_ref().map(Entry::identity);
            let same = identity.map(|identity| places.entry(identity).or_default());
            same.into_iter().for_each(|same| same.push(place));
        }
        let replicas = self.replicas(&own_version).unwrap_or_default();
        for owner in owners.iter().filter(|owner| !owner.is_empty()) {
            let identity = owner.identity();
            if !are_there.contains(&identity) {
                for place in places.remove(&identity).into_iter().flatten() {
                    entries.get_mut(place).and_then(Option::take);
                }
                let fields = FieldSet::of([&*replicas]);
                let entry = Entry::new(&identity, &own_version, fields);
                places
                    .entry(entry.identity())
                    .or_default()
                    .push(entries.len());
                entries.push(Some(entry));
            }
        }
        Ok(entries.into_iter().flatten().collect())
    }

    /// Returns the path of the desired number of replicas in objects of a version.
    fn replicas(&self, api_version: &str) -> Option<FieldPath> {
        let definition = self.version(api_version)?;
        let scaling = definition.behaviour.scaling()?;
        let names: Vec<&str> = scaling.replicas.iter().map(String::as_str).collect();
        Some(FieldPath::of(&names))
    }
}
