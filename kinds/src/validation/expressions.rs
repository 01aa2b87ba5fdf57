//! Expressions in policies, webhooks and device classes: what names mean there, and what is refused
//! of them.

use std::sync::{Arc, LazyLock};

use api::cel::{Environment, ObjectName, Refused, Type, compile};
use api::field::{Field, LazyError};
use api::structural::Budget;
use serde_json::Value;

use api::error_list::ErrorList;

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields.iter();
    Type::object(
        ObjectName::new(name),
        fields.map(|(name, of)| (Arc::from(*name), of.clone())),
    )
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

/// Adds the errors of an expression that must have a value of one of these types. `wanted` names
/// them.
pub fn validate_expression(
    expression: &Field<'_>,
    environment: &Environment,
    (wanted, fits): (&str, fn(&Type) -> bool),
    budget: &Budget,
    errors: &mut ErrorList,
) -> Type {
    match compile(expression.text(), environment, budget) {
        Err(refused) => {
            errors.extend(failed(expression, refused, budget));
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

/// What is said of an expression that was refused. That the budget is spent is said once.
fn failed<'f>(expression: &Field<'f>, refused: Refused, budget: &Budget) -> Option<LazyError<'f>> {
    match refused {
        Refused::Wrong(why) => {
            let detail = format!("compilation failed: {why}");
            Some(expression.invalid_value(expression.text(), detail))
        }
        Refused::Spent => budget.refusal().map(|why| expression.forbidden(why)),
    }
}

/// Adds the errors of a condition.
pub fn validate_condition(
    expression: &Field<'_>,
    environment: &Environment,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let is_bool = |of: &Type| *of == Type::Bool;
    validate_expression(expression, environment, ("bool", is_bool), budget, errors);
}

/// Adds the errors of a condition of which white space around it does not count.
pub fn validate_trimmed_condition(
    expression: &Field<'_>,
    environment: &Environment,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let trimmed = expression.text().trim().into();
    validate_condition(
        &expression.with_value(&trimmed),
        environment,
        budget,
        errors,
    );
}

/// Adds the errors of an expression that selects devices.
pub fn validate_device_selector(expression: &Field<'_>, errors: &mut ErrorList) {
    let budget = Budget::of_expressions(expression.text().len());
    match compile(expression.text(), &DEVICE, &budget) {
        Err(refused) => errors.extend(failed(expression, refused, &budget)),
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
    /// What reading the expressions may take.
    pub budget: Budget,
}

impl Policy {
    /// A policy with this spec, before its variables are declared.
    pub fn of(spec: &Field<'_>, is_mutating: bool) -> Policy {
        let conditions = match spec.member("paramKind").is_set() {
            true => ADMISSION.clone().with("params", Type::Dyn),
            false => ADMISSION.clone(),
        };
        let has_variables = is_mutating || !spec.member("variables").is_empty();
        let expressions = match has_variables {
            true => conditions.clone().with_variables(),
            false => conditions.clone(),
        };
        Policy {
            conditions,
            expressions,
            budget: Budget::of(spec.value().unwrap_or_default()),
        }
    }

    /// Reads a variable, which those behind it may use.
    pub fn declare(&mut self, name: &str, expression: &Field<'_>, errors: &mut ErrorList) {
        let any: (&str, fn(&Type) -> bool) = ("", |_| true);
        let of = validate_expression(expression, &self.expressions, any, &self.budget, errors);
        self.expressions.declare(name, of);
    }
}

/// The steps of finding the type of a schema.
const SCHEMA_STEPS: usize = 3;

/// The type of values of a schema, in rules about them. There is none for values of which nothing
/// is known. If the budget is spent, what is left may be anything.
pub fn of_schema(schema: &Value, is_root: bool, budget: &Budget) -> Option<Type> {
    let name = Named {
        above: None,
        name: &Arc::from("object"),
    };
    schema_type(schema, is_root, &name, budget)
}

/// What the type of an object is named after: a member of another one.
struct Named<'n> {
    above: Option<&'n ObjectName>,
    name: &'n Arc<str>,
}

fn schema_type(schema: &Value, is_object: bool, name: &Named<'_>, budget: &Budget) -> Option<Type> {
    if !budget.take(SCHEMA_STEPS) {
        return Some(Type::Dyn);
    }
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if flag("x-kubernetes-int-or-string") {
        return Some(Type::Dyn);
    }
    let text = |name: &str| {
        let text = schema.get(name).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    Some(match text("type") {
        "boolean" => Type::Bool,
        "integer" => Type::Int,
        "number" => Type::Double,
        "string" => match text("format") {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        },
        "array" => Type::list(schema_type(schema.get("items")?, false, name, budget)?),
        "object" => {
            let embedded = flag("x-kubernetes-embedded-resource");
            return object_type(schema, is_object || embedded, name, budget);
        }
        _ => return None,
    })
}

fn object_type(schema: &Value, is_object: bool, name: &Named<'_>, budget: &Budget) -> Option<Type> {
    let additional = schema.get("additionalProperties");
    if let Some(of) = additional.filter(|of| of.is_object()) {
        let of = schema_type(of, false, name, budget)?;
        return Some(Type::map(Type::String, of));
    }
    let own_name = match name.above {
        Some(above) => above.member(Arc::clone(name.name)),
        None => ObjectName::new(name.name),
    };
    let mut fields: Vec<(Arc<str>, Type)> = Vec::new();
    if is_object {
        let names = [("name", Type::String), ("generateName", Type::String)];
        fields.push(("kind".into(), Type::String));
        fields.push(("apiVersion".into(), Type::String));
        fields.push(("metadata".into(), object("object.metadata", &names)));
    }
    let known = fields.len();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (property, of) in properties.into_iter().flatten() {
        let mut known = fields.iter().take(known);
        // linear: there are at most three known fields.
        if known.any(|(name, _)| **name == **property) {
            continue;
        }
        let property = Arc::from(property.as_str());
        let name = Named {
            above: Some(&own_name),
            name: &property,
        };
        if let Some(of) = schema_type(of, false, &name, budget)
            && let Some(escaped) = escaped(&property)
        {
            fields.push((escaped, of));
        }
    }
    Some(Type::object(own_name, fields))
}

/// The name of a member in expressions. Some characters and words are written in another way; a
/// name with others can't be written.
fn escaped(name: &Arc<str>) -> Option<Arc<str>> {
    if api::cel::is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        return None;
    }
    let is_plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let is_special = |c: char| matches!(c, '.' | '-' | '/');
    if !name.chars().all(|c| is_plain(c) || is_special(c)) {
        return None;
    }
    if !name.contains(is_special) && !name.contains("__") {
        return Some(Arc::clone(name));
    }
    let name = name.replace("__", "__underscores__");
    let name = name.replace('.', "__dot__").replace('-', "__dash__");
    Some(name.replace('/', "__slash__").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions as webhooks, policies and device classes have them.
    #[test]
    fn ordinary_expressions_take_less_than_a_quarter_of_their_budget() {
        let admission = [
            "true",
            "request.resource.group != 'rbac.authorization.k8s.io'",
            "!(request.userInfo.username in ['system:serviceaccount:kube-system:generic'])",
            "!('system:nodes' in request.userInfo.groups)",
            "authorizer.group('admissionregistration.k8s.io').resource('webhooks').name('my')\
             .check('breakglass').allowed()",
            "object.spec.containers.all(c, c.image.startsWith('registry.example.com/') && \
             has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits)",
            "object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "has(object.metadata.labels) && object.metadata.labels.exists(k, k == 'team')",
        ];
        let device = [
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].model == 'a100'",
            "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].type == \
             'gpu' && device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('10Gi'))",
            "cel.bind(dra, device.attributes['dra.example.com'], dra.someBool && dra.another)",
        ];
        let all = admission.map(|text| (text, &ADMISSION));
        for (text, environment) in all.into_iter().chain(device.map(|text| (text, &DEVICE))) {
            let budget = Budget::of_expressions(text.len());
            assert!(compile(text, environment, &budget).is_ok(), "{text}");
            assert!(budget.percent() < 25, "{text}: {}", budget.percent());
        }
    }

    /// Those of policies that kube-apiserver was asked about.
    #[test]
    fn recorded_policies_take_less_than_a_quarter_of_their_budget() {
        let cases = include_str!("../../recorded/expressions.json");
        let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let validations = case["body"]["spec"]["validations"].as_array();
            for validation in validations.into_iter().flatten() {
                let text = validation["expression"].as_str().unwrap_or_default();
                let budget = Budget::of_expressions(text.len());
                let _ = compile(text, &ADMISSION, &budget);
                assert!(budget.percent() < 25, "{text:.80}: {}", budget.percent());
            }
        }
    }
}
