//! The names of resources in the file, and which of them may be combined (EN-14, EN-15).

use std::fmt;

use serde_json::Value;

use super::document::{Document, shown_name};
use crate::api::field_error::FieldError;

/// A resource, all resources of a group, or all resources (EN-14).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::storage::encryption) struct ResourceName {
    /// The plural, or `*`.
    pub(in crate::storage::encryption) resource: String,
    /// The group, empty for the core group, or `*`.
    pub(in crate::storage::encryption) group: String,
}

/// The wildcard.
pub(in crate::storage::encryption) const ALL: &str = "*";

impl ResourceName {
    /// `secrets`, `deployments.apps`, `*.`, `*.apps` or `*.*`.
    fn parse(text: &str) -> ResourceName {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        ResourceName {
            resource: resource.to_owned(),
            group: group.to_owned(),
        }
    }

    /// All resources of a group.
    pub(in crate::storage::encryption) fn all_of(group: &str) -> ResourceName {
        ResourceName {
            resource: ALL.to_owned(),
            group: group.to_owned(),
        }
    }

    /// Whether this name covers every resource that `other` covers.
    pub(in crate::storage::encryption) fn covers(&self, other: &ResourceName) -> bool {
        self == other || (self.resource == ALL && (self.group == ALL || self.group == other.group))
    }
}

/// The name as written in the file.
impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            (ALL, "") => f.write_str("*."),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

pub(super) fn read(document: &mut Document, path: &str, names: Vec<Value>) -> Vec<ResourceName> {
    let mut read: Vec<ResourceName> = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(text) = document.text(&path, Some(name)) else {
            continue;
        };
        let name = ResourceName::parse(&text);
        let fault = fault_of(&text, &name).or_else(|| clash_with(&read, &name));
        match fault {
            Some(detail) => {
                document.refuse(FieldError::invalid(path, shown_name(&text), detail));
            }
            None => read.push(name),
        }
    }
    read
}

/// Checks a single name.
fn fault_of(text: &str, name: &ResourceName) -> Option<String> {
    let fault = match (name.resource.as_str(), name.group.as_str()) {
        _ if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            "names of resources have no capital letters"
        }
        ("", _) => "it names no resource",
        (ALL, "") if text == ALL => {
            "say *. for all resources of the core group, or *.* for all resources"
        }
        (ALL, ALL) => return None,
        (_, ALL) => "a resource in every group can't be named; say *.* for all resources",
        (ALL | "events", "events.k8s.io") => {
            "events are stored as those of the core group; say events"
        }
        (_, "extensions") => "the group extensions has been removed",
        ("apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations", "") => {
            "resources that no client can name can't be encrypted"
        }
        _ => return None,
    };
    Some(fault.to_owned())
}

/// Checks a name against the earlier ones of the same list.
fn clash_with(before: &[ResourceName], name: &ResourceName) -> Option<String> {
    before.iter().find_map(|other| {
        if other == name {
            return Some("it is already in the list".to_owned());
        }
        let overlaps = other.covers(name) || name.covers(other);
        overlaps.then(|| format!("it overlaps with {other} in the same list"))
    })
}
