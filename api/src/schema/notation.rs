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
//! them they are those of the core group.
//!
//! `kinds` lists the kinds of a version that is known and not served, of which nothing else is
//! told.
//!
//! `name` gives a type another name. Behind `enum` it lists the values, with `|` between them; `""`
//! is the empty text.
//!
//! `type` begins a struct: `kind` says that it is the type of whole objects, `map=atomic` that
//! appliers own it as a whole, `open` that it keeps members that are no fields, `union` that one of
//! its fields is set. A line of a field has its
//! number in protobuf (`-` for none), its name, its type, and then what else is known of it:
//!
//! | word | meaning |
//! |---|---|
//! | `always` | printed without a value too |
//! | `omitzero` | a struct without a value is left out |
//! | `required` | OpenAPI documents require it |
//! | `list=set`, `list=map(name,protocol)` | how appliers merge the list |
//! | `map=atomic`, `map=granular` | how appliers merge the map or struct |
//! | `patch=merge(name)`, `patch=retainKeys` | how strategic merge patches merge it |
//! | `default=TCP` | the value that counts if none is given |
//! | `typed` | the objects in it have their apiVersion and kind in JSON |
//! | `discriminator` | it says which other field is set |
//! | `empty` | an empty list or map is distinguished from an absent one until the object has been checked |
//!
//! `inline` instead of a name means the fields of another struct, which is a message with this
//! number in protobuf. Types are written as in Go, with the package in front if it is another one:
//! `*int32`, `[]core.v1.Container`, `map[string]quantity`.

use std::collections::HashMap;

use super::canonical::is_printed_without_value;
use super::model::{
    Field, KindName, ListType, Patch, PatchStrategy, Scalar, Schema, Shape, Struct, StructId, Type,
};
use super::reachable_fields::find_reachable;

/// A text that can't be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{package}: {problem}: {line}")]
pub struct NotationError {
    /// The package of the text, if it is known.
    pub package: String,
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// What may be said of a struct.
const TYPE_WORDS: [&str; 4] = ["kind", "map=atomic", "open", "union"];

/// How many names and inlined structs may stand for each other.
const DEPTH_MAX: usize = 16;

/// What was read of a text before names were resolved.
#[derive(Default)]
struct Texts<'t> {
    /// Other names of types, by package and name: the type, its package, its values.
    names: HashMap<String, Name<'t>>,
    structs: Vec<StructText<'t>>,
    /// The group and version of a package's kinds, as in `apiVersion`.
    versions: HashMap<&'t str, &'t str>,
    unserved: Vec<KindName>,
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
    /// Reads the texts of packages that refer to each other.
    ///
    /// # Errors
    /// The first line that can't be understood.
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
                        return Err(fault(package, &words, "a name that is there already"));
                    }
                }
                (["kinds", kinds @ ..], false) => {
                    let named = kinds.iter().filter_map(|kind| self.kind(package, kind));
                    let named: Vec<KindName> = named.collect();
                    self.unserved.extend(named);
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
                _ => return Err(fault(package, &words, "no word of the notation")),
            }
        }
        Ok(())
    }

    /// The name of a package's kind.
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
                return Err(fault(text.package, &line, "a name that is there already"));
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
        // Those of inlined structs are more than the lines.
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
                    let number = numbered(number).ok_or_else(|| refuse("no number"))?;
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
                    let number = numbered(number).ok_or_else(|| refuse("no number"))?;
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
                _ => return Err(refuse("no field")),
            }
        }
        Ok(())
    }

    fn struct_text(&self, name: &str, package: &str) -> Option<&StructText<'_>> {
        let id = self.by_name.get(&whole(name, package))?;
        self.texts.structs.get(id.0)
    }

    /// The type that is written. `None` if it is unknown, or its name stands for itself.
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

/// Where a struct is inlined: the Go fields down to it, and their numbers.
#[derive(Default)]
struct Embedding {
    path: String,
    numbers: Vec<u32>,
}

/// A number in protobuf, or `None` within for `-`.
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

/// The name with its package: `apps.v1.DeploymentSpec`.
fn whole(name: &str, package: &str) -> String {
    match name.contains('.') {
        true => name.to_owned(),
        false => format!("{package}.{name}"),
    }
}

/// The name as refusals show it: `v1.DeploymentSpec`.
fn shown(whole: &str) -> String {
    let mut parts = whole.rsplitn(3, '.');
    let (name, version) = (parts.next(), parts.next());
    format!(
        "{}.{}",
        version.unwrap_or_default(),
        name.unwrap_or_default()
    )
}

/// The types that stand for themselves, with the names that refusals show. Some have a schema of
/// their own.
fn of_its_own(word: &str) -> Option<Type> {
    const EXTENSIONS: &str = "apiextensions.v1";
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
        "json" => own(Shape::Any, "v1.JSON", EXTENSIONS),
        "schemaorbool" => own(Shape::Any, "v1.JSONSchemaPropsOrBool", EXTENSIONS),
        "schemaorarray" => own(Shape::Any, "v1.JSONSchemaPropsOrArray", EXTENSIONS),
        "schemaorstrings" => own(Shape::Any, "v1.JSONSchemaPropsOrStringArray", EXTENSIONS),
        _ => return None,
    };
    Some(Type {
        schema_name,
        ..Type::plain(shape, go_name.to_owned())
    })
}

/// A shape, the name that refusals show, and the package and name of the schema.
type Own = (Shape, &'static str, Option<(&'static str, &'static str)>);

fn own(shape: Shape, go_name: &'static str, package: &'static str) -> Own {
    let name = go_name.split_once('.').map_or(go_name, |(_, name)| name);
    (shape, go_name, Some((package, name)))
}

/// `None` for a word that says nothing.
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

/// `merge(name)` as its word and what is in brackets.
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
            ("package a.v1\nkind X", "no word of the notation"),
            ("package a.v1\ntype X\n  1 x Y", "an unknown type"),
            ("package a.v1\ntype X\n  1 inline Y", "an unknown type"),
            ("package a.v1\ntype X\n  one x string", "no number"),
            (
                "package a.v1\ntype X\n  1 x string often",
                "an unknown word",
            ),
            (
                "package a.v1\ntype X\n  1 x []string list=bag",
                "an unknown word",
            ),
            ("package a.v1\ntype X\n  1 x", "no field"),
            ("package a.v1\ntype X kinds", "an unknown word"),
            ("package a.v1\nname X string enmu a|b", "an unknown word"),
            (
                "package a.v1\ntype X\n  1 x string map=atomc",
                "an unknown word",
            ),
            (
                "package a.v1\ntype X\ntype X",
                "a name that is there already",
            ),
            (
                "package a.v1\nname X string\nname X bool",
                "a name that is there already",
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
