//! Defaults of volumes of pods (API-248).

use serde_json::Map;

use super::containers::value_source;
use super::images::set_pull_policy;
use super::resources::{quantity, resource_requirements};
use crate::defaults::{Members, items, member, member_or_new, set_absent, set_default};

/// The default mode of files: readable by all.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of a volume of a pod.
pub(super) fn volume(members: &mut Members) {
    let has_source = members
        .iter()
        .any(|(name, source)| name != "name" && !source.is_null());
    if !has_source {
        members.insert("emptyDir".to_owned(), Map::new().into());
    }
    for (kind, source) in members.iter_mut() {
        if let Some(source) = source.as_object_mut() {
            volume_source(kind, source);
        }
    }
}

fn volume_source(kind: &str, source: &mut Members) {
    match kind {
        "emptyDir" => quantity(source, "sizeLimit"),
        "hostPath" if !source.contains_key("type") => set_default(source, "type", ""),
        "secret" | "configMap" => set_default(source, "defaultMode", FILE_MODE),
        "downwardAPI" => {
            set_default(source, "defaultMode", FILE_MODE);
            items(source, "items").for_each(value_source);
        }
        "projected" => projected(source),
        "iscsi" => set_default(source, "iscsiInterface", "default"),
        "rbd" => {
            set_default(source, "pool", "rbd");
            set_default(source, "user", "admin");
            set_default(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            set_absent(source, "cachingMode", "ReadWrite");
            set_absent(source, "kind", "Shared");
            set_absent(source, "fsType", "ext4");
            set_absent(source, "readOnly", false);
        }
        "scaleIO" => {
            set_default(source, "storageMode", "ThinProvisioned");
            set_default(source, "fsType", "xfs");
        }
        "ephemeral" => {
            let template = member(source, "volumeClaimTemplate");
            if let Some(spec) = template.and_then(|template| member_or_new(template, "spec")) {
                set_absent(spec, "volumeMode", "Filesystem");
                resource_requirements(spec, "resources");
            }
        }
        "image" => set_pull_policy(source, "reference", "pullPolicy"),
        _ => {}
    }
}

fn projected(source: &mut Members) {
    set_default(source, "defaultMode", FILE_MODE);
    for projection in items(source, "sources") {
        if let Some(downward) = member(projection, "downwardAPI") {
            items(downward, "items").for_each(value_source);
        }
        if let Some(token) = member(projection, "serviceAccountToken") {
            set_default(token, "expirationSeconds", 3600);
        }
    }
}
