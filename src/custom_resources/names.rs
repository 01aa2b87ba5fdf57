//! Which names of a definition are accepted (CRD-60 to CRD-64). Pure.

use std::collections::HashSet;

use super::definition::{Definition, Names};
use crate::kinds::strategies::definition_conditions::Condition;
use crate::kinds::validation::apiextensions::aggregated;

/// The names that the definitions of a group have been given.
#[derive(Default)]
pub(super) struct Taken<'d> {
    resources: HashSet<&'d str>,
    kinds: HashSet<&'d str>,
}

/// The decision about the names of a definition.
#[derive(Debug, PartialEq)]
pub(super) struct Accepted {
    pub names: Names,
    pub condition: Condition,
}

impl<'d> Taken<'d> {
    /// Returns the names that these definitions have been given, those of the definition itself
    /// included.
    pub fn of(definitions: impl IntoIterator<Item = &'d Definition>) -> Taken<'d> {
        let mut taken = Taken::default();
        for definition in definitions {
            let names = &definition.accepted;
            taken.resources.insert(&names.plural);
            taken.resources.insert(&names.singular);
            let short = names.short_names.iter().map(String::as_str);
            taken.resources.extend(short);
            taken.kinds.insert(&names.kind);
            taken.kinds.insert(&names.list_kind);
        }
        taken
    }

    /// Decides about the names of a definition. A name that is taken keeps its accepted value; of
    /// several conflicts the last one is reported.
    pub fn accept(&self, definition: &Definition) -> Accepted {
        let (wanted, had) = (&definition.spec.names, &definition.accepted);
        let mut names = had.clone();
        let mut conflict = None;
        let fresh = |wanted: &str, had: &str, taken: &HashSet<&str>| {
            let is_free = wanted == had || !taken.contains(wanted);
            match is_free {
                true => Ok(wanted.to_owned()),
                false => Err(format!("{} is already in use", quoted(wanted))),
            }
        };
        match fresh(&wanted.plural, &had.plural, &self.resources) {
            Ok(name) => names.plural = name,
            Err(why) => conflict = Some(("PluralConflict", why)),
        }
        match fresh(&wanted.singular, &had.singular, &self.resources) {
            Ok(name) => names.singular = name,
            Err(why) => conflict = Some(("SingularConflict", why)),
        }
        if wanted.short_names != had.short_names {
            let own: HashSet<&String> = had.short_names.iter().collect();
            let new = wanted.short_names.iter().filter(|name| !own.contains(name));
            let errors = new.filter_map(|name| fresh(name, "", &self.resources).err());
            match aggregated(errors.collect()) {
                None => names.short_names.clone_from(&wanted.short_names),
                Some(why) => conflict = Some(("ShortNamesConflict", why)),
            }
        }
        match fresh(&wanted.kind, &had.kind, &self.kinds) {
            Ok(name) => names.kind = name,
            Err(why) => conflict = Some(("KindConflict", why)),
        }
        match fresh(&wanted.list_kind, &had.list_kind, &self.kinds) {
            Ok(name) => names.list_kind = name,
            Err(why) => conflict = Some(("ListKindConflict", why)),
        }
        names.categories.clone_from(&wanted.categories);
        let kind = "NamesAccepted";
        let condition = match conflict {
            None => Condition::new(kind, true, "NoConflicts", "no conflicts found"),
            Some((reason, why)) => Condition::new(kind, false, reason, why),
        };
        Accepted { names, condition }
    }
}

fn quoted(name: &str) -> String {
    crate::api::text::quoting::go_quote(name).to_string()
}
