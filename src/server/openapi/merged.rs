//! The parts of extensions' documents in the v2 document (CN-26).
//!
//! A definition or parameter with the name of another one but other content gets a new name; equal
//! ones are shared, with the kinds that both name. One document of an extension at a time is in
//! memory as text: it is read for its names, for its paths, and for the rest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::schemas::{SchemaContext, Source};
use crate::aggregation::openapi::{DEFINITIONS, Members, PARAMETERS, Reduced, redirect};

/// The kinds that a definition is the schema of.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The parts of all extensions.
pub(super) struct Merged<'m> {
    extensions: Vec<Extension<'m>>,
    /// Further kinds of definitions that extensions share, by name.
    kinds: BTreeMap<String, Vec<Value>>,
}

struct Extension<'m> {
    document: &'m Reduced,
    definitions: Names,
    parameters: Names,
}

/// The names of an extension that differ in the merged document.
#[derive(Default)]
struct Names {
    renamed: HashMap<String, String>,
    /// Those that are in the document already.
    shared: HashSet<String>,
}

/// The kinds that a definition is the schema of, and the rest of it.
type Content = (Vec<Value>, Value);

/// The digests of contents, by the names in the merged document.
type Contents = HashMap<String, [u8; 32]>;

impl<'m> Merged<'m> {
    /// Decides about the names of extensions, next to these own definitions and parameters.
    pub(super) fn new(
        extensions: &'m [Arc<Reduced>],
        own: &BTreeMap<String, Source<'_>>,
        parameters: &BTreeMap<String, Value>,
        context: &SchemaContext<'_>,
    ) -> Merged<'m> {
        let mut merged = Merged {
            extensions: Vec::new(),
            kinds: BTreeMap::new(),
        };
        let (mut definitions_of, mut parameters_of) = (Contents::new(), Contents::new());
        for document in extensions {
            let of_definition = |name: &str| {
                let mut schema = own.get(name)?.schema(name, context);
                Some((without_kinds(&mut schema), schema))
            };
            let of_parameter = |name: &str| Some((Vec::new(), parameters.get(name)?.clone()));
            let names = document.read(|parts| {
                let definitions =
                    merged.names(&parts.definitions, &mut definitions_of, &of_definition);
                let parameters = merged.names(&parts.parameters, &mut parameters_of, &of_parameter);
                (definitions, parameters)
            });
            let (definitions, parameters) = names.unwrap_or_default();
            merged.extensions.push(Extension {
                document,
                definitions,
                parameters,
            });
        }
        merged
    }

    fn names(
        &mut self,
        members: &Members<'_>,
        contents: &mut Contents,
        own: &dyn Fn(&str) -> Option<Content>,
    ) -> Names {
        let mut names = Names::default();
        for (name, text) in members {
            let Ok(mut value) = serde_json::from_str::<Value>(text.get()) else {
                names.shared.insert(name.clone().into_owned());
                continue;
            };
            let kinds = without_kinds(&mut value);
            let content = digest(&value);
            let candidates = (2..).map(|number: usize| format!("{name}_v{number}"));
            let candidates = std::iter::once(name.clone().into_owned()).chain(candidates);
            for candidate in candidates {
                let of_own = own(&candidate);
                let known = match &of_own {
                    Some((_, value)) => Some(digest(value)),
                    None => contents.get(&candidate).copied(),
                };
                if known.is_some_and(|known| known != content) {
                    continue;
                }
                match known {
                    None => {
                        contents.insert(candidate.clone(), content);
                    }
                    Some(_) => {
                        names.shared.insert(name.clone().into_owned());
                        let of_own = of_own.map(|(kinds, _)| kinds).unwrap_or_default();
                        let added = self.kinds.entry(candidate.clone()).or_default();
                        for kind in kinds {
                            // linear: a definition is the schema of a few kinds.
                            if !of_own.contains(&kind) && !added.contains(&kind) {
                                added.push(kind);
                            }
                        }
                    }
                }
                if candidate != **name {
                    names.renamed.insert(name.clone().into_owned(), candidate);
                }
                break;
            }
        }
        names
    }

    /// Adds the kinds that extensions name for a definition.
    pub(super) fn add_kinds(&self, name: &str, schema: &mut Value) {
        let Some(added) = self.kinds.get(name).filter(|added| !added.is_empty()) else {
            return;
        };
        let Some(members) = schema.as_object_mut() else {
            return;
        };
        let kinds = members
            .entry(KINDS)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(kinds) = kinds {
            kinds.extend(added.iter().cloned());
        }
    }

    /// Passes on the paths of all extensions.
    pub(super) fn paths(&self, mut take: impl FnMut(&str, &Value)) {
        for extension in &self.extensions {
            // It was read before.
            let _ = extension.document.read(|parts| {
                for (name, text) in &parts.paths {
                    if let Ok(mut item) = serde_json::from_str(text.get()) {
                        extension.redirect(&mut item);
                        take(name, &item);
                    }
                }
            });
        }
    }

    /// Passes on the definitions of all extensions that are not in the document already.
    pub(super) fn definitions(&self, mut take: impl FnMut(&str, &Value)) {
        for extension in &self.extensions {
            let names = &extension.definitions;
            let _ = extension.document.read(|parts| {
                extension.members(&parts.definitions, names, &mut |name, mut schema| {
                    self.add_kinds(name, &mut schema);
                    take(name, &schema);
                });
            });
        }
    }

    /// Passes on the parameters of all extensions that are not in the document already.
    pub(super) fn parameters(&self, mut take: impl FnMut(&str, &Value)) {
        for extension in &self.extensions {
            let names = &extension.parameters;
            let _ = extension.document.read(|parts| {
                extension.members(&parts.parameters, names, &mut |name, value| {
                    take(name, &value)
                });
            });
        }
    }
}

impl Extension<'_> {
    fn members(&self, members: &Members<'_>, names: &Names, take: &mut dyn FnMut(&str, Value)) {
        for (name, text) in members {
            if names.shared.contains(&**name) {
                continue;
            }
            if let Ok(mut value) = serde_json::from_str(text.get()) {
                self.redirect(&mut value);
                let renamed = names.renamed.get(&**name);
                take(renamed.map_or(&**name, String::as_str), value);
            }
        }
    }

    /// Changes the references in a value to the names in the merged document.
    fn redirect(&self, value: &mut Value) {
        let (definitions, parameters) = (&self.definitions.renamed, &self.parameters.renamed);
        if definitions.is_empty() && parameters.is_empty() {
            return;
        }
        redirect(value, &|reference| {
            if let Some(name) = reference.strip_prefix(DEFINITIONS) {
                return Some(format!("{DEFINITIONS}{}", definitions.get(name)?));
            }
            let name = reference.strip_prefix(PARAMETERS)?;
            Some(format!("{PARAMETERS}{}", parameters.get(name)?))
        });
    }
}

/// Removes the kinds that a definition is the schema of.
fn without_kinds(schema: &mut Value) -> Vec<Value> {
    let kinds = schema.as_object_mut().and_then(|of| of.remove(KINDS));
    match kinds {
        Some(Value::Array(kinds)) => kinds,
        _ => Vec::new(),
    }
}

/// Returns a digest of a value. Members are sorted, so equal values have equal texts.
fn digest(value: &Value) -> [u8; 32] {
    Sha256::digest(value.to_string()).into()
}
