//! The expressions of a policy, compiled. Pure.

use std::sync::Arc;
use std::time::Instant;

use super::definition::{Mutation, Spec};
use crate::admission::hooks::expression::{Compiler, Expression, Variables};
use crate::api::cel::Type;
use crate::kinds::validation::expressions::ADMISSION;
use crate::telemetry::expressions;

/// The compiled expressions of a policy, in the order of the policy.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub conditions: Vec<Expression>,
    /// The last one of several with the same name counts (HK-58).
    pub variables: Variables,
    pub validations: Vec<Expression>,
    /// The expressions of messages, where there are any.
    pub messages: Vec<Option<Expression>>,
    pub annotations: Vec<Expression>,
    pub mutations: Vec<MutationExpression>,
    /// Whether an expression may ask about permissions.
    pub asks: bool,
    /// Whether an expression names the namespace of the request.
    pub names_namespace: bool,
    /// Whether an expression names the managed fields, which are a large part of an object.
    pub names_managed_fields: bool,
}

/// The expression of a mutation.
#[derive(Debug)]
pub(super) enum MutationExpression {
    /// It builds an object that is applied.
    Apply(Expression),
    /// It builds a JSON patch.
    Patch(Expression),
}

impl Compiled {
    /// Compiles the expressions of a policy.
    pub(super) fn of(spec: &Spec) -> Compiled {
        let began = Instant::now();
        let compiled = Compiled::made(spec);
        expressions::compiled(began.elapsed());
        compiled
    }

    fn made(spec: &Spec) -> Compiled {
        let mut compiler = Compiler::of(texts(spec));
        let mut environment = match spec.param_kind {
            Some(_) => ADMISSION.clone().with("params", Type::Dyn),
            None => ADMISSION.clone(),
        };
        if !spec.mutations.is_empty() || !spec.variables.is_empty() {
            environment = environment.with_variables();
        }
        let mut variables = Variables::new();
        for variable in &spec.variables {
            let (expression, result) = compiler.compile(&variable.expression, &environment);
            environment.declare(&variable.name, result.of_variable());
            variables.insert(variable.name.as_str().into(), expression);
        }
        let conditions = spec.match_conditions.iter().map(|one| &one.expression);
        let conditions = compiler.all(conditions, &environment);
        let validations = spec.validations.iter().map(|one| &one.expression);
        let validations = compiler.all(validations, &environment);
        let messages = spec.validations.iter().map(|one| {
            let text = &one.message_expression;
            (!text.is_empty()).then(|| compiler.compile(text, &environment).0)
        });
        let messages = messages.collect();
        let annotations = spec.audit_annotations.iter();
        let annotations = annotations.map(|one| &one.value_expression);
        let annotations = compiler.all(annotations, &environment);
        let environment = environment.with_objects();
        let mutations = spec.mutations.iter().map(|mutation| {
            let (text, is_patch) = mutation_text(mutation);
            let expression = compiler.compile(text, &environment).0;
            match is_patch {
                true => MutationExpression::Patch(expression),
                false => MutationExpression::Apply(expression),
            }
        });
        Compiled {
            mutations: mutations.collect(),
            conditions,
            variables,
            validations,
            messages,
            annotations,
            asks: compiler.asks,
            names_namespace: compiler.names_namespace,
            names_managed_fields: compiler.names_managed_fields,
        }
    }
}

/// Returns the expression of a mutation, and whether it builds a JSON patch.
fn mutation_text(mutation: &Mutation) -> (&Arc<str>, bool) {
    let is_patch = mutation.patch_type == "JSONPatch";
    let patch = match is_patch {
        true => &mutation.json_patch,
        false => &mutation.apply_configuration,
    };
    (&patch.expression, is_patch)
}

fn texts(spec: &Spec) -> impl Iterator<Item = &Arc<str>> {
    let conditions = spec.match_conditions.iter().map(|one| &one.expression);
    let variables = spec.variables.iter().map(|one| &one.expression);
    let validations = spec
        .validations
        .iter()
        .flat_map(|one| [&one.expression, &one.message_expression]);
    let annotations = spec
        .audit_annotations
        .iter()
        .map(|one| &one.value_expression);
    let mutations = spec.mutations.iter().map(|one| mutation_text(one).0);
    let all = conditions.chain(variables).chain(validations);
    all.chain(annotations).chain(mutations)
}
