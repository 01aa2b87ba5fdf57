//! Who owns the replicas of an object, as managedFields of its Scale (API-180).

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, OnceLock};

use super::entry::{Entry, EntryError, Identity, kept_entries, unreadable, write_entries};
use super::field_manager::FieldManager;
use crate::field_set::{FieldPath, FieldSet, Filter, PathElement};
use crate::object::Object;
use crate::resource::{REPLICAS, Scaling};
use crate::status::Status;

/// What the owners of replicas own of a Scale.
static OF_SCALE: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of([&*FieldPath::of(&REPLICAS)]));

/// The only field that counts when a Scale is written.
static COUNTED: LazyLock<Filter> = LazyLock::new(|| {
    let path = REPLICAS.map(|name| Some(PathElement::Field(name.into())));
    Filter::Include(vec![path.into()])
});

/// A Scale of which nothing is set.
static EMPTY: OnceLock<Object> = OnceLock::new();

impl<'m> FieldManager<'m> {
    /// The manager of the Scales of the objects. They have one version.
    pub fn of_scales(&self, scaling: &'m Scaling) -> FieldManager<'m> {
        FieldManager {
            definition: &scaling.kind,
            versions: &[],
            filter: Some(&COUNTED),
            empty: &EMPTY,
            ..*self
        }
    }

    /// The Scale of an object. Its managers are those who own the object's replicas.
    ///
    /// # Errors
    /// A plain 500 for managedFields that can't be read.
    pub fn scale_of(&self, object: &Object, scaling: &Scaling) -> Result<Object, Box<Status>> {
        let mut scale = scaling.scale_of(object);
        let owners = self.owners_of_replicas(object, scale.api_version());
        scale.set_managed_fields(write_entries(owners.map_err(unreadable)?));
        Ok(scale)
    }

    /// Writes what a Scale says into its object, and who owns the replicas then.
    ///
    /// # Errors
    /// A plain 500 for managedFields that can't be read.
    pub fn write_scale(
        &self,
        scale: &Object,
        scaling: &Scaling,
        object: &mut Object,
    ) -> Result<(), Box<Status>> {
        let entries = self
            .entries_with_owners(object, scale)
            .map_err(unreadable)?;
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

    /// The entries of an object whose Scale has these owners. Whoever is not among them loses the
    /// replicas. An owner gets an entry without a time. That an updater has several versions of its
    /// name, so that its entry of other fields stays beside it, is as Kubernetes does it.
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
                // An entry of a version that is not known is forgotten.
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

    /// Where objects of a version have the number of replicas that are wanted.
    fn replicas(&self, api_version: &str) -> Option<FieldPath> {
        let definition = self.version(api_version)?;
        let scaling = definition.subresource(self.subresource)?.scaling.as_ref()?;
        let names: Vec<&str> = scaling.replicas.iter().map(String::as_str).collect();
        Some(FieldPath::of(&names))
    }
}
