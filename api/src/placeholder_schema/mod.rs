//! What is checked of a kind's members until schemas do it.
//!
//! This folder owns the types of members that are checked, normalized and canonicalized, the
//! members of empty objects, and the schemas in OpenAPI documents that are invented from these. A
//! row of member types enters with a kind, and objects enter. Checked objects, the paths of their
//! unknown members, and OpenAPI schemas leave. This folder must not know resource definitions, the
//! form of bodies, or where OpenAPI documents keep their schemas.
//!
//! Real schemas replace the whole folder and the one field of a resource definition that holds a
//! [`PlaceholderSchema`].

mod canonical;
mod normalize;
pub mod openapi;

/// What is known of the members of a kind besides kind, apiVersion and metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceholderSchema {
    /// Members by path, each with its JSON type. Parents are listed before their members.
    members: Vec<(String, MemberType)>,
    empty_members: String,
}

/// The type that a member must have when it is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberType {
    /// An object.
    Object,
    /// An object whose values are strings.
    StringMap,
    /// An object whose values are base64 strings.
    Base64Map,
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A list.
    List,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A time in RFC 3339 form.
    Time,
    /// A time in RFC 3339 form with exactly six decimals (leases).
    MicroTime,
}

impl PlaceholderSchema {
    /// A schema of these members: `data` of ConfigMaps and so on. A dotted path names a nested
    /// member, `spec.renewTime`. Its parents are listed first.
    pub fn of(members: &[(&str, MemberType)]) -> PlaceholderSchema {
        let members = members.iter();
        PlaceholderSchema {
            members: members
                .map(|(path, member_type)| ((*path).to_owned(), *member_type))
                .collect(),
            empty_members: String::new(),
        }
    }

    /// With the members that an empty object has, each with a comma before it.
    #[must_use]
    pub fn with_empty_members(self, empty_members: &str) -> PlaceholderSchema {
        PlaceholderSchema {
            empty_members: empty_members.to_owned(),
            ..self
        }
    }

    /// The JSON text of the members that an empty object has, each with a comma before it.
    /// Bookmarks are such objects (WA-41).
    pub fn empty_members(&self) -> &str {
        &self.empty_members
    }
}
