//! What is filled in and refused of each kind, and what its writers are warned of: the functions of
//! [`crate::defaults`], [`crate::validation`] and [`crate::warnings`], by the type of its objects.

mod others;
mod workloads;

use api::error_list::{ErrorList, Ratchet};
use api::object::Object;
use api::resource::{DropFunction, ResourceDefinition, WarningsFunction};

type Check = fn(&Object, &mut ErrorList);
type CheckOfChange = fn(&Object, &Object, &mut ErrorList);

/// The functions of a kind.
#[derive(Clone, Copy)]
struct Rules {
    defaults: Option<fn(&mut Object)>,
    empty: Option<fn(&mut Object)>,
    disabled: Option<DropFunction>,
    fill_in_owned: Option<fn(&mut Object)>,
    prepare_create: Option<fn(&mut Object)>,
    prepare_update: Option<fn(&mut Object, &Object)>,
    create: Option<Check>,
    update: Option<CheckOfChange>,
    status: Option<CheckOfChange>,
    approval: Option<CheckOfChange>,
    ratchets: &'static [Ratchet],
    warnings: Option<WarningsFunction>,
    status_warnings: Option<WarningsFunction>,
}

/// A row with the functions of its kind, where it has none of its own.
pub(super) fn applied(mut row: ResourceDefinition) -> ResourceDefinition {
    let rules = of(row.object_type.name);
    row.defaults = row.defaults.or(rules.defaults);
    row.empty = row.empty.or(rules.empty);
    row.disabled = rules.disabled;
    row.create.fill_in_owned = rules.fill_in_owned;
    row.create.prepare = row.create.prepare.or(rules.prepare_create);
    row.create.validate = row.create.validate.or(rules.create);
    row.update.prepare = row.update.prepare.or(rules.prepare_update);
    row.update.validate = row.update.validate.or(rules.update);
    row.update.ratchets = rules.ratchets;
    row.create.warnings = rules.warnings;
    row.update.warnings = rules.warnings;
    for part in &mut row.subresources {
        let (check, warnings) = match part.name.as_str() {
            "status" => (rules.status, rules.status_warnings),
            "approval" => (rules.approval, None),
            _ => (None, None),
        };
        part.update.warnings = warnings;
        part.update.validate = part.update.validate.or(check);
        part.update.ratchets = rules.ratchets;
    }
    row
}

/// The functions of the kind with this type. A version with a form of its own is filled in as it
/// is, and checked when it has been converted.
fn of(object_type: &str) -> Rules {
    let mut table = workloads::RULES.iter().chain(others::RULES);
    let found = table.find(|(name, _)| *name == object_type);
    found.map_or(NONE, |(_, rules)| *rules)
}

const NONE: Rules = Rules {
    defaults: None,
    empty: None,
    disabled: None,
    fill_in_owned: None,
    prepare_create: None,
    prepare_update: None,
    create: None,
    update: None,
    status: None,
    approval: None,
    ratchets: &[],
    warnings: None,
    status_warnings: None,
};
