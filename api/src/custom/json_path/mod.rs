//! JSONPath as client-go reads it, for the columns of custom resources (CRD-26, CRD-196).
//!
//! Contains fields, lists, slices, unions, filters, wildcards and recursive descent. Blocks of
//! `range` are not evaluated: a path with one finds nothing.

mod evaluate;
mod parse;

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The limit on the values that one evaluation visits. Recursive descents may multiply them.
const MAX_STEPS: usize = 100_000;

/// A path that was parsed: `.spec.goods[0].name`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

/// A text that is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        begin: Option<i64>,
        end: Option<i64>,
        /// Whether the end follows from the beginning, as in `[0]`.
        is_single: bool,
        step: Option<i64>,
    },
    Union(Vec<Vec<Step>>),
    Filter {
        left: Vec<Step>,
        operator: String,
        right: Vec<Step>,
    },
    /// A text, number or boolean.
    Literal(Value),
    /// A word such as `range`.
    Word,
}

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The text is not a path.
    pub fn new(text: &str) -> Result<JsonPath, JsonPathError> {
        parse::steps(text).map(JsonPath).map_err(JsonPathError)
    }

    /// Returns the first value that the path finds in an object. `None` if it finds none or cannot
    /// be evaluated: for instance, a list is too short.
    pub fn first<'v>(&self, members: &'v Map<String, Value>) -> Option<Cow<'v, Value>> {
        evaluate::first(&self.0, members, MAX_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str, value: &Value) -> Option<Value> {
        let path = JsonPath::new(path).unwrap();
        path.first(value.as_object().unwrap()).map(Cow::into_owned)
    }

    /// CRD-196, as client-go's parser and evaluation.
    #[test]
    fn paths_find_values_as_in_client_go() {
        let value = json!({
            "spec": {"a.b": 1, "list": [{"name": "x", "n": 1}, {"name": "y", "n": 2.5}], "t": "s"},
            "status": {"conditions": [{"type": "Other", "status": "False"},
                {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.t", Some(json!("s"))),
            ("$.spec.t", Some(json!("s"))),
            (".spec.a\\.b", Some(json!(1))),
            (".spec['a\\.b']", Some(json!(1))),
            (".spec.list[0].name", Some(json!("x"))),
            (".spec.list[-1].name", Some(json!("y"))),
            (".spec.list[*].name", Some(json!("x"))),
            (".spec.list[1:].name", Some(json!("y"))),
            (".spec.list[0:2:1].name", Some(json!("x"))),
            (".spec.list[1,0].name", Some(json!("y"))),
            (".spec.list[5].name", None),
            (".spec.list[0:0].name", None),
            (".spec.t[0]", None),
            (".spec.list.name", None),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                Some(json!("True")),
            ),
            (".status.conditions[?(@.type=='None')].status", None),
            (".status.conditions[?(@.none)].status", None),
            (
                ".status.conditions[?(@.status)].status",
                Some(json!("False")),
            ),
            (".spec.list[?(@.n>1.5)].name", None),
            (".spec.list[?(@.name!=\"x\")].n", Some(json!(2.5))),
            (".status..status", Some(json!("False"))),
            (".spec.*", Some(json!(1))),
            (".none.x", None),
        ] {
            assert_eq!(found(path, &value), expected, "{path}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for path in [
            ".a[",
            ".a[x]",
            ".a[?(@.b==1]",
            ".a[?(@.b==1)",
            ".a['b",
            "#",
            "....a",
            ".a[1:x]",
            ".a\n",
        ] {
            assert!(JsonPath::new(path).is_err(), "{path}");
        }
    }

    /// Recursive descents do not multiply the values of a large object without a bound.
    #[test]
    fn evaluation_is_bounded() {
        let mut value = json!({"a": 1});
        for _ in 0..60 {
            value = json!({"a": value, "b": [1, 2, 3]});
        }
        let path = format!(".a{}", "..a".repeat(50));
        found(&path, &value);
    }
}
