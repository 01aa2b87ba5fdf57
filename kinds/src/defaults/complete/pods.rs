//! Descriptions of defaulted pods and pod templates.

use api::completeness::{Expected, Relation};

/// The flag of a pod with a port that has no host port.
const NO_HOST_PORT: u32 = 2;
/// The flag of a pod with `hostNetwork`.
const HOST_NETWORK: u32 = 3;

/// The flags that exclude each other: with `hostNetwork`, every port has a host port.
pub const APART: &[[u32; 2]] = &[[NO_HOST_PORT, HOST_NETWORK]];

/// Describes a defaulted Pod.
pub fn pod() -> Expected {
    let requirements = Expected::default().pair("limits", "requests", Relation::Keys);
    let port = Expected::default().flag_without("hostPort", NO_HOST_PORT);
    let container = Expected::default()
        .below("resources", requirements)
        .below("ports", port);
    let spec = pod_spec()
        .has(&["enableServiceLinks"])
        // Defaults of pod-level resources depend on all containers, which a scan cannot compare.
        .lacks(&["resources"])
        .flag_when("hostNetwork", "true", HOST_NETWORK)
        .below("containers", container.clone())
        .below("initContainers", container);
    let status = Expected::default().pair("podIP", "podIPs", Relation::Begins("[{\"ip\":"));
    Expected::default()
        .given(&["spec"])
        .below("metadata", metadata())
        .below("spec", spec)
        .below("status", status)
}

/// Describes a defaulted pod template.
pub fn pod_template_spec() -> Expected {
    Expected::default()
        .given(&["spec"])
        .below("metadata", metadata())
        .below("spec", pod_spec())
}

/// Describes metadata without the obsolete annotations of init containers, which defaulting drops.
fn metadata() -> Expected {
    Expected::default().never_mentions("annotations", ".kubernetes.io/init-container")
}

fn pod_spec() -> Expected {
    let spec = Expected::default()
        .has(&[
            "dnsPolicy",
            "restartPolicy",
            "schedulerName",
            "securityContext",
            "terminationGracePeriodSeconds",
        ])
        .pair("serviceAccount", "serviceAccountName", Relation::Begins(""))
        .below("volumes", volume());
    ["containers", "ephemeralContainers", "initContainers"]
        .into_iter()
        .fold(spec, |spec, list| spec.below(list, container()))
}

fn container() -> Expected {
    let port = Expected::default().has(&["protocol"]);
    let source = value_source().below("fileKeyRef", Expected::default().has(&["optional"]));
    let variable = Expected::default().below("valueFrom", source);
    let handler = Expected::default().below("httpGet", http_get());
    let lifecycle = Expected::default()
        .below("postStart", handler.clone())
        .below("preStop", handler);
    let container = Expected::default()
        .has(&[
            "imagePullPolicy",
            "terminationMessagePath",
            "terminationMessagePolicy",
        ])
        .below("ports", port)
        .below("env", variable)
        .below("lifecycle", lifecycle);
    ["livenessProbe", "readinessProbe", "startupProbe"]
        .into_iter()
        .fold(container, |container, name| container.below(name, probe()))
}

fn probe() -> Expected {
    Expected::default()
        .filled(&[
            "failureThreshold",
            "periodSeconds",
            "successThreshold",
            "timeoutSeconds",
        ])
        .below("httpGet", http_get())
        .below("grpc", Expected::default().given(&["service"]))
}

fn http_get() -> Expected {
    Expected::default().has(&["path", "scheme"])
}

/// Describes the source of an environment variable or of a file of the downward API.
fn value_source() -> Expected {
    Expected::default()
        .below("fieldRef", Expected::default().has(&["apiVersion"]))
        .below("resourceFieldRef", Expected::default().has(&["divisor"]))
}

fn volume() -> Expected {
    let mode = || Expected::default().has(&["defaultMode"]);
    let downward = || Expected::default().below("items", value_source());
    let token = Expected::default().has(&["expirationSeconds"]);
    let projection = Expected::default()
        .below("downwardAPI", downward())
        .below("serviceAccountToken", token);
    let claim = Expected::default()
        .given(&["spec"])
        .below("spec", Expected::default().has(&["volumeMode"]));
    let template = Expected::default().below("volumeClaimTemplate", claim);
    sources(Expected::default())
        .has_other_than("name")
        .below("secret", mode())
        .below("configMap", mode())
        .below("downwardAPI", mode().and(downward()))
        .below("projected", mode().below("sources", projection))
        .below("ephemeral", template)
        .below("image", Expected::default().has(&["pullPolicy"]))
}

/// Describes the sources of a volume, in pods and in PersistentVolumes.
pub fn sources(part: Expected) -> Expected {
    let azure = Expected::default().has(&["cachingMode", "fsType", "kind", "readOnly"]);
    part.below("hostPath", Expected::default().given(&["type"]))
        .below("iscsi", Expected::default().has(&["iscsiInterface"]))
        .below("rbd", Expected::default().has(&["keyring", "pool", "user"]))
        .below("azureDisk", azure)
        .below(
            "scaleIO",
            Expected::default().has(&["fsType", "storageMode"]),
        )
}
