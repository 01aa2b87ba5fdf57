//! The evaluation of rules over an object.

use serde_json::Value as Json;

use super::super::values::{Outcome, Value, Work};
use super::compile::{Node, Rule};
use super::correlation::{Keyed, Pair, Ratchet, keys};
use super::field_path::Place;
use super::messages::{self, Computed};
use super::subject::Subject;
use super::{CALL_LIMIT, Checking, Verdict};
use crate::field_error::{FieldError, FieldErrorKind};

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The error if no cost is left.
const EXHAUSTED: &str = "validation failed due to running out of cost budget, no further \
                         validation rules will be run";

/// Evaluates rules over an object.
pub(super) fn check<'o>(
    node: &'o Node,
    object: Subject<'o>,
    checking: Checking<'o>,
    work: &Work,
) -> Verdict {
    let mut run = Run {
        verdict: Verdict {
            left: checking.budget,
            ..Verdict::default()
        },
        work,
    };
    let old = checking.old.filter(|old| !old.is_null());
    let pair = checking
        .old
        .filter(|_| checking.is_ratcheting)
        .map(|old| Pair {
            new: object,
            old,
            shape: &node.shape,
        });
    let part = Part {
        value: object,
        old,
        ratchet: Ratchet::of(pair),
    };
    run.node(node, &Place::OBJECT, part);
    run.verdict
}

/// A part of an object.
#[derive(Clone, Copy)]
struct Part<'o> {
    value: Subject<'o>,
    /// The part before the update, for transition rules.
    old: Option<Subject<'o>>,
    ratchet: Ratchet<'o>,
}

/// The values that rules of a part see.
struct Variables<'o> {
    value: Outcome<Value<'o>>,
    old: Option<Outcome<Value<'o>>>,
}

struct Run<'r> {
    verdict: Verdict,
    work: &'r Work,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.verdict.left < 0
    }

    /// Evaluates the rules of a part and of the parts below it.
    fn node<'o>(&mut self, node: &'o Node, place: &Place<'_>, part: Part<'o>) {
        if part.value.is_null() {
            return;
        }
        self.rules(node, place, part);
        for all_of in &node.all_of {
            if self.is_over() {
                return;
            }
            let part = Part {
                ratchet: part.ratchet.of_all(),
                ..part
            };
            self.below(all_of, place, part);
        }
        if self.is_over() {
            return;
        }
        if let Some(items) = part.value.items() {
            self.items(node, place, part, items);
        } else if let Some(members) = part.value.members() {
            self.members(node, place, part, members);
        }
    }

    fn below<'o>(&mut self, node: &'o Node, place: &Place<'_>, part: Part<'o>) {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.node(node, place, part));
    }

    fn items<'o>(&mut self, node: &'o Node, place: &Place<'_>, part: Part<'o>, items: &'o [Json]) {
        let Some(rules) = &node.items else { return };
        let old = part.old.and_then(Subject::items);
        let keyed = keys(&node.shape)
            .zip(old)
            .map(|(keys, old)| Keyed::of(old, keys));
        for (at, item) in items.iter().enumerate() {
            let old = keyed.as_ref().and_then(|keyed| keyed.get(item));
            let part = Part {
                value: item.into(),
                old: old.filter(|old| !old.is_null()).map(Subject::Value),
                ratchet: part.ratchet.item(item, old),
            };
            self.below(rules, &place.item(at), part);
            if self.is_over() {
                return;
            }
        }
    }

    fn members<'o>(
        &mut self,
        node: &'o Node,
        place: &Place<'_>,
        part: Part<'o>,
        members: &'o serde_json::Map<String, Json>,
    ) {
        let member = |name: &str, value: &'o Json| Part {
            value: value.into(),
            old: part
                .old
                .and_then(|old| old.get(name))
                .filter(|old| !old.is_null())
                .map(Subject::Value),
            ratchet: part.ratchet.key(name),
        };
        if let Some(rules) = &node.additional {
            for (name, value) in members {
                self.below(rules, &place.key(name), member(name, value));
                if self.is_over() {
                    return;
                }
            }
        }
        for (name, rules) in &node.properties {
            if let Some(value) = members.get(&**name) {
                self.below(rules, &place.member(name), member(name, value));
                if self.is_over() {
                    return;
                }
            }
        }
    }

    /// Adds an error about the evaluation, which shows the type of the part.
    fn fault(&mut self, node: &Node, place: &Place<'_>, detail: String) {
        let error = FieldError::invalid(place.to_string(), &*node.kind, detail);
        self.verdict.errors.push(error);
    }

    fn rules<'o>(&mut self, node: &'o Node, place: &Place<'_>, part: Part<'o>) {
        let rules = match &node.rules {
            Err(why) => {
                let detail = format!("rule compiler initialization error: {why}");
                return self.fault(node, place, detail);
            }
            Ok(rules) if rules.is_empty() => return,
            Ok(rules) => rules,
        };
        if self.verdict.left <= 0 {
            self.verdict.left = -1;
            return self.fault(node, place, EXHAUSTED.to_owned());
        }
        let old = part.old.filter(|_| node.has_transitions);
        let variables = Variables {
            value: part.value.shaped(&node.shape),
            old: old.map(|old| old.shaped(&node.shape)),
        };
        for rule in rules {
            let program = match &rule.program {
                Ok(Some(program)) => program,
                Ok(None) => continue,
                Err(why) => {
                    self.fault(node, place, format!("rule compile error: {why}"));
                    continue;
                }
            };
            if rule.uses_old && part.old.is_none() && !rule.has_optional_old {
                continue;
            }
            let found = program.evaluate(
                |name| variables.of(name, rule.has_optional_old),
                CALL_LIMIT,
                self.work,
            );
            let cost = i64::try_from(found.cost).unwrap_or(i64::MAX);
            if cost > self.verdict.left {
                self.verdict.left = -1;
                return self.fault(node, place, EXHAUSTED.to_owned());
            }
            self.verdict.left -= cost;
            match &found.outcome {
                Ok(Value::Bool(true)) => {}
                Err(failure) => {
                    let (detail, is_last) = messages::fault(failure, rule);
                    self.fault(node, place, detail);
                    if is_last {
                        self.verdict.left = -1;
                        return;
                    }
                }
                Ok(_) => {
                    self.failed(node, rule, place, part, &variables);
                    if self.is_over() {
                        return;
                    }
                }
            }
        }
    }

    /// Adds the error of a rule that does not hold.
    fn failed(
        &mut self,
        node: &Node,
        rule: &Rule,
        place: &Place<'_>,
        part: Part<'_>,
        variables: &Variables<'_>,
    ) {
        let path = match &rule.field {
            Some(field) => place.member(field).to_string(),
            None => place.to_string(),
        };
        let mut detail = None;
        if let Some((program, text)) = &rule.message_program {
            // The message sees the old value itself, also if the rule sees an optional one.
            let variable = |name: &str| variables.of(name, false);
            let found = program.evaluate(variable, messages::LIMIT, self.work);
            match messages::computed(&found, text, self.verdict.left) {
                Computed::Message(message, cost) => {
                    self.verdict.left -= cost;
                    detail = Some(message);
                }
                Computed::Unusable(cost) => self.verdict.left -= cost,
                Computed::Fatal(why) => {
                    self.verdict.left = -1;
                    let error = FieldError::invalid(path, &*node.kind, why);
                    return self.report(error, rule, part);
                }
            }
        }
        let detail = detail.unwrap_or_else(|| messages::plain(rule));
        let shows_value = !matches!(&*node.kind, "object" | "array");
        let error = match (rule.kind, shows_value) {
            (FieldErrorKind::Forbidden, _) => FieldError::forbidden(path, detail),
            (FieldErrorKind::Required, _) => FieldError::required(path, detail),
            // The error for a duplicate has no words of its own.
            (FieldErrorKind::Duplicate, true) => {
                FieldError::new(FieldErrorKind::Duplicate, path, &part.value.to_json(), "")
            }
            (FieldErrorKind::Duplicate, false) => {
                FieldError::without_value(FieldErrorKind::Duplicate, path, "")
            }
            (kind, true) => FieldError::new(kind, path, &part.value.to_json(), detail),
            (kind, false) => FieldError::without_value(kind, path, detail),
        };
        self.report(error, rule, part);
    }

    /// Adds an error, or a warning if the part is unchanged.
    fn report(&mut self, error: FieldError, rule: &Rule, part: Part<'_>) {
        let list = match !rule.uses_old && part.ratchet.forgives(self.work) {
            true => &mut self.verdict.warnings,
            false => &mut self.verdict.errors,
        };
        list.push(error);
    }
}

impl<'o> Variables<'o> {
    /// Returns the value of a name.
    fn of(&self, name: &str, is_optional: bool) -> Option<Outcome<Value<'o>>> {
        match (name, is_optional) {
            ("self", _) => Some(self.value.clone()),
            ("oldSelf", false) => self.old.clone(),
            ("oldSelf", true) => Some(match &self.old {
                Some(old) => old.clone().map(Value::some),
                None => Ok(Value::Optional(None)),
            }),
            _ => None,
        }
    }
}
