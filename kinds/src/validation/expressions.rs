//! Expressions in policies, webhooks and device classes: what names mean there, and what is refused
//! of them.

use std::sync::{Arc, LazyLock};

use api::cel::{Environment, Type, compile};
use api::field::{Field, LazyError};
use serde_json::Value;

use api::error_list::ErrorList;

/// The most bytes of a part of a struct that expressions of one object have together. Expressions
/// behind it are not read.
const MAX_BYTES: usize = 1024 * 1024;

/// The most variables of a policy whose types are known. Expressions of one with more are not read.
const MAX_VARIABLES: usize = 500;

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields
        .iter()
        .map(|(name, of)| ((*name).to_owned(), of.clone()));
    Type::object(name, fields)
}

fn texts() -> Type {
    Type::list(Type::String)
}

/// What an admission request says.
fn request() -> Type {
    let text = Type::String;
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[
            ("group", text.clone()),
            ("version", text.clone()),
            ("kind", text.clone()),
        ],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[
            ("group", text.clone()),
            ("version", text.clone()),
            ("resource", text.clone()),
        ],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", text.clone()),
            ("uid", text.clone()),
            ("groups", texts()),
            ("extra", Type::map(text.clone(), texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text.clone()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text.clone()),
            ("name", text.clone()),
            ("namespace", text.clone()),
            ("operation", text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

/// The namespace of what is asked for.
fn namespace() -> Type {
    let text = Type::String;
    let map = Type::map(Type::String, Type::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text.clone()),
            ("generateName", text.clone()),
            ("namespace", text.clone()),
            ("labels", map.clone()),
            ("annotations", map),
            ("UID", text.clone()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text.clone()),
            ("finalizers", texts()),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", texts())]);
    let status = object("kubernetes.NamespaceStatus", &[("phase", text)]);
    object(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    )
}

/// What is known in conditions of webhooks, and in policies.
pub static ADMISSION: LazyLock<Environment> = LazyLock::new(|| {
    Environment::default()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", request())
        .with("namespaceObject", namespace())
        .with(
            "authorizer",
            Type::Opaque("kubernetes.authorization.Authorizer"),
        )
        .with(
            "authorizer.requestResource",
            Type::Opaque("kubernetes.authorization.ResourceCheck"),
        )
});

/// What is known in selectors of devices.
pub static DEVICE: LazyLock<Environment> = LazyLock::new(|| {
    let by_domain = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
    let device = object(
        "kubernetes.DRADevice",
        &[
            ("driver", Type::String),
            ("attributes", by_domain(Type::Any)),
            ("capacity", by_domain(Type::Opaque("kubernetes.Quantity"))),
            ("allowMultipleAllocations", Type::Bool),
        ],
    );
    Environment::default().with("device", device).with_bind()
});

/// Adds the errors of an expression that must have a value of one of these types. `wanted` names them.
pub fn validate_expression(
    expression: &Field<'_>,
    environment: &Environment,
    wanted: &str,
    fits: fn(&Type) -> bool,
    errors: &mut ErrorList,
) -> Type {
    match compile(expression.text(), environment) {
        Err(why) => {
            errors.push(failed(expression, &why));
            Type::Dyn
        }
        Ok(compiled) => {
            if !fits(&compiled.result) {
                let found = &compiled.result;
                let detail = format!("must evaluate to {wanted} but got {found}");
                errors.push(expression.invalid_value(expression.text(), detail));
            }
            compiled.result
        }
    }
}

fn failed<'f>(expression: &Field<'f>, why: &str) -> LazyError<'f> {
    let detail = format!("compilation failed: {why}");
    expression.invalid_value(expression.text(), detail)
}

/// Adds the errors of a condition.
pub fn validate_condition(
    expression: &Field<'_>,
    environment: &Environment,
    errors: &mut ErrorList,
) {
    validate_expression(
        expression,
        environment,
        "bool",
        |of| *of == Type::Bool,
        errors,
    );
}

/// Adds the errors of a condition of which white space around it does not count.
pub fn validate_trimmed_condition(
    expression: &Field<'_>,
    environment: &Environment,
    errors: &mut ErrorList,
) {
    let trimmed = expression.text().trim().into();
    validate_condition(&expression.with_value(&trimmed), environment, errors);
}

/// Adds the errors of an expression that selects devices.
pub fn validate_device_selector(expression: &Field<'_>, errors: &mut ErrorList) {
    match compile(expression.text(), &DEVICE) {
        Err(why) => errors.push(failed(expression, &why)),
        Ok(compiled) if !matches!(compiled.result, Type::Bool | Type::Any) => {
            let found = &compiled.result;
            let detail = format!("must evaluate to bool or the unknown type, not {found}");
            errors.push(expression.invalid_value(expression.text(), detail));
        }
        Ok(_) => {}
    }
}

/// What is known in a policy besides what admission knows: the parameters, and the variables.
pub struct Policy {
    /// Without the variables.
    pub conditions: Environment,
    /// With the variables that were declared so far.
    pub expressions: Environment,
    variables: Vec<(String, Type)>,
    left: usize,
}

impl Policy {
    /// A policy with this spec, before its variables are declared.
    pub fn of(spec: &Field<'_>, is_mutating: bool) -> Policy {
        let conditions = match spec.member("paramKind").is_set() {
            true => ADMISSION.clone().with("params", Type::Dyn),
            false => ADMISSION.clone(),
        };
        let has_variables = is_mutating || !spec.member("variables").is_empty();
        let mut policy = Policy {
            expressions: conditions.clone(),
            conditions,
            variables: Vec::new(),
            left: MAX_BYTES,
        };
        if has_variables {
            policy.renew();
        }
        policy
    }

    /// Whether another expression of this length may be read.
    pub fn may_read(&mut self, expression: &Field<'_>) -> bool {
        let left = self.left.checked_sub(expression.text().len());
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn renew(&mut self) {
        let variables = Type::object("kubernetes.variables", self.variables.clone());
        let expressions = self.expressions.clone();
        self.expressions = expressions.with("variables", variables);
    }

    /// Reads a variable, which those behind it may use.
    pub fn declare(&mut self, name: &str, expression: &Field<'_>, errors: &mut ErrorList) {
        if self.variables.len() >= MAX_VARIABLES || !self.may_read(expression) {
            // What is behind it may be of any type.
            self.left = 0;
            return;
        }
        let any = |_: &Type| true;
        let of = validate_expression(expression, &self.expressions, "", any, errors);
        self.variables.push((name.to_owned(), of));
        self.renew();
    }
}

/// The type of values of a schema, in rules about them. `left` is how many schemas may be looked
/// at. What is behind them may be anything.
pub fn of_schema(schema: &Value, is_root: bool, left: &mut usize) -> Option<Type> {
    schema_type(schema, is_root, "object", left)
}

/// The type of values with a schema. There is none for values of which nothing is known.
fn schema_type(schema: &Value, is_object: bool, name: &str, left: &mut usize) -> Option<Type> {
    let Some(less) = left.checked_sub(1) else {
        return Some(Type::Dyn);
    };
    *left = less;
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if flag("x-kubernetes-int-or-string") {
        return Some(Type::Dyn);
    }
    let kind = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(match kind {
        "boolean" => Type::Bool,
        "integer" => Type::Int,
        "number" => Type::Double,
        "string" => match format {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        },
        "array" => Type::list(schema_type(schema.get("items")?, false, name, left)?),
        "object" => {
            let embedded = flag("x-kubernetes-embedded-resource");
            return object_type(schema, is_object || embedded, name, left);
        }
        _ => return None,
    })
}

fn object_type(schema: &Value, is_object: bool, name: &str, left: &mut usize) -> Option<Type> {
    let additional = schema.get("additionalProperties");
    if let Some(of) = additional.filter(|of| of.is_object()) {
        return Some(Type::map(Type::String, schema_type(of, false, name, left)?));
    }
    let mut fields = std::collections::BTreeMap::new();
    if is_object {
        let names = [("name", Type::String), ("generateName", Type::String)];
        fields.insert("kind".to_owned(), Type::String);
        fields.insert("apiVersion".to_owned(), Type::String);
        fields.insert("metadata".to_owned(), object("object.metadata", &names));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (property, of) in properties.into_iter().flatten() {
        if is_object && fields.contains_key(property) {
            continue;
        }
        let whole = format!("{name}.{property}");
        if let (Some(name), Some(of)) = (escaped(property), schema_type(of, false, &whole, left)) {
            fields.insert(name, of);
        }
    }
    Some(Type::Object(Arc::new(api::cel::ObjectType {
        name: name.to_owned(),
        fields,
    })))
}

/// The name of a member in expressions. Some characters and words are written in another way; a
/// name with others can't be written.
fn escaped(name: &str) -> Option<String> {
    if api::cel::is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        return None;
    }
    let is_plain = |c: char| c == '_' || c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/');
    if !name.chars().all(is_plain) {
        return None;
    }
    let name = name.replace("__", "__underscores__");
    let name = name.replace('.', "__dot__").replace('-', "__dash__");
    Some(name.replace('/', "__slash__"))
}
