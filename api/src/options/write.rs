//! The options of create, update and patch (API-80, API-81).

use super::{OptionsError, Query, is_dry_run, refuse, validate_dry_run};
use crate::field_error::{FieldError, bounded};
use crate::field_validation::FieldValidation;
use crate::text::quoting::is_go_printable;

/// Kubernetes' limit on the length of a field manager, in bytes (API-81).
pub const MAX_FIELD_MANAGER_BYTES: usize = 128;

/// The verb of [`WriteOptions`], for error messages (API-80).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// PATCH by server-side apply.
    Apply,
}

impl WriteVerb {
    fn kind(self) -> &'static str {
        match self {
            WriteVerb::Create => "CreateOptions",
            WriteVerb::Update => "UpdateOptions",
            WriteVerb::Patch | WriteVerb::Apply => "PatchOptions",
        }
    }
}

/// The options of create, update and patch (http.md 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldManager`; empty if unset (see [`default_manager`]).
    pub field_manager: String,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `fieldValidation` as the client gave it.
    pub given_validation: Option<FieldValidation>,
    /// `force`, for server-side apply.
    pub force: bool,
}

impl WriteOptions {
    /// Parses and validates the parameters (API-80, API-81).
    ///
    /// # Errors
    /// 422 with the kind of the verb's options.
    pub fn parse(query: &Query, verb: WriteVerb) -> Result<WriteOptions, OptionsError> {
        let dry_run = query.all("dryRun");
        let field_manager = query.text("fieldManager");
        let mut errors = Vec::new();
        match verb {
            WriteVerb::Patch if query.first("force").is_some() => {
                let detail = "may not be specified for non-apply patch";
                errors.push(FieldError::forbidden("force", detail));
            }
            WriteVerb::Apply if field_manager.is_empty() => {
                let detail = "is required for apply patch";
                errors.push(FieldError::required("fieldManager", detail));
            }
            _ => {}
        }
        errors.extend(manager_errors("fieldManager", &field_manager));
        errors.extend(validate_dry_run(&dry_run));
        let given = query
            .first("fieldValidation")
            .filter(|given| !given.is_empty());
        let field_validation = match given.unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = &["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    supported,
                ));
                FieldValidation::Warn
            }
        };
        refuse(verb.kind(), errors)?;
        Ok(WriteOptions {
            dry_run: is_dry_run(&dry_run),
            field_manager,
            field_validation,
            given_validation: given.map(|_| field_validation),
            force: verb == WriteVerb::Apply && query.flag("force"),
        })
    }
}

/// Returns the field manager in the parameters of a request, or by default that of its User-Agent
/// (API-155). Ignores an invalid one: verbs that record managers refuse it when they validate their
/// options.
pub fn field_manager(query: &Query, user_agent: &str) -> String {
    match query.first("fieldManager") {
        Some(named) if !named.is_empty() && manager_errors("fieldManager", named).is_empty() => {
            named.to_owned()
        }
        _ => default_manager(user_agent),
    }
}

/// Returns the default field manager: the User-Agent up to the first slash, cut to the maximum
/// length (API-155).
pub fn default_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| is_go_printable(*c)) {
        if manager.len() + c.len_utf8() > MAX_FIELD_MANAGER_BYTES {
            break;
        }
        manager.push(c);
    }
    manager
}

/// Validates the name of a manager at this path.
pub fn manager_errors(path: &str, manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MAX_FIELD_MANAGER_BYTES {
        errors.push(FieldError::too_long(path, MAX_FIELD_MANAGER_BYTES));
    }
    let unprintable = manager.char_indices().filter(|(_, c)| !is_go_printable(*c));
    errors.extend(bounded(unprintable.map(|(index, c)| {
        let code = u32::from(c);
        let detail = format!("invalid character U+{code:04X} (at position {index})");
        FieldError::invalid(path, manager, detail)
    })));
    errors
}
