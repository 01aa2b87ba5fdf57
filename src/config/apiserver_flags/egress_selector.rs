//! The file of `--egress-selector-config-file`: which connections go through proxies.

use std::path::Path;

use serde_json::Value;

use crate::files::given;

/// The flag that names the file.
pub(super) const FLAG: &str = "egress-selector-config-file";

const FILE_BYTES_MAX: u64 = 1 << 20;
const KIND: &str = "EgressSelectorConfiguration";
const GROUP: &str = "apiserver.k8s.io/";

/// Checks that a file asks for direct connections only.
///
/// # Errors
/// The file cannot be read, is not of this kind, or asks for a proxy.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let file = given::read(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let text = file.text().map_err(|error| error.to_string())?;
    check_text(text)
}

fn check_text(text: &str) -> Result<(), String> {
    let wrong = || format!("it is not a file of the kind {KIND} of {GROUP}v1beta1");
    let configuration: Value = serde_saphyr::from_str(text).map_err(|_| wrong())?;
    let (kind, version) = (
        text_of(&configuration, "kind"),
        text_of(&configuration, "apiVersion"),
    );
    if kind != Some(KIND) || !version.is_some_and(|version| version.starts_with(GROUP)) {
        return Err(wrong());
    }
    let selections = match configuration.get("egressSelections") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(selections)) => &**selections,
        Some(_) => return Err(wrong()),
    };
    for selection in selections {
        let connection = selection.get("connection");
        let protocol = connection.and_then(|one| text_of(one, "proxyProtocol"));
        let (Some(name), Some(protocol)) = (text_of(selection, "name"), protocol) else {
            return Err(wrong());
        };
        if !matches!(name, "cluster" | "controlplane" | "etcd" | "master") {
            return Err(format!(
                "{name:?} is not one of controlplane, etcd, cluster"
            ));
        }
        if protocol != "Direct" {
            return Err(format!(
                "connections of {name:?} would go through a proxy ({protocol}), which is not built; \
                 use Direct, or leave the flag out if this machine reaches the cluster"
            ));
        }
    }
    Ok(())
}

fn text_of<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(selections: &str) -> String {
        let text = format!(
            "{{apiVersion: apiserver.k8s.io/v1beta1, kind: {KIND}, egressSelections: {selections}}}"
        );
        check_text(&text).err().unwrap_or_default()
    }

    #[test]
    fn connections_are_direct_or_refused() {
        assert_eq!(checked("[]"), "");
        let direct = "[{name: cluster, connection: {proxyProtocol: Direct}}]";
        assert_eq!(checked(direct), "");
        let proxy = "[{name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {}}}]";
        assert!(checked(proxy).contains("(HTTPConnect), which is not built"));
        let unknown = "[{name: moon, connection: {proxyProtocol: Direct}}]";
        assert!(checked(unknown).starts_with("\"moon\" is not one of"));
        for other in ["{kind: Pod, apiVersion: v1}", "[", "text"] {
            assert!(
                check_text(other)
                    .unwrap_err()
                    .starts_with("it is not a file")
            );
        }
    }
}
