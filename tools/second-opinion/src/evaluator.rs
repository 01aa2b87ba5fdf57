//! The evaluators. The crates have versions of `cel` with equal names and different types, so the
//! code for them is a macro.

use std::sync::LazyLock;

use serde_json::{Value as Json, json};

/// The members of an embedded resource that rules see.
pub static EMBEDDED: LazyLock<Json> = LazyLock::new(|| {
    json!({"properties": {"apiVersion": {}, "kind": {}, "metadata": {
        "properties": {"name": {}, "generateName": {}}}}})
});

/// Prints a time as the recorded answers do, from one in RFC 3339.
pub fn time(text: &str) -> String {
    let (text, zone) = match text.strip_suffix("+00:00") {
        Some(text) => (text, "Z"),
        None => text.split_at(text.len().saturating_sub(6)),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    };
    format!("time {text}{zone}")
}

/// Defines a module with the evaluator of one crate: `evaluator!(module, crate, context)`.
macro_rules! evaluator {
    ($name:ident, $cel:path, $context:expr) => {
        mod $name {
            use std::collections::HashMap;
            use std::fmt::Write as _;
            use std::sync::Arc;

            use base64::Engine as _;
            use cel::objects::OptionalValue;
            use cel::{Context, Program, Value};
            use serde_json::Value as Json;
            use $cel as cel;

            use crate::answers::{double, quoted};
            use crate::evaluator::{EMBEDDED, time};
            use crate::reason::Answer;

            fn shown(value: &Value) -> String {
                match value {
                    Value::Null => "null".to_owned(),
                    Value::Bool(of) => of.to_string(),
                    Value::Int(of) => of.to_string(),
                    Value::UInt(of) => format!("{of}u"),
                    Value::Float(of) => double(*of),
                    Value::String(of) => quoted(of),
                    Value::Bytes(of) => of.iter().fold(String::from("b"), |mut out, byte| {
                        let _ = write!(out, "{byte:02x}");
                        out
                    }),
                    Value::Duration(of) => match of.num_nanoseconds() {
                        Some(of) => format!("{of}ns"),
                        None => "a duration that is too long".to_owned(),
                    },
                    Value::Timestamp(of) => time(&of.to_rfc3339()),
                    Value::List(of) => {
                        let items: Vec<String> = of.iter().map(shown).collect();
                        format!("[{}]", items.join(", "))
                    }
                    Value::Map(of) => {
                        let entries = of.map.iter();
                        let entries = entries.map(|(key, value)| {
                            format!("{}: {}", shown(&key.clone().into()), shown(value))
                        });
                        let mut entries: Vec<String> = entries.collect();
                        entries.sort();
                        format!("{{{}}}", entries.join(", "))
                    }
                    Value::Opaque(of) => match of.downcast_ref::<OptionalValue>() {
                        Some(of) => match of.value() {
                            Some(of) => format!("optional {}", shown(of)),
                            None => "none".to_owned(),
                        },
                        None => of.runtime_type_name().to_owned(),
                    },
                    other => format!("{other:?}"),
                }
            }

            /// Returns a value of the object, with the type that its schema says. Kubernetes shows
            /// null members that may be null as absent.
            fn typed(value: &Json, schema: &Json, context: &Context) -> Option<Value> {
                let by_function = |name: &str| {
                    let text = format!("{name}({value})");
                    Program::compile(&text).ok()?.execute(context).ok()
                };
                let schema = match schema["x-kubernetes-embedded-resource"] == true {
                    true => &*EMBEDDED,
                    false => schema,
                };
                let format = schema["format"].as_str().unwrap_or_default();
                Some(match value {
                    Json::Null => return None,
                    Json::Bool(of) => Value::Bool(*of),
                    Json::Number(of) if schema["type"] == "number" => Value::Float(of.as_f64()?),
                    Json::Number(of) => match of.as_i64() {
                        Some(of) => Value::Int(of),
                        None => Value::Float(of.as_f64()?),
                    },
                    Json::String(of) => match format {
                        "date-time" => by_function("timestamp")?,
                        "date" => Program::compile(&format!("timestamp('{of}T00:00:00Z')"))
                            .ok()?
                            .execute(context)
                            .ok()?,
                        "duration" => by_function("duration")?,
                        "byte" => {
                            let engine = base64::engine::general_purpose::STANDARD;
                            match engine.decode(of) {
                                Ok(bytes) => Value::Bytes(Arc::new(bytes)),
                                Err(_) => Value::String(Arc::new(of.clone())),
                            }
                        }
                        _ => Value::String(Arc::new(of.clone())),
                    },
                    Json::Array(of) => {
                        let items = of.iter();
                        let items = items.filter_map(|of| typed(of, &schema["items"], context));
                        Value::List(Arc::new(items.collect()))
                    }
                    Json::Object(of) => {
                        let members = of.iter().filter_map(|(name, value)| {
                            let known = schema["properties"].get(name);
                            // Members that the schema does not have are no members in CEL.
                            let other = &schema["additionalProperties"];
                            let schema = known.or(Some(other).filter(|of| of.is_object()))?;
                            // A member of a map keeps its name.
                            let name = match known.and_then(|_| api::cel::escaped(name)) {
                                Some(escaped) => escaped,
                                None => name.clone(),
                            };
                            Some((name, typed(value, schema, context)?))
                        });
                        members.collect::<HashMap<String, Value>>().into()
                    }
                })
            }

            /// Evaluates an expression over an object as `self`.
            pub fn answer(text: &str, schema: &Json, object: &Json) -> Answer {
                let parser = cel::parser::Parser::default().enable_optional_syntax(true);
                let program = match parser.parse(text) {
                    Ok(program) => program,
                    Err(error) => return Answer::Refused(error.to_string()),
                };
                let mut context = $context;
                let of = typed(object, schema, &context).unwrap_or(Value::Null);
                context.add_variable_from_value("self", of);
                match Value::resolve(&program, &context) {
                    Ok(value) => Answer::Value(shown(&value)),
                    Err(error) => Answer::Failed(error.to_string()),
                }
            }
        }
    };
}
