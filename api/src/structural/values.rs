//! Validation of values by schemas, with the errors of kube-apiserver (CRD-38, CRD-39, CRD-150 to
//! CRD-157). They are in its order: type, combinations, text, format, number, list, enum, object.

use serde_json::{Map, Value};

use super::check::{Check, MAX_FAULTS};
use super::faults::{Shown, ValueFault, ValueFaultKind};
use super::kind::SchemaKind;
use super::node::{Additional, Node};
use super::numbers::{GoNumber, is_value_of_enum, is_whole};
use super::ratchet::{self, OldItems};
use super::view::{Path, View};
use super::{Budget, numeric};
use crate::text::quoting::beginning;

/// The bytes of a text for one step.
const BYTES_IN_STEP: usize = 64;

/// The members of objects, and the compared values, for one step.
const MEMBERS_IN_STEP: usize = 8;

/// The steps to check a format, and the bytes of the text for each further one.
const FORMAT_STEPS: usize = 10;
const FORMAT_BYTES_IN_STEP: usize = 16;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// Validates a value. On an update, `old` is the value before it, whose unchanged parts may keep
/// their errors (CRD-160). If the budget is spent, errors may be missing.
pub fn validate_value<'v>(
    value: impl Into<View<'v>>,
    old: Option<View<'v>>,
    schema: Node<'v>,
    budget: &Budget,
) -> Vec<ValueFault<'v>> {
    let mut check = Check::new(budget);
    check.node(value.into(), old, schema, &Path::Top);
    check.faults
}

/// Validates a default. kube-apiserver checks no type of one that is an integer or a text.
pub fn validate_default<'v>(
    value: &'v Value,
    schema: Node<'v>,
    budget: &Budget,
) -> Vec<ValueFault<'v>> {
    let mut check = Check {
        is_default: true,
        ..Check::new(budget)
    };
    check.node(value.into(), None, schema, &Path::Top);
    check.faults
}

/// The result of validating a value by a schema in `allOf`, `anyOf`, `oneOf` or `not`.
struct Attempt<'v> {
    is_valid: bool,
    /// The number of successful checks.
    matches: usize,
    /// The errors, unless they were only counted.
    faults: Vec<ValueFault<'v>>,
}

impl<'v> Check<'_, 'v> {
    /// Validates a value by a schema. All other checks happen inside this step. The errors of a
    /// value that equals the old one are dropped.
    pub fn node(
        &mut self,
        value: View<'v>,
        old: Option<View<'v>>,
        schema: Node<'v>,
        path: &Path<'_>,
    ) {
        if self.faults.len() >= MAX_FAULTS || !self.budget.take(1) {
            return;
        }
        crate::cost::visited();
        let before = self.faults.len();
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match value {
            View::Null => {
                self.null(schema, path);
                self.known_values(value, schema, path);
            }
            _ => self.value_here(value, old, schema, path),
        });
        if self.faults.len() > before
            && let Some(old) = old
            && ratchet::is_same(&mut self.is_same, value, old, schema)
        {
            self.faults.truncate(before);
        }
    }

    fn null(&mut self, schema: Node<'v>, path: &Path<'_>) {
        if self.kind_of(schema) == SchemaKind::Any || schema.is_nullable() {
            self.matches += 1;
        } else {
            self.wrong_type(path, schema.type_name(), "null");
        }
    }

    /// Returns the type that a value must have.
    fn kind_of(&self, schema: Node<'v>) -> SchemaKind {
        match schema.kind() {
            SchemaKind::IntOrString if self.is_default => SchemaKind::Any,
            kind => kind,
        }
    }

    /// Validates a value that is not null. Counts the checks as kube-apiserver does: one for each
    /// validator that applies, and those inside it.
    fn value_here(
        &mut self,
        value: View<'v>,
        old: Option<View<'v>>,
        schema: Node<'v>,
        path: &Path<'_>,
    ) {
        let rules = schema.own_rules();
        if self.kind_of(schema) != SchemaKind::Any
            || rules.is_some_and(|rules| rules.format.is_some())
        {
            let fits = self.type_of(value, schema, path);
            self.matches += 1 + usize::from(fits);
        }
        self.combinations(value, schema, path);
        match value {
            View::Text(text) => self.text(value, text, schema, path),
            View::Number(number) => {
                let number = GoNumber::of(number);
                numeric::check(self, number, schema, path);
                self.matches += 2;
            }
            View::List(items) => self.list(items, old, schema, path),
            _ => {}
        }
        self.known_values(value, schema, path);
        if let View::Object(members) = value {
            self.object(members, old, schema, path);
            self.matches += 1;
        }
        // The common validator, and the whole.
        self.matches += 2;
    }

    /// Checks the type. Returns whether it fits.
    fn type_of(&mut self, value: View<'v>, schema: Node<'v>, path: &Path<'_>) -> bool {
        let (kind, format) = (self.kind_of(schema), schema.rules().format());
        let found = value.type_name();
        let is_number = matches!(kind, SchemaKind::Number | SchemaKind::Integer);
        let takes_integers = matches!(kind, SchemaKind::Integer | SchemaKind::IntOrString);
        let is_float_as_int = takes_integers
            && matches!(value, View::Number(number) if found == "number"
                && number.as_f64().is_some_and(is_whole));
        let is_int_as_float = found == "integer" && kind == SchemaKind::Number;
        let is_of_several =
            kind == SchemaKind::IntOrString && matches!(found, "integer" | "string");
        let fits = kind.name() == found || is_float_as_int || is_int_as_float || is_of_several;
        let is_sequence = matches!(value, View::Text(_) | View::List(_));
        if !format.is_empty() && !is_sequence {
            let found_format = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            if !fits && found_format != format {
                self.wrong_type(path, format, found_format);
                return false;
            }
        }
        let takes_numbers = is_number || kind == SchemaKind::IntOrString;
        if !takes_numbers && !format.is_empty() && is_sequence {
            return true;
        }
        if !fits {
            let wanted = match kind {
                SchemaKind::Unknown => schema.type_name(),
                kind => kind.name(),
            };
            self.wrong_type(path, wanted, found);
        }
        fits
    }

    /// Validates the value by another schema.
    fn attempt(
        &mut self,
        value: View<'v>,
        schema: Node<'v>,
        path: &Path<'_>,
        is_silent: bool,
    ) -> Attempt<'v> {
        let mut check = Check {
            is_default: self.is_default,
            is_silent,
            ..Check::new(self.budget)
        };
        check.node(value, None, schema, path);
        Attempt {
            is_valid: check.failures == 0,
            matches: check.matches,
            faults: check.faults,
        }
    }

    fn extend(&mut self, faults: Vec<ValueFault<'v>>) {
        for fault in faults {
            self.add(fault);
        }
    }

    /// Validates by the alternatives of a list. Returns how many hold. Reports nothing, but returns
    /// the errors of the best one that fails if none holds, and counts the checks of the one that
    /// is decisive.
    fn alternatives(
        &mut self,
        value: View<'v>,
        schemas: impl Iterator<Item = Node<'v>>,
        path: &Path<'_>,
        one_suffices: bool,
    ) -> (usize, Vec<ValueFault<'v>>) {
        let (mut valid, mut first_matches) = (0, 0);
        let mut best: Option<(Node<'v>, usize)> = None;
        for of in schemas {
            let found = self.attempt(value, of, path, true);
            if found.is_valid {
                if valid == 0 {
                    first_matches = found.matches;
                }
                valid += 1;
                if one_suffices {
                    break;
                }
            } else if valid == 0 && best.is_none_or(|(_, most)| found.matches > most) {
                best = Some((of, found.matches));
            }
        }
        self.matches += match (valid, best) {
            (0, Some((_, most))) => most,
            (1, _) => first_matches,
            _ => 0,
        };
        let best = best.filter(|_| valid == 0 && !self.is_silent);
        let faults = best.map(|(of, _)| self.attempt(value, of, path, false).faults);
        (valid, faults.unwrap_or_default())
    }

    fn combinations(&mut self, value: View<'v>, schema: Node<'v>, path: &Path<'_>) {
        self.matches += 2;
        let Some(rules) = schema.own_rules() else {
            return;
        };
        if !rules.any_of.is_empty() {
            let (valid, best) = self.alternatives(value, schema.any_of(), path, true);
            if valid == 0 {
                self.combination(path, "validate at least one schema (anyOf)");
                self.extend(best);
            }
        }
        if !rules.one_of.is_empty() {
            let (valid, best) = self.alternatives(value, schema.one_of(), path, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let wanted = format!("validate one and only one schema (oneOf). {found}");
                self.combination(path, &wanted);
                self.extend(best);
            }
        }
        if !rules.all_of.is_empty() {
            let mut valid = 0;
            for of in schema.all_of() {
                let found = self.attempt(value, of, path, self.is_silent);
                valid += usize::from(found.is_valid);
                self.matches += found.matches;
                self.extend(found.faults);
            }
            if valid != rules.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.combination(path, &format!("validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = schema.not()
            && self.attempt(value, not, path, true).is_valid
        {
            self.combination(path, "not validate the schema (not)");
        }
    }

    fn combination(&mut self, path: &Path<'_>, wanted: &str) {
        if let Some(shown) = self.keeps(path) {
            self.general(path, format_args!("{shown:?} must {wanted}"));
        }
    }

    fn text(&mut self, value: View<'v>, text: &'v str, schema: Node<'v>, path: &Path<'_>) {
        self.matches += 1;
        let Some(rules) = schema.own_rules() else {
            return;
        };
        if !self.budget.take(text.len() / BYTES_IN_STEP) {
            return;
        }
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let too_long = rules.max_length.filter(|limit| length() > *limit);
        let too_short = rules.min_length.filter(|limit| length() < *limit);
        if let Some(limit) = too_long {
            self.fault(path, ValueFaultKind::TooLong(limit));
        } else if let Some(limit) = too_short {
            let detail = format_args!("{path} in body should be at least {limit} chars long");
            self.invalid(path, Shown::Given(value), detail);
        } else if let Some(pattern) = &rules.pattern
            && pattern.matches(text, self.budget) == Some(false)
        {
            let detail = format_args!("{path} in body should match '{}'", pattern.text());
            self.invalid(path, Shown::Given(value), detail);
        }
        let is_number = matches!(schema.kind(), SchemaKind::Number | SchemaKind::Integer);
        let Some(format) = rules.format.as_ref().filter(|_| !is_number) else {
            return;
        };
        self.matches += 1;
        // The pattern of `hostname` has counted repetitions of letters, so each byte costs a step.
        let bytes_in_step = if format.is_costly() {
            1
        } else {
            FORMAT_BYTES_IN_STEP
        };
        if !self.budget.take(FORMAT_STEPS + text.len() / bytes_in_step) {
            return;
        }
        if !format.fits(text) {
            self.wrong_type(path, &format.name, text);
        }
    }

    fn list(
        &mut self,
        items: &'v [Value],
        old: Option<View<'v>>,
        schema: Node<'v>,
        path: &Path<'_>,
    ) {
        self.matches += 2;
        if let Some(of) = schema.items() {
            let olds = OldItems::of(old, schema);
            for (index, item) in items.iter().enumerate() {
                let old = olds.find(item);
                self.node(item.into(), old, of, &Path::Item(path, index));
            }
        }
        let Some(rules) = schema.own_rules() else {
            return;
        };
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = rules.min_items.filter(|limit| count < *limit) {
            let detail = format_args!("{path} in body should have at least {limit} items");
            self.invalid_as(path, count, detail);
        }
        if let Some(limit) = rules.max_items.filter(|limit| count > *limit) {
            let found = items.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
        }
    }

    fn known_values(&mut self, value: View<'v>, schema: Node<'v>, path: &Path<'_>) {
        let Some(rules) = schema.own_rules() else {
            return;
        };
        let supported = &rules.values;
        if supported.is_empty() {
            return;
        }
        let is_known = match value {
            View::Text(text) => {
                let steps = 1 + supported.len() / MEMBERS_IN_STEP + text.len() / BYTES_IN_STEP;
                if !self.budget.take(steps) {
                    return;
                }
                supported.iter().any(|known| known.as_str() == Some(text))
            }
            _ => {
                let value = value.to_value();
                let steps = (1 + supported.len() / MEMBERS_IN_STEP) * (1 + weight(&value));
                if !self.budget.take(steps) {
                    return;
                }
                let mut supported = supported.iter();
                supported.any(|known| is_value_of_enum(&value, known))
            }
        };
        if !is_known {
            self.fault(path, ValueFaultKind::NotSupported { value, supported });
        }
    }

    fn object(
        &mut self,
        members: &'v Map<String, Value>,
        old: Option<View<'v>>,
        schema: Node<'v>,
        path: &Path<'_>,
    ) {
        let rules = schema.rules();
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(limit) = rules.min_properties.filter(|limit| count < *limit) {
            let detail = format_args!("{path} in body should have at least {limit} properties");
            self.invalid_as(path, count, detail);
        }
        if let Some(limit) = rules.max_properties.filter(|limit| count > *limit) {
            let found = members.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
        }
        let names = members.len() + rules.required.len();
        if !self.budget.take(names / MEMBERS_IN_STEP) {
            return;
        }
        let olds = match old {
            Some(View::Object(olds)) => Some(olds),
            _ => None,
        };
        let is_top = matches!(path, Path::Top);
        // kube-apiserver compares neither of them with the old ones.
        let is_type = |name: &str| is_top && matches!(name, "apiVersion" | "kind");
        let old = |name: &str| {
            let old = olds.filter(|_| !is_type(name))?.get(name);
            old.map(View::from)
        };
        if !matches!(
            schema.additional(),
            Additional::Unsaid | Additional::Allowed(true)
        ) {
            for (name, value) in members {
                if schema.property(name).is_some() {
                    continue;
                }
                let below = Path::Other(path, name);
                match schema.additional() {
                    Additional::Allowed(false) => {
                        let detail = format_args!("{below} in body is a forbidden property");
                        self.invalid_as(path, beginning(name), detail);
                    }
                    Additional::Schema(of) => self.node(value.into(), old(name), of, &below),
                    _ => {}
                }
            }
        }
        for (name, value) in members {
            if let Some(of) = schema.property(name) {
                self.node(value.into(), old(name), of, &Path::Member(path, name));
            }
        }
        for name in &rules.required {
            if !members.contains_key(&**name) {
                self.fault(&Path::Member(path, name), ValueFaultKind::Required);
            }
        }
    }
}

/// Returns the number of steps for comparing a value with several others.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / BYTES_IN_STEP,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            let below = members.iter();
            1 + below
                .map(|(name, value)| name.len() / BYTES_IN_STEP + 1 + weight(value))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::structural::StructuralSchema;

    /// Returns the error if the budget of value and schema is spent.
    fn refusal(value: &Value, schema: &Value) -> Option<String> {
        let budget = Budget::of(&json!([value, schema]));
        let schema = StructuralSchema::compile(schema);
        let faults = validate_value(value, None, schema.root(), &budget);
        assert!(faults.len() <= MAX_FAULTS);
        budget.refusal()
    }

    /// Validating many values by many alternatives takes bounded time (CRD-13).
    #[test]
    fn what_would_take_hours_is_refused() {
        let mut never = vec![json!({"maximum": -1}); 5000];
        never.push(json!({"minimum": 0}));
        let schema = json!({"type": "array", "items": {"type": "integer", "anyOf": never}});
        assert!(refusal(&json!(vec![1; 100_000]), &schema).is_some());
        let schema = json!({"type": "string", "pattern": "(a?){900}b$"});
        assert!(refusal(&json!("a".repeat(2_000_000)), &schema).is_some());
        let schema = json!({"items": {"required": vec!["a"; 10_000]}});
        assert!(refusal(&json!(vec![json!({"a": 1}); 10_000]), &schema).is_some());
        let large = json!(vec![json!({"a": [1, 2]}); 100]);
        let schema = json!({"items": {"enum": vec![large.clone(); 1000]}});
        assert!(refusal(&json!(vec![large; 1000]), &schema).is_some());
        // The pattern of this format counts letters.
        let schema = json!({"anyOf": vec![json!({"format": "hostname"}); 2]});
        let schema = json!({"allOf": (0..60).map(|at| {
            json!({"format": "hostname", "minLength": at})
        }).collect::<Vec<_>>(), "anyOf": schema["anyOf"]});
        let labels = "a-b.".repeat(60) + "-";
        assert!(refusal(&json!(vec![labels; 100]), &json!({"items": schema})).is_some());
        // Names are formatted only in errors.
        let name = "n".repeat(250_000);
        let schema = json!({"properties": {&name: {"items": {"type": "integer"}}}});
        assert_eq!(refusal(&json!({name: vec![1; 250_000]}), &schema), None);
    }

    fn faults(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = StructuralSchema::compile(schema);
        let budget = Budget::of(value);
        let old = old.map(View::from);
        let faults = validate_value(value, old, schema.root(), &budget).into_iter();
        faults
            .map(|fault| fault.into_error(None).to_string())
            .collect()
    }

    /// CRD-152: the order of errors of one object, and errors that are reported once.
    #[test]
    fn errors_are_in_kube_apiservers_order() {
        let schema = json!({
            "type": "object", "minProperties": 5, "required": ["z", "a"],
            "allOf": [{"required": ["z"]}],
            "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 3}},
        });
        assert_eq!(
            faults(&schema, &json!({"b": 1, "a": 2}), None),
            [
                "z: Required value",
                "<nil>: Invalid value: \"\": \"\" must validate all the schemas (allOf). None \
                 validated",
                "<nil>: Invalid value: 2:  in body should have at least 5 properties",
                "a: Invalid value: \"integer\": a in body must be of type string: \"integer\"",
                "b: Invalid value: 1: b in body should be greater than or equal to 3",
            ]
        );
    }

    /// A definition with such a type is refused, and so is each default in it.
    #[test]
    fn no_value_has_a_type_that_does_not_exist_crd_40() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integerx"}, "b": {"type": "array", "items": {"type": "Text"}}}});
        assert_eq!(
            faults(&schema, &json!({"a": 1, "b": [null, "x"]}), None),
            [
                "a: Invalid value: \"integer\": a in body must be of type integerx: \"integer\"",
                "b[0]: Invalid value: \"null\": b[0] in body must be of type Text: \"null\"",
                "b[1]: Invalid value: \"string\": b[1] in body must be of type Text: \"string\"",
            ]
        );
    }

    /// CRD-161: kind and apiVersion, combinations, and lists that are no maps do not ratchet.
    #[test]
    fn unchanged_parts_are_exempt_and_others_not() {
        let short = json!({"type": "string", "maxLength": 1});
        let schema = json!({"type": "object", "properties": {
            "kind": short, "a": short, "list": {"type": "array", "items": short},
            "inner": {"type": "object", "properties": {"kind": short, "other": {"type": "string"}},
                "allOf": [{"properties": {"kind": {"minLength": 9}}}]},
            "map": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                    "k": {"type": "string"}, "v": short}}},
        }});
        let old = json!({
            "metadata": {}, "kind": "Long", "a": "long", "list": ["long"], "inner": {"kind": "long"},
            "map": [{"k": "x", "v": "long"}, {"k": "y", "v": "long"}],
        });
        let mut new = old.clone();
        let same = faults(&schema, &new, Some(&old));
        assert_eq!(same, ["kind: Too long: may not be more than 1 byte"]);
        new["map"] = json!([{"k": "y", "v": "long"}, {"k": "x", "v": "longer"}]);
        new["list"] = json!(["long", "a"]);
        new["inner"]["other"] = json!("b");
        let inner = "<nil>: Invalid value: \"\": \"inner\" must validate all the schemas (allOf)";
        let found = faults(&schema, &new, Some(&old));
        assert_eq!(
            found[..5],
            [
                "inner.kind: Invalid value: \"long\": inner.kind in body should be at least 9 \
                 chars long"
                    .to_owned(),
                format!("{inner}. None validated"),
                "kind: Too long: may not be more than 1 byte".to_owned(),
                "list[0]: Too long: may not be more than 1 byte".to_owned(),
                "map[1].v: Too long: may not be more than 1 byte".to_owned(),
            ]
        );
        assert_eq!(found.len(), 5);
    }
}
