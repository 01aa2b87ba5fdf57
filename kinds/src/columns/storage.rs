//! The columns of `storage.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Cell, Column, FieldPath};
use serde_json::Value;

use super::{
    NONE, UNSET, boolean, class_name, computed, joined, list, member, plain, text, text_or, texts,
};

/// The annotations that say that a class is the default.
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// CSIDrivers.
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
            "Whether volumes are attached first.",
            attach,
        ),
        Column::boolean("PodInfoOnMount", "Whether it is told of pods.", info),
        Column::boolean(
            "StorageCapacity",
            "Whether it tells free capacity.",
            capacity,
        ),
        Column::text("TokenRequests", "Whom it needs tokens for.", tokens),
        Column::boolean(
            "RequiresRepublish",
            "Whether it is called again and again.",
            republish,
        ),
        Column::text("Modes", "The lifecycles of its volumes.", modes),
        Column::age(),
    ]
}

/// CSINodes.
pub fn csinodes() -> Vec<Column> {
    let drivers = Cell::Count(FieldPath::list(&["spec.drivers"]));
    vec![
        Column::name(),
        Column::integer("Drivers", "Number of drivers on the node.", drivers),
        Column::age(),
    ]
}

/// CSIStorageCapacities.
pub fn csistoragecapacities() -> Vec<Column> {
    plain()
}

/// StorageClasses.
pub fn storageclasses() -> Vec<Column> {
    let name = Column {
        cell: computed(|class, _| class_name(class, &DEFAULT_CLASS)),
        ..Column::name()
    };
    // An empty policy is none of the defaults.
    let policy = computed(|class, _| {
        let policy = class.at(&["reclaimPolicy"]).and_then(Value::as_str);
        policy.unwrap_or("Delete").into()
    });
    let binding =
        computed(|class, _| text_or(class.text(&["volumeBindingMode"]), "Immediate").into());
    let expansion = computed(|class, _| boolean(class, &["allowVolumeExpansion"], false));
    vec![
        name,
        Column::text("Provisioner", "Who makes its volumes.", text("provisioner")),
        Column::text(
            "ReclaimPolicy",
            "What happens to volumes after their claims.",
            policy,
        ),
        Column::text(
            "VolumeBindingMode",
            "When volumes are made and bound.",
            binding,
        ),
        Column::text(
            "AllowVolumeExpansion",
            "Whether volumes can grow.",
            expansion,
        ),
        Column::age(),
    ]
}

/// VolumeAttachments.
pub fn volumeattachments() -> Vec<Column> {
    let attacher = Column {
        format: "name".to_owned(),
        ..Column::text(
            "Attacher",
            "Who attaches the volume.",
            text("spec.attacher"),
        )
    };
    let volume = text("spec.source.persistentVolumeName");
    let attached = computed(|object, _| boolean(object, &["status", "attached"], false));
    vec![
        Column::name(),
        attacher,
        Column::text("PV", "The volume.", volume),
        Column::text(
            "Node",
            "The node that it is attached to.",
            text("spec.nodeName"),
        ),
        Column::boolean("Attached", "Whether it is attached.", attached),
        Column::age(),
    ]
}

/// VolumeAttributesClasses.
pub fn volumeattributesclasses() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "DriverName",
            "The driver that knows its parameters.",
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
