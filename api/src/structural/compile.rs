//! Compilation of structural schemas from the JSON of a definition.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::formats::Format;
use super::kind::SchemaKind;
use super::node::{
    Extras, Flags, ListType, Member, NONE, NodeData, StructuralSchema, ValueRules, prefix_of,
};
use super::patterns::SharedPattern;
use crate::go_json;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

impl StructuralSchema {
    /// Compiles the schema of a definition's version (`openAPIV3Schema`). Parts of the wrong type
    /// count as absent. The time and the memory are proportional to the document.
    pub fn compile(schema: &Value) -> StructuralSchema {
        let mut compiler = Compiler::default();
        let root = compiler.schema(schema);
        StructuralSchema {
            nodes: compiler.nodes.into(),
            members: compiler.members.into(),
            names: compiler.names.into(),
            rules: compiler.rules.into(),
            extras: compiler.extras.into(),
            root,
        }
    }
}

/// The parts so far, and the indexes of equal ones.
#[derive(Default)]
struct Compiler {
    nodes: Vec<NodeData>,
    members: Vec<Member>,
    names: Vec<Box<str>>,
    rules: Vec<ValueRules>,
    extras: Vec<Extras>,
    known_nodes: HashMap<(NodeData, Box<[Member]>), u32>,
    known_names: HashMap<Box<str>, u32>,
    /// By the JSON of the document from which they were read.
    known_rules: HashMap<Vec<u8>, u32>,
    known_extras: HashMap<Vec<u8>, u32>,
    patterns: HashMap<String, SharedPattern>,
}

/// The parts of one schema, before equal ones are looked up.
struct Draft<'d> {
    data: NodeData,
    members: Vec<Member>,
    /// The words of the value validations, and those of the rest.
    rule_words: Vec<(&'d str, &'d Value)>,
    extra_words: Vec<(&'d str, &'d Value)>,
    /// The facts of all nodes below.
    below: Flags,
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

impl Compiler {
    fn schema(&mut self, schema: &Value) -> u32 {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.schema_here(schema))
    }

    fn schema_here(&mut self, schema: &Value) -> u32 {
        let mut draft = Draft {
            data: NodeData {
                kind: SchemaKind::Any,
                list: ListType::Atomic,
                flags: Flags::default(),
                members: (0, 0),
                items: NONE,
                additional: NONE,
                rules: NONE,
                extras: NONE,
            },
            members: Vec::new(),
            rule_words: Vec::new(),
            extra_words: Vec::new(),
            below: Flags::default(),
        };
        for (name, value) in schema.as_object().into_iter().flatten() {
            self.word(&mut draft, name, value);
        }
        if is_true(schema, "x-kubernetes-int-or-string") {
            draft.data.kind = SchemaKind::IntOrString;
        }
        draft.data.rules = self.rules(&draft);
        draft.data.extras = self.extras(&draft.extra_words);
        let has_rules = draft
            .extra_words
            .iter()
            .any(|(name, _)| *name == "x-kubernetes-validations");
        let flags = &mut draft.data.flags;
        flags.set(Flags::VALIDATIONS_IN, has_rules);
        flags.set(Flags::KEYED_IN, draft.data.list != ListType::Atomic);
        flags.set(Flags::EMBEDDED_IN, flags.has(Flags::EMBEDDED));
        flags.0 |= draft.below.0;
        self.intern(draft.data, draft.members)
    }

    /// Notes the facts of a node below the one of the draft.
    fn below(&self, draft: &mut Draft<'_>, at: u32) {
        let Some(node) = self.nodes.get(at as usize) else {
            return;
        };
        draft.below.0 |= node.flags.0 & (Flags::INHERITED | Flags::DEFAULTS_BELOW);
        let extras = self.extras.get(node.extras as usize);
        let has_default = extras.is_some_and(|extras| extras.default.is_some());
        draft.below.set(Flags::DEFAULTS_BELOW, has_default);
    }

    fn word<'d>(&mut self, draft: &mut Draft<'d>, name: &'d str, value: &'d Value) {
        let is_true = *value == Value::Bool(true);
        match (name, value) {
            ("type", Value::String(kind)) => {
                draft.data.kind = SchemaKind::read(kind);
                if draft.data.kind == SchemaKind::Unknown {
                    draft.extra_words.push((name, value));
                }
            }
            ("nullable", _) => draft.data.flags.set(Flags::NULLABLE, is_true),
            ("items", Value::Object(_)) => {
                draft.data.items = self.schema(value);
                let at = draft.data.items;
                self.below(draft, at);
            }
            ("properties", Value::Object(members)) => self.properties(draft, members),
            ("additionalProperties", Value::Bool(are_allowed)) => {
                let flags = &mut draft.data.flags;
                flags.set(Flags::ALLOWS_OTHERS, *are_allowed);
                flags.set(Flags::FORBIDS_OTHERS, !are_allowed);
            }
            ("additionalProperties", Value::Object(_)) => {
                draft.data.additional = self.schema(value);
                let at = draft.data.additional;
                self.below(draft, at);
            }
            ("x-kubernetes-preserve-unknown-fields", _) => {
                draft.data.flags.set(Flags::KEEPS_UNKNOWN, is_true);
            }
            ("x-kubernetes-embedded-resource", _) => {
                draft.data.flags.set(Flags::EMBEDDED, is_true);
            }
            ("x-kubernetes-map-type", Value::String(kind)) => {
                draft.data.flags.set(Flags::ATOMIC_MAP, kind == "atomic");
            }
            ("x-kubernetes-list-type", Value::String(kind)) => {
                draft.data.list = match kind.as_str() {
                    "set" => ListType::Set,
                    "map" => ListType::Map,
                    _ => ListType::Atomic,
                };
            }
            ("default", Value::Null) => {}
            ("x-kubernetes-list-map-keys" | "x-kubernetes-validations", Value::Array(list))
                if list.is_empty() => {}
            ("default" | "x-kubernetes-list-map-keys" | "x-kubernetes-validations", _) => {
                draft.extra_words.push((name, value));
            }
            ("description" | "title" | "example" | "externalDocs", _) => {}
            _ => {
                let has_format = name == "format" && !matches!(value.as_str(), Some("" | "byte"));
                draft.data.flags.set(Flags::HAS_FORMAT, has_format);
                draft.rule_words.push((name, value));
            }
        }
    }

    fn properties(&mut self, draft: &mut Draft<'_>, members: &Map<String, Value>) {
        draft.data.flags.set(Flags::HAS_PROPERTIES, true);
        for (name, value) in members {
            let node = self.schema(value);
            let prefix = prefix_of(name);
            let name = self.name(name);
            draft.members.push(Member { prefix, name, node });
            self.below(draft, node);
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(known) = self.known_names.get(name) {
            return *known;
        }
        let at = index(self.names.len());
        self.names.push(name.into());
        self.known_names.insert(name.into(), at);
        at
    }

    /// Returns the index of a node, the same for equal ones.
    fn intern(&mut self, mut data: NodeData, members: Vec<Member>) -> u32 {
        let key = (data, members.into_boxed_slice());
        if let Some(known) = self.known_nodes.get(&key) {
            return *known;
        }
        let begin = index(self.members.len());
        self.members.extend_from_slice(&key.1);
        data.members = (begin, index(self.members.len()));
        let at = index(self.nodes.len());
        self.nodes.push(data);
        self.known_nodes.insert(key, at);
        at
    }

    fn extras(&mut self, words: &[(&str, &Value)]) -> u32 {
        if words.is_empty() {
            return NONE;
        }
        let key = key_of(words);
        if let Some(known) = self.known_extras.get(&key) {
            return *known;
        }
        let mut extras = Extras::default();
        for (name, value) in words {
            let list = || value.as_array().map(Vec::as_slice).unwrap_or_default();
            match *name {
                "default" => extras.default = Some((*value).clone()),
                "type" => extras.unknown_type = value.as_str().unwrap_or_default().into(),
                "x-kubernetes-list-map-keys" => {
                    let keys = list().iter().filter_map(Value::as_str);
                    extras.list_keys = keys.map(str::to_owned).collect();
                }
                _ => extras.validations = list().into(),
            }
        }
        let at = index(self.extras.len());
        self.extras.push(extras);
        self.known_extras.insert(key, at);
        at
    }

    fn rules(&mut self, draft: &Draft<'_>) -> u32 {
        if draft.rule_words.is_empty() {
            return NONE;
        }
        let mut rules = ValueRules::default();
        let mut key = Vec::new();
        let mut plain = Vec::new();
        for (name, value) in &draft.rule_words {
            let value = *value;
            match *name {
                "allOf" => rules.all_of = self.nested(value),
                "anyOf" => rules.any_of = self.nested(value),
                "oneOf" => rules.one_of = self.nested(value),
                "not" if value.is_object() => rules.not = Some(self.schema(value)),
                _ => {
                    self.rule_word(&mut rules, draft.data.kind, (*name, value));
                    plain.push((*name, value));
                }
            }
        }
        // The nested schemas are equal if their indexes are.
        for list in [&rules.all_of, &rules.any_of, &rules.one_of] {
            key.extend(list.iter().flat_map(|at| at.to_le_bytes()));
            key.extend(NONE.to_le_bytes());
        }
        key.extend(rules.not.unwrap_or(NONE).to_le_bytes());
        key.push(draft.data.kind as u8);
        key.extend(key_of(&plain));
        if let Some(known) = self.known_rules.get(&key) {
            return *known;
        }
        let at = index(self.rules.len());
        self.rules.push(rules);
        self.known_rules.insert(key, at);
        at
    }

    fn nested(&mut self, list: &Value) -> Box<[u32]> {
        let list = list.as_array().into_iter().flatten();
        list.map(|schema| self.schema(schema)).collect()
    }

    fn rule_word(&mut self, rules: &mut ValueRules, kind: SchemaKind, word: (&str, &Value)) {
        let (name, value) = word;
        let is_true = *value == Value::Bool(true);
        let text = value.as_str().unwrap_or_default();
        match name {
            "format" => rules.format = Format::of(text, kind),
            "maximum" => rules.maximum = value.as_f64(),
            "exclusiveMaximum" => rules.is_maximum_exclusive = is_true,
            "minimum" => rules.minimum = value.as_f64(),
            "exclusiveMinimum" => rules.is_minimum_exclusive = is_true,
            "multipleOf" => rules.multiple_of = value.as_f64(),
            "maxLength" => rules.max_length = value.as_i64(),
            "minLength" => rules.min_length = value.as_i64(),
            "pattern" if !text.is_empty() => rules.pattern = Some(self.pattern(text)),
            "maxItems" => rules.max_items = value.as_i64(),
            "minItems" => rules.min_items = value.as_i64(),
            "maxProperties" => rules.max_properties = value.as_i64(),
            "minProperties" => rules.min_properties = value.as_i64(),
            "enum" => {
                let values = value.as_array().map(Vec::as_slice);
                rules.values = values.unwrap_or_default().into();
            }
            "required" => {
                let names = value.as_array().into_iter().flatten();
                let names = names.filter_map(Value::as_str);
                rules.required = names.map(Box::from).collect();
            }
            _ => {}
        }
    }

    fn pattern(&mut self, text: &str) -> SharedPattern {
        let known = self.patterns.entry(text.to_owned());
        known.or_insert_with(|| SharedPattern::new(text)).clone()
    }
}

fn is_true(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Returns a key that only equal words share.
fn key_of(words: &[(&str, &Value)]) -> Vec<u8> {
    let mut key = Vec::new();
    for (name, value) in words {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
        go_json::write_value(&mut key, value);
        key.push(0);
    }
    key
}
