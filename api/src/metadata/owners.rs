//! The rules for `metadata.ownerReferences` (API-207).

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use crate::field_error::{FieldError, bounded};
use crate::object::Object;
use crate::schema::untyped;

const PATH: &str = "metadata.ownerReferences";

/// An owner reference. The order of its members is that in error messages.
#[derive(Serialize)]
struct Owner<'v> {
    #[serde(rename = "apiVersion")]
    api_version: &'v str,
    kind: &'v str,
    name: &'v str,
    uid: &'v str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(rename = "blockOwnerDeletion", skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl<'v> Owner<'v> {
    fn of(value: &'v Value) -> Owner<'v> {
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name| value.get(name).and_then(Value::as_bool);
        Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: flag("controller"),
            block_owner_deletion: flag("blockOwnerDeletion"),
        }
    }

    /// Returns the version in `apiVersion`, empty if it is absent or the text is not a group and
    /// version.
    fn version(&self) -> &'v str {
        match self.api_version.split_once('/') {
            None => self.api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        }
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.version().is_empty() {
            let path = format!("{PATH}.apiVersion");
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(path, self.api_version, detail));
        }
        for (member, text) in [("kind", self.kind), ("name", self.name), ("uid", self.uid)] {
            if text.is_empty() {
                let path = format!("{PATH}.{member}");
                errors.push(FieldError::invalid(path, text, "must not be empty"));
            }
        }
        // `/v1` is also the core group.
        let api_version = self
            .api_version
            .strip_prefix('/')
            .unwrap_or(self.api_version);
        if untyped().schema().is_never_owner(api_version, self.kind) {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let kind = self.kind;
            let detail =
                format!("{group}/{version}, Kind={kind} is disallowed from being an owner");
            errors.push(FieldError::invalid_document(PATH, &document(self), &detail));
        }
        errors
    }
}

fn document(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Validates owner references.
pub(super) fn errors(references: Option<&Value>) -> Vec<FieldError> {
    let Some(references) = references.and_then(Value::as_array) else {
        return Vec::new();
    };
    let owners: Vec<Owner<'_>> = references.iter().map(Owner::of).collect();
    let mut controller: Option<&Owner<'_>> = None;
    // The text is the same for every error and may be long, so it is formatted once.
    let mut all: Option<String> = None;
    bounded(owners.iter().flat_map(|owner| {
        let mut errors = owner.errors();
        match controller {
            _ if owner.controller != Some(true) => {}
            None => controller = Some(owner),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {}/{} and {}/{}",
                    first.kind, first.name, owner.kind, owner.name
                );
                let shown = all.get_or_insert_with(|| document(&owners)).as_str();
                errors.push(FieldError::invalid_document(PATH, shown, detail));
            }
        }
        errors
    }))
}

/// The stage at which owner references are deduplicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnersStage {
    /// After a whole object was decoded.
    Read,
    /// After admission. The result of a patch is deduplicated only here.
    Admitted,
}

/// Drops owner references that equal an earlier one. Returns the warning about them, if any
/// (API-207).
pub fn deduplicate_owners(object: &mut Object, stage: OwnersStage) -> Vec<String> {
    let present = object
        .metadata()
        .is_some_and(|m| m.contains_key("ownerReferences"));
    if !present {
        return Vec::new();
    }
    let references = object.metadata_mut().get_mut("ownerReferences");
    let Some(references) = references.and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut seen = HashSet::with_capacity(references.len());
    let mut repeated: Vec<String> = Vec::new();
    references.retain(|reference| {
        let new = seen.insert(document(reference));
        if !new {
            repeated.push(Owner::of(reference).uid.to_owned());
        }
        new
    });
    if repeated.is_empty() {
        return Vec::new();
    }
    let when = match stage {
        OwnersStage::Read => "",
        OwnersStage::Admitted => " after mutating admission happens",
    };
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
         references in 1.20+, and may reject such requests as early as 1.24; please fix your \
         requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    )]
}
