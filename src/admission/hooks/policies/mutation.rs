//! One mutation of a policy: an expression that builds an object to apply, or a JSON patch (HK-66
//! to HK-72). Pure, except that it asks about permissions.

use serde_json::{Map, Value as Json};

use super::ALL_COST_MAX;
use super::compiled::{Compiled, MutationExpression};
use super::metrics::ErrorType;
use crate::admission::hooks::answers::Asker;
use crate::admission::hooks::expression::Expression;
use crate::admission::hooks::scope::{Facts, Fault, Scope};
use crate::admission::hooks::shown::Form;
use crate::api::cel::Value;
use crate::api::cel::values::Message;
use crate::api::cel::values::messages::{JsonUse, JsonWriter};
use crate::api::deep;
use crate::api::field_validation::FieldValidation;
use crate::api::object::Object;
use crate::api::patch::{HookPatch, HookPatchError};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

/// The reason why a mutation has no effect.
#[derive(Debug)]
pub(super) enum Failed {
    /// An error of the policy, which its failurePolicy may ignore.
    Policy(String, ErrorType),
    /// The request can't be carried out.
    Request(Box<Status>),
}

fn invalid(why: impl Into<String>) -> Failed {
    Failed::Policy(why.into(), ErrorType::Invalid)
}

/// Returns the object after a mutation, or `None` if it changes nothing. `facts` have the object as
/// it is now.
///
/// # Errors
/// [`Failed`].
pub(super) async fn mutate(
    mutation: &MutationExpression,
    compiled: &Compiled,
    facts: Facts<'_>,
    current: &Object,
    form: &Form<'_>,
    asker: &dyn Asker,
) -> Result<Option<Object>, Failed> {
    let mut scope = Scope::new(&compiled.variables, facts, ALL_COST_MAX);
    match mutation {
        MutationExpression::Apply(expression) => {
            let value = evaluated(&mut scope, expression, asker).await?;
            let Value::Message(message) = &value else {
                let of = value.type_name();
                return Err(invalid(format!(
                    "unsupported return type from ApplyConfiguration expression: {of}"
                )));
            };
            let applied = applied(message)?;
            let merged = merge(applied, current, form);
            let merged = merged.map_err(|why| invalid(format!("error applying patch: {why}")))?;
            Ok(changed(form.completed(merged), current))
        }
        MutationExpression::Patch(expression) => {
            let value = evaluated(&mut scope, expression, asker).await?;
            let patch = HookPatch::of(operations(&value)?).map_err(invalid)?;
            let patched = deep::retry(|| patched(&patch, current, form.kind())).await?;
            Ok(patched.and_then(|patched| changed(form.completed(patched), current)))
        }
    }
}

async fn evaluated<'k>(
    scope: &mut Scope<'_, 'k>,
    expression: &Expression,
    asker: &dyn Asker,
) -> Result<Value<'k>, Failed> {
    match scope.evaluate(expression, asker).await {
        Err(spent) => Err(Failed::Policy(spent.to_string(), ErrorType::OutOfBudget)),
        Ok(Err(Fault::Compile(why))) => Err(Failed::Policy(why, ErrorType::Compile)),
        Ok(Err(fault)) => Err(invalid(fault.to_string())),
        Ok(Ok(value)) => Ok(value),
    }
}

fn changed(object: Object, before: &Object) -> Option<Object> {
    (object != *before).then_some(object)
}

/// Returns the object that an expression builds.
fn applied(message: &Message<'_>) -> Result<Map<String, Json>, Failed> {
    let names = message.check_type_names();
    names.map_err(|why| invalid(format!("type mismatch: {why}")))?;
    let mut members = Map::new();
    let mut writer = JsonWriter::new(JsonUse::Applied);
    for (name, value) in message.fields() {
        let value = writer.json(value);
        let value = value.map_err(|why| {
            invalid(format!(
                "invalid return type: fail to convert field {name:?}: {why}"
            ))
        })?;
        members.insert(name.to_string(), value);
    }
    Ok(members)
}

/// Merges an applied object into the current one, as server-side apply does without owners (HK-66).
fn merge(members: Map<String, Json>, current: &Object, form: &Form<'_>) -> Result<Object, String> {
    let kind = form.kind();
    let unreadable = |why: String| format!("failed to convert patch object to typed object: {why}");
    if form.has_unmerged_kind() {
        let (version, name) = (kind.api_version(), &kind.kind);
        return Err(unreadable(format!(
            "no corresponding type for {version}, Kind={name}"
        )));
    }
    let mut applied = Object::of(members);
    applied.set_type(&kind.kind, &kind.api_version());
    let of = kind.value_type();
    of.validate(&applied, false)
        .map_err(|errors| unreadable(errors.to_string()))?;
    let atomic = of.atomic_parts(&applied);
    if !atomic.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomic.join(", ")
        ));
    }
    let live = of.validate(current, true);
    live.map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    let merged = Json::Object(of.merge(current, &applied).0);
    // The type of a value is looser in apply than in the object.
    let read = HookPatch::read(merged, kind, FieldValidation::Ignore);
    let mut read =
        read.map_err(|error| format!("failed to convert typed object to object: {error}"))?;
    read.set_managed_fields(current.managed_fields().cloned());
    Ok(read)
}

/// Returns the operations of a patch that an expression builds (HK-68).
fn operations(value: &Value<'_>) -> Result<Vec<Json>, Failed> {
    let Value::List(list) = value else {
        return Err(invalid(
            "type mismatch: JSONPatchType.expression should evaluate to array",
        ));
    };
    let mut operations = Vec::new();
    let mut writer = JsonWriter::new(JsonUse::Patched);
    for item in list.iter() {
        let item = item.map_err(|why| invalid(why.to_string()))?;
        let Value::Message(message) = &item else {
            let of = item.type_name();
            return Err(invalid(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: \
                 got {of}"
            )));
        };
        operations.push(operation(message, &mut writer)?);
    }
    Ok(operations)
}

fn operation(message: &Message<'_>, writer: &mut JsonWriter) -> Result<Json, Failed> {
    let mut operation = Map::new();
    for name in ["op", "path", "from"] {
        let text = message.text(name);
        if name != "from" || !text.is_empty() {
            let text = writer.text(text).map_err(invalid)?;
            operation.insert(name.to_owned(), text);
        }
    }
    let value = match message.field("value") {
        None => Json::Null,
        Some(value) => {
            if let Value::Message(inner) = value {
                let names = inner.check_type_names();
                names.map_err(|why| invalid(format!("type mismatch: {why}")))?;
            }
            writer.json(value).map_err(|why| {
                invalid(format!(
                    "JSONPath valueExpression evaluated to a type that could not marshal to JSON: \
                     {why}"
                ))
            })?
        }
    };
    operation.insert("value".to_owned(), value);
    Ok(operation.into())
}

/// Applies a patch. A test in it that does not hold leaves the object as it is (HK-68).
fn patched(
    patch: &HookPatch,
    current: &Object,
    kind: &ResourceDefinition,
) -> Result<Option<Object>, Failed> {
    let document = match patch.applied(current.clone()) {
        Ok(document) => document,
        Err(error) if error.is_failed_test() => return Ok(None),
        Err(error) => return Err(invalid(format!("JSON Patch: {error}"))),
    };
    let validation = match kind.rules().is_unstructured {
        true => FieldValidation::Ignore,
        false => FieldValidation::Strict,
    };
    let read = HookPatch::read(document, kind, validation);
    read.map(Some).map_err(|error| {
        Failed::Request(Box::new(match error {
            HookPatchError::Failed(why) if why.ends_with(": unknown conversion") => {
                Status::internal(format!("failed to convert object: {why}"))
            }
            HookPatchError::Failed(why) => Status::internal(why),
            HookPatchError::TooLarge(_) => Status::request_too_large_because(error),
        }))
    })
}
