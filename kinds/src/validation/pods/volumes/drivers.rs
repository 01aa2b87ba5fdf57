//! Validation of volumes of storage systems.

use api::field::Field;
use api::names;

use crate::validation::enums::validate_one_of;
use crate::validation::pods::fields::validate_dns_label;
use crate::validation::report;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

/// Validates that these texts are not empty.
fn require_all(source: &Field<'_>, names: &[&str], errors: &mut ErrorList) {
    for name in names {
        require_text(&source.member(name), errors);
    }
}

fn require_list(list: &Field<'_>, errors: &mut ErrorList) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
}

/// Validates that a secret, if any, has a name.
fn validate_secret_name(secret: &Field<'_>, errors: &mut ErrorList) {
    if secret.is_set() {
        require_text(&secret.member("name"), errors);
    }
}

fn validate_partition(source: &Field<'_>, errors: &mut ErrorList) {
    let partition = source.member("partition");
    if partition.int().is_some_and(|n| !(0..=255).contains(&n)) {
        errors.push(partition.invalid("must be between 1 and 255, inclusive"));
    }
}

/// Validates a GCE persistent disk. Errors have another member name in their paths, as in
/// Kubernetes.
pub fn validate_gce(source: &Field<'_>, errors: &mut ErrorList) {
    let path = source.path();
    let volume = path.strip_suffix("gcePersistentDisk").unwrap_or(&path);
    let path = format!("{volume}persistentDisk");
    let disk = Field::named(&path, source.value());
    require_text(&disk.member("pdName"), errors);
    validate_partition(&disk, errors);
}

/// Validates an AWS EBS volume.
pub fn validate_aws(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("volumeID"), errors);
    validate_partition(source, errors);
}

/// Validates an NFS volume.
pub fn validate_nfs(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("server"), errors);
    let path = source.member("path");
    require_text(&path, errors);
    if !path.text().starts_with('/') {
        errors.push(path.invalid_value(path.text(), "must be an absolute path"));
    }
}

/// Validates an iSCSI volume.
pub fn validate_iscsi(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("targetPortal"), errors);
    let target = source.member("iqn");
    if require_text(&target, errors) {
        match is_iscsi_name(target.text()) {
            None => {
                errors.push(target.invalid("must be valid format starting with iqn, eui, or naa"))
            }
            Some(false) => errors.push(target.invalid("must be valid format")),
            Some(true) => {}
        }
    }
    validate_lun(&source.member("lun"), errors);
    let has_passwords =
        source.member("chapAuthDiscovery").is_true() || source.member("chapAuthSession").is_true();
    let secret = source.member("secretRef");
    if has_passwords && !secret.is_set() {
        errors.push(secret.required(""));
    }
    let initiator = source.member("initiatorName");
    if initiator.is_set() {
        let shown = source.member("initiatorname");
        let detail = match is_iscsi_name(initiator.text()) {
            None => "must be valid format starting with iqn, eui, or naa",
            Some(false) => "must be valid format",
            Some(true) => return,
        };
        errors.push(shown.invalid_value(initiator.text(), detail));
    }
}

fn validate_lun(lun: &Field<'_>, errors: &mut ErrorList) {
    if lun.int().is_some_and(|lun| !(0..=255).contains(&lun)) {
        errors.push(lun.invalid("must be between 0 and 255, inclusive"));
    }
}

/// Reports whether an iSCSI name is well-formed. Returns `None` for an unknown format.
pub fn is_iscsi_name(text: &str) -> Option<bool> {
    let has_letters = |text: &str, count: usize| {
        // Kubernetes' regular expression has an unescaped dot after the first three letters.
        let mut letters = text.chars();
        letters.next().is_some_and(|first| first != '\n')
            && letters.as_str().len() == count
            && letters.all(|letter| letter.is_ascii_alphanumeric())
    };
    if let Some(rest) = text.strip_prefix("eui") {
        return Some(has_letters(rest, 16));
    }
    if let Some(rest) = text.strip_prefix("naa") {
        return Some(has_letters(rest, 32));
    }
    text.starts_with("iqn").then(|| {
        let starts = text.match_indices("iqn.");
        starts
            .filter_map(|(at, start)| text.get(at + start.len()..))
            .any(is_iqn)
    })
}

/// Reports whether a text after `iqn.` is well-formed: year and month, a name, a colon, and more.
fn is_iqn(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let Some((name, more)) = rest.split_once(':') else {
        return false;
    };
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_refused = |c: char| ",;*&$|\t\n\x0c\r ".contains(c);
    is_date
        && !name.is_empty()
        && name.bytes().all(is_name)
        && !more.is_empty()
        && !more.contains(is_refused)
}

/// Validates a GlusterFS volume.
pub fn validate_glusterfs(source: &Field<'_>, errors: &mut ErrorList) {
    require_all(source, &["endpoints", "path"], errors);
}

/// Validates a Flocker volume.
pub fn validate_flocker(source: &Field<'_>, errors: &mut ErrorList) {
    let name = source.member("datasetName");
    let uuid = source.member("datasetUUID");
    match (name.text().is_empty(), uuid.text().is_empty()) {
        (true, true) => {
            errors.push(source.required("one of datasetName and datasetUUID is required"))
        }
        (false, false) => errors.push(source.invalid_value(
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        )),
        _ => {}
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

/// Validates an RBD image.
pub fn validate_rbd(source: &Field<'_>, errors: &mut ErrorList) {
    require_list(&source.member("monitors"), errors);
    require_text(&source.member("image"), errors);
}

/// Validates a Cinder volume.
pub fn validate_cinder(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("volumeID"), errors);
    validate_secret_name(&source.member("secretRef"), errors);
}

/// Validates a CephFS volume.
pub fn validate_cephfs(source: &Field<'_>, errors: &mut ErrorList) {
    require_list(&source.member("monitors"), errors);
}

/// Validates a Quobyte volume.
pub fn validate_quobyte(source: &Field<'_>, errors: &mut ErrorList) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.member("registry");
    let tenant = source.member("tenant");
    if registry.text().is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.text().len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(tenant.required(detail));
    } else {
        for pair in registry.text().split(',') {
            if !is_host_and_port(pair) {
                errors.push(registry.invalid(PAIRS));
            }
        }
    }
    require_text(&source.member("volume"), errors);
}

/// Reports whether a text is `host:port` or `[host]:port`. The parts are not validated.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(inside) => match inside.strip_suffix(']') {
            Some(host) => host,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

/// Validates a Fibre Channel volume.
pub fn validate_fc(source: &Field<'_>, errors: &mut ErrorList) {
    let names = source.member("targetWWNs");
    let identifiers = source.member("wwids");
    match (names.is_empty(), identifiers.is_empty()) {
        (true, true) => {
            errors.push(names.required("must specify either targetWWNs or wwids, but not both"))
        }
        (false, false) => {
            errors.push(names.invalid("targetWWNs and wwids can not be specified simultaneously"))
        }
        _ => {}
    }
    if !names.is_empty() {
        let lun = source.member("lun");
        if !lun.is_set() {
            errors.push(lun.required("lun is required if targetWWNs is specified"));
        }
        validate_lun(&lun, errors);
    }
}

/// Validates a FlexVolume.
pub fn validate_flex_volume(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("driver"), errors);
    for (key, option) in source.member("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(option.invalid_value(key, detail));
        }
    }
}

/// Validates an Azure file share.
pub fn validate_azure_file(source: &Field<'_>, errors: &mut ErrorList) {
    require_all(source, &["secretName", "shareName"], errors);
}

/// Validates an Azure disk.
pub fn validate_azure_disk(source: &Field<'_>, errors: &mut ErrorList) {
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/\
                           microsoft.compute/disks/{disk-id}";
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    require_all(source, &["diskName", "diskURI"], errors);
    let mode = source.member("cachingMode");
    validate_one_of(&mode, &["None", "ReadOnly", "ReadWrite"], errors);
    let kind = source.member("kind");
    if !kind.is_set() {
        return;
    }
    validate_one_of(&kind, &["Dedicated", "Managed", "Shared"], errors);
    let address = source.member("diskURI");
    let (start, form) = match kind.text() {
        "Managed" => ("/subscriptions/", MANAGED),
        _ => ("https://", BLOB),
    };
    if !address.text().starts_with(start) {
        errors.push(address.not_supported(&[form]));
    }
}

/// Validates a vSphere volume.
pub fn validate_vsphere(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("volumePath"), errors);
}

/// Validates a Photon disk.
pub fn validate_photon(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("pdID"), errors);
}

/// Validates a Portworx volume.
pub fn validate_portworx(source: &Field<'_>, errors: &mut ErrorList) {
    require_text(&source.member("volumeID"), errors);
}

/// Validates a StorageOS volume.
pub fn validate_storageos(source: &Field<'_>, errors: &mut ErrorList) {
    let name = source.member("volumeName");
    if require_text(&name, errors) {
        validate_dns_label(&name, errors);
    }
    let namespace = source.member("volumeNamespace");
    if !namespace.text().is_empty() {
        validate_dns_label(&namespace, errors);
    }
    validate_secret_name(&source.member("secretRef"), errors);
}

/// Validates a ScaleIO volume.
pub fn validate_scale_io(source: &Field<'_>, errors: &mut ErrorList) {
    require_all(source, &["gateway", "system", "volumeName"], errors);
}

/// Validates an inline CSI volume.
pub fn validate_csi(source: &Field<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(&source.member("driver"), errors);
    let secret = source.member("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.member("name");
    if require_text(&name, errors) {
        // As in Kubernetes, the error of the secret's name has the path of a `name` next to
        // `driver`.
        let shown = source.member("name");
        for detail in names::dns_subdomain(name.text()) {
            errors.push(shown.invalid_value(name.text(), detail));
        }
    }
}

/// Validates the name of a CSI driver.
pub fn validate_csi_driver_name(driver: &Field<'_>, errors: &mut ErrorList) {
    if !require_text(driver, errors) {
        return;
    }
    if driver.text().len() > 63 {
        errors.push(driver.too_long(63));
    }
    let wrong = names::dns_subdomain(&driver.text().to_lowercase());
    report(driver, wrong, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iscsi_names_are_checked() {
        let letters = "0123456789abcdefABCDEF0123456789";
        for good in [
            "iqn.2001-04.com.example:a",
            "iqn.2001-04.a:b:c",
            "iqn iqn.2001-04.a:b",
            "eui.0123456789abcdef",
            &format!("naa.{letters}"),
        ] {
            assert_eq!(is_iscsi_name(good), Some(true), "{good}");
        }
        for bad in [
            "iqn.2001-04.com.example",
            "iqn.2001-4.a:b",
            "iqn.2001-04.:b",
            "iqn.2001-04.a:",
            "iqn.2001-04.a:b c",
            "iqn.2001-04.a_b:c",
            "eui.0123",
            "eui",
            "naa.0123456789abcdef",
        ] {
            assert_eq!(is_iscsi_name(bad), Some(false), "{bad}");
        }
        assert_eq!(is_iscsi_name("foo"), None);
    }

    #[test]
    fn hosts_with_ports_are_checked() {
        for good in ["a:1", ":1", "a:", "[::1]:2"] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in ["a", "::1", "[::1]", "[a:1", "a]:1", "[a]b:1", "a:[1"] {
            assert!(!is_host_and_port(bad), "{bad}");
        }
    }
}
