//! Whether values are as a schema says, with the faults that kube-apiserver finds (CRD-38, CRD-39).
//! They come in its order: the type, the combinations, the text, the format, the number, the list,
//! the values, the object.

use serde_json::{Map, Value};

use super::formats::has_format;
use super::{Additional, Structural};
use crate::field_error::go_number;

/// No value has more faults than this. Further ones are not looked for.
const MAX_FAULTS: usize = 100;

/// How much is looked at for one value: a value beside a schema is a step, and so are some thousand
/// comparisons of a text with a pattern. Large lists beside many alternatives would take hours.
const MAX_STEPS: usize = 2_000_000;

/// The values of an enumeration that are compared in one step.
const VALUES_IN_STEP: usize = 16;

/// The values of an enumeration that a fault names. More would not be shown.
const MAX_SUPPORTED: usize = 1000;

/// The steps of compiling a pattern.
const COMPILE_STEPS: usize = 1000;

/// The comparisons that are one step.
const COMPARISONS_IN_STEP: usize = 4096;

/// A fault of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueFault {
    /// Where in the value: `a.b[0].c`; empty for the value as a whole.
    pub path: String,
    /// What is wrong.
    pub kind: ValueFaultKind,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueFaultKind {
    /// A member is missing; the path names it.
    Required,
    /// It is none of the values that there are.
    NotSupported {
        /// The value.
        value: Value,
        /// The values that there are, as texts.
        supported: Vec<String>,
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
        value: Value,
        /// The fault in words.
        detail: String,
    },
    /// It breaks another rule.
    Invalid {
        /// What is shown of the value.
        value: Value,
        /// The fault in words.
        detail: String,
    },
}

/// The faults of a value.
pub fn validate_value(value: &Value, schema: &Structural) -> Vec<ValueFault> {
    let mut check = Check::default();
    check.value(value, schema, "");
    if check.steps > MAX_STEPS {
        check.faults.clear();
        let detail = "takes too long to validate".to_owned();
        check.invalid("", "", detail);
    }
    check.faults
}

/// The faults found so far, and how much was found to be right: of several alternatives that fail,
/// the one with the most is told of.
#[derive(Default)]
struct Check {
    faults: Vec<ValueFault>,
    matches: usize,
    steps: usize,
}

impl Check {
    fn fault(&mut self, path: &str, kind: ValueFaultKind) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(ValueFault {
                path: path.to_owned(),
                kind,
            });
        }
    }

    fn invalid(&mut self, path: &str, value: impl Into<Value>, detail: String) {
        let value = value.into();
        self.fault(path, ValueFaultKind::Invalid { value, detail });
    }

    fn wrong_type(&mut self, path: &str, expected: &str, found: &str) {
        let detail = format!("{path} in body must be of type {expected}: {found:?}");
        let value = Value::from(found);
        self.fault(path, ValueFaultKind::Type { value, detail });
    }

    fn value(&mut self, value: &Value, schema: &Structural, path: &str) {
        self.steps += 1;
        if self.faults.len() >= MAX_FAULTS || self.steps > MAX_STEPS {
            return;
        }
        let before = self.faults.len();
        self.type_of(value, schema, path);
        if !value.is_null() {
            self.combinations(value, schema, path);
            match value {
                Value::String(text) => self.text(text, schema, path),
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

    fn type_of(&mut self, value: &Value, schema: &Structural, path: &str) {
        let kind = schema.kind.as_str();
        let format = schema.rules.format.as_str();
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

    /// What another schema says of the value.
    fn attempt(&mut self, value: &Value, schema: &Structural, path: &str) -> Check {
        let mut check = Check {
            steps: self.steps,
            ..Check::default()
        };
        check.value(value, schema, path);
        self.steps = check.steps;
        check
    }

    /// How many alternatives hold, and the faults of the one that fails least.
    fn alternatives(
        &mut self,
        value: &Value,
        schemas: &[Structural],
        path: &str,
        one_suffices: bool,
    ) -> (usize, Vec<ValueFault>) {
        let mut valid = 0;
        let mut best: Option<Check> = None;
        for of in schemas {
            let found = self.attempt(value, of, path);
            if found.faults.is_empty() {
                valid += 1;
                if one_suffices {
                    break;
                }
            } else if best
                .as_ref()
                .is_none_or(|best| found.matches > best.matches)
            {
                best = Some(found);
            }
        }
        (valid, best.map(|best| best.faults).unwrap_or_default())
    }

    fn combinations(&mut self, value: &Value, schema: &Structural, path: &str) {
        let rules = &schema.rules;
        if !rules.any_of.is_empty() {
            let (valid, best) = self.alternatives(value, &rules.any_of, path, true);
            if valid == 0 {
                let detail = format!("{path:?} must validate at least one schema (anyOf)");
                self.invalid(path, "", detail);
                self.faults.extend(best);
            }
        }
        if !rules.one_of.is_empty() {
            let (valid, best) = self.alternatives(value, &rules.one_of, path, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let detail =
                    format!("{path:?} must validate one and only one schema (oneOf). {found}");
                self.invalid(path, "", detail);
                if valid == 0 {
                    self.faults.extend(best);
                }
            }
        }
        if !rules.all_of.is_empty() {
            let mut valid = 0;
            for of in &rules.all_of {
                let found = self.attempt(value, of, path);
                valid += usize::from(found.faults.is_empty());
                self.faults.extend(found.faults);
            }
            if valid != rules.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                let detail = format!("{path:?} must validate all the schemas (allOf){none}");
                self.invalid(path, "", detail);
            }
        }
        if let Some(not) = &rules.not
            && self.attempt(value, not, path).faults.is_empty()
        {
            let detail = format!("{path:?} must not validate the schema (not)");
            self.invalid(path, "", detail);
        }
        self.faults.truncate(MAX_FAULTS);
    }

    fn text(&mut self, text: &str, schema: &Structural, path: &str) {
        let rules = &schema.rules;
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let too_long = rules.max_length.filter(|limit| length() > *limit);
        let too_short = rules.min_length.filter(|limit| length() < *limit);
        let mismatch = rules.pattern.as_ref();
        let mismatch = mismatch.filter(|pattern| {
            let comparisons = text.len().saturating_mul(pattern.cost());
            self.steps += COMPILE_STEPS + comparisons / COMPARISONS_IN_STEP;
            self.steps <= MAX_STEPS && !pattern.matches(text)
        });
        if let Some(limit) = too_long {
            self.fault(path, ValueFaultKind::TooLong(limit));
        } else if let Some(limit) = too_short {
            let detail = format!("{path} in body should be at least {limit} chars long");
            self.invalid(path, text, detail);
        } else if let Some(pattern) = mismatch {
            let detail = format!("{path} in body should match '{}'", pattern.text());
            self.invalid(path, text, detail);
        }
        let is_number = matches!(schema.kind.as_str(), "number" | "integer");
        if !is_number && !has_format(text, &rules.format) {
            self.wrong_type(path, &rules.format, text);
        }
    }

    fn number(&mut self, value: &Value, number: Option<f64>, schema: &Structural, path: &str) {
        let Some(number) = number else { return };
        let rules = &schema.rules;
        if let Some(range) = out_of_range(number, &schema.kind, &rules.format) {
            let kind = &schema.kind;
            let detail = format!("Checked value must be of type {kind} {range} in {path}");
            self.invalid(path, "", detail);
        }
        if let Some(factor) = rules.multiple_of {
            let factor = self.boundary(value, factor, schema, "MultipleOf", path);
            let shown = go_number(factor);
            if factor <= 0.0 {
                let detail =
                    format!("factor MultipleOf declared for {path} must be positive: {shown}");
                self.invalid(path, number_value(factor), detail);
            } else if !is_multiple(number, factor) {
                let detail = format!("{path} in body should be a multiple of {shown}");
                self.invalid(path, value.clone(), detail);
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
        value: &Value,
        limit: f64,
        schema: &Structural,
        name: &str,
        path: &str,
    ) -> f64 {
        if let Some(range) = out_of_range(limit, &schema.kind, &schema.rules.format) {
            let kind = &schema.kind;
            let detail = format!("{name} value must be of type {kind} {range} in {path}");
            self.invalid(path, "", detail);
            return limit;
        }
        if value.is_f64() { limit } else { limit.trunc() }
    }

    fn beyond(&mut self, value: &Value, limit: f64, words: Option<&str>, path: &str) {
        if let Some(words) = words {
            let limit = match value.is_f64() {
                true => go_number(limit),
                false => limit.to_string(),
            };
            let detail = format!("{path} in body should be {words} {limit}");
            self.invalid(path, value.clone(), detail);
        }
    }

    fn list(&mut self, items: &[Value], schema: &Structural, path: &str) {
        if let Some(of) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                self.value(item, of, &format!("{path}[{index}]"));
            }
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = schema.rules.min_items.filter(|limit| count < *limit) {
            let detail = format!("{path} in body should have at least {limit} items");
            self.invalid(path, count, detail);
        }
        if let Some(limit) = schema.rules.max_items.filter(|limit| count > *limit) {
            let found = items.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
        }
    }

    fn known_values(&mut self, value: &Value, schema: &Structural, path: &str) {
        let values = &schema.rules.values;
        self.steps += values.len() / VALUES_IN_STEP;
        if self.steps > MAX_STEPS {
            return;
        }
        let is_known = values.iter().any(|known| equal(known, value));
        if values.is_empty() || is_known || value.is_null() && schema.is_nullable {
            return;
        }
        let as_text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let supported = values.iter().take(MAX_SUPPORTED).map(as_text).collect();
        let value = value.clone();
        self.fault(path, ValueFaultKind::NotSupported { value, supported });
    }

    fn object(&mut self, members: &Map<String, Value>, schema: &Structural, path: &str) {
        let rules = &schema.rules;
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(limit) = rules.min_properties.filter(|limit| count < *limit) {
            let detail = format!("{path} in body should have at least {limit} properties");
            self.invalid(path, count, detail);
            return;
        }
        if let Some(limit) = rules.max_properties.filter(|limit| count > *limit) {
            let found = members.len();
            self.fault(path, ValueFaultKind::TooMany { found, limit });
            return;
        }
        for (name, value) in members {
            if schema.properties.contains_key(name) {
                continue;
            }
            match &schema.additional {
                Additional::Allowed(false) => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    self.invalid(path, name.as_str(), detail);
                }
                Additional::Schema(of) => self.value(value, of, &format!("{path}.{name}")),
                _ => {}
            }
        }
        for name in &rules.required {
            if !members.contains_key(name) {
                self.fault(&member_path(path, name), ValueFaultKind::Required);
            }
        }
        for (name, value) in members {
            if let Some(of) = schema.properties.get(name) {
                self.value(value, of, &member_path(path, name));
            }
        }
    }
}

fn member_path(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
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

/// Whether two values are the same. A float that is whole is the same as the whole number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => left == right,
    }
}

/// Why a number is not in the range of its type and format.
fn out_of_range(number: f64, kind: &str, format: &str) -> Option<String> {
    let is_outside = match (kind, format) {
        ("integer", "int32") => {
            number.fract() != 0.0 || number > f64::from(i32::MAX) || number < f64::from(i32::MIN)
        }
        ("integer", _) => number.fract() != 0.0,
        ("number", "float") => number.abs() > f64::from(f32::MAX),
        _ => false,
    };
    is_outside.then(|| match (kind, format) {
        ("integer", "int32" | "int64") | ("number", "float") => format!("with format {format}"),
        _ => "(default format)".to_owned(),
    })
}

/// Whether a factor divides a number, but for what floats get wrong.
fn is_multiple(number: f64, factor: f64) -> bool {
    let quotient = if factor < 1.0 {
        1.0 / factor * number
    } else {
        number / factor
    };
    let nearest = quotient.round();
    (quotient - nearest).abs() < 1e-9 * quotient.abs().max(1.0)
}

fn number_value(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    match is_whole {
        true => Value::from(number as i64),
        false => Value::from(number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Many values beside many alternatives take a bounded time (CRD-13).
    #[test]
    fn what_would_take_hours_is_refused() {
        let mut never = vec![json!({"maximum": -1}); 5000];
        never.push(json!({"minimum": 0}));
        let schema = Structural::read(&json!({
            "type": "array", "items": {"type": "integer", "anyOf": never},
        }));
        let value = json!(vec![1; 100_000]);
        let faults = validate_value(&value, &schema);
        assert_eq!(faults.len(), 1);
        let schema = Structural::read(&json!({"type": "string", "pattern": "(a?){900}b$"}));
        let value = json!("a".repeat(2_000_000));
        assert_eq!(validate_value(&value, &schema).len(), 1);
    }
}
