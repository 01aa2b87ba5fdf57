//! Pure. The objects in the text of a manifest.

use serde_json::Value;

use crate::api::decode::decode_stored_yaml;

/// An object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    /// Its place in the file, from 1.
    pub(super) number: usize,
    /// An object, not a list.
    pub(super) object: Value,
}

/// Reads the objects of a text: YAML documents or JSON. Those of a list count as one document.
///
/// # Errors
/// The number of the document and the fault.
pub(super) fn documents(text: &str) -> Result<Vec<Document>, String> {
    let mut found = Vec::new();
    let mut number = 0;
    let is_json = text.trim_start().starts_with('{');
    let values: Box<dyn Iterator<Item = Result<Value, String>>> = match is_json {
        true => {
            let values = serde_json::Deserializer::from_str(text).into_iter();
            Box::new(values.map(|value: Result<Value, _>| value.map_err(|error| error.to_string())))
        }
        false => {
            let texts = texts(text).into_iter().filter(|text| !is_empty(text));
            Box::new(texts.map(|text| decode_stored_yaml(text.as_bytes())))
        }
    };
    for value in values {
        number += 1;
        let value = value.map_err(|fault| format!("document {number}: {fault}"))?;
        add(value, number, &mut found)?;
    }
    Ok(found)
}

fn add(value: Value, number: usize, found: &mut Vec<Document>) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let is = |name: &str| {
        let member = value.get(name).and_then(Value::as_str);
        member.is_some_and(|text| !text.is_empty())
    };
    if !is("kind") || !is("apiVersion") {
        return Err(format!(
            "document {number}: it has no apiVersion or no kind"
        ));
    }
    let kind = value.get("kind").and_then(Value::as_str);
    let is_list = kind.is_some_and(|kind| kind.ends_with("List"));
    match value.get("items") {
        Some(Value::Array(items)) if is_list => {
            for item in items {
                add(item.clone(), number, found)?;
            }
        }
        _ => found.push(Document {
            number,
            object: value,
        }),
    }
    Ok(())
}

/// The texts between the lines that begin with `---`.
fn texts(text: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    for line in text.lines() {
        let rest = line.strip_prefix("---");
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if rest.is_some() {
            texts.push(String::new());
        }
        if let Some(last) = texts.last_mut() {
            last.push_str(rest.unwrap_or(line));
            last.push('\n');
        }
    }
    texts
}

/// Whether a text has only comments.
fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(usize, String)> {
        let found = documents(text).unwrap().into_iter();
        let name = |document: &Document| document.object["metadata"]["name"].to_string();
        found
            .map(|document| (document.number, name(&document)))
            .collect()
    }

    #[test]
    fn documents_of_yaml_and_json_and_lists_are_read() {
        let a = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n";
        let b = "apiVersion: v1\nkind: B\nmetadata: {name: b}\n";
        let both = vec![(1, "\"a\"".to_owned()), (2, "\"b\"".to_owned())];
        assert_eq!(
            names(&format!("# x\n---\n{a}---\n# only\n--- # y\n{b}---\n")),
            both
        );
        let json = r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}
            {"apiVersion":"v1","kind":"B","metadata":{"name":"b"}}"#;
        assert_eq!(names(json), both);
        let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n  \
                    metadata: {name: a}\n- apiVersion: v1\n  kind: B\n  metadata: {name: b}\n";
        assert_eq!(
            names(list),
            [(1, "\"a\"".to_owned()), (1, "\"b\"".to_owned())]
        );
        assert_eq!(names("# nothing\n"), []);
    }

    #[test]
    fn a_fault_names_its_document() {
        for text in [
            "apiVersion: v1\nkind: A\n---\na: [",
            "{\"kind\":\"A\",\"apiVersion\":\"v1\"}{",
        ] {
            let fault = documents(text).unwrap_err();
            assert!(fault.starts_with("document 2: "), "{fault}");
        }
        let fault = documents("a: b\n").unwrap_err();
        assert_eq!(fault, "document 1: it has no apiVersion or no kind");
    }
}
