//! Validation of CEL expressions in admission policies, webhooks and DeviceClasses, and the
//! variables that these know.

use std::sync::{Arc, LazyLock};

use api::cel::{Environment, ObjectName, Refused, Type, compile};
use api::field::{Field, LazyError};
use api::structural::Budget;

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

/// Returns the type of `request`.
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

/// Returns the type of `namespaceObject`.
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

/// The environment of messages, which may not ask about permissions (HK-84).
static MESSAGES: LazyLock<Environment> = LazyLock::new(|| {
    Environment::default()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", request())
        .with("namespaceObject", namespace())
});

/// The environment of match conditions and admission policies.
pub static ADMISSION: LazyLock<Environment> = LazyLock::new(|| {
    MESSAGES
        .clone()
        .with(
            "authorizer",
            Type::Opaque("kubernetes.authorization.Authorizer"),
        )
        .with(
            "authorizer.requestResource",
            Type::Opaque("kubernetes.authorization.ResourceCheck"),
        )
});

/// The environment of device selectors.
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

/// Validates an expression whose value must have one of these types. `wanted` names them.
pub fn validate_expression(
    expression: &Field<'_>,
    environment: &Environment,
    wanted: &str,
    fits: fn(&Type) -> bool,
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

/// Returns the error of a refused expression. A spent budget is reported once.
fn failed<'f>(expression: &Field<'f>, refused: Refused, budget: &Budget) -> Option<LazyError<'f>> {
    match refused {
        Refused::Wrong(why) => {
            let detail = format!("compilation failed: {why}");
            Some(expression.invalid_value(expression.text(), detail))
        }
        Refused::Spent => budget.refusal().map(|why| expression.forbidden(why)),
    }
}

/// Validates a condition.
pub fn validate_condition(
    expression: &Field<'_>,
    environment: &Environment,
    budget: &Budget,
    errors: &mut ErrorList,
) {
    let is_bool = |of: &Type| *of == Type::Bool;
    validate_expression(expression, environment, "bool", is_bool, budget, errors);
}

/// Validates a condition, ignoring white space around it.
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

/// Validates the expression of a device selector.
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

/// The environments of an admission policy: those of admission, the parameters and the variables.
pub struct Policy {
    /// The environment without variables.
    pub conditions: Environment,
    /// The environment with the variables declared so far.
    pub expressions: Environment,
    /// The environment of messages, with the same variables.
    pub messages: Environment,
    /// The budget for compiling all expressions of the policy.
    pub budget: Budget,
}

impl Policy {
    /// Returns the environments of a policy with this spec, before its variables are declared.
    pub fn of(spec: &Field<'_>, is_mutating: bool) -> Policy {
        let with_params = |environment: &Environment| match spec.member("paramKind").is_set() {
            true => environment.clone().with("params", Type::Dyn),
            false => environment.clone(),
        };
        let has_variables = is_mutating || !spec.member("variables").is_empty();
        let with_variables = |environment: Environment| match has_variables {
            true => environment.with_variables(),
            false => environment,
        };
        let conditions = with_params(&ADMISSION);
        let expressions = with_variables(conditions.clone());
        Policy {
            messages: with_variables(with_params(&MESSAGES)),
            conditions,
            expressions,
            budget: Budget::of(spec.value().unwrap_or_default()),
        }
    }

    /// Compiles a variable and declares it for the expressions after it.
    pub fn declare(&mut self, name: &str, expression: &Field<'_>, errors: &mut ErrorList) {
        let (expressions, budget) = (&self.expressions, &self.budget);
        let of = validate_expression(expression, expressions, "", |_| true, budget, errors);
        let of = of.of_variable();
        self.messages.declare(name, of.clone());
        self.expressions.declare(name, of);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Typical expressions of webhooks, policies and device classes.
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

    /// Expressions of the recorded policies.
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
