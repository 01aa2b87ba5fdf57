//! Checks of a policy's expressions by the types of the objects that it matches (HK-76). They only
//! warn, in the status of the policy.

use api::cel::{Environment, Refused, Type, compile};
use api::field::Field;
use api::object::Object;
use api::structural::Budget;

use crate::validation::expressions::ADMISSION;

/// The most types for which expressions are checked.
pub const MAX_TYPES: usize = 10;

/// The type of the objects of a kind.
#[derive(Clone, Debug)]
pub struct NamedType {
    /// The group, version and kind: `apps/v1, Kind=Deployment`.
    pub name: String,
    /// The type.
    pub of: Type,
}

/// A resource that a policy names, without wildcards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedResource {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub plural: String,
}

/// A warning about an expression of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The path of the expression.
    pub field_ref: String,
    /// The errors, by types.
    pub warning: String,
}

/// Returns the resources that the rules of a policy name. Rules with wildcards, and subresources,
/// are left out.
pub fn named_resources(policy: &Object) -> Vec<NamedResource> {
    let spec = Field::of(policy, "spec");
    let constraints = spec.member("matchConstraints");
    let rules = constraints.member("resourceRules");
    let mut found = Vec::new();
    for rule in rules.items() {
        let texts = |name: &str| {
            let mut texts: Vec<String> = rule
                .member(name)
                .items()
                .map(|item| item.text().to_owned())
                .collect();
            texts.sort();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        let has_wildcard = |texts: &[String]| texts.iter().any(|text| text.contains('*'));
        if has_wildcard(&groups) || has_wildcard(&versions) {
            continue;
        }
        for group in &groups {
            for version in &versions {
                for plural in texts("resources") {
                    if !plural.contains(['*', '/']) && found.len() < MAX_TYPES {
                        found.push(NamedResource {
                            group: group.clone(),
                            version: version.clone(),
                            plural,
                        });
                    }
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the warnings about the validations of a policy and their messages, for objects of these
/// types. `params` is the type of its parameters, if it is known.
pub fn expression_warnings(
    policy: &Object,
    types: &[NamedType],
    params: Option<&Type>,
) -> Vec<ExpressionWarning> {
    let spec = Field::of(policy, "spec");
    let budget = Budget::of(spec.value().unwrap_or_default());
    let environments: Vec<(&str, Environment)> = types
        .iter()
        .map(|named| {
            let environment = environment(&spec, &named.of, params, &budget);
            (named.name.as_str(), environment)
        })
        .collect();
    let mut warnings = Vec::new();
    for validation in spec.member("validations").items() {
        for name in ["expression", "messageExpression"] {
            let expression = validation.member(name);
            if expression.text().is_empty() {
                continue;
            }
            let faults = environments.iter().filter_map(|(of, environment)| {
                match compile(expression.text(), environment, &budget) {
                    Err(Refused::Wrong(why)) => Some(format!("{of}: {why}\n")),
                    Err(Refused::Spent) | Ok(_) => None,
                }
            });
            let faults: Vec<String> = faults.collect();
            if !faults.is_empty() {
                warnings.push(ExpressionWarning {
                    field_ref: expression.path(),
                    warning: faults.join("\n"),
                });
            }
        }
    }
    warnings
}

/// Returns the environment of a policy for objects of this type, with its variables.
fn environment(
    spec: &Field<'_>,
    object: &Type,
    params: Option<&Type>,
    budget: &Budget,
) -> Environment {
    let mut environment = ADMISSION
        .clone()
        .with("object", object.clone())
        .with("oldObject", object.clone())
        .with_variables();
    if spec.member("paramKind").is_set() {
        environment = environment.with("params", params.cloned().unwrap_or(Type::Dyn));
    }
    for variable in spec.member("variables").items() {
        let expression = variable.member("expression");
        let of = compile(expression.text(), &environment, budget);
        // A wrong variable was reported when it was written, or is only wrong for this type.
        let of = of.map_or(Type::Dyn, |compiled| compiled.result.of_variable());
        environment.declare(variable.member("name").text(), of);
    }
    environment
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use api::cel::type_of_kind;

    fn policy(validations: &Value, variables: &Value) -> Object {
        let policy = json!({"spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"],
                 "resources": ["deployments", "deployments/scale"]},
                {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"]},
            ]},
            "validations": validations, "variables": variables,
        }});
        Object::of(policy.as_object().cloned().unwrap())
    }

    fn warnings(validations: &Value, variables: &Value) -> Vec<(String, String)> {
        let policy = policy(validations, variables);
        let deployments = crate::definitions::built_in()
            .into_iter()
            .find(|row| row.is("apps", "deployments"))
            .unwrap();
        let types = [NamedType {
            name: "apps/v1, Kind=Deployment".to_owned(),
            of: type_of_kind(deployments.object_type()).unwrap(),
        }];
        let warnings = expression_warnings(&policy, &types, None).into_iter();
        warnings.map(|one| (one.field_ref, one.warning)).collect()
    }

    #[test]
    fn rules_without_wildcards_name_resources_hk_76() {
        let named = named_resources(&policy(&json!([]), &json!([])));
        let plurals: Vec<&str> = named.iter().map(|one| one.plural.as_str()).collect();
        assert_eq!(plurals, ["deployments"]);
    }

    #[test]
    fn expressions_are_checked_by_the_types_of_objects_hk_76() {
        let none: [(String, String); 0] = [];
        let fine = json!([
            {"expression": "object.spec.replicas > 1 && oldObject.metadata.name != ''",
             "messageExpression": "'not ' + string(object.spec.replicas)"},
            {"expression": "object.spec.template.spec.containers.all(c, c.image != 'x')"},
            {"expression": "object.metadata.labels['a'] == 'b'"},
            {"expression": "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"},
            {"expression": "object.spec.strategy.rollingUpdate.maxSurge == 1"},
            {"expression": "variables.r == 1"},
        ]);
        let variables = json!([{"name": "r", "expression": "object.spec.replicas"}]);
        assert_eq!(warnings(&fine, &variables), none);
        let wrong = json!([
            {"expression": "object.spec.replica > 1"},
            {"expression": "true", "messageExpression": "object.spec.replicas"},
            {"expression": "object.spec.replicas == 'x'"},
            {"expression": "variables.r == 'x'"},
        ]);
        let found = warnings(&wrong, &variables);
        let fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.validations[0].expression",
                "spec.validations[2].expression",
                "spec.validations[3].expression",
            ]
        );
        let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n \
                    | object.spec.replica > 1\n | ...........^\n";
        assert_eq!(found[0].1, text);
    }
}
