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
    let configuration: Value = serde_saphyr::from_str(text).map_err(|error| {
        let error = error.to_string();
        let lines: Vec<&str> = error.lines().map(str::trim).collect();
        format!("it is not valid YAML: {}", lines.join(" "))
    })?;
    let (kind, version) = (
        text_of(&configuration, "kind"),
        text_of(&configuration, "apiVersion"),
    );
    if kind != Some(KIND) || !version.is_some_and(|version| version.starts_with(GROUP)) {
        return Err(format!(
            "it is not a file of the kind {KIND} of {GROUP}v1beta1"
        ));
    }
    let selections = match configuration.get("egressSelections") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(selections)) => &**selections,
        Some(_) => return Err("egressSelections is not a list".to_owned()),
    };
    for (number, selection) in selections.iter().enumerate() {
        check_selection(selection)
            .map_err(|problem| format!("egressSelections[{number}]: {problem}"))?;
    }
    Ok(())
}

fn check_selection(selection: &Value) -> Result<(), String> {
    let name = text_of(selection, "name").ok_or("it has no name")?;
    if !matches!(name, "cluster" | "controlplane" | "etcd" | "master") {
        return Err(format!(
            "{name:?} is not one of controlplane, etcd, cluster"
        ));
    }
    let connection = selection.get("connection");
    match connection.and_then(|connection| text_of(connection, "proxyProtocol")) {
        Some("Direct") => Ok(()),
        Some(protocol) => Err(format!(
            "connections of {name:?} would go through a proxy ({protocol}), which is not built; use \
             Direct, or leave the flag out if this machine reaches the cluster"
        )),
        None => Err("it has no connection.proxyProtocol".to_owned()),
    }
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
        assert!(checked(unknown).starts_with("egressSelections[0]: \"moon\" is not one of"));
        let second = "[{name: etcd, connection: {proxyProtocol: Direct}}, {name: cluster}]";
        assert_eq!(
            checked(second),
            "egressSelections[1]: it has no connection.proxyProtocol"
        );
        assert_eq!(checked("[1]"), "egressSelections[0]: it has no name");
        assert_eq!(checked("{}"), "egressSelections is not a list");
        for other in ["{kind: Pod, apiVersion: v1}", "text"] {
            let error = check_text(other).unwrap_err();
            assert!(error.starts_with("it is not a file of the kind"), "{error}");
        }
        let error = check_text("[").unwrap_err();
        assert!(error.starts_with("it is not valid YAML: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
