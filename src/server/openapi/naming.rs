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
        let group = group(&resource.group);
        Naming {
            version: [&group, &resource.version]
                .map(|text| capitalized(text))
                .concat(),
            tag: format!("{group}_{}", resource.version),
            namespaced: match resource.is_namespaced() {
                true => "Namespaced",
                false => "",
            },
            kind: resource.kind.clone(),
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
        format!("{prefix}{version}{part}{namespaced}{kind}")
    }
}

/// Returns the group as it appears in names: `rbacAuthorization` for `rbac.authorization.k8s.io`.
pub(super) fn group(name: &str) -> String {
    if name.is_empty() {
        return "core".to_owned();
    }
    let name = name.strip_suffix(".k8s.io").unwrap_or(name);
    let mut words = name.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &capitalized(word))
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
