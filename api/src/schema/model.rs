//! Types of objects and their fields.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::message::LazyMessage;

/// A set of types that refer to each other. Immutable once it is built.
#[derive(Debug, Default)]
pub struct Schema {
    pub(super) structs: Vec<Struct>,
    /// The structs by package and name: `apps.v1.DeploymentSpec`.
    pub(super) by_name: HashMap<String, StructId>,
    /// The structs of kinds, by kind without group and version.
    pub(super) kinds: OnceLock<HashMap<String, Vec<StructId>>>,
    /// Kinds of known versions that are not served, or not any more.
    pub(super) unserved: Vec<KindName>,
    pub(super) schemes: Schemes,
    /// Versions and kinds whose objects can't be owners.
    pub(super) never_owners: Vec<(String, String)>,
}

/// The places in Kubernetes' sources that register kinds, as error messages name them.
#[derive(Debug, Default)]
pub(super) struct Schemes {
    /// The places by group.
    pub own: HashMap<String, String>,
    /// The place for all other groups.
    pub of_others: String,
}

/// The index of a struct in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(pub(super) usize);

/// A type with named fields.
#[derive(Debug)]
pub struct Struct {
    /// The package of the type, with its group and version in one word: `apps.v1`.
    pub package: String,
    /// Its name in the package: `DeploymentSpec`.
    pub name: String,
    /// Its group, version and kind, if it is the type of whole objects.
    pub kind: Option<KindName>,
    /// Whether it has one owner as a whole in server-side apply (`x-kubernetes-map-type: atomic`).
    pub is_atomic: bool,
    /// Whether it is a union: at most one of its fields is set, apart from the discriminator.
    pub is_union: bool,
    /// Whether it keeps unknown members.
    pub is_open: bool,
    /// Its fields, sorted by name.
    pub(super) fields: Vec<Field>,
    /// The indexes of fields that may be printed without a value.
    pub(super) printed_without_value: Vec<usize>,
    /// The indexes of those that are structs.
    pub(super) printed_structs: Vec<usize>,
    /// The indexes of fields that distinguish an empty value from an absent one, or have such
    /// fields below.
    pub(super) to_empties: Vec<usize>,
    /// The indexes of lists whose items may lack their keys, and of fields with such lists below.
    pub(super) to_keyless: Vec<usize>,
    /// The indexes of fields that are kept as JSON, or have such fields below.
    pub(super) to_raw: Vec<usize>,
    /// Whether it and all structs below have a protobuf form.
    pub is_message_throughout: bool,
    /// Its protobuf form.
    pub(super) message: LazyMessage,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// The Go path of the embedded struct that declares it, if any: `ProbeHandler.`. It is part of
    /// the path in error messages.
    pub embedded_in: Box<str>,
    /// The protobuf field numbers of these embedded structs, which are messages of their own there.
    pub embedded_numbers: Box<[u32]>,
    /// Its index in the declaration, from 0.
    pub position: usize,
    /// Its protobuf field number. `None` for types without protobuf form.
    pub number: Option<u32>,
    /// The type of its value.
    pub of: Type,
    /// Whether it is printed even without a value (API-254).
    pub is_always_printed: bool,
    /// Whether a struct without a value is omitted (`omitzero`).
    pub omits_zero_struct: bool,
    /// Whether OpenAPI documents list it as required.
    pub is_required: bool,
    /// How server-side apply merges a list. `None` means undeclared, which counts as atomic.
    pub list: Option<ListType>,
    /// Whether server-side apply treats a map or struct as atomic, if the field declares that
    /// instead of its type.
    pub is_atomic: Option<bool>,
    /// How strategic merge patches merge it.
    pub patch: Option<Box<Patch>>,
    /// Whether objects in it have apiVersion and kind in JSON, unlike other embedded objects.
    pub has_types: bool,
    /// Whether it is the discriminator of a union.
    pub is_discriminator: bool,
    /// Whether an empty list or map differs from an absent one until the object has been validated.
    pub distinguishes_empty: bool,
    /// The default in JSON, if the API declares one.
    pub default: Option<String>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The shape of the value.
    pub shape: Shape,
    /// Whether it is a pointer in Go, so that an explicit empty value differs from an absent one.
    pub is_pointer: bool,
    /// The name of the Go type in error messages: `v1.PullPolicy`, `[]v1.Container`.
    pub go_name: String,
    /// The enum values that OpenAPI documents list.
    pub values: Box<[String]>,
    /// The package and name of its OpenAPI schema, if it has one without being a struct.
    pub schema_name: Option<Box<SchemaName>>,
    /// The struct of JSON schemas and the alternative to it. `None` for types that do not contain
    /// schemas.
    pub schema_or: Option<(StructId, SchemaOr)>,
}

/// The package and name of an OpenAPI schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaName {
    /// `meta.v1`.
    pub package: Cow<'static, str>,
    /// `Time`.
    pub name: Cow<'static, str>,
}

impl SchemaName {
    pub(super) fn boxed(
        package: impl Into<Cow<'static, str>>,
        name: impl Into<Cow<'static, str>>,
    ) -> Box<SchemaName> {
        Box::new(SchemaName {
            package: package.into(),
            name: name.into(),
        })
    }
}

impl Type {
    /// Returns whether the value is kept as JSON, with its text.
    pub(crate) fn is_raw(&self) -> bool {
        matches!(self.shape, Shape::Object) && self.go_name == "runtime.RawExtension"
    }
}

/// The alternative to a JSON schema in a field of a custom resource's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOr {
    /// A boolean.
    Bool,
    /// A list of schemas.
    Schemas,
    /// A list of texts.
    Strings,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List(Box<Type>),
    /// A map from texts.
    Map(Box<Type>),
    /// A struct.
    Struct(StructId),
    /// An object with any members, kept as JSON.
    Object,
    /// Any JSON value, kept as it is.
    Any,
}

/// The types of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    String,
    /// A boolean.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating-point number.
    Float64,
    /// Bytes, as base64.
    Bytes,
    /// A time in whole seconds of UTC.
    Time,
    /// A time in UTC with six decimals.
    MicroTime,
    /// A duration in Go's form.
    Duration,
    /// A quantity: `500m`.
    Quantity,
    /// An integer or a text.
    IntOrString,
}

/// How server-side apply merges a list (API-192).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// As a map, keyed by these fields of its items.
    Map(Vec<String>),
}

/// How strategic merge patches merge a field (API-163).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The strategies for the field.
    pub strategies: Vec<PatchStrategy>,
    /// The merge key of a list.
    pub key: Option<String>,
}

/// A strategy of strategic merge patches for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Merge the items of the list.
    Merge,
    /// Replace the value.
    Replace,
    /// Keep only the keys that the patch has.
    RetainKeys,
}

impl PatchStrategy {
    /// Returns its name in OpenAPI documents and in patches.
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
    /// Returns group and version as in `apiVersion`: `apps/v1`.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// A schema that several types share. It is built at its first use, because a process uses only the
/// schemas of the resources whose objects it handles.
#[derive(Clone)]
pub struct SharedSchema(Arc<LazyLock<Schema, MakeSchema>>);

type MakeSchema = Box<dyn FnOnce() -> Schema + Send>;

impl SharedSchema {
    /// Returns a schema that this function builds.
    pub fn new(make: impl FnOnce() -> Schema + Send + 'static) -> SharedSchema {
        SharedSchema(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// Returns the type with this package and name: `apps.v1.Deployment`.
    pub fn object_type(&self, name: &str) -> ObjectType {
        ObjectType(Arc::new(NamedType {
            schema: self.clone(),
            name: name.to_owned(),
            id: OnceLock::new(),
        }))
    }
}

impl Deref for SharedSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

/// The type of a resource's objects: a struct of a schema that is built at run time. Clones share
/// it.
#[derive(Clone)]
pub struct ObjectType(Arc<NamedType>);

struct NamedType {
    schema: SharedSchema,
    name: String,
    id: OnceLock<Option<StructId>>,
}

impl ObjectType {
    /// Returns the schema and the struct in it, or `None` if the schema lacks the type.
    pub fn found(&self) -> Option<(&Schema, StructId)> {
        let schema = self.schema();
        let id = self.0.id.get_or_init(|| schema.find(&self.0.name));
        Some((schema, (*id)?))
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// Returns the package and name: `apps.v1.Deployment`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the type of lists of these objects, in the same schema.
    pub fn list(&self) -> Option<StructId> {
        self.schema().find(&format!("{}List", self.name()))
    }
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        let is_same_schema = Arc::ptr_eq(&self.0.schema.0, &other.0.schema.0);
        is_same_schema && self.name() == other.name()
    }
}

impl Schema {
    /// Returns the struct with this package and name: `apps.v1.Deployment`.
    pub fn find(&self, name: &str) -> Option<StructId> {
        self.by_name.get(name).copied()
    }

    /// Returns a struct of this schema, or `None` for the id of another schema.
    pub fn get(&self, id: StructId) -> Option<&Struct> {
        self.structs.get(id.0)
    }

    /// Returns whether a struct has values that are kept as JSON, with their texts.
    pub(crate) fn has_raw(&self, id: StructId) -> bool {
        self.get(id).is_some_and(|of| !of.to_raw.is_empty())
    }

    /// Returns the struct of a kind in this apiVersion. Every version has those of `meta.v1`
    /// (options, Status).
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let found = self.object_kind(api_version, kind);
        found.or_else(|| self.find(&format!("meta.v1.{kind}")))
    }

    /// Returns the struct of a kind in this apiVersion alone.
    pub fn object_kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.kinds.get_or_init(|| self.kinds_by_name());
        // Few kinds share a name, so comparing their groups and versions copies no text.
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

    /// Returns the names of kinds in known versions that are not served.
    pub fn unserved(&self) -> &[KindName] {
        &self.unserved
    }

    /// Returns the place in Kubernetes' sources that registers the kinds of a group, as error
    /// messages name it.
    pub(crate) fn scheme_of(&self, group: &str) -> &str {
        self.schemes
            .own
            .get(group)
            .unwrap_or(&self.schemes.of_others)
    }

    /// Returns whether objects of this apiVersion and kind can't be owners.
    pub(crate) fn is_never_owner(&self, api_version: &str, kind: &str) -> bool {
        let mut never = self.never_owners.iter();
        never.any(|(version, name)| version == api_version && name == kind)
    }

    /// Returns all structs.
    pub fn structs(&self) -> impl Iterator<Item = &Struct> {
        self.structs.iter()
    }
}

impl Type {
    /// Returns a type that is not a pointer and has no OpenAPI schema of its own.
    pub(crate) fn plain(shape: Shape, go_name: String) -> Type {
        Type {
            shape,
            is_pointer: false,
            go_name,
            values: Box::default(),
            schema_name: None,
            schema_or: None,
        }
    }
}

impl Struct {
    /// Returns the index of the field with this name in JSON.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        let found = self
            .fields
            .binary_search_by(|field| field.name.as_str().cmp(name));
        found.ok()
    }

    /// Returns the field with this name in JSON.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.place(name)?)
    }

    /// Returns whether the field at an index is a struct that exists in Go even if it is absent in
    /// JSON.
    pub(crate) fn has_by_itself(&self, place: usize) -> bool {
        self.printed_structs.contains(&place)
    }

    /// Returns how many non-empty maps the canonical form adds to a struct with these members:
    /// itself and the structs in it that are printed without a value. The length of the text does
    /// not indicate that memory.
    pub(crate) fn nodes_filled_in(&self, members: &Map<String, Value>) -> usize {
        let own = members.is_empty() && !self.printed_without_value.is_empty();
        let structs = self.printed_structs.iter();
        let structs = structs.filter_map(|place| self.fields.get(*place));
        let absent = structs.filter(|field| !members.contains_key(&field.name));
        usize::from(own) + absent.count()
    }

    /// Returns the fields that may be printed without a value.
    pub(super) fn printed_without_value(&self) -> impl Iterator<Item = &Field> {
        let places = self.printed_without_value.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// Returns the fields that distinguish an empty value from an absent one, or have such fields
    /// below.
    pub(super) fn to_empties(&self) -> impl Iterator<Item = &Field> {
        let places = self.to_empties.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// Returns the lists whose items may lack their keys, and the fields with such lists below.
    pub(crate) fn to_keyless(&self) -> impl Iterator<Item = &Field> {
        let places = self.to_keyless.iter();
        places.filter_map(|place| self.fields.get(*place))
    }

    /// Returns the field with this name in JSON, if it is kept as JSON or has such fields below.
    pub(crate) fn field_to_raw(&self, name: &str) -> Option<&Field> {
        let place = self.place(name)?;
        let leads = self.to_raw.contains(&place);
        self.fields.get(place).filter(|_| leads)
    }

    /// Returns the fields, sorted by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the version before the name in error messages: `v1` for `apps.v1`.
    pub fn version(&self) -> &str {
        self.package.rsplit('.').next().unwrap_or_default()
    }
}
