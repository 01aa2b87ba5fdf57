//! Paths into responses: `metadata.name`, `items.0`, `resources.name=pods`.

use serde_json::Value;

/// The value at a path.
pub fn look<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    look_by(value, path.split('.'))
}

/// The value at the path of these keys.
pub fn look_by<'v, 'k>(
    value: &'v Value,
    mut keys: impl Iterator<Item = &'k str>,
) -> Option<&'v Value> {
    keys.try_fold(value, |value, key| {
        let found = match (value, key.split_once('=')) {
            (Value::Array(items), Some((member, wanted))) => items
                .iter()
                .find(|item| look(item, member).is_some_and(|found| found == wanted)),
            (Value::Array(items), None) => {
                let index: isize = key.parse().ok()?;
                let index = if index < 0 {
                    index + items.len().cast_signed()
                } else {
                    index
                };
                items.get(usize::try_from(index).ok()?)
            }
            (Value::Object(members), _) => members.get(key),
            _ => None,
        };
        found.filter(|value| !value.is_null())
    })
}

/// A path of a step as a path into the whole answer: into its body unless it says otherwise.
pub fn within(path: &str) -> String {
    match path.split('.').next() {
        Some("headers" | "body" | "events" | "ended") => path.to_owned(),
        _ => format!("body.{path}"),
    }
}

/// Takes what is at a path out of a value; `*` matches every key and index.
pub fn drop(value: &mut Value, path: &str) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Object(members) => {
            let keys: Vec<String> = match key {
                "*" => members.keys().cloned().collect(),
                key => members
                    .keys()
                    .filter(|member| *member == key)
                    .cloned()
                    .collect(),
            };
            for key in keys {
                match members.get_mut(&key) {
                    Some(member) if !rest.is_empty() => drop(member, rest),
                    _ => std::mem::drop(members.remove(&key)),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                if key != "*" && key != index.to_string() {
                    continue;
                }
                if rest.is_empty() {
                    *item = Value::String("<ignored>".to_owned());
                } else {
                    drop(item, rest);
                }
            }
        }
        _ => {}
    }
}

/// Sorts the lists at a path by their texts; `*` matches every key and index.
pub fn sort(value: &mut Value, path: &str) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let found: Vec<&mut Value> = match value {
        Value::Object(members) if key == "*" => members.values_mut().collect(),
        Value::Object(members) => members.get_mut(key).into_iter().collect(),
        Value::Array(items) if key == "*" => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    for value in found {
        match value {
            Value::Array(items) if rest.is_empty() => items.sort_by_key(Value::to_string),
            _ if rest.is_empty() => {}
            value => sort(value, rest),
        }
    }
}

/// Whether `LEFT SIGN RIGHT` holds in an answer: paths into it, or numbers.
pub fn holds(answer: &Value, expression: &str) -> Value {
    let parts: Vec<&str> = expression.split(' ').collect();
    let [left, sign, right] = parts[..] else {
        panic!("no relation: {expression}")
    };
    let number = |side: &str| -> Option<i64> {
        if let Ok(number) = side.parse() {
            return Some(number);
        }
        match look(answer, &within(side))? {
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        }
    };
    let (Some(left), Some(right)) = (number(left), number(right)) else {
        return Value::String(format!("no numbers: {expression}"));
    };
    Value::Bool(match sign {
        "<" => left < right,
        "<=" => left <= right,
        "==" => left == right,
        "!=" => left != right,
        ">=" => left >= right,
        ">" => left > right,
        _ => panic!("no relation: {expression}"),
    })
}
