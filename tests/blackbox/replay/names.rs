//! Replaces values that may differ between runs by names in the order of first appearance, so that
//! responses can be compared and equal values stay equal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The names given so far in one scenario.
pub struct Names {
    seen: BTreeMap<&'static str, BTreeMap<String, String>>,
    literals: Vec<(String, String)>,
    dropped: BTreeSet<String>,
}

impl Names {
    pub fn new(namespace: &str, other: &str, dropped: &[String]) -> Names {
        Names {
            seen: BTreeMap::new(),
            literals: vec![
                (namespace.to_owned(), "<ns>".to_owned()),
                (other.to_owned(), "<other>".to_owned()),
            ],
            dropped: dropped.iter().cloned().collect(),
        }
    }

    /// Gives these texts names: `<name>`. Longer ones are replaced first, because they may have
    /// shorter ones in them.
    pub fn add(&mut self, mut literals: Vec<(&'static str, String)>) {
        literals.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
        let named = literals.into_iter();
        self.literals
            .extend(named.map(|(name, text)| (text, format!("<{name}>"))));
    }

    /// The value with names for uids, versions, generated names and namespaces, one word each for
    /// times and continue tokens, and without the dropped members.
    pub fn clean(&mut self, value: &Value) -> Value {
        self.clean_member(value, "")
    }

    fn clean_member(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::Object(members) => self.clean_object(members),
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.clean_member(item, key))
                    .collect(),
            ),
            Value::String(text) => Value::String(self.clean_text(text, key)),
            other => other.clone(),
        }
    }

    fn clean_object(&mut self, members: &Map<String, Value>) -> Value {
        let prefix = members
            .get("generateName")
            .and_then(Value::as_str)
            .filter(|p| !p.is_empty());
        let mut out = Map::new();
        for (key, value) in members {
            if self.dropped.contains(key) {
                continue;
            }
            if key == "name"
                && let (Some(prefix), Some(name)) = (prefix, value.as_str())
                && name.starts_with(prefix)
            {
                let short = self.name("generated", name);
                self.literals.push((name.to_owned(), short));
            }
            out.insert(self.text(key), self.clean_member(value, key));
        }
        Value::Object(out)
    }

    fn clean_text(&mut self, text: &str, key: &str) -> String {
        match key {
            "resourceVersion" if !matches!(text, "" | "0") => self.name("rv", text),
            "continue" if !text.is_empty() => "<continue>".to_owned(),
            _ if is_time(text) => "<time>".to_owned(),
            _ => self.text(text),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (literal, name) in &self.literals {
            text = text.replace(literal, name);
        }
        self.name_uids(&without_versions(&without_quoted(&text)))
    }

    fn name_uids(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        'text: while !rest.is_empty() {
            for (start, _) in rest.char_indices() {
                if let Some(candidate) = rest.get(start..start + 36)
                    && is_uid(candidate)
                {
                    out += &rest[..start];
                    out += &self.name("uid", candidate);
                    rest = &rest[start + 36..];
                    continue 'text;
                }
            }
            out += rest;
            break;
        }
        out
    }

    fn name(&mut self, kind: &'static str, value: &str) -> String {
        let table = self.seen.entry(kind).or_default();
        let next = format!("<{kind}-{}>", table.len() + 1);
        table.entry(value.to_owned()).or_insert(next).clone()
    }
}

/// The text with `<varies>` for versions and times in an object that it quotes.
fn without_quoted(text: &str) -> String {
    let mut text = text.to_owned();
    for name in ["resourceVersion", "creationTimestamp", "time"] {
        let announced = format!(r#"\"{name}\":\""#);
        let mut parts = text.split(&announced);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(['"', '\\']).unwrap_or(part.len());
            out += &announced;
            out += "<varies>";
            out += &part[end..];
        }
        text = out;
    }
    text
}

/// The text with `<version>` for each number that follows words which announce a version.
fn without_versions(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        let after = announced(&lower[at..]).map(|length| at + length);
        let digits = after.map_or(0, |start| {
            text[start..].bytes().take_while(u8::is_ascii_digit).count()
        });
        if let (Some(start), 1..) = (after, digits) {
            out += &text[at..start];
            out += "<version>";
            at = start + digits;
        } else {
            let next = text[at..].chars().next().map_or(1, char::len_utf8);
            out += &text[at..at + next];
            at += next;
        }
    }
    out
}

/// How long the words at the start of a text are that announce a version.
fn announced(text: &str) -> Option<usize> {
    const PLAIN: [&str; 3] = ["resource version: ", "resourceversion: ", "current: "];
    if let Some(words) = PLAIN.iter().find(|words| text.starts_with(**words)) {
        return Some(words.len());
    }
    let rest = text.strip_prefix("resourceversion in ")?;
    let rest = rest.strip_prefix("the ").unwrap_or(rest);
    let rest = ["precondition", "object meta", "record"]
        .iter()
        .find_map(|place| rest.strip_prefix(place))?;
    let rest = rest.strip_prefix(':').unwrap_or(rest).strip_prefix(' ')?;
    let rest = rest.strip_prefix('(').unwrap_or(rest);
    Some(text.len() - rest.len())
}

fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

/// RFC 3339 in UTC, with or without a fraction.
fn is_time(text: &str) -> bool {
    let Some(text) = text.strip_suffix('Z') else {
        return false;
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let shape = "dddd-dd-ddTdd:dd:dd";
    !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && seconds.len() == shape.len()
        && seconds
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                other => byte == other,
            })
}

#[test]
fn equal_values_get_equal_names() {
    let uid = "01234567-89ab-cdef-0123-456789abcdef";
    let mut names = Names::new("replay-1", "absent-1", &["managedFields".to_owned()]);
    let object = serde_json::json!({
        "metadata": {
            "name": "gen-abcde", "generateName": "gen-", "uid": uid, "resourceVersion": "17",
            "namespace": "replay-1", "creationTimestamp": "2026-01-02T03:04:05Z",
            "managedFields": [],
        },
        "message": format!("gen-abcde of {uid}: Too large resource version: 9, current: 8"),
        "other": { "resourceVersion": "17", "continue": "token" },
        "quoted": r#"{\"time\":\"2026-01-02T03:04:05Z\",\"resourceVersion\":\"17\",\"a\":1}"#,
    });
    let clean = names.clean(&object);
    assert_eq!(
        clean,
        serde_json::json!({
            "metadata": {
                "name": "<generated-1>", "generateName": "gen-", "uid": "<uid-1>",
                "resourceVersion": "<rv-1>", "namespace": "<ns>", "creationTimestamp": "<time>",
            },
            // The message comes first in the order of members, before the name is known.
            "message": "gen-abcde of <uid-1>: Too large resource version: <version>, \
                        current: <version>",
            "other": { "resourceVersion": "<rv-1>", "continue": "<continue>" },
            "quoted": r#"{\"time\":\"<varies>\",\"resourceVersion\":\"<varies>\",\"a\":1}"#,
        })
    );
}
