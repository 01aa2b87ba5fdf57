//! The types of whole objects, by which the expressions of a policy can be checked (HK-76).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::shape::{Shape as CustomShape, escaped};
use super::types::{ObjectName, Type};
use crate::schema::{ObjectType, Scalar, Schema, Shape, StructId, Type as KindType};
use crate::structural::Budget;

/// The most structs that are nested. Deeper ones have any type, as recursive ones have.
const MAX_NESTED: usize = 64;

/// Returns the type of the objects of a custom resource with this schema.
pub fn type_of_schema(schema: &Json) -> Option<Type> {
    let budget = Budget::of(schema);
    CustomShape::of(schema, true, &budget).declared(&budget)
}

/// Returns the type of the objects of a kind, or `None` if nothing is known about them.
pub fn type_of_kind(of: &ObjectType) -> Option<Type> {
    let (schema, id) = of.found()?;
    let mut reading = Reading {
        schema,
        known: HashMap::new(),
        nested: 0,
    };
    Some(reading.of_struct(id))
}

struct Reading<'s> {
    schema: &'s Schema,
    /// The structs that were read. `None` while one is being read.
    known: HashMap<StructId, Option<Type>>,
    nested: usize,
}

impl Reading<'_> {
    fn of_struct(&mut self, id: StructId) -> Type {
        if let Some(known) = self.known.get(&id) {
            return known.clone().unwrap_or(Type::Dyn);
        }
        let Some(of) = self.schema.get(id).filter(|of| !of.is_open) else {
            return Type::Dyn;
        };
        if self.nested >= MAX_NESTED {
            return Type::Dyn;
        }
        self.nested += 1;
        self.known.insert(id, None);
        let schema = self.schema;
        let fields = schema.get(id).map(|of| of.fields()).unwrap_or_default();
        let types = match of.kind.is_some() {
            true => &["apiVersion", "kind"][..],
            false => &[],
        };
        let types = types.iter().map(|name| (Arc::from(*name), Type::String));
        let mut members: Vec<(Arc<str>, Type)> = types.collect();
        for field in fields {
            if let Some(name) = escaped(&field.name) {
                members.push((Arc::from(name), self.of_type(&field.of)));
            }
        }
        let of = Type::object(ObjectName::new(&of.name), members);
        self.nested -= 1;
        self.known.insert(id, Some(of.clone()));
        of
    }

    fn of_type(&mut self, of: &KindType) -> Type {
        match &of.shape {
            Shape::Scalar(scalar) => match scalar {
                Scalar::String | Scalar::Duration => Type::String,
                Scalar::Bytes => Type::Bytes,
                Scalar::Bool => Type::Bool,
                Scalar::Int32 | Scalar::Int64 => Type::Int,
                Scalar::Float64 => Type::Double,
                Scalar::Time | Scalar::MicroTime => Type::Timestamp,
                // Both are texts or numbers.
                Scalar::Quantity | Scalar::IntOrString => Type::Dyn,
            },
            Shape::List(item) => Type::list(self.of_type(item)),
            Shape::Map(value) => Type::map(Type::String, self.of_type(value)),
            Shape::Struct(id) => self.of_struct(*id),
            Shape::Object | Shape::Any => Type::Dyn,
        }
    }
}
