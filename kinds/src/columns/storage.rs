//! The columns of `storage.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Cell, Column, FieldPath, OfField};
use serde_json::Value;

use super::{
    NONE, UNSET, boolean, class_name, computed, joined, list, member, plain, text, text_or, texts,
};

/// The annotations that mark a StorageClass as the default.
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Returns the columns of CSIDrivers.
pub fn csidrivers() -> Vec<Column> {
    let attach = computed(|driver, _| boolean(driver, &["spec", "attachRequired"], true));
    let info = computed(|driver, _| boolean(driver, &["spec", "podInfoOnMount"], false));
    let capacity = computed(|driver, _| boolean(driver, &["spec", "storageCapacity"], false));
    let republish = computed(|driver, _| boolean(driver, &["spec", "requiresRepublish"], false));
    let tokens = computed(|driver, _| audiences(driver).into());
    let modes = computed(|driver, _| {
        let modes = texts(list(driver, &["spec", "volumeLifecycleModes"]));
        text_or(&modes, NONE).into()
    });
    vec![
        Column::name(),
        Column::boolean(
            "AttachRequired",
            OfField("storage.v1.CSIDriverSpec.attachRequired"),
            attach,
        ),
        Column::boolean(
            "PodInfoOnMount",
            OfField("storage.v1.CSIDriverSpec.podInfoOnMount"),
            info,
        ),
        Column::boolean(
            "StorageCapacity",
            OfField("storage.v1.CSIDriverSpec.storageCapacity"),
            capacity,
        ),
        Column::text(
            "TokenRequests",
            OfField("storage.v1.CSIDriverSpec.tokenRequests"),
            tokens,
        ),
        Column::boolean(
            "RequiresRepublish",
            OfField("storage.v1.CSIDriverSpec.requiresRepublish"),
            republish,
        ),
        Column::text(
            "Modes",
            OfField("storage.v1.CSIDriverSpec.volumeLifecycleModes"),
            modes,
        ),
        Column::age(),
    ]
}

/// Returns the columns of CSINodes.
pub fn csinodes() -> Vec<Column> {
    let drivers = Cell::Count(FieldPath::list(&["spec.drivers"]));
    vec![
        Column::name(),
        Column::integer("Drivers", "Number of drivers on the node.", drivers),
        Column::age(),
    ]
}

/// Returns the columns of CSIStorageCapacities.
pub fn csistoragecapacities() -> Vec<Column> {
    plain()
}

/// Returns the columns of StorageClasses.
pub fn storageclasses() -> Vec<Column> {
    let name = Column {
        cell: computed(|class, _| class_name(class, &DEFAULT_CLASS)),
        ..Column::name()
    };
    // An explicit empty policy does not become the default.
    let policy = computed(|class, _| {
        let policy = class.at(&["reclaimPolicy"]).and_then(Value::as_str);
        policy.unwrap_or("Delete").into()
    });
    let binding =
        computed(|class, _| text_or(class.text(&["volumeBindingMode"]), "Immediate").into());
    let expansion = computed(|class, _| boolean(class, &["allowVolumeExpansion"], false));
    vec![
        name,
        Column::text(
            "Provisioner",
            OfField("storage.v1.StorageClass.provisioner"),
            text("provisioner"),
        ),
        Column::text(
            "ReclaimPolicy",
            OfField("storage.v1.StorageClass.reclaimPolicy"),
            policy,
        ),
        Column::text(
            "VolumeBindingMode",
            OfField("storage.v1.StorageClass.volumeBindingMode"),
            binding,
        ),
        Column::text(
            "AllowVolumeExpansion",
            OfField("storage.v1.StorageClass.allowVolumeExpansion"),
            expansion,
        ),
        Column::age(),
    ]
}

/// Returns the columns of VolumeAttachments.
pub fn volumeattachments() -> Vec<Column> {
    let attacher = Column {
        format: "name".to_owned(),
        ..Column::text(
            "Attacher",
            OfField("storage.v1.VolumeAttachmentSpec.attacher"),
            text("spec.attacher"),
        )
    };
    let volume = text("spec.source.persistentVolumeName");
    let attached = computed(|object, _| boolean(object, &["status", "attached"], false));
    vec![
        Column::name(),
        attacher,
        Column::text(
            "PV",
            OfField("storage.v1.VolumeAttachmentSource.persistentVolumeName"),
            volume,
        ),
        Column::text(
            "Node",
            OfField("storage.v1.VolumeAttachmentSpec.nodeName"),
            text("spec.nodeName"),
        ),
        Column::boolean(
            "Attached",
            OfField("storage.v1.VolumeAttachmentStatus.attached"),
            attached,
        ),
        Column::age(),
    ]
}

/// Returns the columns of VolumeAttributesClasses.
pub fn volumeattributesclasses() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "DriverName",
            OfField("storage.v1.VolumeAttributesClass.driverName"),
            text("driverName"),
        ),
        Column::age(),
    ]
}

fn audiences(driver: &Object) -> String {
    let path = &["spec", "tokenRequests"];
    if driver.at(path).is_none() {
        return UNSET.to_owned();
    }
    let requests = list(driver, path).iter();
    joined(requests.map(|request| member(request, "audience")), ",")
}
