//! Pure. The objects in the text of a manifest.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::api::decode::{BodyFormat, decode_manifest};

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
    let mut read = |text: &str, format: BodyFormat| {
        number += 1;
        let decoded = decode_manifest(text.as_bytes(), format);
        let (value, repeated) = decoded.map_err(|fault| format!("document {number}: {fault}"))?;
        match repeated.first() {
            // The last one would count, and hide the others.
            Some(repeated) => Err(format!("document {number}: {repeated}; give it once")),
            None => add(value, number, &mut found),
        }
    };
    if text.trim_start().starts_with('{') {
        let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
        let mut begin = 0;
        while let Some(value) = values.next() {
            // The text of a wrong value is read again, for a fault in the usual words.
            let end = match value {
                Ok(_) => values.byte_offset(),
                Err(_) => text.len(),
            };
            read(text.get(begin..end).unwrap_or_default(), BodyFormat::Json)?;
            begin = end;
        }
    } else {
        for text in texts(text).iter().filter(|text| !is_empty(text)) {
            read(text, BodyFormat::Yaml)?;
        }
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
        for (text, expected) in [
            (
                "a: b\n---\nkind: A\napiVersion: v1\nkind: B\n",
                "document 1: it has no apiVersion or no kind",
            ),
            (
                "kind: A\napiVersion: v1\n---\nkind: A\napiVersion: v1\nkind: B\n",
                "document 2: line 4: key \"kind\" already set in map; give it once",
            ),
            (
                r#"{"kind": "A", "apiVersion": "v1", "data": {"a": 1, "a": 2}}"#,
                "document 1: duplicate field \"data.a\"; give it once",
            ),
        ] {
            assert_eq!(documents(text).unwrap_err(), expected);
        }
        let fault = documents("a: b\n").unwrap_err();
        assert_eq!(fault, "document 1: it has no apiVersion or no kind");
    }
}
