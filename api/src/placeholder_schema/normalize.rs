//! The types of members that are checked until schemas do it: all of `metadata`, and the members
//! of a [`PlaceholderSchema`].

use std::borrow::Cow;
use std::fmt::Display;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, PAD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{MemberType, PlaceholderSchema};
use crate::document_paths::{Paths, json_type};
use crate::object::Object;

/// Base64 as Go reads it: padding is required, unused bits may have any value.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD_ALLOWING_TRAILING_BITS);
const PAD_ALLOWING_TRAILING_BITS: GeneralPurposeConfig = PAD.with_decode_allow_trailing_bits(true);

impl PlaceholderSchema {
    /// Checks the types of an object's members and normalizes them. Null counts as absent, a null
    /// text is empty, and times are whole seconds of UTC. Unknown members of `metadata` are
    /// dropped, and their paths are returned. Refusals name the object's `kind`.
    ///
    /// # Errors
    /// The first member of a wrong type, in the words of Kubernetes' decoder (API-89).
    pub fn normalize(&self, object: &mut Object, kind: &str) -> Result<Vec<String>, String> {
        let mut unknown = Paths::default();
        drop_null(&mut object.0, "metadata");
        if let Some(value) = object.0.get_mut("metadata") {
            let place = Place::new(kind, "", "metadata");
            let metadata = members(value, &place, "v1.ObjectMeta")?;
            for (name, member_type) in METADATA {
                let place = Place::new("ObjectMeta", "metadata", name);
                check(metadata, name, *member_type, &place, &mut unknown)?;
            }
            drop_unknown(metadata, METADATA, "metadata", &mut unknown);
        }
        for (path, member_type) in &self.members {
            let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
            let Some(holder) = descend(&mut object.0, parent) else {
                continue;
            };
            let owner = owner_name(kind, parent);
            let place = Place::new(&owner, parent, name);
            let member_type = Kind::Member(*member_type);
            check(holder, name, member_type, &place, &mut unknown)?;
        }
        Ok(unknown.into_vec())
    }
}

/// Drops unknown members and records their paths.
fn drop_unknown<K>(
    holder: &mut Map<String, Value>,
    known: &[(&str, K)],
    path: impl Display,
    unknown: &mut Paths,
) {
    holder.retain(|name, _| {
        let is_known = known.iter().any(|(known, _)| known == name);
        if !is_known {
            unknown.note(format_args!("{path}.{name}"));
        }
        is_known
    });
}

/// The typed members of `metadata`.
const METADATA: &[(&str, Kind)] = &[
    ("name", Kind::Member(MemberType::String)),
    ("generateName", Kind::Member(MemberType::String)),
    ("namespace", Kind::Member(MemberType::String)),
    ("selfLink", Kind::Member(MemberType::String)),
    ("uid", Kind::Member(MemberType::String)),
    ("resourceVersion", Kind::Member(MemberType::String)),
    ("generation", Kind::Member(MemberType::Int64)),
    ("creationTimestamp", Kind::Member(MemberType::Time)),
    ("deletionTimestamp", Kind::Member(MemberType::Time)),
    (
        "deletionGracePeriodSeconds",
        Kind::Member(MemberType::Int64),
    ),
    ("labels", Kind::Member(MemberType::StringMap)),
    ("annotations", Kind::Member(MemberType::StringMap)),
    ("finalizers", Kind::Texts),
    ("ownerReferences", Kind::Records("v1.OwnerReference", OWNER)),
    (
        "managedFields",
        Kind::Records("v1.ManagedFieldsEntry", MANAGED),
    ),
];

/// The members of an owner reference.
const OWNER: &[(&str, MemberType)] = &[
    ("apiVersion", MemberType::String),
    ("kind", MemberType::String),
    ("name", MemberType::String),
    ("uid", MemberType::String),
    ("controller", MemberType::Bool),
    ("blockOwnerDeletion", MemberType::Bool),
];

/// The members of an entry of `managedFields`.
const MANAGED: &[(&str, MemberType)] = &[
    ("manager", MemberType::String),
    ("operation", MemberType::String),
    ("apiVersion", MemberType::String),
    ("time", MemberType::Time),
    ("fieldsType", MemberType::String),
    ("fieldsV1", MemberType::Object),
    ("subresource", MemberType::String),
];

/// A type of a member.
#[derive(Clone, Copy)]
enum Kind {
    /// A type that kinds use too.
    Member(MemberType),
    /// A list of texts.
    Texts,
    /// A list of objects of this Go type with these members.
    Records(&'static str, &'static [(&'static str, MemberType)]),
}

/// The place of a member, for the text of a refusal.
struct Place<'p> {
    /// The Go type that has the member.
    owner: &'p str,
    /// Its path; empty at the top.
    parent: &'p str,
    name: &'p str,
}

impl<'p> Place<'p> {
    fn new(owner: &'p str, parent: &'p str, name: &'p str) -> Place<'p> {
        Place {
            owner,
            parent,
            name,
        }
    }

    fn path(&self) -> String {
        match self.parent {
            "" => self.name.to_owned(),
            parent => format!("{parent}.{}", self.name),
        }
    }

    fn refuse<T>(&self, value: &Value, wanted: &str) -> Result<T, String> {
        // Go gives this text of metadata its own type.
        let wanted = match wanted {
            "string" if self.name == "uid" => "types.UID",
            wanted => wanted,
        };
        let mut found = json_type(value).to_owned();
        if let (Value::Number(number), true) = (value, wanted.starts_with("int")) {
            found = format!("number {number}");
        }
        Err(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.owner,
            self.path()
        ))
    }
}

/// The Go type around a member, as far as it is known: `LeaseSpec` for `spec` of a Lease.
fn owner_name<'k>(kind: &'k str, parent: &str) -> Cow<'k, str> {
    if parent.is_empty() {
        return Cow::Borrowed(kind);
    }
    let mut name = kind.to_owned();
    let last = parent.rsplit('.').next().unwrap_or_default();
    let mut letters = last.chars();
    name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
    name.push_str(letters.as_str());
    Cow::Owned(name)
}

fn descend<'o>(top: &'o mut Map<String, Value>, path: &str) -> Option<&'o mut Map<String, Value>> {
    path.split('.')
        .filter(|name| !name.is_empty())
        .try_fold(top, |holder, name| holder.get_mut(name)?.as_object_mut())
}

fn drop_null(holder: &mut Map<String, Value>, name: &str) {
    if holder.get(name).is_some_and(Value::is_null) {
        holder.remove(name);
    }
}

fn members<'v>(
    value: &'v mut Value,
    place: &Place<'_>,
    wanted: &str,
) -> Result<&'v mut Map<String, Value>, String> {
    match value {
        Value::Object(members) => Ok(members),
        other => place.refuse(other, wanted),
    }
}

fn items<'v>(
    value: &'v mut Value,
    place: &Place<'_>,
    wanted: &str,
) -> Result<&'v mut Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items),
        other => place.refuse(other, wanted),
    }
}

/// Checks one member of `holder`, if it is present.
fn check(
    holder: &mut Map<String, Value>,
    name: &str,
    kind: Kind,
    place: &Place<'_>,
    unknown: &mut Paths,
) -> Result<(), String> {
    if !holder.contains_key(name) {
        return Ok(());
    }
    drop_null(holder, name);
    let Some(value) = holder.get_mut(name) else {
        return Ok(());
    };
    match kind {
        Kind::Member(kind) => check_member(value, kind, place),
        Kind::Texts => items(value, place, "[]string")?
            .iter_mut()
            .try_for_each(|item| check_text(item, place)),
        Kind::Records(record, fields) => {
            let owner = record.trim_start_matches("v1.");
            let items = items(value, place, &format!("[]{record}"))?;
            let path = place.path();
            for (index, item) in items.iter_mut().enumerate() {
                if item.is_null() {
                    *item = Value::Object(Map::new());
                }
                let item = members(item, place, record)?;
                for (name, kind) in fields {
                    let place = Place::new(owner, &path, name);
                    check(item, name, Kind::Member(*kind), &place, unknown)?;
                }
                drop_unknown(item, fields, format_args!("{path}[{index}]"), unknown);
            }
            Ok(())
        }
    }
}

fn check_member(value: &mut Value, kind: MemberType, place: &Place<'_>) -> Result<(), String> {
    match kind {
        MemberType::Object => members(value, place, "object").map(|_| ()),
        MemberType::List => items(value, place, "list").map(|_| ()),
        MemberType::String => check_text(value, place),
        MemberType::StringMap => members(value, place, "map[string]string")?
            .values_mut()
            .try_for_each(|item| check_text(item, place)),
        MemberType::Base64Map => members(value, place, "map[string][]uint8")?
            .values_mut()
            .try_for_each(|item| check_base64(item, place)),
        MemberType::Bool if value.is_boolean() => Ok(()),
        MemberType::Bool => place.refuse(value, "bool"),
        MemberType::Int32 => match value.as_i64().map(i32::try_from) {
            Some(Ok(_)) => Ok(()),
            _ => place.refuse(value, "int32"),
        },
        MemberType::Int64 if value.is_i64() => Ok(()),
        MemberType::Int64 => place.refuse(value, "int64"),
        MemberType::Time => check_time(value, place, Decimals::Any),
        MemberType::MicroTime => check_time(value, place, Decimals::Six),
    }
}

/// Checks a text. Null inside lists and maps becomes an empty text, as in Go.
fn check_text(value: &mut Value, place: &Place<'_>) -> Result<(), String> {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => {
            *value = Value::String(String::new());
            Ok(())
        }
        other => place.refuse(other, "string"),
    }
}

fn check_base64(value: &mut Value, place: &Place<'_>) -> Result<(), String> {
    check_text(value, place)?;
    let Value::String(text) = value else {
        return Ok(());
    };
    // Go ignores line breaks anywhere in base64.
    if text.contains(['\r', '\n']) {
        text.retain(|c| !matches!(c, '\r' | '\n'));
    }
    let bytes = LENIENT_BASE64.decode(text.as_bytes()).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            _ => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })?;
    let canonical = LENIENT_BASE64.encode(bytes);
    if *text != canonical {
        *text = canonical;
    }
    Ok(())
}

/// The number of decimals that a time must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decimals {
    Any,
    Six,
}

/// Converts a time to UTC with whole seconds or six decimals (API-62).
fn check_time(value: &mut Value, place: &Place<'_>, decimals: Decimals) -> Result<(), String> {
    let Value::String(text) = value else {
        return place.refuse(value, "string");
    };
    let layout = match decimals {
        Decimals::Any => "2006-01-02T15:04:05Z07:00",
        Decimals::Six => "2006-01-02T15:04:05.000000Z07:00",
    };
    let time = parse_rfc3339(text, decimals)
        .ok_or_else(|| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?}"))?;
    let canonical = match decimals {
        Decimals::Any => time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        Decimals::Six => time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ"),
    };
    *text = canonical.to_string();
    Ok(())
}

/// Reads RFC 3339 only, because the library accepts many more forms.
fn parse_rfc3339(text: &str, decimals: Decimals) -> Option<Timestamp> {
    let pattern = b"dddd-dd-ddTdd:dd:dd";
    let (start, rest) = text.as_bytes().split_at_checked(pattern.len())?;
    let fits = start
        .iter()
        .zip(pattern)
        .all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        });
    let fraction = match rest.strip_prefix(b".") {
        Some(after) => after
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count(),
        None => 0,
    };
    let zone = rest.get(if fraction > 0 { fraction + 1 } else { 0 }..)?;
    let zone_fits = match zone {
        b"Z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    let fraction_fits = decimals == Decimals::Any || fraction == 6;
    if fits && zone_fits && fraction_fits {
        text.parse().ok()
    } else {
        None
    }
}
