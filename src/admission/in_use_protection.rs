//! StorageObjectInUseProtection (API-268): volumes and claims are not removed while they are used.
//! Controllers of the daemon or of a kube-controller-manager remove the finalizers.

use futures_util::future::FutureExt;

use super::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::{Object, push};

const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

/// The finalizer of each protected resource.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

/// The plugin.
pub(super) struct StorageObjectInUseProtection;

/// The finalizer of a new object, if its resource is protected.
fn finalizer(attributes: &Attributes<'_>) -> Option<&'static str> {
    let mut rows = PROTECTED.iter();
    let row = rows.find(|(group, plural, _)| attributes.creates(group, plural));
    row.map(|(_, _, finalizer)| *finalizer)
}

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        finalizer(attributes).is_some()
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for StorageObjectInUseProtection {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        if let (Some(object), Some(finalizer)) = (object, finalizer(attributes)) {
            protect(object, finalizer);
        }
        std::future::ready(Ok(())).boxed()
    }
}

fn protect(object: &mut Object, finalizer: &str) {
    if !object.finalizers().contains(&finalizer) {
        push(object, &FINALIZERS, finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finalizer_is_added_once_behind_others_api_268() {
        let mut object = Object::default();
        push(&mut object, &FINALIZERS, "a.b/c".into());
        protect(&mut object, "kubernetes.io/pv-protection");
        protect(&mut object, "kubernetes.io/pv-protection");
        assert_eq!(
            object.finalizers(),
            ["a.b/c", "kubernetes.io/pv-protection"]
        );
    }
}
