//! The options of a deletion (API-82, API-83).

use serde_json::Value;

use super::{OptionsError, Query, is_dry_run, is_yes, refuse, validate_dry_run};
use crate::decode::{BodyFormat, TYPE_OF_ANY, decode_value, type_value};
use crate::field_error::FieldError;
use crate::schema;
use crate::text::json_type;
use crate::version::Preconditions;

/// The handling of a deleted object's dependents (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object stays until the garbage collector has deleted them.
    Foreground,
    /// The garbage collector deletes them afterwards.
    Background,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// Returns the name of the policy: `Foreground`, `Background` or `Orphan`.
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        }
    }
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
    /// `preconditions` in a body, `uid` and `resourceVersion` in a query (API-83).
    pub preconditions: Preconditions,
}

/// The options of a deletion before validation.
#[derive(Debug, Default)]
struct RawDeleteOptions {
    dry_run: Vec<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Preconditions,
}

impl DeleteOptions {
    /// Parses and validates the options. A body replaces the query, as in kube-apiserver (API-82,
    /// API-83).
    ///
    /// # Errors
    /// 400 for unreadable options, 422 with kind DeleteOptions for invalid ones.
    pub fn parse(
        query: &Query,
        body: &[u8],
        format: BodyFormat,
    ) -> Result<DeleteOptions, OptionsError> {
        let raw = if body.is_empty() {
            RawDeleteOptions::of_query(query)?
        } else {
            RawDeleteOptions::of_body(body, format).map_err(OptionsError::Unreadable)?
        };
        raw.checked()
    }
}

impl RawDeleteOptions {
    fn of_query(query: &Query) -> Result<RawDeleteOptions, OptionsError> {
        let text = |name: &str| {
            let given = query.first(name).filter(|text| !text.is_empty());
            given.map(str::to_owned)
        };
        Ok(RawDeleteOptions {
            dry_run: query.all("dryRun").into_iter().map(str::to_owned).collect(),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.first("orphanDependents").map(is_yes),
            preconditions: Preconditions {
                uid: text("uid"),
                resource_version: text("resourceVersion"),
            },
        })
    }

    fn of_body(body: &[u8], format: BodyFormat) -> Result<RawDeleteOptions, String> {
        let (value, _) = decode_value(body, format).map_err(|why| match format {
            BodyFormat::Json => format!("couldn't get version/kind; json parse error: {why}"),
            BodyFormat::Yaml => why,
        })?;
        let read = type_value(&value, &schema::delete_options()).map_err(|why| why.to_string())?;
        let members = match read.value {
            Value::Object(members) => members,
            Value::Null => serde_json::Map::new(),
            other => {
                let found = json_type(&other);
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} \
                     into Go value of type {TYPE_OF_ANY}"
                ));
            }
        };
        for name in ["kind", "apiVersion"] {
            let value = members.get(name).unwrap_or(&Value::Null);
            if !value.is_string() && !value.is_null() {
                let found = json_type(value);
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} \
                     into Go struct field .{name} of type string"
                ));
            }
        }
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let kind = text("kind").unwrap_or_default();
        // Every version is accepted, because this type is the same in all of them.
        if !matches!(kind, "" | "DeleteOptions") {
            let version = text("apiVersion").unwrap_or_default();
            return Err(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"pkg/apis/meta/internalversion/scheme/register.go:27\""
            ));
        }
        if let Some(why) = read.refusal {
            return Err(why);
        }
        let part = |name: &str| {
            let given = members.get("preconditions")?.get(name)?;
            given.as_str().map(str::to_owned)
        };
        let dry_run = members.get("dryRun").and_then(Value::as_array);
        let dry_run = dry_run.into_iter().flatten().filter_map(Value::as_str);
        Ok(RawDeleteOptions {
            dry_run: dry_run.map(str::to_owned).collect(),
            grace_period_seconds: members.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation_policy: text("propagationPolicy").map(str::to_owned),
            orphan_dependents: members.get("orphanDependents").and_then(Value::as_bool),
            preconditions: Preconditions {
                uid: part("uid"),
                resource_version: part("resourceVersion"),
            },
        })
    }

    fn checked(self) -> Result<DeleteOptions, OptionsError> {
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
        refuse("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            dry_run: is_dry_run(&dry_run),
            grace_period_seconds: self.grace_period_seconds,
            propagation_policy: policy,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions,
        })
    }
}
