//! Conversion of an unstructured object into its type, as Kubernetes does after an apply or a
//! strategic merge patch (API-156, API-168).
//!
//! The errors are those of that conversion, which differ from those of the JSON decoder: integers
//! that are too large are truncated, whole floats are accepted, and no error names the field.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::tree::{byte, read_schema_or, zero};
use crate::field_validation::{Place, StrictDecodingError, StrictDecodingErrors};
use crate::quantity;
use crate::schema::{Scalar, Schema, Shape, Struct, StructId, Type, is_zero};
use crate::text::go_time::{self, Decimals};
use crate::text::{base64, floats, go_duration, go_kind, json_type};

type Members = Map<String, Value>;

/// Converts an object into its type. Drops unknown members and returns them, sorted by path.
///
/// # Errors
/// The first value that does not fit its type, in the order in which the fields are declared.
pub fn from_unstructured(
    schema: &Schema,
    id: StructId,
    members: &mut Members,
) -> Result<Vec<StrictDecodingError>, String> {
    let mut conversion = Conversion {
        schema,
        faults: StrictDecodingErrors::default(),
    };
    if let Some(of) = schema.get(id) {
        conversion.members(of, members, &Place::Top)?;
    }
    let mut faults = conversion.faults.into_vec();
    faults.sort_by_cached_key(StrictDecodingError::to_string);
    Ok(faults)
}

struct Conversion<'s> {
    schema: &'s Schema,
    faults: StrictDecodingErrors,
}

/// The first error, in the order of the declared fields.
#[derive(Default)]
struct First(Option<(usize, String)>);

impl First {
    fn note(&mut self, place: usize, why: String) {
        if self.0.as_ref().is_none_or(|(first, _)| place < *first) {
            self.0 = Some((place, why));
        }
    }
}

impl Conversion<'_> {
    fn members(
        &mut self,
        of: &Struct,
        members: &mut Members,
        at: &Place<'_>,
    ) -> Result<(), String> {
        let mut first = First::default();
        members.retain(|name, value| {
            let place = Place::Member(at, name);
            let Some(field) = of.field(name) else {
                let is_type = of.kind.is_some() && matches!(&**name, "kind" | "apiVersion");
                if is_type {
                    // Go declares these before all other fields.
                    return match text(value, "string") {
                        Ok(()) => !value.is_null(),
                        Err(why) => {
                            first.note(0, why);
                            false
                        }
                    };
                }
                if !of.is_open {
                    self.faults.note(StrictDecodingError::Unknown, place);
                }
                return of.is_open;
            };
            if value.is_null() {
                return false;
            }
            if let Err(why) = self.value(&field.of, of, value, &place) {
                first.note(field.position + 1, why);
                return false;
            }
            let is_kept = field.keeps_empty() || field.of.is_pointer;
            !value.is_null() && (is_kept || !is_zero(&field.of, value))
        });
        match first.0 {
            Some((_, why)) => Err(why),
            None => Ok(()),
        }
    }

    /// Converts a value in a field of `owner`, or in a list or map there.
    fn value(
        &mut self,
        of: &Type,
        owner: &Struct,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), String> {
        let kind = go_kind(value);
        match (&of.shape, value) {
            (Shape::Any, value) => match of.schema_or {
                Some((_, or)) => read_schema_or(or, self.schema, owner, value),
                None => Ok(()),
            },
            (Shape::Object, _) => Ok(()),
            (Shape::Struct(id), Value::Object(members)) => match self.schema.get(*id) {
                Some(of) => self.members(of, members, at),
                None => Ok(()),
            },
            (Shape::List(item), Value::Array(items)) => {
                for (place, value) in items.iter_mut().enumerate() {
                    self.item(item, owner, value, &Place::Item(at, place))?;
                }
                Ok(())
            }
            (Shape::Map(item), Value::Object(members)) => {
                // Kubernetes' paths do not name map keys here.
                for value in members.values_mut() {
                    self.item(item, owner, value, at)?;
                }
                Ok(())
            }
            (Shape::Struct(_), _) => Err(format!("cannot restore struct from: {kind}")),
            (Shape::List(_), _) => Err(format!("cannot restore slice from {kind}")),
            (Shape::Map(_), _) => Err(format!("cannot restore map from {kind}")),
            (Shape::Scalar(scalar), value) => convert_scalar(*scalar, of, value),
        }
    }

    /// Converts an item of a list or map, where null becomes Go's zero value.
    fn item(
        &mut self,
        of: &Type,
        owner: &Struct,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), String> {
        if value.is_null() {
            *value = zero(of);
            return Ok(());
        }
        self.value(of, owner, value, at)
    }
}

fn convert_scalar(scalar: Scalar, of: &Type, value: &mut Value) -> Result<(), String> {
    match scalar {
        Scalar::String => text(value, &of.go_name),
        Scalar::Bool if value.is_boolean() => Ok(()),
        Scalar::Bool => Err("unrecognized type: bool".to_owned()),
        Scalar::Int32 => whole(value, of, "int32", |number| i64::from(number as i32)),
        Scalar::Int64 if of.go_name == "int" => whole(value, of, "int", |number| number),
        Scalar::Int64 => whole(value, of, "int64", |number| number),
        Scalar::Float64 => match value.take() {
            Value::Number(number) => {
                *value = floats::as_float(number).into();
                Ok(())
            }
            _ => Err("unrecognized type: float64".to_owned()),
        },
        Scalar::Bytes => bytes(value),
        Scalar::Time => parsed(value, |text| go_time::canonical(text, Decimals::Any)),
        Scalar::MicroTime => parsed(value, |text| go_time::canonical(text, Decimals::Six)),
        Scalar::Duration => parsed(value, go_duration::canonical),
        Scalar::Quantity => {
            let text = quantity::written(value);
            let printed = quantity::printed(&text).map_err(|error| error.to_string())?;
            *value = printed.into();
            Ok(())
        }
        Scalar::IntOrString => int_or_string(value),
    }
}

fn text(value: &Value, go_name: &str) -> Result<(), String> {
    match value {
        Value::String(_) | Value::Null => Ok(()),
        Value::Number(number) if number.is_i64() => {
            Err(format!("cannot convert int64 to {go_name}"))
        }
        _ => Err("unrecognized type: string".to_owned()),
    }
}

/// Converts an integer, truncated to the size of its type.
fn whole(value: &mut Value, of: &Type, kind: &str, cut: fn(i64) -> i64) -> Result<(), String> {
    let Value::Number(number) = &*value else {
        return Err(format!("unrecognized type: {kind}"));
    };
    let number = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole,
        (None, Some(float)) if float.fract() == 0.0 => from_float(float),
        _ => {
            let go_name = &of.go_name;
            return Err(format!("cannot convert float64 to {go_name}"));
        }
    };
    *value = cut(number).into();
    Ok(())
}

/// Converts a whole float to an integer. One that is too large becomes the smallest integer, as on
/// most machines that run kube-apiserver.
fn from_float(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if (-LIMIT..LIMIT).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

fn bytes(value: &mut Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            let text = base64::canonical(std::mem::take(text));
            *value = text
                .map_err(|why| format!("error decoding from json: {why}"))?
                .into();
            Ok(())
        }
        Value::Array(items) => {
            let bytes: Option<Vec<u8>> = items.iter().map(byte).collect();
            let bytes = bytes.ok_or("unrecognized type: uint8")?;
            *value = STANDARD.encode(bytes).into();
            Ok(())
        }
        other => {
            let kind = go_kind(other);
            Err(format!("cannot restore slice from {kind}"))
        }
    }
}

fn parsed<T: Into<Value>>(
    value: &mut Value,
    read: fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let Value::String(text) = &*value else {
        let found = json_type(value);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type string"
        ));
    };
    *value = read(text)?.into();
    Ok(())
}

fn int_or_string(value: &Value) -> Result<(), String> {
    let found = match value {
        Value::String(_) => return Ok(()),
        Value::Number(number) => {
            let is_int32 = |number: i64| i32::try_from(number).is_ok();
            if number.as_i64().is_some_and(is_int32) {
                return Ok(());
            }
            format!("number {number}")
        }
        other => json_type(other).to_owned(),
    };
    Err(format!(
        "json: cannot unmarshal {found} into Go value of type int32"
    ))
}
