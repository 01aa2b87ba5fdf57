//! Turns OpenAPI v2 into v3, for extensions that have only the former (CN-27). Pure.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::reduced::{DEFINITIONS, PARAMETERS, Parts, redirect};

/// The members of a parameter that are not part of its schema.
const OF_PARAMETERS: [&str; 5] = ["name", "in", "description", "required", "allowEmptyValue"];

/// The methods of a path.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// The media type of bodies whose operation names none.
const ANY: &str = "*/*";

/// The most bytes of shared parameters, and of schemas for several media types, that a document may
/// have copies of. Without a bound a short document could become a very long one. A parameter that
/// does not fit stays a reference, and a media type has no schema.
const COPIED_BYTES_MAX: usize = 16 << 20;

/// A v2 document that is converted.
struct Source<'p> {
    parts: &'p Parts<'p>,
    copied_bytes: Cell<usize>,
}

impl Source<'_> {
    /// Whether so many bytes may be copied. They count from then on.
    fn may_copy(&self, bytes: usize) -> bool {
        let copied = self.copied_bytes.get().saturating_add(bytes);
        let fits = copied <= COPIED_BYTES_MAX;
        if fits {
            self.copied_bytes.set(copied);
        }
        fits
    }

    /// Returns the parameter that a reference means.
    fn shared(&self, reference: &str) -> Option<Value> {
        let name = reference.strip_prefix(PARAMETERS)?;
        let text = self.parts.parameters.get(name)?.get();
        let text = Some(text).filter(|text| self.may_copy(text.len()))?;
        serde_json::from_str(text).ok()
    }
}

/// Returns the v3 document about a group version.
pub(super) fn version(parts: &Parts<'_>, group: &str, version: &str) -> Value {
    let source = Source {
        parts,
        copied_bytes: Cell::new(0),
    };
    let root = format!("/apis/{group}/{version}/");
    let paths = parts.paths.iter();
    let paths = paths.filter(|(path, _)| path.starts_with(&root));
    let paths = paths.filter_map(|(path, item)| {
        let item = serde_json::from_str(item.get()).ok()?;
        Some((path.clone().into_owned(), path_item(item, &source)))
    });
    let paths: Map<String, Value> = paths.collect();
    let schemas = parts.definitions.iter().filter_map(|(name, text)| {
        let schema = serde_json::from_str(text.get()).ok()?;
        Some((name.clone().into_owned(), schema))
    });
    let schemas: Map<String, Value> = schemas.collect();
    let mut document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    });
    redirect(&mut document, &|reference| {
        let name = reference.strip_prefix(DEFINITIONS)?;
        Some(format!("#/components/schemas/{name}"))
    });
    document
}

fn path_item(item: Value, source: &Source<'_>) -> Value {
    let Value::Object(members) = item else {
        return json!({});
    };
    let mut converted = Map::new();
    for (name, value) in members {
        let value = match &*name {
            "parameters" => {
                let (parameters, _) = parameters(&value, source);
                parameters.into()
            }
            method if METHODS.contains(&method) => operation(value, source),
            _ => value,
        };
        converted.insert(name, value);
    }
    converted.into()
}

fn operation(given: Value, source: &Source<'_>) -> Value {
    let Value::Object(mut members) = given else {
        return json!({});
    };
    let media_types = |value: Option<Value>| {
        let names: BTreeSet<String> = value
            .and_then(|names| serde_json::from_value(names).ok())
            .unwrap_or_default();
        match names.is_empty() {
            true => BTreeSet::from([ANY.to_owned()]),
            false => names,
        }
    };
    let consumes = media_types(members.remove("consumes"));
    let produces = media_types(members.remove("produces"));
    members.remove("schemes");
    if let Some(given) = members.remove("parameters") {
        let (parameters, body) = parameters(&given, source);
        if !parameters.is_empty() {
            members.insert("parameters".to_owned(), parameters.into());
        }
        if let Some(body) = body {
            let mut converted = json!({"content": content(&consumes, body.get("schema"), source)});
            for name in ["description", "required"] {
                if let Some(value) = body.get(name) {
                    converted[name] = value.clone();
                }
            }
            members.insert("requestBody".to_owned(), converted);
        }
    }
    if let Some(Value::Object(responses)) = members.get_mut("responses") {
        for response in responses.values_mut() {
            let schema = response.as_object_mut().and_then(|of| of.remove("schema"));
            if let Some(schema) = schema {
                response["content"] = content(&produces, Some(&schema), source);
            }
        }
    }
    members.into()
}

fn content(media_types: &BTreeSet<String>, schema: Option<&Value>, source: &Source<'_>) -> Value {
    let copies = media_types.len().saturating_sub(1);
    let fits = |schema: &&Value| copies == 0 || source.may_copy(copies * schema.to_string().len());
    let entry = match schema.filter(fits) {
        Some(schema) => json!({"schema": schema}),
        None => json!({}),
    };
    let entries = media_types.iter().map(|name| (name.clone(), entry.clone()));
    Value::Object(entries.collect())
}

/// Returns the parameters other than the body, and the body.
fn parameters(given: &Value, source: &Source<'_>) -> (Vec<Value>, Option<Value>) {
    let mut others = Vec::new();
    let mut body = None;
    for given in given.as_array().into_iter().flatten() {
        let reference = given.get("$ref").and_then(Value::as_str);
        let shared = reference.and_then(|reference| source.shared(reference));
        let parameter = shared.as_ref().unwrap_or(given);
        if parameter.get("in").and_then(Value::as_str) == Some("body") {
            body = Some(parameter.clone());
            continue;
        }
        let (mut own, mut schema) = (Map::new(), Map::new());
        for (name, value) in parameter.as_object().into_iter().flatten() {
            let place = match OF_PARAMETERS.contains(&name.as_str()) {
                true => &mut own,
                false => &mut schema,
            };
            place.insert(name.clone(), value.clone());
        }
        own.insert("schema".to_owned(), schema.into());
        others.push(own.into());
    }
    (others, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_and_schemas_become_components_cn_27() {
        let document = json!({
            "paths": {"/apis/a.example/v1/flunders": {
                "parameters": [{"$ref": "#/parameters/limit"}],
                "post": {
                    "consumes": ["application/json"], "produces": ["application/json"],
                    "parameters": [
                        {"in": "body", "name": "body", "required": true,
                         "schema": {"$ref": "#/definitions/Flunder"}}],
                    "responses": {
                        "200": {"description": "OK", "schema": {"$ref": "#/definitions/Flunder"}},
                        "401": {"description": "Unauthorized"}},
                    "schemes": ["https"], "x-kubernetes-action": "post"}},
                "/apis/a.example/v2/flunders": {}},
            "definitions": {"Flunder": {"properties": {"s": {"$ref": "#/definitions/Flunder"}}}},
            "parameters": {"limit": {"in": "query", "name": "limit", "type": "integer"}},
        });
        let text = document.to_string();
        let parts: Parts<'_> = serde_json::from_str(&text).unwrap();
        let schema = json!({"schema": {"$ref": "#/components/schemas/Flunder"}});
        let content = json!({"application/json": schema});
        let expected = json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"},
            "paths": {"/apis/a.example/v1/flunders": {
                "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer"}}],
                "post": {
                    "requestBody": {"required": true, "content": content},
                    "responses": {
                        "200": {"description": "OK", "content": content},
                        "401": {"description": "Unauthorized"}},
                    "x-kubernetes-action": "post"}}},
            "components": {"schemas": {"Flunder": {"properties":
                {"s": {"$ref": "#/components/schemas/Flunder"}}}}},
        });
        assert_eq!(version(&parts, "a.example", "v1"), expected);
    }
    #[test]
    fn copies_are_bounded() {
        let long = "x".repeat(1 << 20);
        let reference = json!({"$ref": "#/parameters/long"});
        let media_types: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let response = json!({"description": "OK", "schema": {"description": long}});
        let document = json!({
            "paths": {"/apis/a.example/v1/flunders": {
                "parameters": vec![reference.clone(); 100],
                "get": {"produces": media_types, "responses": {"200": response}}}},
            "parameters": {"long": {"in": "query", "name": "long", "pattern": long}},
        });
        let text = document.to_string();
        let parts: Parts<'_> = serde_json::from_str(&text).unwrap();
        let version = version(&parts, "a.example", "v1");
        let item = &version["paths"]["/apis/a.example/v1/flunders"];
        let parameters = item["parameters"].as_array().unwrap();
        assert_eq!(parameters.len(), 100);
        assert_eq!(parameters[0]["name"], "long");
        assert_eq!(parameters[99]["schema"], reference);
        let content = item["get"]["responses"]["200"]["content"]
            .as_object()
            .unwrap();
        assert_eq!(content.len(), 100);
        assert!(version.to_string().len() < COPIED_BYTES_MAX + (2 << 20));
    }
}
