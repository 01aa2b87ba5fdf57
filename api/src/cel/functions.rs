//! The available functions and operators: those of CEL, and Kubernetes' extension libraries.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

/// One overload of a function.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    /// Whether it is called as a method on its first argument.
    pub is_method: bool,
    pub arguments: Vec<Type>,
    pub result: Type,
}

/// The overloads of all functions, by name.
pub(super) static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<Overload>> = HashMap::new();
    for line in TEXT.lines() {
        let mut words = line.split_whitespace();
        let (Some(head), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        let overloads = all.entry(name).or_default();
        let mut types: Vec<Type> = words.filter_map(read_type).collect();
        let Some(result) = types.pop() else { continue };
        overloads.push(Overload {
            is_method: head == "m",
            arguments: types,
            result,
        });
    }
    all
});

/// Returns the type that a name denotes as a value.
pub(super) fn named_type(name: &str) -> Option<Type> {
    let of = match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(Arc::new(Type::Dyn)),
        "optional_type" => Type::Optional(Arc::new(Type::Dyn)),
        "net.IP" => read_type("IP")?,
        "net.CIDR" => read_type("CIDR")?,
        name if name.starts_with(MESSAGES) => message_type(name)?.0,
        "bool" | "bytes" | "double" | "int" | "string" | "uint" => read_type(name)?,
        _ => return None,
    };
    Some(of)
}

/// The functions that are available only where patches can be built.
pub(super) const PATCH_FUNCTIONS: [&str; 1] = ["jsonpatch.escapeKey"];

/// The prefix of the message types that are always available.
const MESSAGES: &str = "google.protobuf.";

/// Returns the type of a message as a value, and its fields. The fields of a message without any
/// are not checked.
pub(super) fn message_type(name: &str) -> Option<(Type, Vec<(&'static str, Type)>)> {
    let wrapped = |of: Type| (of.clone(), vec![("value", of)]);
    let time = |of: Type| (of, vec![("seconds", Type::Int), ("nanos", Type::Int)]);
    Some(match name.strip_prefix(MESSAGES)? {
        "Timestamp" => time(Type::Timestamp),
        "Duration" => time(Type::Duration),
        "BoolValue" => wrapped(Type::Bool),
        "BytesValue" => wrapped(Type::Bytes),
        "DoubleValue" | "FloatValue" => wrapped(Type::Double),
        "Int32Value" | "Int64Value" => wrapped(Type::Int),
        "StringValue" => wrapped(Type::String),
        "UInt32Value" | "UInt64Value" => wrapped(Type::Uint),
        "Any" => (Type::Any, Vec::new()),
        "Value" => (Type::Dyn, Vec::new()),
        "ListValue" => (Type::list(Type::Dyn), Vec::new()),
        "Struct" => (Type::map(Type::String, Type::Dyn), Vec::new()),
        _ => return None,
    })
}

/// Parses a type in the notation of the table: `L(A)` is a list, `M(A,B)` a map, `O(A)` an
/// optional, `T(A)` a type as a value.
fn read_type(word: &str) -> Option<Type> {
    let inner = |prefix: &str| word.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(of) = inner("L(") {
        return Some(Type::list(read_type(of)?));
    }
    if let Some(of) = inner("O(") {
        return Some(Type::Optional(Arc::new(read_type(of)?)));
    }
    if let Some(of) = inner("T(") {
        return Some(Type::Type(Arc::new(read_type(of)?)));
    }
    if let Some(of) = inner("M(") {
        let (key, value) = of.split_once(',')?;
        return Some(Type::map(read_type(key)?, read_type(value)?));
    }
    Some(match word {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null" => Type::Null,
        "duration" => Type::Duration,
        "time" => Type::Timestamp,
        "type" => Type::Type(Arc::new(Type::Dyn)),
        "A" => Type::Parameter('A'),
        "B" => Type::Parameter('B'),
        "Quantity" => Type::Opaque("kubernetes.Quantity"),
        "URL" => Type::Opaque("kubernetes.URL"),
        "IP" => Type::Opaque("net.IP"),
        "CIDR" => Type::Opaque("net.CIDR"),
        "Semver" => Type::Opaque("kubernetes.Semver"),
        "Format" => Type::Opaque("kubernetes.NamedFormat"),
        "Authorizer" => Type::Opaque("kubernetes.authorization.Authorizer"),
        "PathCheck" => Type::Opaque("kubernetes.authorization.PathCheck"),
        "GroupCheck" => Type::Opaque("kubernetes.authorization.GroupCheck"),
        "ResourceCheck" => Type::Opaque("kubernetes.authorization.ResourceCheck"),
        "Decision" => Type::Opaque("kubernetes.authorization.Decision"),
        _ => return None,
    })
}

/// One line for each overload: `f` for a function and `m` for a method, the name, the types of the
/// arguments, and the type of the result. A line with nothing but the name is a function that never
/// takes arguments.
const TEXT: &str = include_str!("functions.txt");
