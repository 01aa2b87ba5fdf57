//! Whether values are as a schema says, with the faults that kube-apiserver finds (CRD-38, CRD-39).
//! They come in its order: the type, the combinations, the text, the format, the number, the list,
//! the values, the object.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use super::formats::has_format;
use super::numbers::{equal, is_multiple, number_value, out_of_range};
use super::{Additional, Budget, Patterns, Structural};
use crate::field_error::{beginning, go_number};

/// No value has more faults than this. Further ones are not looked for.
const MAX_FAULTS: usize = 100;

/// The bytes of a text that are looked at in one step, and those of a fault that is written.
const BYTES_IN_STEP: usize = 64;
const WRITTEN_IN_STEP: usize = 16;

/// The members of objects that are looked at in one step, and the values that are compared.
const MEMBERS_IN_STEP: usize = 8;

/// The steps of finding out whether a text has a format, and the bytes of it that are one more.
const FORMAT_STEPS: usize = 10;
const FORMAT_BYTES_IN_STEP: usize = 16;

/// The stack that a level takes, and what is added when it is short.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// A fault of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueFault<'v> {
    /// Where in the value: `a.b[0].c`; empty for the value as a whole. A long path is cut.
    pub path: String,
    /// What is wrong.
    pub kind: ValueFaultKind<'v>,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueFaultKind<'v> {
    /// A member is missing; the path names it.
    Required,
    /// It is none of the values that there are.
    NotSupported {
        /// The value.
        value: &'v Value,
        /// The values that there are.
        supported: &'v [Value],
    },
    /// A text has more than so many characters.
    TooLong(i64),
    /// A list or an object has more members than it may have.
    TooMany {
        /// How many it has.
        found: usize,
        /// How many it may have.
        limit: i64,
    },
    /// It has another type, or another format.
    Type {
        /// What is shown of the value.
        value: Cow<'v, Value>,
        /// The fault in words.
        detail: String,
    },
    /// It breaks another rule.
    Invalid {
        /// What is shown of the value.
        value: Cow<'v, Value>,
        /// The fault in words.
        detail: String,
    },
}

/// The faults of a value. If the budget is spent, they are not all that there are.
pub fn validate_value<'v>(
    value: &'v Value,
    schema: &'v Value,
    patterns: &mut Patterns<'v>,
    budget: &Budget,
) -> Vec<ValueFault<'v>> {
    let mut check = Check {
        faults: Vec::new(),
        matches: 0,
        patterns,
        budget,
    };
    check.value(value, schema, &Path::Top);
    check.faults
}

/// Where in a value something is. It is written when a fault is told.
#[derive(Clone, Copy)]
enum Path<'p> {
    Top,
    /// A member. Behind the top there is a dot only if the schema doesn't name the member.
    Member(&'p Path<'p>, &'p str),
    Other(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => Ok(()),
            Path::Member(above, name) => match above {
                Path::Top => f.write_str(name),
                above => write!(f, "{above}.{name}"),
            },
            Path::Other(above, name) => write!(f, "{above}.{name}"),
            Path::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// The faults found so far, and how much was found to be right: of several alternatives that fail,
/// the one with the most is told of.
struct Check<'c, 'v> {
    faults: Vec<ValueFault<'v>>,
    matches: usize,
    patterns: &'c mut Patterns<'v>,
    budget: &'c Budget,
}

impl<'v> Check<'_, 'v> {
    /// Whether another fault is kept. Its path is written.
    fn keeps(&mut self, path: &Path<'_>) -> Option<String> {
        if self.faults.len() >= MAX_FAULTS {
            return None;
        }
        let path = beginning(path);
        let is_left = self.budget.take(1 + path.len() / WRITTEN_IN_STEP);
        is_left.then_some(path)
    }

    fn fault(&mut self, path: &Path<'_>, kind: ValueFaultKind<'v>) {
        if let Some(path) = self.keeps(path) {
            self.faults.push(ValueFault { path, kind });
        }
    }

    /// The part of a detail that is shown. What is written takes its steps.
    fn written(&mut self, detail: fmt::Arguments<'_>) -> String {
        let detail = beginning(detail);
        // If nothing is left, the next step finds it out.
        let _ = self.budget.take(detail.len() / WRITTEN_IN_STEP);
        detail
    }

    fn invalid(&mut self, path: &Path<'_>, value: Cow<'v, Value>, detail: fmt::Arguments<'_>) {
        if let Some(path) = self.keeps(path) {
            let detail = self.written(detail);
            let kind = ValueFaultKind::Invalid { value, detail };
            self.faults.push(ValueFault { path, kind });
        }
    }

    /// As [`Check::invalid`], of something that is shown as a value of its own.
    fn invalid_as(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: fmt::Arguments<'_>) {
        self.invalid(path, Cow::Owned(value.into()), detail);
    }

    fn wrong_type(&mut self, path: &Path<'_>, expected: &str, found: &str) {
        if let Some(shown) = self.keeps(path) {
            let detail = self.written(format_args!(
                "{path} in body must be of type {expected}: {found:?}"
            ));
            let value = Cow::Owned(Value::from(beginning(found)));
            let kind = ValueFaultKind::Type { value, detail };
            self.faults.push(ValueFault { path: shown, kind });
        }
    }

    /// A value beside a schema. This is the step that everything else is made of.
    fn value(&mut self, value: &'v Value, schema: &'v Value, path: &Path<'_>) {
        if self.faults.len() >= MAX_FAULTS || !self.budget.take(1) {
            return;
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            self.value_here(value, &Structural::read(schema), path);
        });
    }

    fn value_here(&mut self, value: &'v Value, schema: &Structural<'v>, path: &Path<'_>) {
        let before = self.faults.len();
        self.type_of(value, schema, path);
        if !value.is_null() {
            self.combinations(value, schema, path);
            match value {
                Value::String(text) => self.text(value, text, schema, path),
                Value::Number(number) => self.number(value, number.as_f64(), schema, path),
                Value::Array(items) => self.list(items, schema, path),
                _ => {}
            }
        }
        self.known_values(value, schema, path);
        if let Value::Object(members) = value {
            self.object(members, schema, path);
        }
        if self.faults.len() == before {
            self.matches += 1;
        }
    }

    fn type_of(&mut self, value: &'v Value, schema: &Structural<'v>, path: &Path<'_>) {
        let (kind, format) = (schema.kind, schema.rules.format);
        if kind.is_empty() && format.is_empty() {
            return;
        }
        let found = type_name(value);
        if value.is_null() {
            if !kind.is_empty() && !schema.is_nullable {
                self.wrong_type(path, kind, "null");
            }
            return;
        }
        let is_whole = value.as_f64().is_some_and(|float| float.fract() == 0.0);
        let is_float_as_int = found == "number" && is_whole && kind == "integer";
        let is_int_as_float = found == "integer" && kind == "number";
        let fits = kind == found || is_float_as_int || is_int_as_float;
        let is_number = matches!(kind, "number" | "integer");
        if !format.is_empty() && !value.is_string() && !value.is_array() {
            let found_format = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            let is_smaller = format == "int64" && found == "integer";
            if !fits && !is_smaller && found_format != format {
                self.wrong_type(path, format, found_format);
                return;
            }
        }
        if !is_number && !format.is_empty() && (value.is_string() || value.is_array()) {
            return;
        }
        if !fits && !kind.is_empty() {
            self.wrong_type(path, kind, found);
        }
    }

    /// What another schema says of the value: the faults, and how much was right.
    fn attempt(
        &mut self,
        value: &'v Value,
        schema: &'v Value,
        path: &Path<'_>,
    ) -> (Vec<ValueFault<'v>>, usize) {
        let mut check = Check {
            faults: Vec::new(),
            matches: 0,
            patterns: &mut *self.patterns,
            budget: self.budget,
        };
        check.value(value, schema, path);
        (check.faults, check.matches)
    }

    /// How many alternatives hold, and the faults of the one that fails least.
    fn alternatives(
        &mut self,
        value: &'v Value,
        schemas: &'v [Value],
        path: &Path<'_>,
        one_suffices: bool,
    ) -> (usize, Vec<ValueFault<'v>>) {
        let mut valid = 0;
        let mut best: Option<(Vec<ValueFault<'v>>, usize)> = None;
        for of in schemas {
            let (faults, matches) = self.attempt(value, of, path);
            if faults.is_empty() {
                valid += 1;
                if one_suffices {
                    break;
                }
            } else if best.as_ref().is_none_or(|(_, most)| matches > *most) {
                best = Some((faults, matches));
            }
        }
        (valid, best.map(|(faults, _)| faults).unwrap_or_default())
    }

    fn combinations(&mut self, value: &'v Value, schema: &Structural<'v>, path: &Path<'_>) {
        let rules = &schema.rules;
        if !rules.any_of.is_empty() {
            let (valid, best) = self.alternatives(value, rules.any_of, path, true);
            if valid == 0 {
                self.combination(path, "validate at least one schema (anyOf)");
                self.faults.extend(best);
            }
        }
        if !rules.one_of.is_empty() {
            let (valid, best) = self.alternatives(value, rules.one_of, path, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                self.combination(
                    path,
                    &format!("validate one and only one schema (oneOf). {found}"),
                );
                if valid == 0 {
                    self.faults.extend(best);
                }
            }
        }
        if !rules.all_of.is_empty() {
            let mut valid = 0;
            for of in rules.all_of {
                let (faults, _) = self.attempt(value, of, path);
                valid += usize::from(faults.is_empty());
                let room = MAX_FAULTS.saturating_sub(self.faults.len());
                self.faults.extend(faults.into_iter().take(room));
            }
            if valid != rules.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.combination(path, &format!("validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = rules.not
            && self.attempt(value, not, path).0.is_empty()
        {
            self.combination(path, "not validate the schema (not)");
        }
        self.faults.truncate(MAX_FAULTS);
    }

    fn combination(&mut self, path: &Path<'_>, wanted: &str) {
        if let Some(shown) = self.keeps(path) {
            let detail = format_args!("{shown:?} must {wanted}");
            self.invalid_as(path, "", detail);
        }
    }

    fn text(&mut self, value: &'v Value, text: &str, schema: &Structural<'v>, path: &Path<'_>) {
        if !self.budget.take(text.len() / BYTES_IN_STEP) {
            return;
        }
        let rules = &schema.rules;
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let too_long = rules.max_length.filter(|limit| length() > *limit);
        let too_short = rules.min_length.filter(|limit| length() < *limit);
        let pattern = rules.pattern;
        let is_mismatch =
            !pattern.is_empty() && self.patterns.matches(pattern, text, self.budget) == Some(false);
        if let Some(limit) = too_long {
            self.fault(path, ValueFaultKind::TooLong(limit));
        } else if let Some(limit) = too_short {
            let detail = format_args!("{path} in body should be at least {limit} chars long");
            self.invalid(path, Cow::Borrowed(value), detail);
        } else if is_mismatch {
            let detail = format_args!("{path} in body should match '{pattern}'");
            self.invalid(path, Cow::Borrowed(value), detail);
        }
        let is_number = matches!(schema.kind, "number" | "integer");
        if is_number || rules.format.is_empty() {
            return;
        }
        // The pattern of one format counts letters.
        let bytes_in_step = if rules.format == "hostname" {
            1
        } else {
            FORMAT_BYTES_IN_STEP
        };
        if !self.budget.take(FORMAT_STEPS + text.len() / bytes_in_step) {
            return;
        }
        if !has_format(text, rules.format) {
            self.wrong_type(path, rules.format, text);
        }
    }

    fn number(
        &mut self,
        value: &'v Value,
        number: Option<f64>,
        schema: &Structural<'v>,
        path: &Path<'_>,
    ) {
        let Some(number) = number else { return };
        let rules = &schema.rules;
        if let Some(range) = out_of_range(number, schema.kind, rules.format) {
            let kind = schema.kind;
            let detail = format_args!("Checked value must be of type {kind} {range} in {path}");
            self.invalid_as(path, "", detail);
        }
        if let Some(factor) = rules.multiple_of {
            let factor = self.boundary(value, factor, schema, "MultipleOf", path);
            let shown = go_number(factor);
            if factor <= 0.0 {
                let detail =
                    format_args!("factor MultipleOf declared for {path} must be positive: {shown}");
                self.invalid_as(path, number_value(factor), detail);
            } else if !is_multiple(number, factor) {
                let detail = format_args!("{path} in body should be a multiple of {shown}");
                self.invalid(path, Cow::Borrowed(value), detail);
            }
        }
        if let Some(limit) = rules.minimum {
            let limit = self.boundary(value, limit, schema, "Minimum boundary", path);
            let words = match rules.is_minimum_exclusive {
                true if number <= limit => Some("greater than"),
                false if number < limit => Some("greater than or equal to"),
                _ => None,
            };
            self.beyond(value, limit, words, path);
        }
        if let Some(limit) = rules.maximum {
            let limit = self.boundary(value, limit, schema, "Maximum boundary", path);
            let words = match rules.is_maximum_exclusive {
                true if number >= limit => Some("less than"),
                false if number > limit => Some("less than or equal to"),
                _ => None,
            };
            self.beyond(value, limit, words, path);
        }
    }

    /// The limit that a number is compared with. As in kube-apiserver, a whole number is compared
    /// with the whole part of a limit, unless the limit is wrong for the type.
    fn boundary(
        &mut self,
        value: &'v Value,
        limit: f64,
        schema: &Structural<'v>,
        name: &str,
        path: &Path<'_>,
    ) -> f64 {
        if let Some(range) = out_of_range(limit, schema.kind, schema.rules.format) {
            let kind = schema.kind;
            let detail = format_args!("{name} value must be of type {kind} {range} in {path}");
            self.invalid_as(path, "", detail);
            return limit;
        }
        if value.is_f64() { limit } else { limit.trunc() }
    }

    fn beyond(&mut self, value: &'v Value, limit: f64, words: Option<&str>, path: &Path<'_>) {
        if let Some(words) = words {
            let limit = match value.is_f64() {
                true => go_number(limit),
                false => limit.to_string(),
            };
            let detail = format_args!("{path} in body should be {words} {limit}");
            self.invalid(path, Cow::Borrowed(value), detail);
        }
    }

    fn list(&mut self, items: &'v [Value], schema: &Structural<'v>, path: &Path<'_>) {
        if let Some(of) = schema.items {
            for (index, item) in items.iter().enumerate() {
                self.value(item, of, &Path::Item(path, index));
            }
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = schema.rules.min_items.filter(|limit| count < *limit) {
            let detail = format_args!("{path} in body should have at least {limit} items");
            self.invalid_as(path, count, detail);
        }
        if let Some(limit) = schema.rules.max_items.filter(|limit| count > *limit) {
            let found = items.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
        }
    }

    fn known_values(&mut self, value: &'v Value, schema: &Structural<'v>, path: &Path<'_>) {
        let supported = schema.rules.values;
        if supported.is_empty() {
            return;
        }
        let steps = (1 + supported.len() / MEMBERS_IN_STEP) * (1 + weight(value));
        if !self.budget.take(steps) {
            return;
        }
        let is_known = supported.iter().any(|known| equal(known, value))
            || value.is_null() && schema.is_nullable;
        if !is_known {
            self.fault(path, ValueFaultKind::NotSupported { value, supported });
        }
    }

    fn object(
        &mut self,
        members: &'v Map<String, Value>,
        schema: &Structural<'v>,
        path: &Path<'_>,
    ) {
        let rules = &schema.rules;
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(limit) = rules.min_properties.filter(|limit| count < *limit) {
            let detail = format_args!("{path} in body should have at least {limit} properties");
            self.invalid_as(path, count, detail);
            return;
        }
        if let Some(limit) = rules.max_properties.filter(|limit| count > *limit) {
            let found = members.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
            return;
        }
        let names = members.len() + rules.required.len();
        if !self.budget.take(names / MEMBERS_IN_STEP) {
            return;
        }
        for (name, value) in members {
            if schema.property(name).is_some() {
                continue;
            }
            let below = Path::Other(path, name);
            match &schema.additional {
                Additional::Allowed(false) => {
                    let detail = format_args!("{below} in body is a forbidden property");
                    self.invalid_as(path, beginning(name), detail);
                }
                Additional::Schema(of) => self.value(value, of, &below),
                _ => {}
            }
        }
        for name in rules.required.iter().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                self.fault(&Path::Member(path, name), ValueFaultKind::Required);
            }
        }
        for (name, value) in members {
            if let Some(of) = schema.property(name) {
                self.value(value, of, &Path::Member(path, name));
            }
        }
    }
}

/// How many steps it takes to compare a value with some others.
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

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The text of the refusal, if the budget of both is spent.
    fn refusal(value: &Value, schema: &Value) -> Option<String> {
        let budget = Budget::of(&json!([value, schema]));
        let faults = validate_value(value, schema, &mut Patterns::default(), &budget);
        assert!(faults.len() <= MAX_FAULTS);
        budget.refusal()
    }

    /// Many values beside many alternatives take a bounded time (CRD-13).
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
        // Patterns in turns, of which not all are kept.
        let all: Vec<Value> = (0..20)
            .map(|at| json!({"pattern": format!("b|a{{{at}}}c")}))
            .collect();
        let schema = json!({"items": {"allOf": all}});
        assert!(refusal(&json!(vec!["b"; 10_000]), &schema).is_some());
        // The pattern of a format that counts letters.
        let schema = json!({"anyOf": vec![json!({"format": "hostname"}); 60]});
        assert!(refusal(&json!("a-b.".repeat(20_000) + "-"), &schema).is_some());
        // Names are not written but in faults.
        let name = "n".repeat(250_000);
        let schema = json!({"properties": {&name: {"items": {"type": "integer"}}}});
        assert_eq!(refusal(&json!({name: vec![1; 250_000]}), &schema), None);
    }
}
