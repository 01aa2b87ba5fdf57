//! One evaluation of expressions over the facts of a request: the values of names, variables at
//! their first use, and costs (HK-58, HK-84, HK-90).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use tokio::task::yield_now;

use super::answers::{Answers, Asker};
use super::expression::{Expression, Variables};
use crate::api::cel::values::authorizer::{Authorized, Request};
use crate::api::cel::{Evaluated, Failure, Outcome, Value, Work};
use crate::api::text::quoting::go_quote;

/// The most that one expression may cost (HK-90).
const COST_MAX: u64 = 1_000_000;

/// The cost of an evaluation, a few milliseconds, after which other requests of the thread have a
/// turn, and a client that is gone ends the evaluation of further expressions.
const COST_OF_TURN: u64 = 50_000;

/// The evaluations of a policy after which others have a turn.
const EVALUATIONS_OF_TURN: usize = 32;

/// Counts evaluations of policies that cost little each, so that thousands of bindings and
/// parameters hold nobody up.
#[derive(Debug, Default)]
pub(in crate::admission::hooks) struct Turns(usize);

impl Turns {
    /// Counts an evaluation, and lets others have a turn.
    pub(in crate::admission::hooks) async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(EVALUATIONS_OF_TURN) {
            yield_now().await;
        }
    }
}

/// The most variables that need each other, one inside of the other (D-115).
const MAX_NESTED: usize = 200;

/// The values that expressions know.
#[derive(Clone)]
pub(in crate::admission::hooks) struct Facts<'k> {
    pub object: Option<&'k Map<String, Json>>,
    pub old_object: Option<&'k Map<String, Json>>,
    pub request: &'k Json,
    /// The namespace of the request's object, or null.
    pub namespace: &'k Json,
    /// The parameter, or null.
    pub params: &'k Json,
    /// The answers that `authorizer` knows, and the question that `authorizer.requestResource`
    /// begins. `None` where expressions may not ask.
    pub permissions: Option<(Arc<Answers>, Request)>,
}

impl<'k> Facts<'k> {
    fn value(&self, name: &str) -> Option<Value<'k>> {
        let object = |members: Option<&'k Map<String, Json>>| {
            members.map_or(Value::Null, Value::untyped_members)
        };
        Some(match name {
            "object" => object(self.object),
            "oldObject" => object(self.old_object),
            "request" => Value::untyped(self.request),
            "namespaceObject" => Value::untyped(self.namespace),
            "params" => Value::untyped(self.params),
            "authorizer" => {
                let (answers, _) = self.permissions.as_ref()?;
                Authorized::value(Arc::clone(answers) as _)
            }
            "authorizer.requestResource" => {
                let (answers, request) = self.permissions.as_ref()?;
                Authorized::resource(Arc::clone(answers) as _, request.clone())
            }
            _ => return None,
        })
    }
}

/// The reason why no expression of an evaluation counts: all together cost too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "validation failed due to running out of cost budget, no further validation rules will be run"
)]
pub(in crate::admission::hooks) struct OutOfBudget;

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission::hooks) enum Fault {
    /// It has no program.
    Compile(String),
    /// Its evaluation failed.
    Evaluation(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Fault::Compile(why) | Fault::Evaluation(why)) = self;
        f.write_str(why)
    }
}

/// An evaluation of expressions of a hook over facts.
pub(in crate::admission::hooks) struct Scope<'s, 'k> {
    declared: &'s Variables,
    facts: Facts<'k>,
    /// The cost of all expressions that is left.
    left: u64,
    work: Work,
    /// The variables that were used.
    variables: RefCell<HashMap<&'s str, Outcome<Value<'k>>>>,
    /// The cost of variables that no expression was charged for yet.
    variables_cost: Cell<u64>,
    depth: Cell<usize>,
}

impl<'s, 'k> Scope<'s, 'k> {
    /// Creates an evaluation that may cost so much.
    pub(in crate::admission::hooks) fn new(
        declared: &'s Variables,
        facts: Facts<'k>,
        limit: u64,
    ) -> Scope<'s, 'k> {
        Scope {
            declared,
            facts,
            left: limit,
            work: Work::default(),
            variables: RefCell::default(),
            variables_cost: Cell::new(0),
            depth: Cell::new(0),
        }
    }

    /// Returns the cost that is left.
    pub(in crate::admission::hooks) fn left(&self) -> u64 {
        self.left
    }

    /// Evaluates an expression. Asks about the permissions that it needs.
    ///
    /// # Errors
    /// The budget of the evaluation is spent.
    pub(in crate::admission::hooks) async fn evaluate(
        &mut self,
        expression: &Expression,
        asker: &dyn Asker,
    ) -> Result<Result<Value<'k>, Fault>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => {
                let why = format!("compilation error: {why}");
                return Ok(Err(Fault::Compile(why)));
            }
        };
        let found = loop {
            let found = self.run(program);
            if found.outcome.as_ref().err() == Some(&Failure::Unanswered)
                && let Some((answers, _)) = self.facts.permissions.clone()
                && answers.answer(asker).await
            {
                continue;
            }
            break found;
        };
        let cost = self.variables_cost.take().saturating_add(found.cost);
        if cost >= COST_OF_TURN {
            yield_now().await;
        }
        self.left = self.left.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(found.outcome.map_err(|why| {
            let text = &expression.text;
            Fault::Evaluation(format!("expression '{text}' resulted in error: {why}"))
        }))
    }

    fn run(&self, program: &crate::api::cel::Program) -> Evaluated<'k> {
        program.evaluate(|name| self.value(name), COST_MAX, &self.work)
    }

    fn value(&self, name: &str) -> Option<Outcome<Value<'k>>> {
        match name.strip_prefix("variables.") {
            Some(variable) => self.variable(variable),
            None => self.facts.value(name).map(Ok),
        }
    }

    fn variable(&self, name: &str) -> Option<Outcome<Value<'k>>> {
        let (name, expression) = self.declared.get_key_value(name)?;
        if let Some(known) = self.variables.borrow().get(&**name) {
            return Some(known.clone());
        }
        let outcome = self.evaluated(name, expression);
        if outcome.as_ref().err() != Some(&Failure::Unanswered) {
            let outcome = outcome.clone();
            self.variables.borrow_mut().insert(name, outcome);
        }
        Some(outcome)
    }

    fn evaluated(&self, name: &str, expression: &Expression) -> Outcome<Value<'k>> {
        let failed = |how: &str, why: &dyn std::fmt::Display| {
            let name = go_quote(name);
            Err(Failure::Error(
                format!("composited variable {name} fails to {how}: {why}").into(),
            ))
        };
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return failed("compile", why),
        };
        if self.depth.get() >= MAX_NESTED {
            return failed("evaluate", &"too many variables need each other");
        }
        self.depth.set(self.depth.get() + 1);
        let found = self.run(program);
        self.depth.set(self.depth.get() - 1);
        match found.outcome {
            Err(why @ (Failure::Unanswered | Failure::Abandoned)) => Err(why),
            outcome => {
                let cost = self.variables_cost.get().saturating_add(found.cost);
                self.variables_cost.set(cost);
                match outcome {
                    Ok(value) => Ok(value),
                    Err(why) => failed("evaluate", &why),
                }
            }
        }
    }
}
