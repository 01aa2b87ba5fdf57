//! Compiled expressions of hooks. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use crate::api::cel::{Environment, Program, Refused, Type, check};
use crate::api::structural::Budget;

/// An expression with its program, or with the error of its compilation. A stored expression was
/// valid when it was written.
#[derive(Debug)]
pub(super) struct Expression {
    pub text: Arc<str>,
    pub program: Result<Program, String>,
}

/// The variables of a policy, by name.
pub(super) type Variables = HashMap<Box<str>, Expression>;

/// Compiles expressions that share one budget.
pub(super) struct Compiler {
    budget: Budget,
    /// Whether an expression may ask about permissions.
    pub asks: bool,
    /// Whether an expression names the namespace of the request.
    pub names_namespace: bool,
    /// Whether an expression names managed fields.
    pub names_managed_fields: bool,
}

impl Compiler {
    /// Creates a compiler with the budget of these texts.
    pub(super) fn of<'t>(texts: impl Iterator<Item = &'t Arc<str>>) -> Compiler {
        Compiler {
            budget: Budget::of_expressions(texts.map(|text| text.len()).sum()),
            asks: false,
            names_namespace: false,
            names_managed_fields: false,
        }
    }

    /// Compiles an expression. Returns its type, too.
    pub(super) fn compile(
        &mut self,
        text: &Arc<str>,
        environment: &Environment,
    ) -> (Expression, Type) {
        self.asks |= text.contains("authorizer");
        self.names_namespace |= text.contains("namespaceObject");
        self.names_managed_fields |= text.contains("managedFields");
        let checked = check(text, environment, &self.budget);
        let (program, result) = match checked {
            Ok(checked) => (checked.program(), checked.result),
            Err(Refused::Wrong(why)) => (Err(format!("compilation failed: {why}")), Type::Dyn),
            Err(Refused::Spent) => {
                let why = "compilation failed: the expression takes too long to check";
                (Err(why.to_owned()), Type::Dyn)
            }
        };
        let expression = Expression {
            text: Arc::clone(text),
            program,
        };
        (expression, result)
    }

    /// Compiles expressions of one environment.
    pub(super) fn all<'t>(
        &mut self,
        texts: impl Iterator<Item = &'t Arc<str>>,
        environment: &Environment,
    ) -> Vec<Expression> {
        texts
            .map(|text| self.compile(text, environment).0)
            .collect()
    }
}
