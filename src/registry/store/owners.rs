//! Field ownership of written objects (http.md 4.6).

use std::sync::OnceLock;

use super::RegistryStore;
use super::admit::Request;
use crate::api::field_set::{FieldPath, FieldSet, Filter, PathElement};
use crate::api::managed_fields::FieldManager;
use crate::api::object::Object;
use crate::api::resource::{EndpointRules, FieldPath as Names, ResourceDefinition, convert};
use crate::api::schema::Empty;
use crate::clock;
use crate::registry::strategy::{Decoded, Defaulted};

/// The fields that each endpoint excludes from managedFields: it resets them, so its writers do not
/// own them (API-179).
pub(super) struct Filters {
    own: Option<Filter>,
    /// By the name of the subresource.
    subresources: Vec<(String, Option<Filter>)>,
    /// An object without fields.
    empty: OnceLock<Object>,
}

impl Filters {
    /// Returns the filters of a resource.
    pub(super) fn of(definition: &ResourceDefinition) -> Filters {
        let rules = definition.rules();
        let parts = rules.subresources.iter();
        let parts = parts.map(|(name, part)| (name.clone(), filter(part)));
        Filters {
            own: filter(&rules.update),
            subresources: parts.collect(),
            empty: OnceLock::new(),
        }
    }

    fn at(&self, subresource: &str) -> Option<&Filter> {
        if subresource.is_empty() {
            return self.own.as_ref();
        }
        let mut parts = self.subresources.iter();
        let part = parts.find(|(name, _)| name == subresource);
        part.and_then(|(_, filter)| filter.as_ref())
    }
}

fn filter(rules: &EndpointRules) -> Option<Filter> {
    match &rules.records {
        Some(names) => {
            let names = names.iter().cloned();
            let path = names.map(|name| Some(PathElement::Field(name.as_str().into())));
            Some(Filter::Include(vec![path.collect()]))
        }
        None => excluding(&rules.resets),
    }
}

fn excluding(resets: &[Names]) -> Option<Filter> {
    if resets.is_empty() {
        return None;
    }
    let paths = resets.iter().map(|names| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        FieldPath::of(&names)
    });
    let paths: Vec<FieldPath> = paths.collect();
    let set = FieldSet::of(paths.iter().map(|path| &**path));
    Some(Filter::Exclude(set))
}

impl RegistryStore {
    /// Applies the defaults of a new object, records the field owners, and converts it to the hub
    /// version (http.md 7, 4.6).
    pub(super) fn default_new(&self, decoded: Decoded, request: &Request<'_>) -> Defaulted {
        let Decoded(mut object) = decoded;
        self.definition().fill_in(&mut object);
        let (manager, name) = (self.field_manager(request), &request.context.manager);
        let has_empties = self.record_owners(&manager, None, &mut object, name);
        self.defaulted(object, Some(has_empties))
    }

    /// Converts a defaulted object of this version, with its managedFields, to the hub version. The
    /// defaults of the hub are applied after validation (API-255). `has_empties` is known only of
    /// an object in canonical form.
    pub(super) fn defaulted(&self, mut object: Object, has_empties: Option<bool>) -> Defaulted {
        if !self.is_working() {
            convert(&mut object, self.definition(), self.hub());
            return Defaulted::changed(object);
        }
        match has_empties {
            Some(has_empties) => Defaulted::canonical(object, has_empties),
            None => Defaulted::changed(object),
        }
    }

    /// Updates the managedFields of an object of this version, as [`FieldManager::update`] does.
    /// Ownership is computed after a conversion to the hub and back, because managers own the
    /// fields that clients see. Creators also own fields that the server derives from theirs
    /// (API-231). Returns whether the canonical object has empty lists or maps.
    pub(super) fn record_owners(
        &self,
        manager: &FieldManager<'_>,
        live: Option<&Object>,
        object: &mut Object,
        name: &str,
    ) -> bool {
        let own = self.definition();
        let is_converted = own.has_own_form() && !self.is_working();
        let completes = live.is_none() && own.behaviour.completes_owned();
        if !is_converted && !completes {
            return manager.update(live, object, name);
        }
        let mut shown = object.clone();
        if completes {
            own.behaviour.complete_owned(&mut shown);
        }
        if is_converted {
            convert(&mut shown, own, self.hub());
            convert(&mut shown, self.hub(), own);
        }
        manager.update(live, &mut shown, name);
        object.set_managed_fields(shown.managed_fields().cloned());
        own.canonicalize_with(object, Empty::Distinguished)
    }

    pub(super) fn field_manager<'m>(&'m self, request: &Request<'m>) -> FieldManager<'m> {
        let subresource = request.subresource.map_or("", |part| &part.name);
        FieldManager {
            definition: self.definition(),
            versions: &self.stored_resource().versions,
            subresource,
            filter: self.filters.at(subresource),
            now: clock::now(),
            empty: &self.filters.empty,
            awaited: None,
        }
    }
}
