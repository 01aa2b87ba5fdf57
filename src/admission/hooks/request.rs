//! The request of a review, and of CEL (HK-20, HK-21, HK-85). Pure.

use serde_json::{Map, Value as Json, json};

use super::namespace_of;
use super::shown::Form;
use crate::admission::{Attributes, Operation};
use crate::api::field_validation::FieldValidation;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::user_info::UserInfo;

/// Returns the request without its objects and without a uid. Empty texts are left out, and
/// `options` is null for connections.
pub fn request(attributes: &Attributes<'_>, form: &Form<'_>) -> Map<String, Json> {
    let part = attributes.subresource.unwrap_or_default();
    let mut request = Map::new();
    let mut put = |name: &str, value: Json| request.insert(name.to_owned(), value);
    put("kind", kind(form.kind()));
    put("resource", resource(form.resource()));
    if !part.is_empty() {
        put("subResource", part.into());
    }
    put("requestKind", kind(attributes.kind));
    put("requestResource", resource(attributes.definition));
    if !part.is_empty() {
        put("requestSubResource", part.into());
    }
    if !attributes.name.is_empty() {
        put("name", attributes.name.into());
    }
    let namespace = namespace_of(attributes);
    if !namespace.is_empty() {
        put("namespace", namespace.into());
    }
    put("operation", attributes.operation.name().into());
    put("userInfo", user(attributes.user));
    put("dryRun", attributes.operation.is_dry_run().into());
    put("options", options(&attributes.operation));
    request
}

fn kind(of: &ResourceDefinition) -> Json {
    json!({"group": of.group, "version": of.version, "kind": of.kind})
}

fn resource(of: &ResourceDefinition) -> Json {
    json!({"group": of.group, "version": of.version, "resource": of.plural})
}

fn user(user: &UserInfo) -> Json {
    let mut shown = Map::new();
    if !user.name.is_empty() {
        shown.insert("username".to_owned(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        shown.insert("uid".to_owned(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        shown.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        shown.insert("extra".to_owned(), json!(user.extra));
    }
    shown.into()
}

/// Returns the options that the client gave, by the operation: a patch that creates has
/// CreateOptions (HK-21).
fn options(operation: &Operation<'_>) -> Json {
    match operation {
        Operation::Create(options) => written("CreateOptions", options),
        Operation::Update(options) => written("UpdateOptions", options),
        Operation::Delete(options) => deleted(options),
        Operation::Connect => Json::Null,
    }
}

fn written(kind: &str, options: &WriteOptions) -> Json {
    let mut shown = of_kind(kind);
    if options.dry_run {
        shown.insert("dryRun".to_owned(), json!(["All"]));
    }
    if !options.field_manager.is_empty() {
        let manager = options.field_manager.as_str();
        shown.insert("fieldManager".to_owned(), manager.into());
    }
    if let Some(validation) = options.given_validation {
        let name = match validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        shown.insert("fieldValidation".to_owned(), name.into());
    }
    shown.into()
}

fn deleted(options: &DeleteOptions) -> Json {
    let mut shown = of_kind("DeleteOptions");
    let mut put = |name: &str, value: Json| shown.insert(name.to_owned(), value);
    if options.dry_run {
        put("dryRun", json!(["All"]));
    }
    if let Some(seconds) = options.grace_period_seconds {
        put("gracePeriodSeconds", seconds.into());
    }
    if let Some(propagation) = options.propagation_policy {
        put("propagationPolicy", propagation.name().into());
    }
    if let Some(orphans) = options.orphan_dependents {
        put("orphanDependents", orphans.into());
    }
    let mut preconditions = Map::new();
    if let Some(uid) = &options.preconditions.uid {
        preconditions.insert("uid".to_owned(), uid.as_str().into());
    }
    if let Some(version) = &options.preconditions.resource_version {
        preconditions.insert("resourceVersion".to_owned(), version.as_str().into());
    }
    if !preconditions.is_empty() {
        put("preconditions", preconditions.into());
    }
    shown.into()
}

fn of_kind(kind: &str) -> Map<String, Json> {
    let members = [("kind", kind), ("apiVersion", "meta.k8s.io/v1")];
    let members = members.into_iter();
    members
        .map(|(name, text)| (name.to_owned(), text.into()))
        .collect()
}
