//! Comparison with recorded answers for storage.

use api::object::Object;

use super::*;
use crate::defaults::storage as defaults;
use crate::recorded::{Functions, check};
use crate::strategies::disabled_fields::drop_of_csidriver;
use crate::strategies::storage::prepare_claim;

/// Defaults and prepares a claim. Its status stays.
fn claim(object: &mut Object) {
    defaults::persistentvolumeclaim(object);
    let status = object.0.get("status").cloned();
    prepare_claim(object);
    object
        .0
        .extend(status.map(|status| ("status".to_owned(), status)));
}

fn volumes(path: &str) -> Functions {
    match path.contains("/persistentvolumes") {
        true => Functions {
            defaults: Some(defaults::persistentvolume),
            create: validate_persistentvolume,
            update: Some(validate_persistentvolume_update),
        },
        false => Functions {
            defaults: Some(claim),
            create: validate_persistentvolumeclaim,
            update: Some(validate_persistentvolumeclaim_update),
        },
    }
}

#[test]
fn answers_about_volumes_are_those_of_kube_apiserver() {
    check(include_str!("../../../recorded/storage.json"), volumes);
    let cases = include_str!("../../../recorded/storage_status.json");
    check(cases, |path| {
        let mut functions = volumes(path);
        functions.update = match path.contains("/persistentvolumes") {
            true => Some(|_, _, _| {}),
            false => Some(validate_persistentvolumeclaim_status_update),
        };
        functions
    });
}

#[test]
fn answers_about_classes_are_those_of_kube_apiserver() {
    let cases = include_str!("../../../recorded/storage_classes.json");
    check(cases, |path| match path.rsplit('/').next() {
        Some("storageclasses") => Functions {
            defaults: Some(defaults::storageclass),
            create: validate_storageclass,
            update: Some(validate_storageclass_update),
        },
        Some("csidrivers") => Functions {
            defaults: Some(|object| {
                defaults::csidriver(object);
                drop_of_csidriver(object, None);
            }),
            create: validate_csidriver,
            update: Some(validate_csidriver_update),
        },
        Some("csinodes") => Functions {
            defaults: None,
            create: validate_csinode,
            update: Some(validate_csinode_update),
        },
        Some("csistoragecapacities") => Functions {
            defaults: Some(defaults::csistoragecapacity),
            create: validate_csistoragecapacity,
            update: Some(validate_csistoragecapacity_update),
        },
        Some("volumeattachments") => Functions {
            defaults: Some(defaults::volumeattachment),
            create: validate_volumeattachment,
            update: Some(validate_volumeattachment_update),
        },
        _ => Functions {
            defaults: None,
            create: validate_volumeattributesclass,
            update: Some(validate_volumeattributesclass_update),
        },
    });
    let cases = include_str!("../../../recorded/storage_classes_status.json");
    check(cases, |_| Functions {
        defaults: Some(defaults::volumeattachment),
        create: validate_volumeattachment,
        update: Some(validate_volumeattachment_status_update),
    });
}
