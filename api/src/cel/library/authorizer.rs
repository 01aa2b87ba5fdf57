//! Functions of permissions.

use std::sync::Arc;

use super::super::values::authorizer::{Authorized, Decision, Stage};
use super::super::values::value::{Failure, Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use crate::names;

/// Returns the result of a function of permissions.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    _: &Work,
) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Opaque(Opaque::Decision(of))] => decision(name, of),
        [Value::Opaque(Opaque::Authorized(of)), rest @ ..] => {
            let texts = rest.iter().map(|value| match value {
                Value::String(text) => Ok((**text).to_owned()),
                _ => no_overload(),
            });
            asked(name, of, texts.collect::<Outcome<_>>()?)
        }
        _ => no_overload(),
    }
}

fn decision<'v>(name: &str, of: &Decision) -> Outcome<Value<'v>> {
    Ok(match name {
        "allowed" => Value::Bool(of.is_allowed),
        "reason" => Value::text(of.reason.clone()),
        "errored" => Value::Bool(of.error.is_some()),
        "error" => Value::text(of.error.clone().unwrap_or_default()),
        _ => return no_overload(),
    })
}

fn asked<'v>(name: &str, of: &Authorized, texts: Vec<String>) -> Outcome<Value<'v>> {
    let mut next = of.clone();
    let request = &mut next.request;
    let mut texts = texts.into_iter();
    let (Some(text), second) = (texts.next(), texts.next()) else {
        return no_overload();
    };
    match (name, of.stage) {
        ("path", Stage::User) if text.trim().is_empty() => {
            return error("path must not be empty");
        }
        ("path", Stage::User) => {
            request.path = Some(text);
            next.stage = Stage::Path;
        }
        ("serviceAccount", Stage::User) => {
            let name = second.unwrap_or_default();
            if !names::dns_subdomain(&name).is_empty() {
                return error("Invalid service account name");
            }
            if !names::dns_label(&text).is_empty() {
                return error("Invalid service account namespace");
            }
            request.service_account = Some((text, name));
        }
        ("group", Stage::User) => {
            request.group = text;
            next.stage = Stage::Group;
        }
        ("resource", Stage::Group) if text.trim().is_empty() => {
            return error("resource must not be empty");
        }
        ("resource", Stage::Group) => {
            request.resource = text;
            next.stage = Stage::Resource;
        }
        ("subresource", Stage::Resource) => request.subresource = text,
        ("namespace", Stage::Resource) => request.namespace = text,
        ("name", Stage::Resource) => request.name = text,
        ("fieldSelector", Stage::Resource) => request.field_selector = Some(text),
        ("labelSelector", Stage::Resource) => request.label_selector = Some(text),
        ("check", Stage::Path | Stage::Resource) => {
            request.verb = text;
            let Some(decision) = of.authorizer.authorize(request) else {
                return Err(Failure::Unanswered);
            };
            return Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))));
        }
        _ => return no_overload(),
    }
    Ok(next.into_value())
}
