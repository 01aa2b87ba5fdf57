//! JSON of structs in field errors, which kube-apiserver prints from its internal (hub) types.
//!
//! Internal types have the fields of the versioned types under their Go names, in another order,
//! and print absent values too. Types of `meta.v1` have no internal form.

use api::field::{Detail, Field, LazyError};
use api::schema::{Field as SchemaField, Scalar, Schema, Shape, Struct, StructId, Type};
use serde_json::Value;

use super::TYPES;

/// Go names that differ from the JSON names by more than their first letter. A name with a type
/// before it applies to that type only.
const NAMES: [(&str, &str); 68] = [
    ("$ref", "Ref"),
    ("$schema", "Schema"),
    ("AzureDiskVolumeSource.diskURI", "DataDiskURI"),
    ("DeviceAttribute.bool", "BoolValue"),
    ("DeviceAttribute.bools", "BoolValues"),
    ("DeviceAttribute.int", "IntValue"),
    ("DeviceAttribute.ints", "IntValues"),
    ("DeviceAttribute.string", "StringValue"),
    ("DeviceAttribute.strings", "StringValues"),
    ("DeviceAttribute.version", "VersionValue"),
    ("DeviceAttribute.versions", "VersionValues"),
    ("GlusterfsPersistentVolumeSource.endpoints", "EndpointsName"),
    ("GlusterfsVolumeSource.endpoints", "EndpointsName"),
    ("RBDPersistentVolumeSource.image", "RBDImage"),
    ("RBDPersistentVolumeSource.monitors", "CephMonitors"),
    ("RBDPersistentVolumeSource.pool", "RBDPool"),
    ("RBDPersistentVolumeSource.user", "RadosUser"),
    ("RBDVolumeSource.image", "RBDImage"),
    ("RBDVolumeSource.monitors", "CephMonitors"),
    ("RBDVolumeSource.pool", "RBDPool"),
    ("RBDVolumeSource.user", "RadosUser"),
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cel", "CEL"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("cidrs", "CIDRs"),
    ("csi", "CSI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("id", "ID"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("jsonPath", "JSONPath"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("ttlSecondsAfterFinished", "TTLSecondsAfterFinished"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource"),
    ("x-kubernetes-int-or-string", "XIntOrString"),
    ("x-kubernetes-list-map-keys", "XListMapKeys"),
    ("x-kubernetes-list-type", "XListType"),
    ("x-kubernetes-map-type", "XMapType"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
    ),
    ("x-kubernetes-validations", "XValidations"),
];

/// Fields that are pointers in the versioned type but not in the internal one.
const NO_POINTERS: [(&str, &str); 5] = [
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// Fields of the pod spec that are in the security context of the internal type.
const IN_SECURITY_CONTEXT: [&str; 5] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];

/// Fields of the pod spec that the internal type has elsewhere, or that mirror another field.
const ELSEWHERE: [&str; 6] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
    "serviceAccount",
];

/// Returns the JSON of a struct as a field error shows it. `type_name` includes the package:
/// `core.v1.PodTemplateSpec`.
pub fn internal_json(type_name: &str, value: Option<&Value>) -> String {
    let schema: &Schema = &TYPES;
    let mut printer = Printer {
        schema,
        text: String::new(),
    };
    match schema.find(type_name).and_then(|id| schema.get(id)) {
        Some(of) if value.is_some() => printer.structure(of, value),
        _ => printer.text.push_str("null"),
    }
    html_safe(printer.text)
}

/// Returns the JSON of a list of structs as a field error shows it, cut after 64 KiB.
pub fn internal_list_json<'v>(
    type_name: &str,
    list: impl IntoIterator<Item = &'v Value>,
) -> String {
    let mut text = String::from("[");
    for value in list {
        if text.len() > MAX_SHOWN {
            break;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&internal_json(type_name, Some(value)));
    }
    text.push(']');
    text
}

/// Returns the JSON of a schema's `items` as a field error shows it: one schema or a list.
pub fn internal_schemas_json(value: Option<&Value>) -> String {
    let mut printer = Printer {
        schema: &TYPES,
        text: String::new(),
    };
    printer.schemas(value);
    html_safe(printer.text)
}

/// Returns JSON as Go's encoder prints it.
pub fn any_json(value: Option<&Value>) -> String {
    html_safe(value.unwrap_or(&Value::Null).to_string())
}

/// Escapes `<`, `>` and `&`, as Go's encoder does. They occur in strings only.
pub fn html_safe(json: String) -> String {
    if !json.contains(['<', '>', '&']) {
        return json;
    }
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e");
    json.replace('&', "\\u0026")
}

/// Returns the field error for a struct that violates a rule.
pub fn invalid_struct<'f>(
    field: &Field<'f>,
    type_name: &'f str,
    detail: impl Into<Detail<'f>>,
) -> LazyError<'f> {
    let value = field.value();
    let error = field.invalid(detail);
    error.showing_json(move || internal_json(type_name, value))
}

/// Fields whose place in the internal type differs: type, field, and the field that it follows.
const MOVED: [(&str, &str, &str); 10] = [
    ("JSONSchemaProps", "nullable", "type"),
    ("PersistentVolumeSource", "flexVolume", "iscsi"),
    ("PersistentVolumeSource", "quobyte", "rbd"),
    ("PersistentVolumeSpec", "flexVolume", "iscsi"),
    ("PersistentVolumeSpec", "quobyte", "rbd"),
    ("PodSecurityContext", "fsGroupChangePolicy", "fsGroup"),
    ("PodSpec", "overhead", "runtimeClassName"),
    ("PodSpec", "preemptionPolicy", "priority"),
    ("PodSpec", "setHostnameAsFQDN", "subdomain"),
    ("Volume", "quobyte", "rbd"),
];

/// The JSON of a struct is cut after this length, because errors show less of it.
const MAX_SHOWN: usize = 64 * 1024;

struct Printer {
    schema: &'static Schema,
    text: String,
}

impl Printer {
    fn structure(&mut self, of: &Struct, value: Option<&Value>) {
        if self.text.len() > MAX_SHOWN {
            return;
        }
        self.text.push('{');
        if of.package == "meta.v1" {
            self.external_fields(of, value);
        } else {
            self.internal_fields(of, value);
        }
        self.text.push('}');
    }

    /// Prints the name of a member, after a comma unless it is the first.
    fn name(&mut self, name: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.text.push_str(&Value::from(name).to_string());
        self.text.push(':');
    }

    /// Prints the fields as in the versioned type, without empty ones.
    fn external_fields(&mut self, of: &Struct, value: Option<&Value>) {
        for field in declared(of) {
            let value = value.and_then(|value| value.get(&field.name));
            if field.is_always_printed || value.is_some_and(|value| !is_empty(value)) {
                self.name(&field.name);
                self.value(&field.of, value);
            }
        }
    }

    fn internal_fields(&mut self, of: &Struct, value: Option<&Value>) {
        for field in ordered(of) {
            let member = value.and_then(|value| value.get(&field.name));
            match (of.name.as_str(), field.name.as_str(), &field.of.shape) {
                // Internal types embed ObjectMeta, so its fields are printed inline.
                (_, "metadata", Shape::Struct(id)) => {
                    if let Some(metadata) = self.schema.get(*id) {
                        self.external_fields(metadata, member);
                    }
                }
                ("PodSpec", "securityContext", Shape::Struct(id)) => {
                    self.pod_security_context(*id, of, value, member);
                }
                ("PodSpec", name, _) if ELSEWHERE.contains(&name) => {}
                named => {
                    self.name(&go_name(&of.name, &field.name));
                    let is_there = NO_POINTERS.contains(&(named.0, named.1));
                    match (&field.of.shape, member) {
                        (Shape::Scalar(scalar), None) if is_there => {
                            self.text.push_str(zero(*scalar));
                        }
                        _ => self.value(&field.of, member),
                    }
                }
            }
        }
    }

    /// Prints the security context of a pod. The internal type has some fields of the pod spec in
    /// it, and it is never null.
    fn pod_security_context(
        &mut self,
        id: StructId,
        pod: &Struct,
        spec: Option<&Value>,
        value: Option<&Value>,
    ) {
        self.name("SecurityContext");
        self.text.push('{');
        for name in IN_SECURITY_CONTEXT {
            if let Some(field) = pod.field(name) {
                self.name(&go_name(&pod.name, name));
                self.value(&field.of, spec.and_then(|spec| spec.get(name)));
            }
        }
        if let Some(of) = self.schema.get(id) {
            self.internal_fields(of, value);
        }
        self.text.push('}');
    }

    /// Prints a schema inside a schema.
    fn inner_schema(&mut self, value: Option<&Value>) {
        let of = self.schema.find("apiextensions.v1.JSONSchemaProps");
        match of.and_then(|id| self.schema.get(id)) {
            Some(of) if value.is_some_and(Value::is_object) => self.structure(of, value),
            _ => self.text.push_str("null"),
        }
    }

    /// Prints the internal struct for `items`: a schema, or a list of them.
    fn schemas(&mut self, value: Option<&Value>) {
        self.text.push('{');
        self.name("Schema");
        self.inner_schema(value);
        self.name("JSONSchemas");
        match value {
            Some(Value::Array(items)) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.text.push(',');
                    }
                    self.inner_schema(Some(item));
                }
                self.text.push(']');
            }
            _ => self.text.push_str("null"),
        }
        self.text.push('}');
    }

    /// Prints the internal struct for a schema or a boolean.
    fn schema_or_bool(&mut self, value: &Value) {
        let is_allowed = value.as_bool().unwrap_or(true);
        self.text.push('{');
        self.name("Allows");
        self.text.push_str(&is_allowed.to_string());
        self.name("Schema");
        self.inner_schema(Some(value));
        self.text.push('}');
    }

    fn value(&mut self, of: &Type, value: Option<&Value>) {
        if let (Shape::Any, Some(value)) = (&of.shape, value) {
            match of.go_name.as_str() {
                "v1.JSONSchemaPropsOrArray" => return self.schemas(Some(value)),
                "v1.JSONSchemaPropsOrBool" => return self.schema_or_bool(value),
                _ => {}
            }
        }
        match (&of.shape, value) {
            (Shape::Struct(id), value) if value.is_some() || !of.is_pointer => {
                match self.schema.get(*id) {
                    Some(of) => self.structure(of, value),
                    None => self.text.push_str("null"),
                }
            }
            (Shape::List(item), Some(Value::Array(items))) => {
                self.text.push('[');
                for (index, value) in items.iter().enumerate() {
                    if index > 0 {
                        self.text.push(',');
                    }
                    self.value(item, Some(value));
                }
                self.text.push(']');
            }
            (Shape::Map(item), Some(Value::Object(members))) => {
                self.text.push('{');
                for (key, value) in members {
                    self.name(key);
                    self.value(item, Some(value));
                }
                self.text.push('}');
            }
            (_, Some(value)) => self.text.push_str(&value.to_string()),
            (Shape::Scalar(scalar), None) if !of.is_pointer => self.text.push_str(zero(*scalar)),
            (_, None) => self.text.push_str("null"),
        }
    }
}

/// Returns the JSON of an absent scalar.
fn zero(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "\"\"",
        Scalar::Bool => "false",
        Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString => "0",
        Scalar::Quantity => "\"0\"",
        Scalar::Duration => "\"0s\"",
        Scalar::Bytes | Scalar::Time | Scalar::MicroTime => "null",
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Returns the fields in the order of their declaration.
fn declared(of: &Struct) -> Vec<&SchemaField> {
    let mut fields: Vec<&SchemaField> = of.fields().iter().collect();
    fields.sort_by_key(|field| field.position);
    fields
}

/// Returns the fields in the order of the internal type.
fn ordered(of: &Struct) -> Vec<&SchemaField> {
    let mut fields = declared(of);
    let moved = MOVED.iter().filter(|(name, ..)| *name == of.name);
    for (_, name, after) in moved {
        let Some(from) = fields.iter().position(|field| field.name == *name) else {
            continue;
        };
        let field = fields.remove(from);
        let to = fields.iter().position(|field| field.name == *after);
        fields.insert(to.map_or(0, |to| to + 1), field);
    }
    fields
}

fn go_name(type_name: &str, name: &str) -> String {
    let found = NAMES.iter().find(|(known, _)| match known.split_once('.') {
        Some((of, known)) => of == type_name && known == name,
        None => *known == name,
    });
    if let Some((_, name)) = found {
        return (*name).to_owned();
    }
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Expected texts are from kube-apiserver 1.36.
    #[test]
    fn structs_are_shown_as_in_memory() {
        let strategy = json!({"type": "Foo", "rollingUpdate": {"partition": -1}});
        assert_eq!(
            internal_json("apps.v1.StatefulSetUpdateStrategy", Some(&strategy)),
            r#"{"Type":"Foo","RollingUpdate":{"Partition":-1,"MaxUnavailable":null}}"#
        );
        let selector = json!({"matchExpressions": [{"operator": "", "key": "x"}]});
        assert_eq!(
            internal_json("meta.v1.LabelSelector", Some(&selector)),
            r#"{"matchExpressions":[{"key":"x","operator":""}]}"#
        );
        let context = json!({"hostPID": true, "securityContext": {"runAsUser": 1}});
        let shown = internal_json("core.v1.PodSpec", Some(&context));
        let part = r#""NodeName":"","SecurityContext":{"HostNetwork":false,"HostPID":true,"#;
        assert!(shown.contains(part), "{shown}");
        assert!(
            shown.contains(r#""RunAsUser":1,"RunAsGroup":null,"#),
            "{shown}"
        );
        assert_eq!(internal_json("core.v1.PodSpec", None), "null");
    }
}
