//! The columns of PersistentVolumes and PersistentVolumeClaims (API-218).

use api::object::Object;
use api::resource::Column;
use serde_json::Value;

use super::{UNSET, computed, list, member, text, text_or};

/// PersistentVolumes.
pub fn persistentvolumes() -> Vec<Column> {
    let capacity = computed(|volume, _| capacity(volume, "spec").into());
    let modes = computed(|volume, _| access_modes(volume, "spec").into());
    let claim = computed(|volume, _| match volume.at(&["spec", "claimRef"]) {
        Some(claim) => format!("{}/{}", member(claim, "namespace"), member(claim, "name")).into(),
        None => "".into(),
    });
    let policy = text("spec.persistentVolumeReclaimPolicy");
    vec![
        Column::name(),
        Column::text("Capacity", "Its size.", capacity),
        Column::text("Access Modes", "How nodes can mount it.", modes),
        Column::text(
            "Reclaim Policy",
            "What happens to it after its claim.",
            policy,
        ),
        status(),
        Column::text("Claim", "The claim that it is bound to.", claim),
        class(),
        attributes_class(),
        Column::text("Reason", "Why it is in its status.", text("status.reason")),
        Column::age(),
        mode(),
    ]
}

/// PersistentVolumeClaims.
pub fn persistentvolumeclaims() -> Vec<Column> {
    let size = computed(|claim, _| of_bound(claim, capacity).into());
    let modes = computed(|claim, _| of_bound(claim, access_modes).into());
    vec![
        Column::name(),
        status(),
        Column::text(
            "Volume",
            "The volume that it is bound to.",
            text("spec.volumeName"),
        ),
        Column::text("Capacity", "The size of its volume.", size),
        Column::text("Access Modes", "How nodes can mount its volume.", modes),
        class(),
        attributes_class(),
        Column::age(),
        mode(),
    ]
}

/// What is shown of the status of a claim that has a volume.
fn of_bound(claim: &Object, show: fn(&Object, &str) -> String) -> String {
    match claim.text(&["spec", "volumeName"]) {
        "" => String::new(),
        _ => show(claim, "status"),
    }
}

fn status() -> Column {
    let status = computed(|object, _| match object.is_being_deleted() {
        true => "Terminating".into(),
        false => object.text(&["status", "phase"]).into(),
    });
    Column::text("Status", "Whether it is bound.", status)
}

fn class() -> Column {
    let class = computed(|object, _| {
        let annotation = "volume.beta.kubernetes.io/storage-class";
        let old = object.at(&["metadata", "annotations", annotation]);
        let old = old.and_then(Value::as_str);
        let class = old.unwrap_or_else(|| object.text(&["spec", "storageClassName"]));
        class.into()
    });
    Column::text("StorageClass", "The class of storage.", class)
}

fn attributes_class() -> Column {
    let class = computed(|object, _| {
        // An empty name is a choice, too.
        let class = object.at(&["spec", "volumeAttributesClassName"]);
        class.and_then(Value::as_str).unwrap_or(UNSET).into()
    });
    Column::text(
        "VolumeAttributesClass",
        "The class of its attributes.",
        class,
    )
}

fn mode() -> Column {
    let mode = computed(|object, _| text_or(object.text(&["spec", "volumeMode"]), UNSET).into());
    Column::text(
        "VolumeMode",
        "Whether it is a file system or a block device.",
        mode,
    )
    .wide()
}

fn capacity(object: &Object, part: &str) -> String {
    text_or(object.text(&[part, "capacity", "storage"]), "0").to_owned()
}

fn access_modes(object: &Object, part: &str) -> String {
    let modes = list(object, &[part, "accessModes"]);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    // linear: asked for four modes.
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    let shown = known.into_iter().filter(|(mode, _)| has(mode));
    super::joined(shown.map(|(_, short)| short), ",")
}
