//! Who owns which fields of the objects that are written (http.md 4.6).

use std::sync::OnceLock;

use super::RegistryStore;
use super::admit::Request;
use crate::api::field_set::{FieldPath, FieldSet, Filter};
use crate::api::managed_fields::FieldManager;
use crate::api::object::Object;
use crate::api::resource::{ConversionStrategy, FieldPath as Names, ResourceDefinition, convert};
use crate::api::schema::Empty;
use crate::clock;
use crate::registry::strategy::{Form, fill_in};

/// The fields that count for managedFields, by endpoint (API-179).
pub(super) struct Filters {
    own: Option<Filter>,
    /// By the name of the subresource.
    subresources: Vec<(String, Option<Filter>)>,
    /// An object of which nothing is set.
    empty: OnceLock<Object>,
}

impl Filters {
    /// The filters of a resource.
    pub(super) fn of(definition: &ResourceDefinition) -> Filters {
        let parts = definition.subresources.iter();
        let parts = parts.map(|part| (part.name.clone(), excluding(&part.update.resets)));
        Filters {
            own: excluding(&definition.update.resets),
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
    /// Fills in what the writer of a new object left out, says who owns what of it, and converts it
    /// into the version of the hub (http.md 7, 4.6). What is known of its form there leaves.
    pub(super) fn take_in(&self, object: &mut Object, request: &Request<'_>) -> Form {
        fill_in(object, self.definition());
        let (manager, name) = (self.field_manager(request), &request.context.manager);
        let has_empties = self.tell_owners(&manager, None, object, name);
        if self.is_hub() {
            return Form::Written { has_empties };
        }
        self.convert_to_hub(object);
        Form::Unknown
    }

    /// Converts an object of this version into the version of the hub. What that fills in comes
    /// when the object has been checked.
    pub(super) fn convert_to_hub(&self, object: &mut Object) {
        if !self.is_hub() {
            convert(object, self.definition(), self.hub());
        }
    }

    /// Gives an object of this version its managedFields, as [`FieldManager::update`]. Owners own
    /// what is shown of it: what has no field in other versions does not count, and what conversion
    /// adds does. Of a new object they own what is made of what they wrote, too (API-231).
    pub(super) fn tell_owners(
        &self,
        manager: &FieldManager<'_>,
        live: Option<&Object>,
        object: &mut Object,
        name: &str,
    ) -> bool {
        let own = self.definition();
        let functions = matches!(own.conversion, ConversionStrategy::Functions { .. });
        let is_converted = functions && !self.is_hub();
        let fill_in_owned = own.create.fill_in_owned.filter(|_| live.is_none());
        if !is_converted && fill_in_owned.is_none() {
            return manager.update(live, object, name);
        }
        let mut shown = object.clone();
        if let Some(fill_in) = fill_in_owned {
            fill_in(&mut shown);
        }
        if is_converted {
            convert(&mut shown, own, self.hub());
            convert(&mut shown, self.hub(), own);
        }
        manager.update(live, &mut shown, name);
        object.set_managed_fields(shown.managed_fields().cloned());
        own.canonicalize_with(object, Empty::Told)
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
        }
    }
}
