//! The file of `--egress-selector-config-file`: which connections go through proxies.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::api::field_error::{FieldError, FieldErrorKind};
use crate::documents::{KindAndVersion, Tree, types};
use crate::files::given;
use crate::schema::ObjectType;

/// The flag that names the file.
pub(super) const FLAG: &str = "egress-selector-config-file";

const FILE_BYTES_MAX: u64 = 1 << 20;
const KIND: &str = "EgressSelectorConfiguration";

/// The versions, whose types are the same.
const VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"];

const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];
const PROTOCOLS: [&str; 3] = ["Direct", "GRPC", "HTTPConnect"];

static TYPE: LazyLock<ObjectType> = LazyLock::new(|| {
    types(include_str!("egress_selector.txt"))
        .object_type("apiserver.v1beta1.EgressSelectorConfiguration")
});

/// Checks that a file asks for direct connections only.
///
/// # Errors
/// The file cannot be read, is not of this kind, or asks for a proxy.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let file = given::read(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    check_text(&file.bytes)
}

fn check_text(text: &[u8]) -> Result<(), String> {
    let tree = Tree::of_file(text)?;
    let KindAndVersion { kind, api_version } = tree.kind_and_version()?;
    // linear: two versions.
    if kind != KIND || !VERSIONS.contains(&&*api_version) {
        return Err(format!(
            "it has apiVersion {api_version:?} and kind {kind:?}, but must have {} and {KIND}",
            VERSIONS[0]
        ));
    }
    let configuration = tree.typed(&TYPE)?.strict()?;
    let selections = configuration.get("egressSelections");
    let selections = selections.and_then(Value::as_array).into_iter().flatten();
    let mut names = HashSet::new();
    for (number, selection) in selections.enumerate() {
        let path = format!("egressSelections[{number}]");
        let name = text_of(selection, "name").to_lowercase();
        check_selection(selection, &name, &path)?;
        if !names.insert(name.clone()) {
            let (at, name) = (format!("{path}.name"), Value::from(name));
            let error = FieldError::new(FieldErrorKind::Duplicate, at, &name, "");
            return Err(error.to_string());
        }
    }
    Ok(())
}

fn check_selection(selection: &Value, name: &str, path: &str) -> Result<(), String> {
    let unsupported = |at: &str, value: &str, supported: &[&str]| {
        FieldError::not_supported(format!("{path}.{at}"), value, supported).to_string()
    };
    // linear: three names, three protocols.
    if !NAMES.contains(&name) {
        return Err(unsupported("name", name, &NAMES));
    }
    let connection = selection.get("connection");
    let protocol = connection.map_or("", |connection| text_of(connection, "proxyProtocol"));
    let transport = connection.and_then(|connection| connection.get("transport"));
    match protocol {
        "Direct" if transport.is_some_and(|transport| !transport.is_null()) => {
            let detail = "must be absent for direct connections";
            Err(FieldError::forbidden(format!("{path}.connection.transport"), detail).to_string())
        }
        "Direct" => Ok(()),
        _ if PROTOCOLS.contains(&protocol) => Err(format!(
            "{path}: connections of {name:?} would go through a proxy ({protocol}), which Taffrail \
             does not support; use Direct, or leave the flag out if this machine reaches the cluster"
        )),
        _ => Err(unsupported(
            "connection.proxyProtocol",
            protocol,
            &PROTOCOLS,
        )),
    }
}

fn text_of<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(selections: &str) -> String {
        let text = format!(
            "{{apiVersion: apiserver.k8s.io/v1beta1, kind: {KIND}, egressSelections: {selections}}}"
        );
        check_text(text.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn connections_are_direct_or_refused() {
        assert_eq!(checked("[]"), "");
        let direct = "{name: cluster, connection: {proxyProtocol: Direct}}";
        assert_eq!(checked(&format!("[{direct}]")), "");
        let proxy =
            "[{name: etcd, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {}}}}]";
        assert!(checked(proxy).contains("(HTTPConnect), which Taffrail does not support"));
        for (selections, wanted) in [
            (
                "[{name: moon, connection: {proxyProtocol: Direct}}]",
                "egressSelections[0].name: Unsupported value: \"moon\": supported values: ",
            ),
            (
                &format!("[{direct}, {{name: etcd}}]"),
                "egressSelections[1].connection.proxyProtocol: Unsupported value: \"\"",
            ),
            (
                "[{name: etcd, connection: {proxyProtocol: Direct, transport: {}}}]",
                "egressSelections[0].connection.transport: Forbidden: must be absent",
            ),
            (
                &format!("[{direct}, {direct}]"),
                "egressSelections[1].name: Duplicate value: \"cluster\"",
            ),
            (
                "[{nmae: etcd}]",
                "unknown field \"egressSelections[0].nmae\"",
            ),
            (
                "[{name: 5}]",
                "EgressSelection.egressSelections.name of type string",
            ),
            ("{}", "egressSelections of type []"),
        ] {
            let refusal = checked(selections);
            assert!(refusal.contains(wanted), "{selections}: {refusal}");
        }
    }

    #[test]
    fn other_documents_are_refused() {
        let head =
            "it has apiVersion \"v1\" and kind \"Pod\", but must have apiserver.k8s.io/v1beta1";
        for (text, wanted) in [
            ("{kind: Pod, apiVersion: v1}", head),
            ("text", "it is not an object"),
            ("[", "line 1"),
            (
                "apiVersion: apiserver.k8s.io/v7\nkind: EgressSelectorConfiguration",
                "v7",
            ),
        ] {
            let refusal = check_text(text.as_bytes()).unwrap_err();
            assert!(refusal.contains(wanted), "{text}: {refusal}");
            assert!(!refusal.contains('\n'), "{refusal}");
        }
    }
}
