//! Compilation of rules.

use serde_json::Value as Json;

use super::super::estimate::Range;
use super::super::eval::Program;
use super::super::shape::{Kind, Shape};
use super::super::types::Type;
use super::super::{Checked, Environment, Refused, check};
use super::field_path::named_field;
use crate::field_error::FieldErrorKind;
use crate::structural::Budget;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The rules of a schema and of the schemas below it.
#[derive(Debug)]
pub(super) struct Node {
    pub shape: Shape,
    /// The type in the schema, which errors show.
    pub kind: Box<str>,
    /// The rules, or why none of them can be compiled.
    pub rules: Result<Box<[Rule]>, String>,
    /// Whether any rule looks at the old value.
    pub has_transitions: bool,
    pub items: Option<Box<Node>>,
    /// The rules of named members, sorted by name.
    pub properties: Box<[(Box<str>, Node)]>,
    /// The rules of all other members.
    pub additional: Option<Box<Node>>,
    pub all_of: Box<[Node]>,
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// The program, nothing for an empty rule, or why it can't be compiled.
    pub program: Result<Option<Program>, String>,
    pub text: Box<str>,
    pub uses_old: bool,
    /// Whether it is evaluated without an old value, too.
    pub has_optional_old: bool,
    pub message: Box<str>,
    /// The expression for the message, with its text.
    pub message_program: Option<(Program, Box<str>)>,
    pub kind: FieldErrorKind,
    /// The path of the field that errors name.
    pub field: Option<Box<str>>,
}

/// A fault in a rule, in words. Clients see it together with the rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleFault {
    /// A fault in the rule.
    Rule(String),
    /// A fault in the expression for the message.
    Message(String),
    /// The budget was spent before everything was checked.
    Spent,
}

/// A compiled rule, for the validation of a definition.
#[derive(Debug, Default)]
pub struct CompiledRule {
    /// The estimate of the rule, if it has no fault.
    pub cost: Option<Range>,
    /// The estimate of the expression for the message, if there is one without a fault.
    pub message_cost: Option<Range>,
    /// Whether the rule looks at the old value.
    pub uses_old: bool,
    /// The fault, at most one: the expression for the message of a rule with a fault is not read.
    pub fault: Option<RuleFault>,
}

/// The names that the rules of a schema know.
#[derive(Debug)]
pub struct Scope {
    plain: Environment,
    /// With an optional old value.
    optional: Environment,
}

impl Scope {
    /// Returns the names for values of a shape, or `None` if rules can't see them.
    pub fn of(shape: &Shape, budget: &Budget) -> Option<Scope> {
        let of = shape.declared(budget)?;
        let plain = Environment::default().with("self", of.clone());
        Some(Scope {
            optional: plain.clone().with("oldSelf", Type::optional(of.clone())),
            plain: plain.with("oldSelf", of),
        })
    }

    fn environment(&self, rule: &Json) -> &Environment {
        match has_optional_old(rule) {
            true => &self.optional,
            false => &self.plain,
        }
    }
}

fn has_optional_old(rule: &Json) -> bool {
    rule.get("optionalOldSelf") == Some(&Json::Bool(true))
}

/// Compiles a rule of a schema with this shape, and estimates its costs. A rule whose expression
/// for the message has a fault is compiled nevertheless.
pub fn compiled(rule: &Json, scope: &Scope, shape: &Shape, budget: &Budget) -> CompiledRule {
    let text = |name: &str| rule.get(name).and_then(Json::as_str).unwrap_or_default();
    let environment = scope.environment(rule);
    let mut found = CompiledRule::default();
    match checked_rule(text("rule"), environment, budget) {
        Err(fault) => {
            found.fault = Some(fault);
            return found;
        }
        Ok(checked) => {
            found.uses_old = uses_old(&checked);
            match program(&checked) {
                Err(why) => found.fault = Some(RuleFault::Rule(why)),
                Ok(_) => found.cost = checked.estimate(shape, budget),
            }
        }
    }
    let message = text("messageExpression");
    if found.fault.is_none() && !message.is_empty() {
        match checked_message(message, environment, budget) {
            Ok((checked, _)) => found.message_cost = checked.estimate(shape, budget),
            Err(fault) => found.fault = Some(fault),
        }
    }
    if budget.is_spent() {
        found.fault = Some(RuleFault::Spent);
    }
    found
}

fn uses_old(checked: &Checked) -> bool {
    checked.names.iter().any(|name| name == "oldSelf")
}

fn checked_rule(
    text: &str,
    environment: &Environment,
    budget: &Budget,
) -> Result<Checked, RuleFault> {
    let checked = check(text, environment, budget).map_err(|refused| match refused {
        Refused::Spent => RuleFault::Spent,
        Refused::Wrong(why) => RuleFault::Rule(format!("compilation failed: {why}")),
    })?;
    if checked.result != Type::Bool {
        let why = "cel expression must evaluate to a bool";
        return Err(RuleFault::Rule(why.to_owned()));
    }
    Ok(checked)
}

fn program(checked: &Checked) -> Result<Program, String> {
    let program = checked.program();
    program.map_err(|why| format!("program instantiation failed: {why}"))
}

fn checked_message(
    text: &str,
    environment: &Environment,
    budget: &Budget,
) -> Result<(Checked, Program), RuleFault> {
    let wrong = |why: String| RuleFault::Message(format!("messageExpression {why}"));
    let checked = check(text, environment, budget).map_err(|refused| match refused {
        Refused::Spent => RuleFault::Spent,
        Refused::Wrong(why) => wrong(format!("compilation failed: {why}")),
    })?;
    if checked.result != Type::String {
        return Err(wrong("must evaluate to a string".to_owned()));
    }
    match checked.program() {
        Ok(program) => Ok((checked, program)),
        Err(why) => Err(wrong(format!("instantiation failed: {why}"))),
    }
}

/// Returns whether a schema or one below it has rules. Alternatives do not count. Once the budget
/// is spent, it may have some.
fn has_rules(schema: &Json, budget: &Budget) -> bool {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
        let below = |of: &Json| has_rules(of, budget);
        !budget.take(1)
            || !rules_of(schema).is_empty()
            || schema.get("items").is_some_and(below)
            || schema.get("additionalProperties").is_some_and(below)
            || properties_of(schema).any(|(_, of)| below(of))
    })
}

fn rules_of(schema: &Json) -> &[Json] {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Json::as_array);
    rules.map(Vec::as_slice).unwrap_or_default()
}

fn properties_of(schema: &Json) -> impl Iterator<Item = (&String, &Json)> {
    schema
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
}

impl Node {
    /// Returns whether its rules, and those of its `allOf`, see an object as a map of its members.
    pub fn reads_members(&self) -> bool {
        matches!(self.shape.kind, Kind::Object(_) | Kind::Map(_))
            && self.all_of.iter().all(Node::reads_members)
    }

    /// Compiles the rules of a schema, if it has any.
    pub(super) fn of(schema: &Json, is_root: bool, budget: &Budget) -> Option<Node> {
        if !has_rules(schema, budget) {
            return None;
        }
        let shape = Shape::of(schema, is_root, budget);
        compiled_node(schema, schema, &shape, budget)
    }
}

/// Compiles rules about values of a schema `of`. They stand in a schema of their own inside of
/// `allOf`.
fn compiled_node(rules: &Json, of: &Json, shape: &Shape, budget: &Budget) -> Option<Node> {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || node(rules, of, shape, budget))
}

fn node(rules: &Json, of: &Json, shape: &Shape, budget: &Budget) -> Option<Node> {
    let below = |name: &str| {
        let rules = rules.get(name).filter(|rules| rules.is_object())?;
        let of = of.get(name).filter(|of| of.is_object())?;
        compiled_node(rules, of, shape.element()?, budget).map(Box::new)
    };
    let members = properties_of(rules).filter_map(|(name, rules)| {
        let of = of.get("properties")?.get(name)?;
        let shape = shape.property(name)?;
        // Members that only their names hide from expressions are checked nevertheless.
        if !shape.is_visible() {
            return None;
        }
        let node = compiled_node(rules, of, shape, budget)?;
        Some((Box::from(name.as_str()), node))
    });
    let properties: Box<[(Box<str>, Node)]> = members.collect();
    let all_of = rules.get("allOf").and_then(Json::as_array);
    let all_of = all_of.into_iter().flatten();
    let all_of: Box<[Node]> = all_of
        .filter_map(|rules| compiled_node(rules, of, shape, budget))
        .collect();
    let (items, additional) = (below("items"), below("additionalProperties"));
    let compiled = compiled_rules(rules_of(rules), of, shape, budget);
    let is_empty = compiled.as_ref().is_ok_and(|rules| rules.is_empty())
        && items.is_none()
        && additional.is_none()
        && properties.is_empty()
        && all_of.is_empty();
    if is_empty {
        return None;
    }
    let has_transitions = compiled
        .as_ref()
        .is_ok_and(|rules| rules.iter().any(|rule| rule.uses_old));
    Some(Node {
        shape: shape.clone(),
        kind: of
            .get("type")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .into(),
        rules: compiled,
        has_transitions,
        items,
        properties,
        additional,
        all_of,
    })
}

fn compiled_rules(
    rules: &[Json],
    of: &Json,
    shape: &Shape,
    budget: &Budget,
) -> Result<Box<[Rule]>, String> {
    if rules.is_empty() {
        return Ok(Box::default());
    }
    let Some(scope) = Scope::of(shape, budget) else {
        return Err("failed to convert to declType for CEL validation rules".to_owned());
    };
    let rules = rules.iter();
    Ok(rules
        .map(|rule| compiled_rule(rule, of, &scope, budget))
        .collect())
}

fn compiled_rule(rule: &Json, of: &Json, scope: &Scope, budget: &Budget) -> Rule {
    let environment = scope.environment(rule);
    let text = |name: &str| rule.get(name).and_then(Json::as_str).unwrap_or_default();
    let mut found = Rule {
        program: Ok(None),
        text: text("rule").trim().into(),
        uses_old: false,
        has_optional_old: has_optional_old(rule),
        message: text("message").into(),
        message_program: None,
        kind: match text("reason") {
            "FieldValueForbidden" => FieldErrorKind::Forbidden,
            "FieldValueRequired" => FieldErrorKind::Required,
            "FieldValueDuplicate" => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        },
        field: None,
    };
    if found.text.is_empty() {
        return found;
    }
    let spent = || "the expression takes too long to compile".to_owned();
    match checked_rule(text("rule"), environment, budget) {
        Ok(checked) => {
            found.uses_old = uses_old(&checked);
            found.program = program(&checked).map(Some);
            if found.program.is_err() {
                return found;
            }
        }
        Err(RuleFault::Rule(why) | RuleFault::Message(why)) => {
            found.program = Err(why);
            return found;
        }
        Err(RuleFault::Spent) => {
            found.program = Err(spent());
            return found;
        }
    }
    let message = text("messageExpression");
    if !message.is_empty() {
        match checked_message(message, environment, budget) {
            Ok((_, program)) => found.message_program = Some((program, message.into())),
            // Without its message the rule has no field either, as in Kubernetes.
            Err(_) => return found,
        }
    }
    found.field = named_field(text("fieldPath"), of).map(Box::from);
    found
}
