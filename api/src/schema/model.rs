//! Types of objects and their fields.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::messages::LazyMessage;

/// Types that refer to each other. It is made once and never changes.
#[derive(Debug, Default)]
pub struct Schema {
    pub(super) structs: Vec<Struct>,
    /// By package and name: `apps.v1.DeploymentSpec`.
    pub(super) by_name: HashMap<String, StructId>,
    /// Those that are kinds, by their names without group and version.
    pub(super) kinds: OnceLock<HashMap<String, Vec<StructId>>>,
    /// Kinds of versions that are known and no longer served, or not yet.
    pub(super) unserved: Vec<KindName>,
}

/// A struct of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(pub(super) usize);

/// A type with named fields.
#[derive(Debug)]
pub struct Struct {
    /// The package of the type, with its group and version in one word: `apps.v1`.
    pub package: String,
    /// Its name in the package: `DeploymentSpec`.
    pub name: String,
    /// Its name among kinds, if it is the type of whole objects, with apiVersion and kind.
    pub kind: Option<KindName>,
    /// Whether appliers own it as a whole (`x-kubernetes-map-type: atomic`).
    pub is_atomic: bool,
    /// Whether at most one of its fields is set, but for the one that says which.
    pub is_union: bool,
    /// Whether it keeps members that are no fields.
    pub is_open: bool,
    /// Its fields, in order of their names.
    pub(super) fields: Vec<Field>,
    /// The places of those that may be printed without a value.
    pub(super) printed_without_value: Vec<usize>,
    /// The places of structs among those.
    pub(super) printed_structs: Vec<usize>,
    /// The places of those that tell an empty value from an absent one, or have such fields below.
    pub(super) to_empties: Vec<usize>,
    /// The places of those lists whose items may lack what tells them apart, or that have such
    /// lists below.
    pub(super) to_keyless: Vec<usize>,
    /// The places of those that are kept as JSON, or have such fields below.
    pub(super) to_raw: Vec<usize>,
    /// Its form in protobuf.
    pub(super) message: LazyMessage,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// The Go fields through which the struct has it, if it is a field of an embedded struct:
    /// `ProbeHandler.`. They are in the path of refusals.
    pub embedded_in: Box<str>,
    /// The numbers in protobuf of these Go fields, which are messages of their own there.
    pub embedded_numbers: Box<[u32]>,
    /// Its place among the fields as they are declared, from 0.
    pub position: usize,
    /// Its number in protobuf. `None` for types that have no form in protobuf.
    pub number: Option<u32>,
    /// The type of its value.
    pub of: Type,
    /// Whether it is printed without a value too (API-254).
    pub is_always_printed: bool,
    /// Whether a struct that has no value is left out.
    pub omits_zero_struct: bool,
    /// Whether OpenAPI documents say that it must be given.
    pub is_required: bool,
    /// How appliers merge a list. `None` says nothing, which means the same as atomic.
    pub list: Option<ListType>,
    /// Whether appliers own a map or a struct as a whole, if the field says so and not its type.
    pub is_atomic: Option<bool>,
    /// How strategic merge patches merge it.
    pub patch: Option<Box<Patch>>,
    /// Whether objects in it say their apiVersion and kind in JSON, unlike others in objects.
    pub has_types: bool,
    /// Whether it says which field of a union is set.
    pub is_discriminator: bool,
    /// Whether an empty list or map is distinguished from an absent one until the object has been
    /// checked.
    pub distinguishes_empty: bool,
    /// The value that counts if none is given, in JSON. Only what the API declares.
    pub default: Option<String>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Its form.
    pub shape: Shape,
    /// Whether a value that was given is told from none, even if it is empty.
    pub is_pointer: bool,
    /// The name that Kubernetes gives the type in refusals: `v1.PullPolicy`, `[]v1.Container`.
    pub go_name: String,
    /// The values that OpenAPI documents list.
    pub values: Box<[String]>,
    /// The package and name of its schema, if it has one of its own without being a struct.
    pub schema_name: Option<(&'static str, &'static str)>,
}

impl Type {
    /// Whether it is kept as JSON, with its text.
    pub(crate) fn is_raw(&self) -> bool {
        matches!(self.shape, Shape::Object) && self.go_name == "runtime.RawExtension"
    }

    /// What a field of this type may hold instead of a schema. `None` for fields that hold no
    /// schema.
    pub fn schema_or(&self) -> Option<SchemaOr> {
        match self.go_name.as_str() {
            "v1.JSONSchemaPropsOrArray" => Some(SchemaOr::Schemas),
            "v1.JSONSchemaPropsOrBool" => Some(SchemaOr::Bool),
            "v1.JSONSchemaPropsOrStringArray" => Some(SchemaOr::Strings),
            _ => None,
        }
    }
}

/// What may stand where a schema may: in schemas of custom resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOr {
    /// True or false.
    Bool,
    /// A list of schemas.
    Schemas,
    /// A list of texts.
    Strings,
}

/// The form of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    List(Box<Type>),
    /// A map from texts.
    Map(Box<Type>),
    /// A struct.
    Struct(StructId),
    /// An object with any fields, kept as it is.
    Object,
    /// Any JSON, kept as it is.
    Any,
}

/// The types of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    String,
    /// True or false.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Float64,
    /// Bytes, as base64.
    Bytes,
    /// A time in whole seconds of UTC.
    Time,
    /// A time with six decimals.
    MicroTime,
    /// A duration in Go's form.
    Duration,
    /// A quantity: `500m`.
    Quantity,
    /// A whole number or a text.
    IntOrString,
}

/// How appliers merge a list (API-192).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// As a map by these fields of its items.
    Map(Vec<String>),
}

/// How strategic merge patches merge a field (API-163).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// What is done with the field.
    pub strategies: Vec<PatchStrategy>,
    /// The field that identifies an item of a list.
    pub key: Option<String>,
}

/// What a strategic merge patch does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Lists are merged.
    Merge,
    /// The value is replaced.
    Replace,
    /// Only the keys that the patch has are kept.
    RetainKeys,
}

impl PatchStrategy {
    /// Its name in OpenAPI documents and in patches.
    pub fn name(self) -> &'static str {
        match self {
            PatchStrategy::Merge => "merge",
            PatchStrategy::Replace => "replace",
            PatchStrategy::RetainKeys => "retainKeys",
        }
    }
}

/// The group, version and kind of whole objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindName {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl KindName {
    /// Group and version as objects name them: `apps/v1`.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// The type of a resource's objects. Its schema is read at the first use.
#[derive(Clone, Copy)]
pub struct ObjectType {
    /// Where its type is.
    pub schema: &'static LazyLock<Schema>,
    /// Its package and name: `apps.v1.Deployment`.
    pub name: &'static str,
}

impl ObjectType {
    /// The schema and the struct in it. `None` if the schema has no such type.
    pub fn found(&self) -> Option<(&'static Schema, StructId)> {
        let schema: &'static Schema = self.schema;
        Some((schema, schema.find(self.name)?))
    }

    /// The type of lists of these objects, in the same schema.
    pub fn list(&self) -> Option<StructId> {
        self.schema.find(&format!("{}List", self.name))
    }
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        std::ptr::eq(self.schema, other.schema) && self.name == other.name
    }
}

impl Schema {
    /// The struct of this package and name: `apps.v1.Deployment`.
    pub fn find(&self, name: &str) -> Option<StructId> {
        self.by_name.get(name).copied()
    }

    /// A struct of this schema. `None` for an id of another one.
    pub fn get(&self, id: StructId) -> Option<&Struct> {
        self.structs.get(id.0)
    }

    /// Whether a struct has values that are kept as JSON, with their texts.
    pub(crate) fn has_raw(&self, id: StructId) -> bool {
        self.get(id).is_some_and(|of| !of.to_raw.is_empty())
    }

    /// The struct of a kind of this apiVersion. Those of `meta.v1` (options, Status) are in each.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let found = self.object_kind(api_version, kind);
        found.or_else(|| self.find(&format!("meta.v1.{kind}")))
    }

    /// The struct of a kind of this apiVersion, and of no other.
    pub fn object_kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.kinds.get_or_init(|| self.kinds_by_name());
        // Few kinds have the same name, so none of the texts is copied to find one.
        kinds.get(kind)?.iter().copied().find(|id| {
            let name = self.get(*id).and_then(|of| of.kind.as_ref());
            name.is_some_and(|name| name.group == group && name.version == version)
        })
    }

    fn kinds_by_name(&self) -> HashMap<String, Vec<StructId>> {
        let mut kinds: HashMap<String, Vec<StructId>> = HashMap::new();
        for (place, of) in self.structs.iter().enumerate() {
            if let Some(name) = &of.kind {
                kinds
                    .entry(name.kind.clone())
                    .or_default()
                    .push(StructId(place));
            }
        }
        kinds
    }

    /// The names of kinds in versions that are known and not served.
    pub fn unserved(&self) -> &[KindName] {
        &self.unserved
    }

    /// All structs.
    pub fn structs(&self) -> impl Iterator<Item = &Struct> {
        self.structs.iter()
    }
}

impl Type {
    /// A type that is no pointer and has no schema of its own.
    pub(crate) fn plain(shape: Shape, go_name: String) -> Type {
        Type {
            shape,
            is_pointer: false,
            go_name,
            values: Box::default(),
            schema_name: None,
        }
    }
}

impl Struct {
    /// The place of the field with this name in JSON among the fields.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        let found = self
            .fields
            .binary_search_by(|field| field.name.as_str().cmp(name));
        found.ok()
    }

    /// The field with this name in JSON.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.place(name)?)
    }

    /// How many maps that are not empty come to a struct with these members when it is filled in:
    /// it and the structs in it that are printed without a value. Its text doesn't suggest that
    /// memory.
    pub(crate) fn nodes_filled_in(&self, members: &Map<String, Value>) -> usize {
        let own = members.is_empty() && !self.printed_without_value.is_empty();
        let structs = self.printed_structs.iter();
        let structs = structs.filter_map(|place| self.fields.get(*place));
        let absent = structs.filter(|field| !members.contains_key(&field.name));
        usize::from(own) + absent.count()
    }

    /// The fields that may be printed without a value.
    pub(super) fn printed_without_value(&self) -> impl Iterator<Item = &Field> {
        let places = self.printed_without_value.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// The fields that tell an empty value from an absent one, or have such fields below.
    pub(super) fn to_empties(&self) -> impl Iterator<Item = &Field> {
        let places = self.to_empties.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// The lists whose items may lack what tells them apart, and the fields with such lists below.
    pub(crate) fn to_keyless(&self) -> impl Iterator<Item = &Field> {
        let places = self.to_keyless.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// The field with this name in JSON, if it is kept as JSON or has such fields below.
    pub(crate) fn field_to_raw(&self, name: &str) -> Option<&Field> {
        let place = self.place(name)?;
        let leads = self.to_raw.contains(&place);
        self.fields.get(place).filter(|_| leads)
    }

    /// The fields in order of their names.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The version in front of the name in refusals: `v1` of `apps.v1`.
    pub fn version(&self) -> &str {
        self.package.rsplit('.').next().unwrap_or_default()
    }
}
