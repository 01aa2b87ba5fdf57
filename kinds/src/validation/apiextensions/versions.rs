//! Validation of the versions of a custom resource. Errors of parts that all versions share are
//! reported at the spec, where kube-apiserver's internal type has them.

use std::collections::{HashMap, HashSet};

use api::field::{Field, LazyError};
use api::structural::Budget;
use serde_json::{Map, Value};

use super::options::Options;
use super::{paths, schemas};
use crate::types::internal::internal_json;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::text_formats::dns1035_label;
use api::error_list::ErrorList;

/// The members that versions can share.
const MEMBERS: [&str; 4] = [
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];
const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_WARNING: usize = 256;

/// The members that are the same in all versions of a definition, and the versions whose schemas
/// are the same as before.
pub struct Shared<'v> {
    first: Option<&'v Value>,
    names: Vec<&'static str>,
    unchanged: HashSet<&'v str>,
}

impl<'v> Shared<'v> {
    /// Returns the members that these versions share. `before` has those of the stored definition.
    pub fn of(versions: &Field<'v>, before: Option<&Field<'v>>) -> Shared<'v> {
        let list = versions.list();
        let first = list.first();
        let is_shared = |name: &&str| {
            let of_first = first.and_then(|version| version.get(*name));
            // linear: once for each member that versions can share.
            list.iter().all(|version| version.get(*name) == of_first)
        };
        Shared {
            first,
            names: MEMBERS.into_iter().filter(is_shared).collect(),
            unchanged: before.map_or_else(HashSet::new, |before| unchanged(list, before.list())),
        }
    }

    /// Returns the options for the schema of a version. Rules that were accepted stay accepted,
    /// whatever they cost by today's estimates (CRD-52).
    fn options(&self, version: Option<&Value>, options: Options) -> Options {
        let is_unchanged = version.is_some_and(|version| self.unchanged.contains(name_of(version)));
        Options {
            limit_expression_costs: options.limit_expression_costs && !is_unchanged,
            ..options
        }
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn get(&self, name: &str) -> Option<&'v Value> {
        let first = self.first.filter(|_| self.has(name))?;
        first.get(name)
    }
}

/// Returns options that require structural schemas where something needs them: pruning, defaults,
/// or extensions.
pub fn strict_options(options: Options, versions: &[Value], preserves: bool) -> Options {
    let needs = |schema: &Value| schemas::has_default(schema) || schemas::has_extension(schema);
    let is_needed = || !preserves || versions.iter().filter_map(root_schema).any(needs);
    Options {
        require_structural: options.require_structural || is_needed(),
        ..options
    }
}

/// Validates the versions.
pub fn validate_versions(
    spec: &Field<'_>,
    shared: &Shared<'_>,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let versions = spec.member("versions");
    let preserves = spec.member("preserveUnknownFields");
    for version in versions.items() {
        let schema = version.member("schema");
        let root = schema.member("openAPIV3Schema");
        if root.is_set() {
            continue;
        }
        if options.require_schema {
            errors.push(root.required(""));
        } else if !preserves.is_true() && version.member("served").is_true() {
            errors.push(root.required("because otherwise all fields are pruned"));
        }
    }
    if preserves.is_true()
        && versions
            .list()
            .iter()
            .filter_map(root_schema)
            .any(schemas::has_default)
    {
        errors.push(preserves.invalid("must be false in order to use defaults in the schema"));
    }
    let (mut seen, mut first) = (HashSet::new(), None);
    let (mut is_unique, mut stored) = (true, 0);
    for (version, value) in versions.items().zip(versions.list()) {
        validate_warning(&version, errors);
        let schema = version.member("schema");
        if !shared.has("schema") {
            let has_status = has_status(value);
            let root = schema.member("openAPIV3Schema");
            let options = shared.options(Some(value), options);
            schemas::validate_schema(&root, has_status, options, budget, errors);
        }
        if !shared.has("subresources") {
            validate_scale(&version.member("subresources"), errors);
        }
        if !shared.has("additionalPrinterColumns") {
            validate_columns(&version.member("additionalPrinterColumns"), errors);
        }
        if !shared.has("selectableFields") {
            let fields = version.member("selectableFields");
            let schema = root_schema(value).filter(|_| !shared.has("schema"));
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            validate_selectable(&fields, schema, detail, options, errors);
        }
        stored += usize::from(version.member("storage").is_true());
        let name = name_of(value);
        is_unique &= seen.insert(name);
        first.get_or_insert(name);
        let field = version.member("name");
        report(&field, dns1035_label(name), errors);
    }
    if !is_unique {
        errors.push(versions_error(
            &versions,
            shared,
            "must contain unique version names",
        ));
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(versions_error(&versions, shared, detail));
    }
    if let Some(first) = first.filter(|name| !name.is_empty()) {
        let place = spec.member("version");
        for message in dns1035_label(first) {
            errors.push(place.invalid_value(first, message));
        }
    }
}

/// Returns an error that shows all versions without their shared members.
fn versions_error<'f>(
    versions: &Field<'f>,
    shared: &'f Shared<'f>,
    detail: &'f str,
) -> LazyError<'f> {
    let list = versions.list();
    let is_set = versions.is_set();
    versions.invalid(detail).showing_json(move || {
        if !is_set {
            return "null".to_owned();
        }
        let json = |version: &Value| {
            let members = version.as_object().into_iter().flatten();
            let own = members.filter(|(name, _)| !shared.has(name));
            let own: Map<String, Value> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
            let type_name = "apiextensions.v1.CustomResourceDefinitionVersion";
            internal_json(type_name, Some(&Value::Object(own)))
        };
        let shown: Vec<String> = list.iter().map(json).collect();
        format!("[{}]", shown.join(","))
    })
}

/// Validates the shared members.
pub fn validate_shared(
    spec: &Field<'_>,
    shared: &Shared<'_>,
    options: Options,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    if let Some(schema) = shared.get("schema") {
        let validation = spec.member("validation");
        let validation = validation.with_value(schema);
        let versions = spec.member("versions");
        let has_status = versions.list().iter().any(has_status);
        let root = validation.member("openAPIV3Schema");
        let options = shared.options(shared.first, options);
        schemas::validate_schema(&root, has_status, options, budget, errors);
    }
    if let Some(subresources) = shared.get("subresources") {
        let place = spec.member("subresources");
        validate_scale(&place.with_value(subresources), errors);
    }
    if let Some(columns) = shared.get("additionalPrinterColumns") {
        let place = spec.member("additionalPrinterColumns");
        validate_columns(&place.with_value(columns), errors);
    }
    if let Some(fields) = shared.get("selectableFields") {
        let place = spec.member("selectableFields");
        let schema = shared.get("schema");
        let schema = schema.and_then(|schema| schema.get("openAPIV3Schema"));
        let detail = "may only be set when validations.schema is included";
        validate_selectable(&place.with_value(fields), schema, detail, options, errors);
    }
}

fn validate_selectable(
    fields: &Field<'_>,
    schema: Option<&Value>,
    without_schema: &str,
    options: Options,
    errors: &mut ErrorList,
) {
    if fields.is_empty() {
        return;
    }
    match schema {
        Some(schema) => {
            let is_limited = options.limit_selectable_fields;
            paths::validate_selectable(fields, schema, is_limited, errors);
        }
        None => errors.push(fields.invalid_value("", without_schema)),
    }
}

fn name_of(version: &Value) -> &str {
    let name = version.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Returns the names of the versions that have the same schema in both lists.
fn unchanged<'v>(list: &'v [Value], before: &'v [Value]) -> HashSet<&'v str> {
    let schemas = before
        .iter()
        .map(|version| (name_of(version), version.get("schema")));
    let schemas: HashMap<&str, Option<&Value>> = schemas.collect();
    let is_same = |version: &&Value| schemas.get(name_of(version)) == Some(&version.get("schema"));
    list.iter().filter(is_same).map(name_of).collect()
}

/// Returns the schema of a version.
fn root_schema(version: &Value) -> Option<&Value> {
    let schema = version.get("schema")?.get("openAPIV3Schema");
    schema.filter(|schema| schema.is_object())
}

fn has_status(version: &Value) -> bool {
    let status = version
        .get("subresources")
        .and_then(|all| all.get("status"));
    status.is_some_and(|status| !status.is_null())
}

fn validate_warning(version: &Field<'_>, errors: &mut ErrorList) {
    let warning = version.member("deprecationWarning");
    if !warning.is_set() {
        return;
    }
    if !version.member("deprecated").is_true() {
        errors.push(warning.invalid("can only be set for deprecated versions"));
        return;
    }
    let text = warning.text();
    if text.is_empty() {
        errors.push(warning.invalid("must not be an empty string"));
    } else if text.len() > MAX_WARNING {
        let detail = format!("must be <= {MAX_WARNING} characters long");
        errors.push(warning.invalid(detail));
    } else if let Some((index, _)) = text
        .char_indices()
        .find(|(_, letter)| !api::text::quoting::is_go_printable(*letter))
    {
        errors.push(warning.invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at \
             index {index}"
        )));
    }
}

fn validate_scale(subresources: &Field<'_>, errors: &mut ErrorList) {
    let scale = subresources.member("scale");
    if !scale.is_set() {
        return;
    }
    for (name, above) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let path = scale.member(name);
        if require_text(&path, errors) {
            let detail = format!("should be a json path under {above}");
            validate_path(&path, &[above], &detail, errors);
        }
    }
    let labels = scale.member("labelSelectorPath");
    if !labels.text().is_empty() {
        let detail = "should be a json path under either .spec or .status";
        validate_path(&labels, &[".spec", ".status"], detail, errors);
    }
}

fn validate_path(path: &Field<'_>, above: &[&str], detail: &str, errors: &mut ErrorList) {
    let is_below = |above: &&str| {
        let rest = path.text().strip_prefix(above);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    if !path.text().starts_with('.') {
        errors.push(path.invalid("must be a simple json path starting with ."));
    } else if !above.iter().any(is_below) {
        errors.push(path.invalid(detail));
    }
}

fn validate_columns(columns: &Field<'_>, errors: &mut ErrorList) {
    for column in columns.items() {
        require_text(&column.member("name"), errors);
        let kind = column.member("type");
        let types = format!("must be one of {}", TYPES.join(","));
        if kind.text().is_empty() {
            errors.push(kind.required(types));
        } else if !TYPES.contains(&kind.text()) {
            errors.push(kind.invalid(types));
        }
        let format = column.member("format");
        if !format.text().is_empty() && !FORMATS.contains(&format.text()) {
            let formats = FORMATS.join(",");
            errors.push(format.invalid(format!("must be one of {formats}")));
        }
        let path = column.member("jsonPath");
        let place = column.member("JSONPath");
        if path.text().is_empty() {
            errors.push(place.required(""));
        } else if !path.text().starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(place.invalid_value(path.text(), detail));
        }
    }
}

/// Validates the stored versions of the status.
pub fn validate_stored(stored: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    if stored.is_empty() {
        errors.push(stored.invalid("must have at least one stored version"));
        return;
    }
    let versions = spec.member("versions");
    let names: HashSet<&str> = versions.list().iter().map(name_of).collect();
    for version in stored.items() {
        let text = version.text();
        if !names.contains(text) {
            errors.push(version.invalid(format!(
                "missing from spec.versions; {text} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {text} and removes {text} from status.storedVersions"
            )));
        }
    }
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored_names = stored.list().iter().filter_map(Value::as_str);
    let mut unseen: HashSet<&str> = stored_names.collect();
    for version in versions.list() {
        let name = name_of(version);
        if is_stored(&version) && !unseen.contains(name) {
            errors.push(stored.invalid(format!("must have the storage version {name}")));
        }
        // A name that is listed twice matches once.
        unseen.remove(name);
    }
}
