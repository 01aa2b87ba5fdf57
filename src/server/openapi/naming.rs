//! The names that operations have (API-46).

use http::Method;

use crate::api::resource::ResourceDefinition;

/// The parts of the names of a resource's operations.
pub(super) struct Naming {
    /// `core_v1`, `rbacAuthorization_v1`.
    pub tag: String,
    /// `CoreV1`, `RbacAuthorizationV1`.
    version: String,
    namespaced: &'static str,
    kind: String,
}

impl Naming {
    /// The names of a resource's operations.
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

    /// `readCoreV1NamespacedPod`. `part` stands behind the version, and a namespace is named unless
    /// the operation is about all of them.
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

/// A group in names: `rbacAuthorization` is `rbac.authorization.k8s.io`.
pub(super) fn group(name: &str) -> String {
    if name.is_empty() {
        return "core".to_owned();
    }
    let name = name.strip_suffix(".k8s.io").unwrap_or(name);
    let mut words = name.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &capitalized(word))
}

/// The path below which the resources of a version are.
pub(super) fn root(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// A text whose first letter is a capital.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A method as documents name it.
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
