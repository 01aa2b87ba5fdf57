//! Resources that may be used only where a quota limits them, as the configuration of the plugin
//! says (HK-98). Pure.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::evaluators::Evaluator;
use crate::admission::pod_resources::Quantities;
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;

/// A resource whose use is limited by default.
#[derive(Debug)]
pub struct LimitedResource {
    group: String,
    resource: String,
    /// Parts of the names under which quotas count it.
    contains: Vec<String>,
    /// Requirements on scopes, in the form of a quota's selector.
    scopes: Vec<Value>,
}

impl LimitedResource {
    /// Reads the limited resources of a configuration, which has the right types.
    ///
    /// # Errors
    /// The faulty members.
    pub fn read(configuration: &Value) -> Result<Vec<LimitedResource>, Vec<FieldError>> {
        let items = configuration["limitedResources"].as_array();
        let items = items.map(Vec::as_slice).unwrap_or_default();
        let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let limited = items.iter().map(|item| LimitedResource {
            group: text(item, "apiGroup"),
            resource: text(item, "resource"),
            contains: texts(&item["matchContains"]),
            scopes: item["matchScopes"].as_array().cloned().unwrap_or_default(),
        });
        let limited: Vec<LimitedResource> = limited.collect();
        let nameless = limited.iter().enumerate();
        let nameless = nameless.filter(|(_, one)| one.resource.is_empty());
        let faults = nameless.map(|(place, _)| {
            FieldError::required(format!("limitedResources[{place}].resource"), "")
        });
        let faults: Vec<FieldError> = faults.collect();
        match faults.is_empty() {
            true => Ok(limited),
            false => Err(faults),
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let items = items.map(|item| item.as_str().unwrap_or_default().to_owned());
    items.collect()
}

/// The parts of a write that a quota must cover.
#[derive(Debug, Default)]
pub(super) struct Demand<'l> {
    /// Names of resources.
    names: BTreeSet<String>,
    /// Requirements on scopes.
    scopes: Vec<&'l Value>,
}

/// The part of a demand that no quota covers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Uncovered {
    /// Names of resources, separated by commas.
    Names(String),
    /// Requirements on scopes, as Go prints them.
    Scopes(String),
}

impl<'l> Demand<'l> {
    /// Returns the demand of an object with this usage.
    pub(super) fn of(
        limited: &'l [LimitedResource],
        definition: &ResourceDefinition,
        evaluator: &Evaluator,
        object: &Object,
        usage: &Quantities,
    ) -> Demand<'l> {
        let mut demand = Demand::default();
        for one in limited {
            let matched = one.scopes.iter();
            let matched = matched.filter(|scope| evaluator.meets(object, scope));
            demand.scopes.extend(matched);
            if !definition.is(&one.group, &one.resource) {
                continue;
            }
            let used = usage.iter().filter(|(_, quantity)| quantity.sign() > 0);
            let used = used.map(|(name, _)| name);
            // linear: an object uses a few resources.
            let is_limited = |name: &&String| one.contains.iter().any(|part| name.contains(part));
            demand.names.extend(used.filter(is_limited).cloned());
        }
        demand
    }

    /// Returns the part that quotas with these counted resources and met scopes do not cover.
    pub(super) fn uncovered(
        &self,
        counted: &HashSet<String>,
        met: &HashSet<String>,
    ) -> Option<Uncovered> {
        let names = self.names.iter().filter(|name| !counted.contains(*name));
        let names: Vec<&str> = names.map(String::as_str).collect();
        if !names.is_empty() {
            return Some(Uncovered::Names(names.join(",")));
        }
        let scope = |one: &Value| one["scopeName"].as_str().unwrap_or_default().to_owned();
        let scopes = self.scopes.iter().filter(|one| !met.contains(&scope(one)));
        let scopes: Vec<String> = scopes.map(|one| printed(one)).collect();
        match scopes.is_empty() {
            true => None,
            false => Some(Uncovered::Scopes(format!("[{}]", scopes.join(" ")))),
        }
    }
}

/// A requirement as Go prints its struct.
fn printed(requirement: &Value) -> String {
    let text = |name: &str| requirement[name].as_str().unwrap_or_default();
    let values = texts(&requirement["values"]).join(" ");
    format!("{{{} {} [{values}]}}", text("scopeName"), text("operator"))
}
