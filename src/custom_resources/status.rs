//! The next change of a definition's status by the server itself (crd.md 3). Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::definition::{Definition, Names};
use super::names::Taken;
use crate::api::object::{Object, put};
use crate::kinds::strategies::definition_conditions::{
    Condition, approval_condition, remove_condition, set_condition,
};
use crate::kinds::validation::apiextensions::bundle_fault;

/// The message of a definition whose names are accepted.
const INITIAL_NAMES: &str = "the initial names have been accepted";

/// A change of a status.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StatusChange {
    names: Option<Names>,
    set: Vec<Condition>,
    removed: Vec<&'static str>,
}

impl StatusChange {
    /// Returns the next change, if there is one. `structural` is the condition about schemas that
    /// are not structural.
    pub fn next(
        definition: &Definition,
        taken: &Taken<'_>,
        structural: Option<&Condition>,
    ) -> Option<StatusChange> {
        let mut change = StatusChange::default();
        change.accept_names(definition, taken);
        change.note_schemas(definition, structural);
        change.note_approval(definition);
        if change == StatusChange::default() {
            change.establish(definition);
        }
        (change != StatusChange::default()).then_some(change)
    }

    fn accept_names(&mut self, definition: &Definition, taken: &Taken<'_>) {
        if definition.spec.names == definition.accepted {
            return;
        }
        let accepted = taken.accept(definition);
        let is_said = says(definition, &accepted.condition);
        if accepted.names == definition.accepted && is_said {
            return;
        }
        let is_accepted = accepted.condition.status;
        self.names = Some(accepted.names);
        self.set.push(accepted.condition);
        if definition.is("Established") {
            return;
        }
        let kind = "Established";
        match is_accepted {
            true => self
                .set
                .push(Condition::new(kind, false, "Installing", INITIAL_NAMES)),
            false if definition.condition(kind).is_none() => {
                let message = "not all names are accepted";
                self.set
                    .push(Condition::new(kind, false, "NotAccepted", message));
            }
            // It stays as it is.
            false => {}
        }
    }

    fn note_schemas(&mut self, definition: &Definition, structural: Option<&Condition>) {
        const KIND: &str = "NonStructuralSchema";
        match structural {
            Some(condition) if !says(definition, condition) => self.set.push(condition.clone()),
            None if definition.condition(KIND).is_some() => self.removed.push(KIND),
            _ => {}
        }
    }

    fn note_approval(&mut self, definition: &Definition) {
        let mut of = Object::default();
        put(
            &mut of,
            &["spec", "group"],
            definition.spec.group.as_str().into(),
        );
        if let Some(approval) = &definition.approval {
            let annotations = json!({"api-approved.kubernetes.io": approval});
            put(&mut of, &["metadata", "annotations"], annotations);
        }
        let condition = approval_condition(&of);
        self.set
            .extend(condition.filter(|condition| !says(definition, condition)));
    }

    fn establish(&mut self, definition: &Definition) {
        if !definition.is("NamesAccepted") || definition.is("Established") {
            return;
        }
        let kind = "Established";
        let condition = match has_bad_bundle(definition) {
            false => Condition::new(kind, true, "InitialNamesAccepted", INITIAL_NAMES),
            true => {
                let message = "The conversion webhook CABundle is invalid";
                Condition::new(kind, false, "InvalidCABundle", message)
            }
        };
        if !says(definition, &condition) {
            self.set.push(condition);
        }
    }

    /// Returns the names that it accepts, if it decides about them.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Carries out the change.
    pub fn apply(&self, object: &mut Object, now: Timestamp) {
        if let Some(names) = &self.names {
            put(object, &["status", "acceptedNames"], json_of(names));
        }
        for condition in &self.set {
            set_condition(object, condition, now);
        }
        for kind in &self.removed {
            remove_condition(object, kind);
        }
    }
}

fn says(definition: &Definition, condition: &Condition) -> bool {
    let known = definition.condition(condition.kind);
    known.is_some_and(|known| condition.is_said_by(known))
}

fn json_of(names: &Names) -> Value {
    let mut members = Map::new();
    let texts = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    for (name, text) in texts {
        // Two members are written even if they are empty.
        if !text.is_empty() || matches!(name, "plural" | "kind") {
            members.insert(name.to_owned(), text.as_str().into());
        }
    }
    let lists = [
        ("shortNames", &names.short_names),
        ("categories", &names.categories),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            members.insert(name.to_owned(), list.clone().into());
        }
    }
    members.into()
}

/// Returns whether the certificates of a conversion webhook can't be read (CRD-66).
pub(super) fn has_bad_bundle(definition: &Definition) -> bool {
    let bundle = definition.spec.ca_bundle.as_deref();
    bundle.is_some_and(|bundle| bundle_fault(bundle).is_some())
}
