//! The columns of PersistentVolumes and PersistentVolumeClaims (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::Value;

use super::{UNSET, computed, list, member, text, text_or};

/// Returns the columns of PersistentVolumes.
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
        Column::text(
            "Capacity",
            OfField("core.v1.PersistentVolumeSpec.capacity"),
            capacity,
        ),
        Column::text(
            "Access Modes",
            OfField("core.v1.PersistentVolumeSpec.accessModes"),
            modes,
        ),
        Column::text(
            "Reclaim Policy",
            OfField("core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy"),
            policy,
        ),
        status(OfField("core.v1.PersistentVolumeStatus.phase")),
        Column::text(
            "Claim",
            OfField("core.v1.PersistentVolumeSpec.claimRef"),
            claim,
        ),
        class(),
        attributes_class(),
        Column::text(
            "Reason",
            OfField("core.v1.PersistentVolumeStatus.reason"),
            text("status.reason"),
        ),
        Column::age(),
        mode(OfField("core.v1.PersistentVolumeSpec.volumeMode")),
    ]
}

/// Returns the columns of PersistentVolumeClaims.
pub fn persistentvolumeclaims() -> Vec<Column> {
    let size = computed(|claim, _| of_bound(claim, capacity).into());
    let modes = computed(|claim, _| of_bound(claim, access_modes).into());
    vec![
        Column::name(),
        status(OfField("core.v1.PersistentVolumeClaimStatus.phase")),
        Column::text(
            "Volume",
            OfField("core.v1.PersistentVolumeClaimSpec.volumeName"),
            text("spec.volumeName"),
        ),
        Column::text(
            "Capacity",
            OfField("core.v1.PersistentVolumeClaimStatus.capacity"),
            size,
        ),
        Column::text(
            "Access Modes",
            OfField("core.v1.PersistentVolumeClaimStatus.accessModes"),
            modes,
        ),
        class(),
        attributes_class(),
        Column::age(),
        mode(OfField("core.v1.PersistentVolumeClaimSpec.volumeMode")),
    ]
}

/// Shows a part of the status if the claim is bound to a volume.
fn of_bound(claim: &Object, show: fn(&Object, &str) -> String) -> String {
    match claim.text(&["spec", "volumeName"]) {
        "" => String::new(),
        _ => show(claim, "status"),
    }
}

fn status(of: OfField) -> Column {
    let status = computed(|object, _| match object.is_being_deleted() {
        true => "Terminating".into(),
        false => object.text(&["status", "phase"]).into(),
    });
    Column::text("Status", of, status)
}

fn class() -> Column {
    let class = computed(|object, _| {
        let annotation = "volume.beta.kubernetes.io/storage-class";
        let old = object.at(&["metadata", "annotations", annotation]);
        let old = old.and_then(Value::as_str);
        let class = old.unwrap_or_else(|| object.text(&["spec", "storageClassName"]));
        class.into()
    });
    Column::text(
        "StorageClass",
        "StorageClass of the volume or claim.",
        class,
    )
}

fn attributes_class() -> Column {
    let class = computed(|object, _| {
        // An explicit empty name is shown as it is.
        let class = object.at(&["spec", "volumeAttributesClassName"]);
        class.and_then(Value::as_str).unwrap_or(UNSET).into()
    });
    Column::text(
        "VolumeAttributesClass",
        "VolumeAttributesClass of the volume or claim.",
        class,
    )
}

fn mode(of: OfField) -> Column {
    let mode = computed(|object, _| text_or(object.text(&["spec", "volumeMode"]), UNSET).into());
    Column::text("VolumeMode", of, mode).wide()
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
    // linear: there are four modes.
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    let shown = known.into_iter().filter(|(mode, _)| has(mode));
    super::joined(shown.map(|(_, short)| short), ",")
}
