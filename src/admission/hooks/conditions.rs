//! The conditions of hooks: CEL over the request and its objects (HK-13, HK-50, HK-84). Pure.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use super::answers::{Answers, Asker};
use crate::api::cel::values::authorizer::{Authorized, Authorizer, Request};
use crate::api::cel::values::{Value, Work};
use crate::api::cel::{Failure, Program, check};
use crate::api::structural::Budget;
use crate::kinds::validation::expressions::ADMISSION;

/// The most that one expression may cost (HK-90).
const COST_MAX: u64 = 1_000_000;

/// The most that all conditions of a hook may cost (HK-90).
const ALL_COST_MAX: u64 = 2_500_000;

/// A condition as it is written in a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionText {
    /// Its name.
    pub name: String,
    /// The expression, of type bool.
    pub expression: Arc<str>,
}

/// The compiled conditions of a hook, all of which a request must meet.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    expression: Arc<str>,
    /// The program, or the error of its compilation. A stored expression was valid when it was
    /// written.
    program: Result<Program, String>,
}

/// The values that conditions know.
pub(super) struct Known<'k> {
    /// The object, or null.
    pub object: &'k Json,
    /// The stored object, or null.
    pub old_object: &'k Json,
    /// The request ([`super::request::request`]).
    pub request: &'k Json,
    /// The answers that `authorizer` knows.
    pub answers: &'k Arc<Answers>,
    /// The question that `authorizer.requestResource` begins.
    pub resource: &'k Request,
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

impl Conditions {
    /// Compiles conditions that were stored.
    pub fn compile(conditions: &[ConditionText]) -> Conditions {
        let compiled = conditions.iter().map(|condition| Condition {
            expression: Arc::clone(&condition.expression),
            program: compiled(&condition.expression),
        });
        Conditions(compiled.collect())
    }

    /// Whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions. Asks about the permissions that they need.
    pub(super) async fn evaluate(&self, known: &Known<'_>, asker: &dyn Asker) -> Met {
        let work = Work::default();
        let mut left = ALL_COST_MAX;
        let mut is_met = true;
        let mut failures = Vec::new();
        for condition in &self.0 {
            let expression = &condition.expression;
            let mut fail = |why: &dyn std::fmt::Display| {
                failures.push(format!(
                    "expression '{expression}' resulted in error: {why}"
                ));
            };
            let program = match &condition.program {
                Ok(program) => program,
                Err(why) => {
                    fail(why);
                    continue;
                }
            };
            let evaluated = loop {
                let found = program.evaluate(|name| known.value(name), COST_MAX, &work);
                let is_open = found.outcome.as_ref().err() == Some(&Failure::Unanswered);
                if !is_open || !known.answers.answer(asker).await {
                    break found;
                }
            };
            let Some(rest) = left.checked_sub(evaluated.cost) else {
                return Met::Failed(OUT_OF_BUDGET.to_owned());
            };
            left = rest;
            match evaluated.outcome {
                Ok(Value::Bool(value)) => is_met &= value,
                Ok(other) => fail(&format_args!("must be bool, not {}", other.type_name())),
                Err(failure) => fail(&failure),
            }
        }
        match (is_met, failures.len()) {
            (false, _) => Met::NotAll,
            (true, 0) => Met::All,
            (true, 1) => Met::Failed(failures.concat()),
            (true, _) => Met::Failed(format!("[{}]", failures.join(", "))),
        }
    }
}

const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";

impl<'k> Known<'k> {
    fn value<E>(&self, name: &str) -> Option<Result<Value<'k>, E>> {
        let answers = || Arc::clone(self.answers) as Arc<dyn Authorizer>;
        Some(Ok(match name {
            "authorizer" => Authorized::value(answers()),
            "authorizer.requestResource" => Authorized::resource(answers(), self.resource.clone()),
            "object" => Value::untyped(self.object),
            "oldObject" => Value::untyped(self.old_object),
            "request" => Value::untyped(self.request),
            "namespaceObject" => Value::Null,
            _ => return None,
        }))
    }
}

fn compiled(expression: &str) -> Result<Program, String> {
    let budget = Budget::of_expressions(expression.len());
    let checked = check(expression, &ADMISSION, &budget);
    let checked = checked.map_err(|refused| format!("{refused:?}"))?;
    checked.program()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::api::cel::values::authorizer::Decision;

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
        let texts: Vec<ConditionText> = expressions
            .iter()
            .map(|expression| ConditionText {
                name: "c".to_owned(),
                expression: Arc::from(*expression),
            })
            .collect();
        let object = json!({"metadata": {"name": "a", "labels": {"k": "v"}}});
        let request = json!({"operation": "CREATE", "dryRun": false});
        let (answers, resource) = (Arc::default(), Request::default());
        let known = Known {
            object: &object,
            old_object: &Json::Null,
            request: &request,
            answers: &answers,
            resource: &resource,
        };
        let conditions = Conditions::compile(&texts);
        let met = conditions.evaluate(&known, &OfReader).now_or_never();
        met.expect("answers come at once")
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
    fn all_conditions_share_a_budget_hk_90() {
        let long = "lists.range(90000).all(x, x >= 0)";
        assert_eq!(met(&[long]), Met::All);
        let failed = met(&[long; 10]);
        assert_eq!(failed, Met::Failed(OUT_OF_BUDGET.to_owned()));
    }
}
