//! The managedFields of a body, kept as text if they look as the server writes them. Most clients
//! send back the managedFields that they have read, and most writes only pass them on.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::typed::GoPath;
use crate::go_json::compacted;
use crate::object::EntryTexts;
use crate::text::go_time::{self, Decimals};

/// An entry without missing or unknown members. Texts in it have no escapes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry<'t> {
    api_version: &'t str,
    fields_type: &'t str,
    #[serde(rename = "fieldsV1", borrow)]
    fields: &'t RawValue,
    manager: &'t str,
    operation: &'t str,
    subresource: Option<&'t str>,
    time: Option<&'t str>,
}

impl Entry<'_> {
    /// Returns whether printing the decoded entry would print the same members.
    fn is_whole(&self) -> bool {
        let texts = [self.api_version, self.manager, self.operation];
        let is_printed = |text: Option<&str>| text.is_none_or(|text| !text.is_empty());
        let is_time = |text| match go_time::canonical(text, Decimals::Any) {
            Ok(printed) => printed.as_deref() == Some(text),
            Err(_) => false,
        };
        self.fields_type == "FieldsV1"
            && self.fields.get().starts_with('{')
            && texts.iter().all(|text| !text.is_empty())
            && is_printed(self.subresource)
            && self.time.is_none_or(is_time)
    }

    /// Writes the entry as the decoded one would be printed. The fields keep their order.
    fn write(&self, text: &mut String) {
        let texts = EntryTexts {
            api_version: self.api_version,
            manager: self.manager,
            operation: self.operation,
            subresource: self.subresource.unwrap_or_default(),
            time: self.time.unwrap_or_default(),
        };
        let fields = compacted(self.fields.get());
        texts.write(text, |text| {
            text.push_str(&String::from_utf8_lossy(&fields))
        });
    }
}

/// Returns whether a field is `metadata.managedFields` of the object itself.
pub(super) fn is_at(at: &GoPath<'_>) -> bool {
    let is_of_metadata =
        |above: &GoPath<'_>| above.above.is_none() && *above.field.name == *"metadata";
    *at.field.name == *"managedFields" && at.above.is_some_and(is_of_metadata)
}

/// Returns the text of a list of entries as the server writes it. Returns `None` if the list is
/// empty, or if an entry has to be decoded by its type, because it is incomplete, has further
/// members, or is written in another form.
pub(super) fn text(list: &str) -> Option<String> {
    let entries: Vec<Entry<'_>> = serde_json::from_str(list).ok()?;
    if entries.is_empty() || !entries.iter().all(Entry::is_whole) {
        return None;
    }
    let mut text = String::with_capacity(list.len());
    for (place, entry) in entries.iter().enumerate() {
        text.push(if place == 0 { '[' } else { ',' });
        entry.write(&mut text);
    }
    text.push(']');
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::decode::{BodyFormat, decode_object};
    use crate::object::Object;
    use crate::samples::configmaps;

    const ENTRY: &str = r#"{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a<":{}}},"manager":"m","operation":"Update","time":"2026-01-02T03:04:05Z"}"#;

    fn decoded(metadata: &str) -> (Object, Vec<String>) {
        let body = format!("{{\"metadata\":{{{metadata}}}}}");
        let read = decode_object(body.as_bytes(), BodyFormat::Json, &configmaps()).unwrap();
        let faults = read.faults.iter().map(ToString::to_string).collect();
        (read.object, faults)
    }

    fn tree(object: &Object) -> Value {
        object
            .at(&["metadata", "managedFields"])
            .cloned()
            .unwrap_or_default()
    }

    /// API-188: entries as the server writes them, in any order of members and with any spaces.
    #[test]
    fn entries_as_the_server_writes_them_stay_text() {
        let entry: Value = serde_json::from_str(ENTRY).unwrap();
        let own = ENTRY.replace('<', "\\u003c");
        let members = entry.as_object().unwrap();
        let reversed: Vec<String> = members
            .iter()
            .rev()
            .map(|(name, value)| format!("\"{name}\" :\n{value}"))
            .collect();
        let reversed = format!("{{ {} }}", reversed.join(" , "));
        for written in [ENTRY, &own, &reversed] {
            for count in 1..3 {
                let list = |entry: &str| format!("[{}]", vec![entry; count].join(","));
                let (object, faults) = decoded(&format!("\"managedFields\":{}", list(written)));
                assert_eq!(tree(&object), Value::Null);
                assert_eq!(
                    object.managed_fields().map(|text| &**text),
                    Some(&*list(&own))
                );
                assert_eq!(faults, [""; 0]);
            }
        }
    }

    /// API-188: entries that their type changes, prunes, warns about or refuses are decoded by it.
    #[test]
    fn other_entries_are_read_by_their_type() {
        let with = |name: &str, value: Value| {
            let mut entry: Value = serde_json::from_str(ENTRY).unwrap();
            entry[name] = value;
            entry.to_string()
        };
        let without = |name: &str| {
            let mut entry: Value = serde_json::from_str(ENTRY).unwrap();
            entry.as_object_mut().unwrap().remove(name);
            entry.to_string()
        };
        let twice = ENTRY.replacen('{', "{\"manager\":\"m\",", 1);
        let cases = [
            ("{}".to_owned(), 0),
            ("null".to_owned(), 0),
            (with("manager", "a\"b".into()), 0),
            (with("manager", "".into()), 0),
            (with("subresource", "".into()), 0),
            (with("fieldsV1", Value::Null), 0),
            (with("fieldsType", "FieldsV2".into()), 0),
            (with("time", "2026-01-02T03:04:05+01:00".into()), 0),
            (with("more", 1.into()), 1),
            (without("operation"), 0),
            (twice, 1),
        ];
        for (entry, count) in cases {
            let (object, faults) = decoded(&format!("\"managedFields\":[{entry}]"));
            assert!(tree(&object).is_array(), "{entry}");
            assert_eq!(object.managed_fields(), None, "{entry}");
            assert_eq!(faults.len(), count, "{entry}: {faults:?}");
        }
        let (object, _) = decoded("\"managedFields\":[]");
        assert_eq!((tree(&object), object.managed_fields()), (json!([]), None));
    }

    /// API-90: a second list is decoded into the first, as in Go, and counts as a duplicate.
    #[test]
    fn lists_given_twice_are_merged() {
        let first = format!("\"managedFields\":[{ENTRY}]");
        let second = "\"managedFields\":[{\"manager\":\"n\"}]";
        let (object, faults) = decoded(&format!("{first},{second}"));
        let merged = tree(&object);
        assert_eq!(object.managed_fields(), None);
        assert_eq!(
            (&merged[0]["manager"], &merged[0]["apiVersion"]),
            (&json!("n"), &json!("v1"))
        );
        assert_eq!(faults, ["duplicate field \"metadata.managedFields\""]);

        let (object, faults) = decoded(&format!("{second},{first}"));
        assert_eq!(tree(&object)[0]["manager"], "m");
        assert_eq!(faults.len(), 1);

        let (object, _) = decoded(&format!("{first},\"managedFields\":null"));
        assert_eq!(
            (tree(&object), object.managed_fields()),
            (Value::Null, None)
        );

        let (object, _) = decoded(&format!("{first}}},\"metadata\":{{{second}"));
        assert_eq!(tree(&object)[0]["operation"], "Update");
    }
}
