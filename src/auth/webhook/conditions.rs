//! The conditions under which a webhook is asked: CEL over the SubjectAccessReview (AC-36). Pure.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::api::cel::values::{Value, Work};
use crate::api::cel::{Environment, ObjectName, Program, Refused, Type, check};
use crate::api::error_list::ErrorList;
use crate::api::field_error::{FieldError, FieldErrorKind};
use crate::api::structural::Budget;

/// The most conditions of a webhook.
const CONDITIONS_MAX: usize = 64;

/// The most that the evaluation of one expression may cost, as in Kubernetes.
const COST_MAX: u64 = 1_000_000;

/// The name of the review in expressions.
const REQUEST: &str = "request";

static ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::default().with(REQUEST, request_type()));

/// The type of `request`: the spec of a SubjectAccessReview in v1.
fn request_type() -> Type {
    let object = |name: &str, fields: Vec<(&str, Type)>| {
        let fields = fields.into_iter().map(|(name, of)| (Arc::from(name), of));
        Type::object(ObjectName::new(&format!("kubernetes.{name}")), fields)
    };
    let texts = |names: &[&'static str]| -> Vec<(&str, Type)> {
        names.iter().map(|name| (*name, Type::String)).collect()
    };
    let list = || Type::list(Type::String);
    let selector = |name: &str| {
        let mut requirement = texts(&["key", "operator"]);
        requirement.push(("values", list()));
        let requirement = object("SelectorRequirement", requirement);
        let mut fields = texts(&["rawSelector"]);
        fields.push(("requirements", Type::list(requirement)));
        object(name, fields)
    };
    let mut resource = texts(&[
        "namespace",
        "verb",
        "group",
        "version",
        "resource",
        "subresource",
        "name",
    ]);
    resource.push(("fieldSelector", selector("FieldSelectorAttributes")));
    resource.push(("labelSelector", selector("LabelSelectorAttributes")));
    let mut spec = texts(&["user", "uid"]);
    spec.push(("resourceAttributes", object("ResourceAttributes", resource)));
    let path = texts(&["path", "verb"]);
    spec.push((
        "nonResourceAttributes",
        object("NonResourceAttributes", path),
    ));
    spec.push(("groups", list()));
    spec.push(("extra", Type::map(Type::String, list())));
    object("SubjectAccessReviewSpec", spec)
}

/// The conditions of a webhook, all of which a request must meet.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    expression: String,
    program: Program,
}

/// Whether a webhook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// All conditions are met.
    Asked,
    /// One is not met.
    Excluded,
    /// None is known to be unmet, and some have failed.
    Failed(String),
}

impl MatchConditions {
    /// Compiles the conditions at this path of a configuration. The errors go into the list.
    pub fn compile(path: &str, expressions: &[&str], errors: &mut ErrorList) -> MatchConditions {
        if expressions.len() > CONDITIONS_MAX {
            let detail = format!("must have at most {CONDITIONS_MAX} items");
            let count = Json::from(expressions.len());
            let error = FieldError::new(FieldErrorKind::TooMany, path, &count, detail);
            errors.push(error);
            return MatchConditions::default();
        }
        let mut known = HashSet::new();
        let mut conditions = Vec::new();
        for (place, expression) in expressions.iter().enumerate() {
            let path = format!("{path}[{place}].expression");
            if expression.trim().is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !known.insert(*expression) {
                let given = Json::from(*expression);
                errors.push(FieldError::new(FieldErrorKind::Duplicate, path, &given, ""));
            } else {
                match compiled(expression, path) {
                    Ok(program) => conditions.push(Condition {
                        expression: (*expression).to_owned(),
                        program,
                    }),
                    Err(error) => errors.push(*error),
                }
            }
        }
        MatchConditions(conditions)
    }

    /// Whether there are no conditions.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions over the spec of a review.
    pub(super) fn evaluate(&self, request: &Json) -> Match {
        let work = Work::default();
        let mut failures = Vec::new();
        for Condition {
            expression,
            program,
        } in &self.0
        {
            let variable = |name: &str| (name == REQUEST).then(|| Ok(Value::untyped(request)));
            match program.evaluate(variable, COST_MAX, &work).outcome {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return Match::Excluded,
                // Compilation lets no other type through.
                Ok(other) => failures.push(format!(
                    "cel evaluation error: expression '{expression}' eval result type should be \
                     bool but got {}",
                    other.type_name()
                )),
                Err(failure) => failures.push(format!(
                    "cel evaluation error: expression '{expression}' resulted in error: {failure}"
                )),
            }
        }
        match failures.len() {
            0 => Match::Asked,
            1 => Match::Failed(failures.concat()),
            _ => Match::Failed(format!("[{}]", failures.join(", "))),
        }
    }
}

fn compiled(expression: &str, path: String) -> Result<Program, Box<FieldError>> {
    let wrong = |path, why: String| Box::new(FieldError::invalid(path, expression, why));
    let budget = Budget::of_expressions(expression.len());
    let checked = match check(expression, &ENVIRONMENT, &budget) {
        Ok(checked) => checked,
        Err(Refused::Wrong(why)) => {
            return Err(wrong(path, format!("compilation failed: {why}")));
        }
        Err(Refused::Spent) => {
            let why = "compilation failed: the expression takes too long to check";
            return Err(wrong(path, why.to_owned()));
        }
    };
    if checked.result != Type::Bool {
        let why = format!("must evaluate to bool but got {}", checked.result);
        return Err(wrong(path, why));
    }
    checked.program().map_err(|why| {
        let why = format!("program instantiation failed: {why}");
        Box::new(FieldError::without_value(
            FieldErrorKind::Internal,
            path,
            why,
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(expressions: &[&str]) -> Vec<String> {
        let errors = ErrorList::of(|errors| {
            MatchConditions::compile("authorizers[0].matchConditions", expressions, errors);
        });
        errors.kept().iter().map(FieldError::to_string).collect()
    }

    fn matched(expressions: &[&str], request: &Json) -> Match {
        let mut errors = ErrorList::new();
        let conditions = MatchConditions::compile("c", expressions, &mut errors);
        assert_eq!(errors.kept(), [], "{expressions:?}");
        conditions.evaluate(request)
    }

    fn of_pods() -> Json {
        json!({
            "user": "alice", "uid": "", "groups": ["devs"], "extra": {"k": ["v"]},
            "resourceAttributes": {
                "namespace": "kube-system", "verb": "list", "group": "", "version": "v1",
                "resource": "pods", "subresource": "", "name": "",
                "labelSelector": {"requirements": [
                    {"key": "app", "operator": "In", "values": ["web"]},
                ]},
            },
        })
    }

    #[test]
    fn conditions_see_the_spec_of_the_review_ac_36() {
        for expression in [
            "request.user == 'alice' && request.uid == ''",
            "'devs' in request.groups",
            "request.extra['k'] == ['v']",
            "has(request.resourceAttributes)",
            "!has(request.nonResourceAttributes)",
            "request.resourceAttributes.namespace == 'kube-system'",
            "request.resourceAttributes.name == ''",
            "request.resourceAttributes.verb.matches('^(list|watch)$')",
            "!has(request.resourceAttributes.fieldSelector)",
            "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'app')",
            "request.?nonResourceAttributes.path.orValue('') == ''",
        ] {
            assert_eq!(
                matched(&[expression], &of_pods()),
                Match::Asked,
                "{expression}"
            );
        }
    }

    #[test]
    fn one_false_excludes_whatever_fails_and_else_a_failure_counts_ac_36() {
        let (yes, no) = ("request.user == 'alice'", "request.user == 'bob'");
        let fails = "request.nonResourceAttributes.path == '/'";
        let text = "cel evaluation error: expression 'request.nonResourceAttributes.path == '/'' \
                    resulted in error: no such key: nonResourceAttributes";
        let failed = Match::Failed(text.to_owned());
        let other = "request.extra['none'] == []";
        for (expressions, expected) in [
            (&[][..], Match::Asked),
            (&[yes], Match::Asked),
            (&[yes, no], Match::Excluded),
            (&[fails, no], Match::Excluded),
            (&[no, fails], Match::Excluded),
            (&[yes, fails], failed.clone()),
            (&[fails, yes], failed),
            (
                &[fails, other],
                Match::Failed(format!(
                    "[{text}, cel evaluation error: expression '{other}' resulted in error: no \
                     such key: none]"
                )),
            ),
        ] {
            assert_eq!(
                matched(expressions, &of_pods()),
                expected,
                "{expressions:?}"
            );
        }
    }

    #[test]
    fn faults_are_those_of_kubernetes_ac_36() {
        let at = "authorizers[0].matchConditions[0].expression";
        for (expression, expected) in [
            ("", format!("{at}: Required value")),
            (" \n", format!("{at}: Required value")),
            (
                "request.user",
                format!(
                    "{at}: Invalid value: \"request.user\": must evaluate to bool but got string"
                ),
            ),
            (
                "request.extra.a == request.extra.b ? 1 : 2",
                format!(
                    "{at}: Invalid value: \"request.extra.a == request.extra.b ? 1 : 2\": must \
                     evaluate to bool but got int"
                ),
            ),
        ] {
            assert_eq!(errors(&[expression]), [expected], "{expression}");
        }
        let [said] = &errors(&["request.colour == 'red'"])[..] else {
            panic!("one error");
        };
        let start = format!(
            "{at}: Invalid value: \"request.colour == 'red'\": compilation failed: ERROR: \
             <input>:1:8: undefined field 'colour'"
        );
        assert!(said.starts_with(&start), "{said}");
        let twice = ["true", "true"];
        let expected = "authorizers[0].matchConditions[1].expression: Duplicate value: \"true\"";
        assert_eq!(errors(&twice), [expected]);
        let texts: Vec<String> = (0..65).map(|number| format!("{number} == 1")).collect();
        let many: Vec<&str> = texts.iter().map(String::as_str).collect();
        let expected = "authorizers[0].matchConditions: Too many: 65: must have at most 64 items";
        assert_eq!(errors(&many), [expected]);
        assert_eq!(errors(many.get(..64).unwrap()), [""; 0]);
    }

    #[test]
    fn hostile_expressions_end_by_their_cost_ac_36() {
        let long = "x".repeat(100_001);
        assert!(errors(&[&*long])[0].contains("expression code point size exceeds limit"));
        let deep = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
        assert_eq!(errors(&[&*deep]).len(), 1);
        let groups: Vec<String> = (0..200).map(|number| format!("g{number}")).collect();
        let request = json!({"groups": groups});
        let all = "request.groups.all(a, request.groups.all(b, request.groups.all(c, a + b + c \
                   != '')))";
        let expected = Match::Failed(format!(
            "cel evaluation error: expression '{all}' resulted in error: operation cancelled: \
             actual cost limit exceeded"
        ));
        assert_eq!(matched(&[all], &request), expected);
    }
}
