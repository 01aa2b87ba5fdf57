//! Compiled structural schemas: the model, and views of single nodes.
//!
//! A compiled schema takes a fraction of its document: descriptions are dropped, and equal parts
//! exist once. Nodes refer to each other by index, so dropping a deep schema does not recurse.

use serde_json::Value;

use super::formats::Format;
use super::kind::SchemaKind;
use super::patterns::SharedPattern;

/// The index that stands for an absent part.
pub(super) const NONE: u32 = u32::MAX;

/// A structural schema, compiled once for a version of a definition. Immutable, so that requests
/// share it.
#[derive(Debug)]
pub struct StructuralSchema {
    pub(super) nodes: Box<[NodeData]>,
    /// The properties of all nodes. Those of one node are sorted by name.
    pub(super) members: Box<[Member]>,
    pub(super) names: Box<[Box<str>]>,
    pub(super) rules: Box<[ValueRules]>,
    pub(super) extras: Box<[Extras]>,
    pub(super) root: u32,
}

/// A property: the index of its name, and that of its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    /// The first bytes of the name, which decide nearly all comparisons.
    pub prefix: u64,
    pub name: u32,
    pub node: u32,
}

/// Returns the first bytes of a name as a number in the order of the names.
pub(super) fn prefix_of(name: &str) -> u64 {
    let mut prefix = [0; 8];
    for (to, from) in prefix.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u64::from_be_bytes(prefix)
}

/// A schema inside a compiled schema, or a value validation inside `allOf`, `anyOf`, `oneOf` and
/// `not`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeData {
    pub kind: SchemaKind,
    pub list: ListType,
    pub flags: Flags,
    /// The range of its properties in the list of all members.
    pub members: (u32, u32),
    pub items: u32,
    pub additional: u32,
    pub rules: u32,
    pub extras: u32,
}

/// Facts about a node, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flags(pub u16);

impl Flags {
    pub const NULLABLE: u16 = 1;
    pub const KEEPS_UNKNOWN: u16 = 1 << 1;
    pub const EMBEDDED: u16 = 1 << 2;
    pub const ATOMIC_MAP: u16 = 1 << 3;
    /// `properties` is set, even if it is empty.
    pub const HAS_PROPERTIES: u16 = 1 << 4;
    /// `additionalProperties` is a boolean, and which.
    pub const ALLOWS_OTHERS: u16 = 1 << 5;
    pub const FORBIDS_OTHERS: u16 = 1 << 6;
    /// A default exists below the node, but not the node's own.
    pub const DEFAULTS_BELOW: u16 = 1 << 7;
    /// An embedded resource exists at the node or below it.
    pub const EMBEDDED_IN: u16 = 1 << 8;
    /// A set or a map of items exists at the node or below it.
    pub const KEYED_IN: u16 = 1 << 9;
    /// Rules of `x-kubernetes-validations` exist at the node or below it.
    pub const VALIDATIONS_IN: u16 = 1 << 10;
    /// The document names a format other than `byte`, known or not.
    pub const HAS_FORMAT: u16 = 1 << 11;

    /// The facts of a node that hold for all nodes above it.
    pub const INHERITED: u16 = Self::EMBEDDED_IN | Self::KEYED_IN | Self::VALIDATIONS_IN;

    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    pub fn set(&mut self, flag: u16, is_set: bool) {
        if is_set {
            self.0 |= flag;
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Absent or `atomic`: the list is one value.
    #[default]
    Atomic,
    /// `set`.
    Set,
    /// `map`, with keys from [`Node::list_keys`].
    Map,
}

/// The rule for members without a schema of their own.
#[derive(Clone, Copy, Debug)]
pub enum Additional<'s> {
    /// `additionalProperties` is absent.
    Unsaid,
    /// `additionalProperties: true` or `false`.
    Allowed(bool),
    /// The schema of all of them.
    Schema(Node<'s>),
}

/// The parts of a schema that few schemas have.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub default: Option<Value>,
    /// The name of a type that does not exist.
    pub unknown_type: Box<str>,
    pub list_keys: Box<[String]>,
    pub validations: Box<[Value]>,
}

/// Validations of a value in addition to its type.
#[derive(Debug, Default)]
pub struct ValueRules {
    /// The format, if kube-apiserver checks it for the type of the value.
    pub(super) format: Option<Format>,
    /// The largest number.
    pub maximum: Option<f64>,
    /// Whether the maximum itself is invalid.
    pub is_maximum_exclusive: bool,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// Whether the minimum itself is invalid.
    pub is_minimum_exclusive: bool,
    /// The factor that must divide a number.
    pub multiple_of: Option<f64>,
    /// The maximum number of characters of a text.
    pub max_length: Option<i64>,
    /// The minimum number of characters of a text.
    pub min_length: Option<i64>,
    /// The regular expression that a text must match.
    pub(super) pattern: Option<SharedPattern>,
    /// The maximum number of items of a list.
    pub max_items: Option<i64>,
    /// The minimum number of items of a list.
    pub min_items: Option<i64>,
    /// The maximum number of members of an object.
    pub max_properties: Option<i64>,
    /// The minimum number of members of an object.
    pub min_properties: Option<i64>,
    /// The only valid values (`enum`), empty if unset.
    pub values: Box<[Value]>,
    /// The names of required members.
    pub required: Box<[Box<str>]>,
    pub(super) all_of: Box<[u32]>,
    pub(super) any_of: Box<[u32]>,
    pub(super) one_of: Box<[u32]>,
    pub(super) not: Option<u32>,
}

impl ValueRules {
    /// Returns the name of the format, empty without one that kube-apiserver checks.
    pub fn format(&self) -> &str {
        self.format.as_ref().map_or("", |format| &format.name)
    }
}

/// A node of a compiled schema.
#[derive(Clone, Copy, Debug)]
pub struct Node<'s> {
    schema: &'s StructuralSchema,
    data: &'s NodeData,
    at: u32,
}

static NO_RULES: std::sync::LazyLock<ValueRules> = std::sync::LazyLock::new(ValueRules::default);

impl StructuralSchema {
    /// Returns the node of whole objects.
    pub fn root(&self) -> Node<'_> {
        self.node(self.root).unwrap_or(Node {
            schema: self,
            data: &EMPTY,
            at: NONE,
        })
    }

    /// Returns the node with this index, see [`Node::index`].
    pub fn node(&self, at: u32) -> Option<Node<'_>> {
        let data = self.nodes.get(at as usize)?;
        Some(Node {
            schema: self,
            data,
            at,
        })
    }

    /// Returns the number of different nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the schema has no node, which it never is.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

static EMPTY: NodeData = NodeData {
    kind: SchemaKind::Any,
    list: ListType::Atomic,
    flags: Flags(0),
    members: (0, 0),
    items: NONE,
    additional: NONE,
    rules: NONE,
    extras: NONE,
};

impl<'s> Node<'s> {
    pub(super) fn has(&self, flag: u16) -> bool {
        self.data.flags.has(flag)
    }

    /// Returns the declared type.
    pub fn kind(&self) -> SchemaKind {
        self.data.kind
    }

    /// Returns the declared type as messages name it.
    pub(super) fn type_name(&self) -> &'s str {
        match (self.data.kind, self.extras()) {
            (SchemaKind::Unknown, Some(extras)) => &extras.unknown_type,
            (kind, _) => kind.name(),
        }
    }

    /// Returns whether `null` is a valid value (`nullable`).
    pub fn is_nullable(&self) -> bool {
        self.has(Flags::NULLABLE)
    }

    /// Returns whether unknown members are kept (`x-kubernetes-preserve-unknown-fields`).
    pub fn keeps_unknown(&self) -> bool {
        self.has(Flags::KEEPS_UNKNOWN)
    }

    /// Returns whether values are whole objects with kind and metadata
    /// (`x-kubernetes-embedded-resource`).
    pub fn is_embedded(&self) -> bool {
        self.has(Flags::EMBEDDED)
    }

    /// Returns whether an embedded resource exists here or below.
    pub fn has_embedded(&self) -> bool {
        self.has(Flags::EMBEDDED_IN)
    }

    /// Returns whether an object has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub fn is_atomic_map(&self) -> bool {
        self.has(Flags::ATOMIC_MAP)
    }

    /// Returns whether `x-kubernetes-validations` exist here or below.
    pub fn has_validations(&self) -> bool {
        self.has(Flags::VALIDATIONS_IN)
    }

    /// Returns how the items of a list are identified.
    pub fn list_type(&self) -> ListType {
        self.data.list
    }

    /// Returns the names of the members that identify an item (`x-kubernetes-list-map-keys`).
    pub fn list_keys(&self) -> &'s [String] {
        self.extras().map_or(&[], |extras| &extras.list_keys)
    }

    /// Returns the schema of a list's items.
    pub fn items(&self) -> Option<Node<'s>> {
        self.schema.node(self.data.items)
    }

    /// Returns the rule for members without a schema of their own.
    pub fn additional(&self) -> Additional<'s> {
        match self.schema.node(self.data.additional) {
            Some(node) => Additional::Schema(node),
            None if self.has(Flags::ALLOWS_OTHERS) => Additional::Allowed(true),
            None if self.has(Flags::FORBIDS_OTHERS) => Additional::Allowed(false),
            None => Additional::Unsaid,
        }
    }

    /// Returns the schema of members without one of their own.
    pub(super) fn additional_schema(&self) -> Option<Node<'s>> {
        self.schema.node(self.data.additional)
    }

    /// Returns the schema of a named member.
    pub fn property(&self, name: &str) -> Option<Node<'s>> {
        let members = self.members();
        let prefix = prefix_of(name);
        let found = members.binary_search_by(|member| {
            let order = member.prefix.cmp(&prefix);
            order.then_with(|| self.schema.name(*member).cmp(name))
        });
        let member = members.get(found.ok()?)?;
        self.schema.node(member.node)
    }

    /// Returns the schema of a member: its own, or that of additional ones.
    pub fn member(&self, name: &str) -> Option<Node<'s>> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// Returns the named members with their schemas, sorted by name.
    pub fn properties(&self) -> impl Iterator<Item = (&'s str, Node<'s>)> + use<'s> {
        let schema = self.schema;
        let members = self.members().iter();
        members.filter_map(|member| Some((schema.name(*member), schema.node(member.node)?)))
    }

    /// Returns whether `properties` is set.
    pub fn has_properties(&self) -> bool {
        self.has(Flags::HAS_PROPERTIES)
    }

    /// Returns the default value.
    pub fn default(&self) -> Option<&'s Value> {
        self.extras()?.default.as_ref()
    }

    /// Returns the value validations.
    pub fn rules(&self) -> &'s ValueRules {
        self.own_rules().unwrap_or_else(|| &NO_RULES)
    }

    /// Returns the value validations, if the node has any.
    pub(super) fn own_rules(&self) -> Option<&'s ValueRules> {
        self.schema.rules.get(self.data.rules as usize)
    }

    /// Returns the rules in CEL (`x-kubernetes-validations`) as in the definition, with `rule`,
    /// `message`, `messageExpression`, `reason`, `fieldPath` and `optionalOldSelf`.
    pub fn validations(&self) -> &'s [Value] {
        self.extras().map_or(&[], |extras| &extras.validations)
    }

    /// Returns a number that only equal nodes of the schema share, for tables of compiled rules.
    pub fn index(&self) -> u32 {
        self.at
    }

    /// Returns the schemas that must all hold (`allOf`).
    pub fn all_of(&self) -> impl ExactSizeIterator<Item = Node<'s>> + use<'s> {
        self.nested(&self.rules().all_of)
    }

    /// Returns the schemas of which at least one must hold (`anyOf`).
    pub fn any_of(&self) -> impl ExactSizeIterator<Item = Node<'s>> + use<'s> {
        self.nested(&self.rules().any_of)
    }

    /// Returns the schemas of which exactly one must hold (`oneOf`).
    pub fn one_of(&self) -> impl ExactSizeIterator<Item = Node<'s>> + use<'s> {
        self.nested(&self.rules().one_of)
    }

    /// Returns the schema that must not hold (`not`).
    pub fn not(&self) -> Option<Node<'s>> {
        self.rules().not.and_then(|at| self.schema.node(at))
    }

    fn nested(&self, list: &'s [u32]) -> impl ExactSizeIterator<Item = Node<'s>> + use<'s> {
        let schema = self.schema;
        list.iter().map(move |at| Node {
            schema,
            data: schema.nodes.get(*at as usize).unwrap_or(&EMPTY),
            at: *at,
        })
    }

    fn members(&self) -> &'s [Member] {
        let (begin, end) = self.data.members;
        let range = begin as usize..end as usize;
        self.schema.members.get(range).unwrap_or_default()
    }

    fn extras(&self) -> Option<&'s Extras> {
        self.schema.extras.get(self.data.extras as usize)
    }
}

impl StructuralSchema {
    fn name(&self, member: Member) -> &str {
        self.names.get(member.name as usize).map_or("", |name| name)
    }
}
