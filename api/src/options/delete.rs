//! The options of a deletion (API-82, API-83).

use serde_json::Value;

use super::{Query, is_dry_run, is_yes, refuse, validate_dry_run};
use crate::decode::{BodyFormat, decode_value};
use crate::field_error::FieldError;
use crate::status::Status;
use crate::version::Preconditions;

/// What happens to dependents of a deleted object (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object stays until they are gone.
    Foreground,
    /// They are collected afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// The options of a deletion (http.md 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `dryRun: [All]`.
    pub dry_run: bool,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`.
    pub propagation_policy: Option<Propagation>,
    /// `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`, which only a body has (API-83).
    pub preconditions: Preconditions,
}

/// The options of a deletion before they are checked.
#[derive(Debug, Default)]
struct RawDeleteOptions {
    dry_run: Vec<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Preconditions,
}

impl DeleteOptions {
    /// Reads and checks the options. If there is a body, the query is ignored (API-82, API-83).
    ///
    /// # Errors
    /// 400 for unreadable options, 422 with kind DeleteOptions for invalid ones.
    pub fn parse(
        query: &Query,
        body: &[u8],
        format: BodyFormat,
    ) -> Result<DeleteOptions, Box<Status>> {
        let raw = if body.is_empty() {
            RawDeleteOptions::of_query(query)?
        } else {
            RawDeleteOptions::of_body(body, format)
                .map_err(|message| Box::new(Status::bad_request(message)))?
        };
        raw.checked()
    }
}

impl RawDeleteOptions {
    fn of_query(query: &Query) -> Result<RawDeleteOptions, Box<Status>> {
        Ok(RawDeleteOptions {
            dry_run: query.all("dryRun").into_iter().map(str::to_owned).collect(),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.first("orphanDependents").map(is_yes),
            preconditions: Preconditions::default(),
        })
    }

    fn of_body(body: &[u8], format: BodyFormat) -> Result<RawDeleteOptions, String> {
        let (value, _) = decode_value(body, format)?;
        let members = match value {
            Value::Object(members) => members,
            Value::Null => serde_json::Map::new(),
            _ => return Err("the DeleteOptions must be an object".to_owned()),
        };
        let text = |name: &str| optional(members.get(name), name, "a string", Value::as_str);
        let kind = text("kind")?.unwrap_or_default();
        // Clients send many versions of this type, and all versions are equal.
        text("apiVersion")?;
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(format!("the body is of kind {kind:?}, not DeleteOptions"));
        }
        let preconditions = match members.get("preconditions") {
            None | Some(Value::Null) => Preconditions::default(),
            Some(Value::Object(given)) => {
                let part = |name: &str| {
                    let place = format!("preconditions.{name}");
                    optional(given.get(name), &place, "a string", Value::as_str)
                };
                Preconditions {
                    uid: part("uid")?.map(str::to_owned),
                    resource_version: part("resourceVersion")?.map(str::to_owned),
                }
            }
            Some(_) => return Err("preconditions must be an object".to_owned()),
        };
        let whole = "a whole number";
        Ok(RawDeleteOptions {
            dry_run: text_list(members.get("dryRun"), "dryRun")?,
            grace_period_seconds: optional(
                members.get("gracePeriodSeconds"),
                "gracePeriodSeconds",
                whole,
                Value::as_i64,
            )?,
            propagation_policy: text("propagationPolicy")?.map(str::to_owned),
            orphan_dependents: optional(
                members.get("orphanDependents"),
                "orphanDependents",
                "a boolean",
                Value::as_bool,
            )?,
            preconditions,
        })
    }

    fn checked(self) -> Result<DeleteOptions, Box<Status>> {
        let mut errors = Vec::new();
        let path = "propagationPolicy";
        let policy = match self.propagation_policy.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = &["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(path, other, supported));
                None
            }
        };
        if let (Some(text), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.insert(0, FieldError::invalid(path, text.as_str(), detail));
        }
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        errors.extend(validate_dry_run(&dry_run));
        refuse("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            dry_run: is_dry_run(&dry_run),
            grace_period_seconds: self.grace_period_seconds,
            propagation_policy: policy,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions,
        })
    }
}

fn optional<'v, T>(
    value: Option<&'v Value>,
    name: &str,
    wanted: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(format!("{name} of the DeleteOptions must be {wanted}")),
        },
    }
}

fn text_list(value: Option<&Value>, name: &str) -> Result<Vec<String>, String> {
    let list = optional(value, name, "a list of strings", Value::as_array)?;
    list.into_iter()
        .flatten()
        .map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!(
                "{name} of the DeleteOptions must be a list of strings"
            )),
        })
        .collect()
}
