//! Writes what k8s-openapi says of types and their fields into one file, compressed by packages.
//!
//! The texts are those of Kubernetes' own OpenAPI document. They are not in this repository:
//! k8s-openapi has them in its JSON schemas, which its feature `schemars` compiles in. It is needed
//! at build time alone, because it would make the daemon several times as large.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
    coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource,
    scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::generate::SchemaGenerator;
use serde_json::{Value, json};

/// Adds types of a module, and all types that they consist of.
macro_rules! add {
    ($to:ident, $group:ident::$version:ident: $($name:ident)+) => {
        $($to.subschema_for::<$group::$version::$name>();)+
    };
}

/// The schemas of every type that OpenAPI documents of Kubernetes 1.36 have.
fn schemas() -> SchemaGenerator {
    let mut to = SchemaGenerator::default();
    add!(to, admissionregistration::v1:
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration);
    add!(to, apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet);
    add!(to, authentication::v1: SelfSubjectReview TokenRequest TokenReview);
    add!(to, authorization::v1:
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
        SubjectAccessReview);
    add!(to, autoscaling::v1: HorizontalPodAutoscaler Scale);
    add!(to, autoscaling::v2: HorizontalPodAutoscaler);
    add!(to, batch::v1: CronJob Job);
    add!(to, certificates::v1: CertificateSigningRequest);
    add!(to, coordination::v1: Lease);
    add!(to, core::v1:
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node
        PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController
        ResourceQuota Secret Service ServiceAccount);
    add!(to, discovery::v1: EndpointSlice);
    add!(to, events::v1: Event);
    add!(to, flowcontrol::v1: FlowSchema PriorityLevelConfiguration);
    add!(to, networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR);
    add!(to, node::v1: RuntimeClass);
    add!(to, policy::v1: Eviction PodDisruptionBudget);
    add!(to, rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding);
    add!(to, resource::v1: DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice);
    add!(to, scheduling::v1: PriorityClass);
    add!(to, storage::v1:
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
        VolumeAttributesClass);
    add!(to, apiextensions::v1: CustomResourceDefinition);
    add!(to, apiregistration::v1: APIService);
    add!(to, meta::v1:
        APIGroupList APIResourceList APIVersions DeleteOptions ListMeta Patch Status);
    add!(to, pkg::version: Info);
    to.subschema_for::<meta::v1::WatchEvent<core::v1::Pod>>();
    to
}

/// The types of each package, with a record for each type: its name, its description, then name
/// and description of each field. `src/lib.rs` reads them. Texts have line ends of their own, so
/// control characters that no text has stand between them.
fn packages(
    schemas: &SchemaGenerator,
    options: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, String>, String> {
    let mut types: Vec<_> = schemas.definitions().iter().chain(options).collect();
    types.sort_unstable_by_key(|(name, _)| *name);
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for (name, schema) in types {
        let description = |schema: &Value| {
            let text = schema.get("description").and_then(|text| text.as_str());
            text.unwrap_or_default().to_owned()
        };
        let of_type = description(schema);
        // What is said of the object stands in the text of the event.
        let (of_type, of_object) = match of_type.split_once("\n\nObject is:") {
            Some((of_type, rest)) => (of_type.to_owned(), format!("Object is:{}", rest.trim_end())),
            None => (of_type, String::new()),
        };
        let mut record = vec![name.clone(), of_type];
        let fields = schema
            .get("properties")
            .and_then(|fields| fields.as_object());
        let mut fields: Vec<_> = fields.into_iter().flatten().collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        for (field, schema) in fields {
            let text = match field.as_str() {
                "object" if !of_object.is_empty() => of_object.clone(),
                _ => description(schema),
            };
            if !text.is_empty() {
                record.extend([field.clone(), text]);
            }
        }
        if record.iter().any(|text| text.contains(['\x1e', '\x1f'])) {
            return Err(format!("a text of {name} has a control character"));
        }
        let (package, _) = name.rsplit_once('.').ok_or("a type without a package")?;
        let types = packages.entry(package.to_owned()).or_default();
        types.push_str(&record.join("\x1f"));
        types.push('\x1e');
    }
    Ok(packages)
}

/// The options of requests, which k8s-openapi does not have, in the form of its schemas. The file
/// has the description of each field by type and field, and that of the type without a field.
fn options(file: &str) -> Result<BTreeMap<String, Value>, Box<dyn Error>> {
    let types: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(file)?;
    let described = |text: &String| json!({"description": text});
    let schema = |(name, mut fields): (String, BTreeMap<String, String>)| {
        let of_type = fields.remove("").unwrap_or_default();
        let fields = fields
            .iter()
            .map(|(name, text)| (name.clone(), described(text)));
        let schema = json!({"description": of_type, "properties": Value::from_iter(fields)});
        (
            format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
            schema,
        )
    };
    Ok(types.into_iter().map(schema).collect())
}

/// The descriptions of the fields that columns of Tables show, as items of a slice in Rust, in
/// order of the fields. They lack the values of enumerations, which documents list after the text.
fn columns(schemas: &SchemaGenerator, fields: &str) -> Result<String, String> {
    let mut items = String::new();
    for path in fields.lines() {
        let unknown = || format!("columns.txt: {path} is unknown");
        let (of, field) = path.rsplit_once('.').ok_or_else(unknown)?;
        let mut types = schemas.definitions().iter();
        let found = types.find(|(name, _)| {
            let name = name.strip_suffix(of);
            name.is_some_and(|package| package.ends_with('.'))
        });
        let (_, schema) = found.ok_or_else(unknown)?;
        let text = schema.pointer(&format!("/properties/{field}/description"));
        let text = text.and_then(|text| text.as_str()).ok_or_else(unknown)?;
        let text = text
            .split("\n\nPossible enum values")
            .next()
            .unwrap_or(text);
        items.push_str(&format!("({path:?}, {text:?}),\n"));
    }
    Ok(format!("&[\n{items}]\n"))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=columns.txt");
    println!("cargo::rerun-if-changed=options.json");
    let folder = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let mut file = Vec::new();
    let schemas = schemas();
    let columns = columns(&schemas, include_str!("columns.txt"))?;
    std::fs::write(PathBuf::from(&folder).join("columns.rs"), columns)?;
    let options = options(include_str!("options.json"))?;
    for (name, types) in packages(&schemas, &options)? {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
        packed.write_all(types.as_bytes())?;
        let packed = packed.finish()?;
        // Its name in a line, the length in little endian, the compressed types.
        file.extend_from_slice(format!("{name}\n").as_bytes());
        file.extend_from_slice(&u32::try_from(packed.len())?.to_le_bytes());
        file.extend_from_slice(&packed);
    }
    std::fs::write(PathBuf::from(folder).join("descriptions"), file)?;
    Ok(())
}
