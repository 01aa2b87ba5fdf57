//! Validation of the CEL rules in schemas (CRD-48 to CRD-52).

use api::cel::Shape;
use api::cel::estimate::limits::{Cardinality, EXPRESSION_LIMIT, SCHEMA_LIMIT, Total, excess};
use api::cel::rules::{CompiledRule, RuleFault, Scope, compiled};
use api::error_list::ErrorList;
use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};
use api::structural::Budget;

use super::{MAX_ERRORS, paths};
use crate::types::internal::internal_json;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn has_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Validates rules, except their expressions.
pub fn validate_rules(schema: &Field<'_>, errors: &mut ErrorList) {
    let rules = schema.member("x-kubernetes-validations");
    for rule in rules.items() {
        if errors.reported() >= MAX_ERRORS {
            return;
        }
        validate_rule(&rule, errors);
        let path = rule.member("fieldPath");
        let (text, value) = (path.text(), schema.value());
        if text.is_empty() {
            continue;
        }
        if text.trim().is_empty() {
            errors.push(path.invalid("must be non-empty if specified"));
        }
        if has_break(text) {
            errors.push(path.invalid("must not contain line breaks"));
        }
        if value.is_none_or(|value| paths::find(text, value, true).is_err()) {
            errors.push(path.invalid("must be a valid path"));
        }
    }
}

fn validate_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    let (expression, message) = (rule.member("rule"), rule.member("message"));
    let (text, words) = (expression.text().trim(), message.text().trim());
    if text.is_empty() {
        errors.push(expression.required("rule is not specified"));
    } else if !message.text().is_empty() && words.is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if has_break(words) {
        errors.push(message.invalid("must not contain line breaks"));
    } else if has_break(text) && words.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(message.required(detail));
    }
    let computed = rule.member("messageExpression");
    if !computed.text().is_empty() && computed.text().trim().is_empty() {
        errors.push(computed.required("messageExpression must be non-empty if specified"));
    }
    let reason = rule.member("reason");
    if reason.is_set() && !REASONS.contains(&reason.text()) {
        errors.push(reason.not_supported(&REASONS));
    }
}

/// The name of the rule type in errors that show a rule.
const RULE: &str = "apiextensions.v1.ValidationRule";

/// The bytes of a path that are copied in one step of the budget.
const PATH_BYTES_IN_STEP: usize = 256;

/// The place of rules in a schema.
#[derive(Clone, Copy)]
pub struct Place<'p> {
    /// The shape of the values, as far as the rules around it know it.
    pub shape: Known<'p>,
    /// How often the values can occur.
    pub cardinality: Cardinality,
    /// An enclosing part whose members cannot be correlated with those of the old object, which
    /// forbids transition rules.
    pub uncorrelatable: Option<&'p Field<'p>>,
}

/// The shape of values, as far as rules around them see them.
#[derive(Clone, Copy)]
pub enum Known<'p> {
    /// No schema around this one has rules.
    Unseen,
    /// A schema around this one has rules, but values of it have no type in expressions.
    Untyped,
    Shape(&'p Shape),
}

impl<'p> Known<'p> {
    pub fn of(shape: &'p Shape) -> Known<'p> {
        match shape.is_visible() {
            true => Known::Shape(shape),
            false => Known::Untyped,
        }
    }

    /// Returns what is known about a part.
    pub fn part(self, of: impl Fn(&'p Shape) -> Option<&'p Shape>) -> Known<'p> {
        match self {
            Known::Shape(shape) => of(shape).map_or(Known::Unseen, Known::of),
            other => other,
        }
    }
}

/// The faults of expressions, and their costs.
pub struct Expressions<'b> {
    pub errors: ErrorList,
    /// Whether the cost of each expression is limited.
    pub limits_each: bool,
    pub budget: &'b Budget,
    total: Total<String>,
}

impl<'b> Expressions<'b> {
    pub fn new(limits_each: bool, budget: &'b Budget) -> Expressions<'b> {
        Expressions {
            errors: ErrorList::new(),
            limits_each,
            budget,
            total: Total::default(),
        }
    }

    /// Compiles the rules of a schema (CRD-49 to CRD-51).
    pub fn compile(&mut self, schema: &Field<'_>, place: Place<'_>) {
        let rules = schema.member("x-kubernetes-validations");
        let scope = match place.shape {
            Known::Shape(shape) => Scope::of(shape, self.budget).map(|scope| (scope, shape)),
            Known::Untyped | Known::Unseen => None,
        };
        let Some((scope, shape)) = scope else {
            self.errors.push(rules.fault(
                FieldErrorKind::Internal,
                "internal error: failed to construct type information for \
                 x-kubernetes-validations rules: unable to convert structural schema to CEL \
                 declarations",
            ));
            return;
        };
        for rule in rules.items() {
            if self.errors.reported() >= MAX_ERRORS {
                return;
            }
            let Some(value) = rule.value() else { continue };
            let found = compiled(value, &scope, shape, self.budget);
            if found.fault == Some(RuleFault::Spent) {
                let refusal = self.budget.refusal();
                self.errors.extend(refusal.map(|why| rules.forbidden(why)));
                return;
            }
            let cost = found
                .cost
                .map(|cost| place.cardinality.cost(cost.max, shape));
            self.check(&rule, &found, cost);
            self.check_old(&rule, &found, place.uncorrelatable);
        }
    }

    /// Reports the faults of a rule, whose cost includes all of its runs over an object.
    fn check(&mut self, rule: &Field<'_>, found: &CompiledRule, cost: Option<u64>) {
        let (expression, message) = (rule.member("rule"), rule.member("messageExpression"));
        if let Some(cost) = cost {
            self.spend(&expression, "estimated rule cost", cost);
        }
        let (place, why) = match &found.fault {
            Some(RuleFault::Rule(why)) => (&expression, why),
            Some(RuleFault::Message(why)) => (&message, why),
            Some(RuleFault::Spent) | None => {
                // The message is computed once for each error, whatever the number of values.
                if let Some(cost) = found.message_cost {
                    self.spend(&message, "estimated messageExpression cost", cost.max);
                }
                return;
            }
        };
        let shown = internal_json(RULE, rule.value());
        let error = FieldError::invalid_document(place.path(), &shown, why.clone());
        self.errors.push(error);
    }

    fn spend(&mut self, expression: &Field<'_>, what: &str, cost: u64) {
        if self.limits_each && cost > EXPRESSION_LIMIT {
            let why = excess(what, cost, EXPRESSION_LIMIT);
            self.errors.push(expression.forbidden(why));
        }
        let budget = self.budget;
        self.total.add(cost, || {
            let path = expression.path();
            // A spent budget is reported with the next rule.
            let _is_left = budget.take(path.len() / PATH_BYTES_IN_STEP);
            path
        });
    }

    fn check_old(
        &mut self,
        rule: &Field<'_>,
        found: &CompiledRule,
        uncorrelatable: Option<&Field<'_>>,
    ) {
        let (expression, optional) = (rule.member("rule"), rule.member("optionalOldSelf"));
        if found.uses_old {
            if let Some(within) = uncorrelatable {
                self.errors.push(expression.invalid(format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {within}"
                )));
            }
        } else if optional.is_set() {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(optional.invalid(detail));
        }
    }

    /// Reports that all expressions of a schema cost too much, and which contribute most.
    pub fn check_total(&mut self, schema: &Field<'_>) {
        let Some(greatest) = self.total.exceeding() else {
            return;
        };
        for path in greatest {
            self.errors.push(FieldError::forbidden(
                path.as_str(),
                "contributed to estimated rule cost total exceeding cost limit for entire \
                 OpenAPIv3 schema",
            ));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = excess(what, self.total.cost(), SCHEMA_LIMIT);
        self.errors.push(schema.forbidden(why));
    }
}
