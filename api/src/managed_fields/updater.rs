//! Ownership changes of server-side apply (API-172, API-173), as structured-merge-diff's
//! `merge.Updater`. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::field_set::{FieldPath, FieldSet, Filter};
use crate::object::Object;
use crate::typed::{Comparison, ValueType};

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: FieldSet,
    /// The version of the field names: `apps/v1`.
    pub api_version: SmolStr,
    /// Whether the manager owns them through server-side apply.
    pub applied: bool,
}

/// The owned fields of each manager, by the key of its identity. The order of the keys is that of
/// conflicts.
pub type Managers = BTreeMap<String, VersionedSet>;

/// The version does not exist, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchVersion;

/// The versions of a kind.
pub trait Versions {
    /// Returns the type of objects in a version. `None` if the version does not exist any more.
    fn value_type(&self, api_version: &str) -> Option<ValueType<'_>>;

    /// Converts an object into another version than its own.
    ///
    /// # Errors
    /// The version does not exist any more.
    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, NoSuchVersion>;

    /// Returns the fields that count in a version (API-179). `None` if all do.
    fn filter(&self, api_version: &str) -> Option<&Filter>;
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key of the manager's identity.
    pub manager: String,
    /// The field.
    pub path: FieldPath,
}

/// The reason why an apply failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Other managers own fields with other values (API-174). Sorted by manager.
    Conflicts(Vec<Conflict>),
    /// The version of the object does not exist.
    NoSuchVersion(NoSuchVersion),
}

impl From<NoSuchVersion> for UpdateError {
    fn from(error: NoSuchVersion) -> UpdateError {
        UpdateError::NoSuchVersion(error)
    }
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The merged object. `None` if it equals the live one.
    pub object: Option<Object>,
    /// The owned fields of each manager after the apply.
    pub managers: Managers,
}

/// Computes field ownership.
#[derive(Clone, Copy)]
pub struct Updater<'u> {
    /// The versions of the kind.
    pub versions: &'u dyn Versions,
}

impl Updater<'_> {
    /// Applies an object (API-172). Both objects have this version and fit its type; the applied
    /// one has no duplicate items.
    ///
    /// # Errors
    /// Conflicts, unless forced. The version does not exist.
    pub fn apply(
        &self,
        live: &Object,
        applied: &Object,
        api_version: &str,
        managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, UpdateError> {
        let mut managers = self.reconciled(managers);
        let of = self.versions.value_type(api_version).ok_or(NoSuchVersion)?;
        let merged = of.merge(live, applied);
        let mut set = of.field_set(applied);
        let last = managers.remove(manager);
        if let Some(filter) = self.versions.filter(api_version) {
            set = filter.of(&set);
        }
        managers.insert(manager.to_owned(), versioned(set, api_version, true));
        let new = self.pruned(merged, api_version, &managers, manager, last)?;
        let change = Change {
            live,
            new: &new,
            api_version,
            by: manager,
        };
        self.take_from_others(&change, &mut managers, force)?;
        // Compares only the trees: the merged object has no managedFields.
        let is_same = live.0 == new.0;
        Ok(Applied {
            object: (!is_same).then_some(new),
            managers,
        })
    }

    /// Drops managers of unknown versions, and adapts the fields of the others to types whose
    /// atomicity has changed.
    fn reconciled(&self, mut managers: Managers) -> Managers {
        managers.retain(
            |_, owned| match self.versions.value_type(&owned.api_version) {
                Some(of) => {
                    if let Some(set) = of.reconciled(&owned.set) {
                        owned.set = set;
                    }
                    true
                }
                None => false,
            },
        );
        managers
    }

    /// Takes changed fields from the other managers. Drops managers that own nothing any more.
    fn take_from_others(
        &self,
        change: &Change<'_>,
        managers: &mut Managers,
        force: bool,
    ) -> Result<(), UpdateError> {
        let compared = self.compared(change, change.api_version)?;
        let counting = match self.versions.filter(change.api_version) {
            Some(filter) => Cow::Owned(compared.map(|set| filter.of(set))),
            None => Cow::Borrowed(&compared),
        };
        let mut others: BTreeMap<SmolStr, Option<Comparison>> = BTreeMap::new();
        let mut conflicts = Vec::new();
        let mut left: Vec<(String, FieldSet)> = Vec::new();
        for (manager, owned) in managers.iter() {
            if manager == change.by {
                continue;
            }
            let compared = match owned.api_version == change.api_version {
                true => Some(&*counting),
                false => {
                    let found = others.entry(owned.api_version.clone());
                    let found = found.or_insert_with(|| self.counting(change, &owned.api_version));
                    found.as_ref()
                }
            };
            let Some(compared) = compared else {
                left.push((manager.clone(), FieldSet::default()));
                continue;
            };
            let mut taken = owned.set.intersection(&compared.modified);
            taken.add(&owned.set.intersection(&compared.added));
            if !taken.is_empty() && !force {
                let paths = taken.paths().into_iter();
                conflicts.extend(paths.map(|path| Conflict {
                    manager: manager.clone(),
                    path,
                }));
                continue;
            }
            taken.add(&owned.set.intersection(&compared.removed));
            if !taken.is_empty() {
                left.push((manager.clone(), owned.set.difference(&taken)));
            }
        }
        if !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        for (manager, set) in left {
            if let Some(owned) = managers.get_mut(&manager) {
                owned.set = set;
            }
        }
        managers.retain(|_, owned| !owned.set.is_empty());
        Ok(())
    }

    /// Compares the objects in a version.
    fn compared(
        &self,
        change: &Change<'_>,
        api_version: &str,
    ) -> Result<Comparison, NoSuchVersion> {
        let of = self.versions.value_type(api_version).ok_or(NoSuchVersion)?;
        if api_version == change.api_version {
            return Ok(of.compare(change.live, change.new));
        }
        let live = self.versions.convert(change.live, api_version)?;
        let new = self.versions.convert(change.new, api_version)?;
        Ok(of.compare(&live, &new))
    }

    /// Compares the objects in a version by the fields that count there. `None` if the version does
    /// not exist.
    fn counting(&self, change: &Change<'_>, api_version: &str) -> Option<Comparison> {
        let compared = self.compared(change, api_version).ok()?;
        Some(match self.versions.filter(api_version) {
            Some(filter) => compared.map(|set| filter.of(set)),
            None => compared,
        })
    }

    /// Removes fields from the merged object that the manager applied the last time and not this
    /// time, unless others own them (API-173).
    fn pruned(
        &self,
        merged: Object,
        api_version: &str,
        managers: &Managers,
        manager: &str,
        last: Option<VersionedSet>,
    ) -> Result<Object, NoSuchVersion> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else {
            return Ok(merged);
        };
        if let Some(now) = managers.get(manager)
            && last.api_version == api_version
            && last.set.is_subset(&now.set)
        {
            // This apply omits nothing.
            return Ok(merged);
        }
        let merged = Versioned {
            object: Cow::Owned(merged),
            api_version: SmolStr::new(api_version),
        };
        let Ok((converted, of)) = self.at(&merged, &last.api_version) else {
            return Ok(merged.object.into_owned());
        };
        let last_set = of.with_named_fields(&last.set);
        let pruned = Versioned {
            object: Cow::Owned(of.remove_items(&converted.object, &last_set)),
            api_version: last.api_version.clone(),
        };
        let pruned = self.with_owned(&converted, pruned, managers)?;
        // Only fields that the manager owned may be removed.
        let (pruned, _) = self.at(&pruned, &last.api_version)?;
        let gone = fields(of, &converted.object).difference(&fields(of, &pruned.object));
        let gone = gone.intersection(&last_set);
        let pruned = Versioned {
            object: Cow::Owned(of.remove_items(&converted.object, &gone)),
            api_version: last.api_version.clone(),
        };
        let (pruned, _) = self.at(&pruned, api_version)?;
        Ok(pruned.object.into_owned())
    }

    /// Adds back to the pruned object all fields that any manager owns. Starts with the version
    /// that the object has, because it may lack fields that a conversion needs.
    fn with_owned<'o>(
        &self,
        merged: &'o Versioned<'o>,
        pruned: Versioned<'o>,
        managers: &Managers,
    ) -> Result<Versioned<'o>, NoSuchVersion> {
        let mut owned: BTreeMap<&SmolStr, Vec<&FieldSet>> = BTreeMap::new();
        for manager in managers.values() {
            let sets = owned.entry(&manager.api_version).or_default();
            sets.push(&manager.set);
        }
        let first = merged.api_version.clone();
        let owned = owned.into_iter();
        let owned = owned.map(|(version, sets)| (version, FieldSet::union_of(&sets)));
        let mut owned: Vec<(&SmolStr, FieldSet)> = owned.collect();
        owned.sort_by_key(|(version, _)| **version != first);
        let mut merged = merged.clone();
        let mut pruned = pruned;
        for (api_version, owned) in owned {
            let Ok((there, of)) = self.at(&merged, api_version) else {
                continue;
            };
            let there = there.into_owned();
            let (left, _) = self.at(&pruned, api_version)?;
            let mut kept = fields(of, &left.object);
            kept.add(&of.with_named_fields(&owned));
            let gone = fields(of, &there.object).difference(&kept);
            pruned = Versioned {
                object: Cow::Owned(of.remove_items(&there.object, &gone)),
                api_version: api_version.clone(),
            };
            merged = there;
        }
        Ok(pruned)
    }

    /// Returns an object in a version, and its type there.
    fn at<'o>(
        &self,
        object: &'o Versioned<'_>,
        api_version: &str,
    ) -> Result<(Versioned<'o>, ValueType<'_>), NoSuchVersion> {
        let of = self.versions.value_type(api_version).ok_or(NoSuchVersion)?;
        let converted = match object.api_version == api_version {
            true => Cow::Borrowed(&*object.object),
            false => Cow::Owned(self.versions.convert(&object.object, api_version)?),
        };
        let there = Versioned {
            object: converted,
            api_version: SmolStr::new(api_version),
        };
        Ok((there, of))
    }
}

/// A change of an object by a manager.
struct Change<'c> {
    live: &'c Object,
    new: &'c Object,
    api_version: &'c str,
    by: &'c str,
}

/// An object with its version.
#[derive(Clone)]
struct Versioned<'o> {
    object: Cow<'o, Object>,
    api_version: SmolStr,
}

impl Versioned<'_> {
    fn into_owned(self) -> Versioned<'static> {
        Versioned {
            object: Cow::Owned(self.object.into_owned()),
            api_version: self.api_version,
        }
    }
}

fn fields(of: ValueType<'_>, object: &Object) -> FieldSet {
    of.with_named_fields(&of.field_set(object))
}

fn versioned(set: FieldSet, api_version: &str, applied: bool) -> VersionedSet {
    VersionedSet {
        set,
        api_version: SmolStr::new(api_version),
        applied,
    }
}
