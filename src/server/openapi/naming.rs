//! The names of operations (API-46).

use http::Method;

use crate::api::resource::ResourceDefinition;

/// The parts of the operation names of a resource.
pub(super) struct Naming {
    /// `core_v1`, `rbacAuthorization_v1`.
    pub tag: String,
    /// `CoreV1`, `RbacAuthorizationV1`.
    version: String,
    namespaced: &'static str,
    kind: String,
}

impl Naming {
    /// Returns the parts for a resource.
    pub(super) fn of(resource: &ResourceDefinition) -> Naming {
        let (group, version) = (group(&resource.group), joined(&resource.version));
        Naming {
            version: [&*group, &version].map(capitalized).concat(),
            tag: format!("{group}_{version}"),
            namespaced: match resource.is_namespaced() {
                true => "Namespaced",
                false => "",
            },
            kind: joined(&resource.kind),
        }
    }

    /// Returns a name such as `readCoreV1NamespacedPod`. `part` follows the version. An operation
    /// on all namespaces is not `Namespaced`.
    pub(super) fn of_kind(&self, prefix: &str, part: &str, in_namespace: bool) -> String {
        let Naming {
            version,
            namespaced,
            kind,
            ..
        } = self;
        let namespaced = if in_namespace { namespaced } else { "" };
        let rest = capitalized(&format!("{part}{namespaced}{kind}"));
        format!("{prefix}{version}{rest}")
    }
}

/// Returns the group as it appears in names: `rbacAuthorization` for `rbac.authorization.k8s.io`.
pub(super) fn group(name: &str) -> String {
    if name.is_empty() {
        return "core".to_owned();
    }
    joined(name.strip_suffix(".k8s.io").unwrap_or(name))
}

/// Returns a text as a part of a name: without characters that names do not have, after which the
/// next word begins with a capital.
fn joined(text: &str) -> String {
    let mut part = String::new();
    let mut begins_word = false;
    for (at, letter) in text.char_indices() {
        let is_part = letter.is_alphabetic() || letter == '_' || at > 0 && letter.is_numeric();
        match (is_part, begins_word) {
            (false, _) => begins_word = true,
            (true, true) => {
                part.extend(letter.to_uppercase());
                begins_word = false;
            }
            (true, false) => part.push(letter),
        }
    }
    part
}

/// Returns the path of a group version.
pub(super) fn root(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// Returns the text with a capital first letter.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the method as documents name it.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::PUT => "put",
        Method::POST => "post",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        Method::HEAD => "head",
        _ => "patch",
    }
}
