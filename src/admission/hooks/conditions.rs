//! The conditions of hooks: CEL over the request and its objects (HK-13, HK-50, HK-84). Pure,
//! except that expressions may ask about permissions.

use std::sync::Arc;

use serde::Deserialize;

use super::answers::Asker;
use super::expression::{Compiler, Expression, Variables};
use super::scope::{Facts, Scope};
use crate::api::cel::Value;
use crate::kinds::validation::expressions::ADMISSION;

/// The most that all conditions of a hook may cost (HK-90).
const COST_MAX: u64 = 2_500_000;

/// A condition as it is written in a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionText {
    /// Its name.
    pub name: String,
    /// The expression, of type bool.
    pub expression: Arc<str>,
}

/// Whether a request meets the conditions of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    /// It meets all of them.
    All,
    /// It does not meet one of them.
    NotAll,
    /// None is known to be unmet, and some have failed.
    Failed(String),
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evaluated {
    /// Whether the request meets the conditions.
    pub(super) met: Met,
    /// The number of conditions that have failed before one that is not met.
    pub(super) failures: u64,
}

/// Compiles conditions that were stored, of a hook without parameters and variables.
pub(super) fn compile(conditions: &[ConditionText]) -> Vec<Expression> {
    let texts = || conditions.iter().map(|condition| &condition.expression);
    Compiler::of(texts()).all(texts(), &ADMISSION)
}

/// Evaluates conditions. They do not know the namespace of the request (HK-84).
pub(super) async fn evaluate(
    conditions: &[Expression],
    variables: &Variables,
    facts: &Facts<'_>,
    asker: &dyn Asker,
) -> Evaluated {
    let facts = Facts {
        namespace: &serde_json::Value::Null,
        ..facts.clone()
    };
    let mut scope = Scope::new(variables, facts, COST_MAX);
    let mut is_met = true;
    let mut failures = Vec::new();
    let mut before_unmet = 0;
    for condition in conditions {
        match scope.evaluate(condition, asker).await {
            Err(spent) => {
                let met = Met::Failed(spent.to_string());
                return Evaluated { met, failures: 0 };
            }
            Ok(Ok(Value::Bool(value))) => is_met &= value,
            Ok(Ok(other)) => failures.push(format!(
                "expression '{}' resulted in error: must be bool, not {}",
                condition.text,
                other.type_name()
            )),
            Ok(Err(fault)) => failures.push(fault.to_string()),
        }
        if is_met {
            before_unmet = failures.len();
        }
    }
    let met = match (is_met, failures.len()) {
        (false, _) => Met::NotAll,
        (true, 0) => Met::All,
        (true, 1) => Met::Failed(failures.concat()),
        (true, _) => Met::Failed(format!("[{}]", failures.join(", "))),
    };
    Evaluated {
        met,
        failures: u64::try_from(before_unmet).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::admission::hooks::answers::Answers;
    use crate::admission::hooks::scope::OutOfBudget;
    use crate::api::cel::values::authorizer::{Decision, Request};

    /// Allows reads alone.
    struct OfReader;

    impl Asker for OfReader {
        fn ask<'a>(&'a self, question: &'a Request) -> BoxFuture<'a, Decision> {
            let decision = Decision {
                is_allowed: question.verb == "get",
                reason: String::new(),
                error: None,
            };
            std::future::ready(decision).boxed()
        }
    }

    fn met(expressions: &[&str]) -> Met {
        evaluated(expressions).met
    }

    fn evaluated(expressions: &[&str]) -> Evaluated {
        let texts: Vec<ConditionText> = expressions
            .iter()
            .map(|expression| ConditionText {
                name: "c".to_owned(),
                expression: Arc::from(*expression),
            })
            .collect();
        let object = json!({"metadata": {"name": "a", "labels": {"k": "v"}}});
        let request = json!({"operation": "CREATE", "dryRun": false});
        let (answers, resource) = (Arc::<Answers>::default(), Request::default());
        let facts = Facts {
            object: object.as_object(),
            old_object: None,
            request: &request,
            namespace: &Json::Null,
            params: &Json::Null,
            permissions: Some((answers, resource)),
        };
        let (conditions, variables) = (compile(&texts), Variables::new());
        let evaluating = evaluate(&conditions, &variables, &facts, &OfReader);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(evaluating)
    }

    #[test]
    fn one_false_skips_the_hook_whatever_else_fails_hk_13() {
        let fails = "object.spec.x == 1";
        let text = "expression 'object.spec.x == 1' resulted in error: no such key: spec";
        for (expressions, expected) in [
            (&[][..], Met::All),
            (&["object.metadata.labels['k'] == 'v'"], Met::All),
            (&["oldObject == null", "namespaceObject == null"], Met::All),
            (&["request.operation != 'CREATE'"], Met::NotAll),
            (
                &["authorizer.requestResource.check('get').allowed()"],
                Met::All,
            ),
            (
                &["authorizer.path('/x').check('put').allowed()"],
                Met::NotAll,
            ),
            (&[fails, "false"], Met::NotAll),
            (&["false", fails], Met::NotAll),
            (&[fails, "true"], Met::Failed(text.to_owned())),
            (&[fails, fails], Met::Failed(format!("[{text}, {text}]"))),
        ] {
            assert_eq!(met(expressions), expected, "{expressions:?}");
        }
    }

    #[test]
    fn failures_count_until_a_condition_is_not_met_hk_95() {
        let fails = "object.spec.x == 1";
        for (expressions, failures) in [
            (&[][..], 0),
            (&["true", fails, fails], 2),
            (&[fails, "false", fails], 1),
            (&["false", fails], 0),
        ] {
            assert_eq!(evaluated(expressions).failures, failures, "{expressions:?}");
        }
    }

    #[test]
    fn all_conditions_share_a_budget_hk_90() {
        let long = "lists.range(90000).all(x, x >= 0)";
        assert_eq!(met(&[long]), Met::All);
        let failed = met(&[long; 10]);
        assert_eq!(failed, Met::Failed(OutOfBudget.to_string()));
    }
}
