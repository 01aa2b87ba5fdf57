//! Converts a stored object of another version without reading the parts that are the same in both.
//!
//! A CustomResourceDefinition consists of schemas for the most part, and a daemon reads hundreds of
//! definitions when it starts. Each schema is replaced by a stand-in, the rest is read and
//! converted, and the texts of the schemas are put back. This requires texts that would not change:
//! those of kube-apiserver have their members in another order.

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use memchr::memmem;
use serde::de::IgnoredAny;

use super::form::TypeName;
use super::{Codec, MediaType, recognise};
use crate::api::deep;

impl Codec {
    /// Decodes stored bytes that are not in the canonical form of the served version. Returns
    /// whether the defaults of their own version were applied. `is_own` says that this program has
    /// written them.
    pub(super) fn decode_uncanonical(
        &self,
        key: &Key,
        revision: Revision,
        value: &[u8],
        is_own: bool,
    ) -> Result<(CachedObject, bool), String> {
        if is_own
            && has_sorted_members(value)
            && let Some(object) = self.decode_skeleton(key, revision, value)
        {
            return Ok((object, true));
        }
        deep::retry_with_room(|| self.decode_whole(key, revision, value))
    }

    /// Decodes an object of a former version without the members that conversion copies.
    fn decode_skeleton(&self, key: &Key, revision: Revision, value: &[u8]) -> Option<CachedObject> {
        let mut formers = self.definition.behaviour.former_versions().iter();
        let member = formers.find_map(|former| former.copied_member)?;
        let skeleton = Skeleton::of(value, member)?;
        let members = recognise::recognise(&skeleton.json, MediaType::Json).ok()?;
        let former = self.former(&TypeName::said(&members))?;
        former.copied_member.filter(|known| *known == member)?;
        let object = former.read(members, &self.definition).ok()?;
        let filled = skeleton.fill_in(&self.canonical_form(&object))?;
        let attributes = self.attributes_of(&object)?;
        self.with_attributes(key, revision, &filled, &attributes)
    }
}

/// A value without the texts of some members.
struct Skeleton<'v> {
    /// The JSON of the value with stand-ins.
    json: Vec<u8>,
    member: &'static str,
    /// The beginning of the description in each stand-in. It does not occur in the value.
    mark: String,
    texts: Vec<&'v [u8]>,
}

impl<'v> Skeleton<'v> {
    /// Replaces the objects that are members of this name. Returns `None` if the value has none of
    /// them or is not JSON as this program writes it.
    fn of(value: &'v [u8], member: &'static str) -> Option<Skeleton<'v>> {
        let mut skeleton = Skeleton {
            json: Vec::new(),
            member,
            mark: mark(value)?,
            texts: Vec::new(),
        };
        let name = format!("\"{member}\":");
        let mut rest = value;
        while let Some(found) = memmem::find(rest, name.as_bytes()) {
            // Inside a text the quote would have a backslash before it.
            let before = found.checked_sub(1).and_then(|before| rest.get(before));
            let start = found + name.len();
            let (head, tail) = rest.split_at_checked(start)?;
            if !matches!(before, Some(b'{' | b',')) || !tail.starts_with(b"{") {
                return None;
            }
            let read = serde_json::Deserializer::from_slice(tail);
            let mut read = read.into_iter::<IgnoredAny>();
            read.next()?.ok()?;
            let (text, after) = tail.split_at_checked(read.byte_offset())?;
            skeleton.json.extend_from_slice(head);
            let stand_in = format!("{}{}\"}}", skeleton.opening(), skeleton.texts.len());
            skeleton.json.extend_from_slice(stand_in.as_bytes());
            skeleton.texts.push(text);
            rest = after;
        }
        skeleton.json.extend_from_slice(rest);
        (!skeleton.texts.is_empty()).then_some(skeleton)
    }

    /// Puts the texts back into JSON that was made from the skeleton.
    fn fill_in(&self, json: &[u8]) -> Option<Vec<u8>> {
        let opening = format!("\"{}\":{}", self.member, self.opening());
        let of_name = opening.len() - self.opening().len();
        let bytes: usize = self.texts.iter().map(|text| text.len()).sum();
        let mut filled = Vec::with_capacity(json.len() + bytes);
        let mut rest = json;
        while let Some(found) = memmem::find(rest, opening.as_bytes()) {
            let (head, tail) = rest.split_at_checked(found + of_name)?;
            let tail = tail.get(self.opening().len()..)?;
            let end = memmem::find(tail, b"\"}")?;
            let number = std::str::from_utf8(tail.get(..end)?).ok()?;
            filled.extend_from_slice(head);
            filled.extend_from_slice(self.texts.get(number.parse::<usize>().ok()?)?);
            rest = tail.get(end + 2..)?;
        }
        // A stand-in at another place would be an error of the conversion.
        if memmem::find(rest, self.mark.as_bytes()).is_some() {
            return None;
        }
        filled.extend_from_slice(rest);
        Some(filled)
    }

    /// Returns the beginning of each stand-in.
    fn opening(&self) -> String {
        format!("{{\"description\":\"{}", self.mark)
    }
}

/// Returns whether this program has written a value. It sorts members, so the first one of the
/// metadata is one of these two. kube-apiserver begins with the name, and leaves the members of
/// schemas unsorted, too.
fn has_sorted_members(value: &[u8]) -> bool {
    let metadata = b"\"metadata\":{";
    let head = memmem::find(value, metadata).and_then(|found| value.get(found + metadata.len()..));
    let first = [&b"\"annotations\":"[..], b"\"creationTimestamp\":"];
    head.is_some_and(|head| first.iter().any(|member| head.starts_with(member)))
}

/// Returns a text that does not occur in a value.
fn mark(value: &[u8]) -> Option<String> {
    let mut marks = (0..16).map(|number| format!("kept {number} "));
    marks.find(|mark| memmem::find(value, mark.as_bytes()).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: &str) -> Option<(String, String)> {
        let skeleton = Skeleton::of(value.as_bytes(), "s")?;
        let filled = skeleton.fill_in(&skeleton.json)?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Some((text(skeleton.json.clone()), text(filled)))
    }

    #[test]
    fn members_are_replaced_and_put_back() {
        let value =
            r#"{"a":{"s":{"c":[1,{}],"s":{"b":"}"}}},"l":[{"s":{}},{"s":{"d":"\"s\":{"}}]}"#;
        let (skeleton, filled) = round_trip(value).unwrap();
        assert_eq!(
            skeleton,
            r#"{"a":{"s":{"description":"kept 0 0"}},"l":[{"s":{"description":"kept 0 1"}},{"s":{"description":"kept 0 2"}}]}"#
        );
        assert_eq!(filled, value);
    }

    #[test]
    fn texts_that_look_like_members_or_stand_ins_stay() {
        let value = r#"{"a":"{\"s\":{","b":"x,\"s\":{","c":{"description":"kept 0 0"},"s":{}}"#;
        let (skeleton, filled) = round_trip(value).unwrap();
        assert!(
            skeleton.contains(r#""s":{"description":"kept 1 0"}"#),
            "{skeleton}"
        );
        assert_eq!(filled, value);
    }

    #[test]
    fn other_values_are_left_to_others() {
        for value in [
            r#"{"a":1}"#,
            r#"{"s":null}"#,
            r#"{"s":[1]}"#,
            r#"{"s": {}}"#,
            r#"{ "s":{}}"#,
            r#"{"s":{"#,
            "",
        ] {
            assert!(round_trip(value).is_none(), "{value}");
        }
    }

    #[test]
    fn the_first_member_of_the_metadata_tells_the_writer() {
        for (value, is_own) in [
            (
                r#"{"kind":"K","metadata":{"annotations":{},"creationTimestamp":"t"}}"#,
                true,
            ),
            (
                r#"{"kind":"K","metadata":{"creationTimestamp":"t","name":"n"}}"#,
                true,
            ),
            (
                r#"{"kind":"K","metadata":{"name":"n","creationTimestamp":"t"}}"#,
                false,
            ),
            (r#"{"kind":"K","metadata":{}}"#, false),
            (r#"{"kind":"K"}"#, false),
        ] {
            assert_eq!(has_sorted_members(value.as_bytes()), is_own, "{value}");
        }
    }
}
