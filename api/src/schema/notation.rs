//! The notation of types: one text for each package, one line for each fact.
//!
//! ```text
//! package apps.v1 apps/v1
//!
//! name DeploymentStrategyType string enum Recreate|RollingUpdate
//!
//! type DeploymentSpec
//!   1 replicas *int32
//!   2 selector *meta.v1.LabelSelector always required
//!   4 strategy DeploymentStrategy patch=retainKeys
//! ```
//!
//! A text begins with the name of its package. The group and version of its kinds follow; without
//! them the kinds belong to the core group.
//!
//! `kinds` lists the kinds of a known version that is not served. Nothing else is known about them.
//!
//! `neverowner` lists a version and a kind whose objects can't be owners.
//!
//! `scheme` gives a place in Kubernetes' sources that registers the kinds of some groups, as error
//! messages name it: `scheme pkg/a.go:55 apiextensions.k8s.io`. Without groups it is the place of
//! all others.
//!
//! `name` defines another name for a type. After `enum` it lists the valid values, separated by
//! `|`; `""` is the empty text.
//!
//! `type` begins a struct. `kind` marks the type of whole objects, `map=atomic` a struct that
//! server-side apply treats as atomic, `open` one that keeps unknown members, and `union` one of
//! whose fields only one is set. The line of a field has its protobuf number (`-` for none), its
//! name, its type, and these attributes:
//!
//! | attribute | meaning |
//! |---|---|
//! | `always` | it is printed even without a value |
//! | `omitzero` | a struct without a value is omitted |
//! | `required` | OpenAPI documents require it |
//! | `list=set`, `list=map(name,protocol)` | how server-side apply merges the list |
//! | `map=atomic`, `map=granular` | how server-side apply merges the map or struct |
//! | `patch=merge(name)`, `patch=retainKeys` | how strategic merge patches merge it |
//! | `default=TCP` | its default |
//! | `typed` | the objects in it have apiVersion and kind in JSON |
//! | `discriminator` | it names the field of the union that is set |
//! | `empty` | an empty list or map differs from an absent one until the object was validated |
//!
//! `inline` instead of a name adds the fields of another struct, which protobuf has as a message
//! with this number. Types are written as in Go, with the name of the package if it is another one:
//! `*int32`, `[]core.v1.Container`, `map[string]quantity`. `Props|bool`, `Props|[]` and
//! `Props|[]string` are a struct of JSON schemas, or a boolean, a list of them, or a list of texts.
//! `json` is any JSON.

use std::collections::HashMap;

use super::canonical::is_printed_without_value;
use super::model::{
    Field, KindName, ListType, Patch, PatchStrategy, Scalar, Schema, SchemaName, SchemaOr, Schemes,
    Shape, Struct, StructId, Type,
};
use super::reachable_fields::find_reachable;

/// A text that is not valid notation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{package}: {problem}: {line}")]
pub struct NotationError {
    /// The package of the text, if known.
    pub package: String,
    /// The invalid line.
    pub line: String,
    /// The problem in words.
    pub problem: &'static str,
}

/// The attributes of a struct.
const TYPE_WORDS: [&str; 4] = ["kind", "map=atomic", "open", "union"];

/// The limit on chains of type names and nested inlined structs.
const DEPTH_MAX: usize = 16;

/// The lines of the texts, before names are resolved.
#[derive(Default)]
struct Texts<'t> {
    /// Named types by package and name: the type, its package and its enum values.
    names: HashMap<String, Name<'t>>,
    structs: Vec<StructText<'t>>,
    /// The group and version of a package's kinds, as in `apiVersion`.
    versions: HashMap<&'t str, &'t str>,
    unserved: Vec<KindName>,
    schemes: Schemes,
    never_owners: Vec<(String, String)>,
}

struct Name<'t> {
    package: &'t str,
    of: &'t str,
    values: Vec<String>,
}

struct StructText<'t> {
    package: &'t str,
    name: &'t str,
    words: Vec<&'t str>,
    /// The words of each line.
    lines: Vec<Vec<&'t str>>,
}

impl Schema {
    /// Parses the texts of packages that refer to each other.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn read(texts: &[&str]) -> Result<Schema, NotationError> {
        let mut read = Texts::default();
        for text in texts {
            read.add(text)?;
        }
        read.resolve()
    }
}

fn fault(package: &str, line: &[&str], problem: &'static str) -> NotationError {
    NotationError {
        package: package.to_owned(),
        line: line.join(" "),
        problem,
    }
}

impl<'t> Texts<'t> {
    fn add(&mut self, text: &'t str) -> Result<(), NotationError> {
        let mut package = "";
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (words.as_slice(), line.starts_with(' ')) {
                ([], _) => {}
                (["package", name, version @ ..], false) => {
                    package = name;
                    let version = version.first().copied();
                    self.versions.insert(package, version.unwrap_or("v1"));
                }
                (["name", name, of, values @ ..], false) => {
                    let values = match values {
                        ["enum", values @ ..] => values.join(" "),
                        [] => String::new(),
                        _ => return Err(fault(package, &words, "an unknown word")),
                    };
                    let values = values.split('|').filter(|value| !value.is_empty());
                    let values = values.map(|value| value.trim_matches('"').to_owned());
                    let other = Name {
                        package,
                        of,
                        values: values.collect(),
                    };
                    let whole = format!("{package}.{name}");
                    if self.names.insert(whole, other).is_some() {
                        return Err(fault(package, &words, "a duplicate name"));
                    }
                }
                (["kinds", kinds @ ..], false) => {
                    let named = kinds.iter().filter_map(|kind| self.kind(package, kind));
                    let named: Vec<KindName> = named.collect();
                    self.unserved.extend(named);
                }
                (["neverowner", version, kind], false) => {
                    let never = ((*version).to_owned(), (*kind).to_owned());
                    self.never_owners.push(never);
                }
                (["scheme", place], false) => self.schemes.of_others = (*place).to_owned(),
                (["scheme", place, groups @ ..], false) => {
                    let own = groups
                        .iter()
                        .map(|group| ((*group).to_owned(), (*place).to_owned()));
                    self.schemes.own.extend(own);
                }
                (["type", name, rest @ ..], false) => {
                    if !rest.iter().all(|word| TYPE_WORDS.contains(word)) {
                        return Err(fault(package, &words, "an unknown word"));
                    }
                    self.structs.push(StructText {
                        package,
                        name,
                        words: rest.to_vec(),
                        lines: Vec::new(),
                    });
                }
                (_, true) => match self.structs.last_mut() {
                    Some(last) => last.lines.push(words),
                    None => return Err(fault(package, &words, "a field without a type")),
                },
                _ => return Err(fault(package, &words, "not a word of the notation")),
            }
        }
        Ok(())
    }

    /// Returns the full name of a package's kind.
    fn kind(&self, package: &str, kind: &str) -> Option<KindName> {
        let version = self.versions.get(package)?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        Some(KindName {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    fn resolve(self) -> Result<Schema, NotationError> {
        let mut by_name = HashMap::new();
        for (number, text) in self.structs.iter().enumerate() {
            let name = format!("{}.{}", text.package, text.name);
            if by_name.insert(name, StructId(number)).is_some() {
                let line = ["type", text.name];
                return Err(fault(text.package, &line, "a duplicate name"));
            }
        }
        let resolver = Resolver {
            texts: &self,
            by_name: &by_name,
        };
        let structs = self.structs.iter().map(|text| resolver.resolved(text));
        let mut structs: Vec<Struct> = structs.collect::<Result<_, _>>()?;
        find_reachable(&mut structs);
        Ok(Schema {
            structs,
            by_name,
            kinds: Default::default(),
            unserved: self.unserved,
            schemes: self.schemes,
            never_owners: self.never_owners,
        })
    }
}

struct Resolver<'r, 't> {
    texts: &'r Texts<'t>,
    by_name: &'r HashMap<String, StructId>,
}

impl Resolver<'_, '_> {
    fn resolved(&self, text: &StructText<'_>) -> Result<Struct, NotationError> {
        let mut fields = Vec::with_capacity(text.lines.len());
        self.add_fields(text, &Embedding::default(), &mut fields, 0)?;
        // Inlining adds more fields than there are lines.
        fields.shrink_to_fit();
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        let printed = |(place, field)| is_printed_without_value(field).then_some(place);
        let printed = fields.iter().enumerate().filter_map(printed);
        let printed: Vec<usize> = printed.collect();
        let is_struct =
            |field: &Field| matches!(field.of.shape, Shape::Struct(_)) && !field.of.is_pointer;
        let is_printed_struct = |place: &&usize| fields.get(**place).is_some_and(is_struct);
        let printed_structs = printed.iter().filter(is_printed_struct).copied().collect();
        Ok(Struct {
            to_empties: Vec::new(),
            to_keyless: Vec::new(),
            to_raw: Vec::new(),
            package: text.package.to_owned(),
            name: text.name.to_owned(),
            kind: self.kind(text),
            is_atomic: text.words.contains(&"map=atomic"),
            is_union: text.words.contains(&"union"),
            is_open: text.words.contains(&"open"),
            printed_structs,
            printed_without_value: printed,
            is_message_throughout: false,
            message: Default::default(),
            fields,
        })
    }

    fn kind(&self, text: &StructText<'_>) -> Option<KindName> {
        let is_kind = text.words.contains(&"kind");
        is_kind.then(|| self.texts.kind(text.package, text.name))?
    }

    fn add_fields(
        &self,
        text: &StructText<'_>,
        embedding: &Embedding,
        fields: &mut Vec<Field>,
        depth: usize,
    ) -> Result<(), NotationError> {
        for line in &text.lines {
            let refuse = |problem| fault(text.package, line, problem);
            match line.as_slice() {
                [number, "inline", of] => {
                    let number = numbered(number).ok_or_else(|| refuse("not a number"))?;
                    let inlined = self.struct_text(of, text.package);
                    let inlined = inlined.ok_or_else(|| refuse("an unknown type"))?;
                    if depth == DEPTH_MAX {
                        return Err(refuse("a type within itself"));
                    }
                    let within = Embedding {
                        path: format!("{}{}.", embedding.path, inlined.name),
                        numbers: embedding.numbers.iter().copied().chain(number).collect(),
                    };
                    self.add_fields(inlined, &within, fields, depth + 1)?;
                }
                [number, name, of, words @ ..] => {
                    let of = self.of(of, text.package, 0);
                    let of = of.ok_or_else(|| refuse("an unknown type"))?;
                    let number = numbered(number).ok_or_else(|| refuse("not a number"))?;
                    let field = field(number, name, of, words);
                    let field = field.ok_or_else(|| refuse("an unknown word"))?;
                    let position = fields.len();
                    fields.push(Field {
                        position,
                        embedded_in: embedding.path.as_str().into(),
                        embedded_numbers: embedding.numbers.as_slice().into(),
                        ..field
                    });
                }
                _ => return Err(refuse("not a field")),
            }
        }
        Ok(())
    }

    fn struct_text(&self, name: &str, package: &str) -> Option<&StructText<'_>> {
        let id = self.by_name.get(&whole(name, package))?;
        self.texts.structs.get(id.0)
    }

    /// Returns the type for a type expression, or `None` if a name is unknown or refers to itself.
    fn of(&self, written: &str, package: &str, depth: usize) -> Option<Type> {
        if depth == DEPTH_MAX {
            return None;
        }
        let depth = depth + 1;
        if let Some(of) = written.strip_prefix('*') {
            let of = self.of(of, package, depth)?;
            return Some(Type {
                is_pointer: true,
                ..of
            });
        }
        if let Some(item) = written.strip_prefix("[]") {
            let item = self.of(item, package, depth)?;
            let go_name = format!("[]{}", go_name(&item));
            return Some(Type::plain(Shape::List(Box::new(item)), go_name));
        }
        if let Some(map) = written.strip_prefix("map[") {
            let (key, value) = map.split_once(']')?;
            let key = self.of(key, package, depth)?;
            let value = self.of(value, package, depth)?;
            let go_name = format!("map[{}]{}", go_name(&key), go_name(&value));
            return Some(Type::plain(Shape::Map(Box::new(value)), go_name));
        }
        if let Some((name, other)) = written.split_once('|') {
            let whole = whole(name, package);
            let (or, ending) = alternative(other)?;
            let schema_or = Some((*self.by_name.get(&whole)?, or));
            return Some(Type {
                schema_or,
                ..with_schema(Shape::Any, &format!("{whole}{ending}"))
            });
        }
        if written == "json" {
            return Some(with_schema(Shape::Any, &whole("JSON", package)));
        }
        if let Some(of) = of_its_own(written) {
            return Some(of);
        }
        let whole = whole(written, package);
        let shown = shown(&whole);
        if let Some(name) = self.texts.names.get(&whole) {
            let of = self.of(name.of, name.package, depth)?;
            return Some(Type {
                go_name: shown,
                values: name.values.as_slice().into(),
                ..of
            });
        }
        let id = self.by_name.get(&whole)?;
        Some(Type::plain(Shape::Struct(*id), shown))
    }
}

/// The place of an inlined struct: the Go fields on the way to it, and their protobuf numbers.
#[derive(Default)]
struct Embedding {
    path: String,
    numbers: Vec<u32>,
}

/// Parses a protobuf number. Returns `Some(None)` for `-`.
fn numbered(word: &str) -> Option<Option<u32>> {
    match word {
        "-" => Some(None),
        word => word.parse().ok().map(Some),
    }
}

fn go_name(of: &Type) -> String {
    let pointer = if of.is_pointer { "*" } else { "" };
    format!("{pointer}{}", of.go_name)
}

/// Returns the name with its package: `apps.v1.DeploymentSpec`.
fn whole(name: &str, package: &str) -> String {
    if name.contains('.') {
        name.to_owned()
    } else {
        format!("{package}.{name}")
    }
}

/// Returns the name as error messages show it: `v1.DeploymentSpec`.
fn shown(whole: &str) -> String {
    let mut parts = whole.rsplitn(3, '.');
    let (name, version) = (parts.next(), parts.next());
    format!(
        "{}.{}",
        version.unwrap_or_default(),
        name.unwrap_or_default()
    )
}

/// Returns a built-in type, with its name in error messages. Some have an OpenAPI schema of their
/// own.
fn of_its_own(word: &str) -> Option<Type> {
    let (shape, go_name, schema_name) = match word {
        "string" => (Shape::Scalar(Scalar::String), "string", None),
        "types.UID" => (Shape::Scalar(Scalar::String), "types.UID", None),
        "types.NodeName" => (Shape::Scalar(Scalar::String), "types.NodeName", None),
        "bool" => (Shape::Scalar(Scalar::Bool), "bool", None),
        "int32" => (Shape::Scalar(Scalar::Int32), "int32", None),
        "int64" => (Shape::Scalar(Scalar::Int64), "int64", None),
        "int" => (Shape::Scalar(Scalar::Int64), "int", None),
        "float64" => (Shape::Scalar(Scalar::Float64), "float64", None),
        "bytes" => (Shape::Scalar(Scalar::Bytes), "[]uint8", None),
        "duration" => (Shape::Scalar(Scalar::Duration), "v1.Duration", None),
        "time" => own(Shape::Scalar(Scalar::Time), "v1.Time", "meta.v1"),
        "microtime" => own(Shape::Scalar(Scalar::MicroTime), "v1.MicroTime", "meta.v1"),
        "quantity" => own(
            Shape::Scalar(Scalar::Quantity),
            "resource.Quantity",
            "resource",
        ),
        "intorstring" => own(
            Shape::Scalar(Scalar::IntOrString),
            "intstr.IntOrString",
            "intstr",
        ),
        "raw" => own(Shape::Object, "runtime.RawExtension", "runtime"),
        "fieldset" => own(Shape::Object, "v1.FieldsV1", "meta.v1"),
        _ => return None,
    };
    Some(Type {
        schema_name: schema_name.map(|(package, name)| SchemaName::boxed(package, name)),
        ..Type::plain(shape, go_name.to_owned())
    })
}

/// Returns the alternative to a JSON schema, with the end of the name of the Go type that has both.
fn alternative(written: &str) -> Option<(SchemaOr, &'static str)> {
    match written {
        "bool" => Some((SchemaOr::Bool, "OrBool")),
        "[]" => Some((SchemaOr::Schemas, "OrArray")),
        "[]string" => Some((SchemaOr::Strings, "OrStringArray")),
        _ => None,
    }
}

/// Returns a type with an OpenAPI schema of its own, by its name with its package.
fn with_schema(shape: Shape, whole: &str) -> Type {
    let (package, name) = whole.rsplit_once('.').unwrap_or(("", whole));
    Type {
        schema_name: Some(SchemaName::boxed(package.to_owned(), name.to_owned())),
        ..Type::plain(shape, shown(whole))
    }
}

/// A shape, the name in error messages, and the package and name of the OpenAPI schema.
type Own = (Shape, &'static str, Option<(&'static str, &'static str)>);

fn own(shape: Shape, go_name: &'static str, package: &'static str) -> Own {
    let name = go_name.split_once('.').map_or(go_name, |(_, name)| name);
    (shape, go_name, Some((package, name)))
}

/// Returns a field with these attributes, or `None` for an unknown attribute.
fn field(number: Option<u32>, name: &str, of: Type, words: &[&str]) -> Option<Field> {
    let mut field = Field {
        name: name.to_owned(),
        embedded_in: Box::default(),
        embedded_numbers: Box::default(),
        position: 0,
        number,
        of,
        is_always_printed: false,
        omits_zero_struct: false,
        is_required: false,
        list: None,
        is_atomic: None,
        patch: None,
        has_types: false,
        is_discriminator: false,
        distinguishes_empty: false,
        default: None,
    };
    for word in words {
        match word.split_once('=') {
            None => match *word {
                "always" => field.is_always_printed = true,
                "omitzero" => field.omits_zero_struct = true,
                "required" => field.is_required = true,
                "typed" => field.has_types = true,
                "discriminator" => field.is_discriminator = true,
                "empty" => field.distinguishes_empty = true,
                _ => return None,
            },
            Some(("list", list)) => field.list = Some(list_type(list)?),
            Some(("map", "atomic")) => field.is_atomic = Some(true),
            Some(("map", "granular")) => field.is_atomic = Some(false),
            Some(("patch", patch)) => field.patch = Some(Box::new(patch_of(patch)?)),
            Some(("default", value)) => field.default = Some(value.to_owned()),
            Some(_) => return None,
        }
    }
    Some(field)
}

/// Splits `merge(name)` into the word and the argument in brackets.
fn with_argument(word: &str) -> (&str, Option<&str>) {
    match word.strip_suffix(')').and_then(|word| word.split_once('(')) {
        Some((word, argument)) => (word, Some(argument)),
        None => (word, None),
    }
}

fn list_type(word: &str) -> Option<ListType> {
    match with_argument(word) {
        ("atomic", None) => Some(ListType::Atomic),
        ("set", None) => Some(ListType::Set),
        ("map", Some(keys)) => Some(ListType::Map(keys.split(',').map(str::to_owned).collect())),
        _ => None,
    }
}

fn patch_of(word: &str) -> Option<Patch> {
    const ALL: [PatchStrategy; 3] = [
        PatchStrategy::Merge,
        PatchStrategy::Replace,
        PatchStrategy::RetainKeys,
    ];
    let (strategies, key) = with_argument(word);
    let strategies = strategies
        .split(',')
        .map(|name| ALL.into_iter().find(|strategy| strategy.name() == name));
    Some(Patch {
        strategies: strategies.collect::<Option<_>>()?,
        key: key.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "package meta.v1\n\ntype ObjectMeta\n  1 name string\n";
    const APPS: &str = "package apps.v1 apps/v1\n\n\
        name Mode string enum \"\"|One|Two or more\n\
        name Sizes map[Mode]quantity\n\n\
        type Thing kind\n  1 metadata meta.v1.ObjectMeta\n  2 spec *Spec always required\n\n\
        type Spec map=atomic\n  1 mode *Mode\n  2 inline Common\n\
        \x20 3 parts []*Part list=map(name,kind) patch=merge,retainKeys(name)\n\
        \x20 - sizes Sizes map=granular\n\n\
        type Common\n  2 count int32 default=3\n\n\
        type Part\n  1 name string always\n";

    #[test]
    fn types_of_several_packages_are_read() {
        let schema = Schema::read(&[APPS, META]).unwrap();
        let thing = schema.get(schema.find("apps.v1.Thing").unwrap()).unwrap();
        let kind = thing.kind.as_ref().unwrap();
        assert_eq!(
            (&*kind.group, &*kind.version, &*kind.kind),
            ("apps", "v1", "Thing")
        );
        assert!(!thing.is_atomic && !thing.is_union);
        assert_eq!(thing.version(), "v1");
        let metadata = thing.field("metadata").unwrap();
        let meta = schema.find("meta.v1.ObjectMeta").unwrap();
        assert_eq!(metadata.of.shape, Shape::Struct(meta));
        let spec = thing.field("spec").unwrap();
        assert!(spec.of.is_pointer && spec.is_always_printed && spec.is_required);
        assert_eq!(spec.of.go_name, "v1.Spec");
        let spec = schema.get(schema.find("apps.v1.Spec").unwrap()).unwrap();
        assert!(spec.is_atomic);
        let names: Vec<&str> = spec.fields().iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["count", "mode", "parts", "sizes"]);
        let mode = &spec.field("mode").unwrap().of;
        assert_eq!(mode.shape, Shape::Scalar(Scalar::String));
        assert_eq!(mode.go_name, "v1.Mode");
        assert_eq!(*mode.values, ["", "One", "Two or more"]);
        let parts = spec.field("parts").unwrap();
        assert_eq!(parts.of.go_name, "[]*v1.Part");
        let keys = ["name", "kind"].map(str::to_owned).to_vec();
        assert_eq!(parts.list, Some(ListType::Map(keys)));
        let patch = parts.patch.as_ref().unwrap();
        let strategies = [PatchStrategy::Merge, PatchStrategy::RetainKeys];
        assert_eq!(
            (&*patch.strategies, patch.key.as_deref()),
            (&strategies[..], Some("name"))
        );
        let sizes = spec.field("sizes").unwrap();
        assert_eq!(sizes.of.go_name, "v1.Sizes");
        assert_eq!((sizes.number, sizes.is_atomic), (None, Some(false)));
        assert_eq!(spec.field("count").unwrap().default.as_deref(), Some("3"));
        assert!(spec.field("nothing").is_none());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, problem) in [
            ("package a.v1\n  1 x string", "a field without a type"),
            ("package a.v1\nkind X", "not a word of the notation"),
            ("package a.v1\ntype X\n  1 x Y", "an unknown type"),
            ("package a.v1\ntype X\n  1 inline Y", "an unknown type"),
            ("package a.v1\ntype X\n  one x string", "not a number"),
            (
                "package a.v1\ntype X\n  1 x string often",
                "an unknown word",
            ),
            (
                "package a.v1\ntype X\n  1 x []string list=bag",
                "an unknown word",
            ),
            ("package a.v1\ntype X\n  1 x", "not a field"),
            ("package a.v1\ntype X kinds", "an unknown word"),
            ("package a.v1\nname X string enmu a|b", "an unknown word"),
            (
                "package a.v1\ntype X\n  1 x string map=atomc",
                "an unknown word",
            ),
            ("package a.v1\ntype X\ntype X", "a duplicate name"),
            (
                "package a.v1\nname X string\nname X bool",
                "a duplicate name",
            ),
            ("package a.v1\ntype X\n  - inline X", "a type within itself"),
            ("package a.v1\nname Y Y\ntype X\n  1 x Y", "an unknown type"),
        ] {
            let error = Schema::read(&[text]).unwrap_err();
            assert_eq!(
                (error.problem, &*error.package),
                (problem, "a.v1"),
                "{text}"
            );
        }
    }
}
