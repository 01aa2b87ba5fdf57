//! Structs as faults show them: JSON of the types that kube-apiserver has in memory.
//!
//! These have the fields of the types that clients see, by their names in Go, in an order of their
//! own, and with values for those that are absent. Types of `meta.v1` are the same for both.

use api::field::{Detail, Field, LazyError};
use api::schema::{Field as SchemaField, Scalar, Schema, Shape, Struct, StructId, Type};
use serde_json::Value;

use super::TYPES;

/// Names in Go that differ from those in JSON by more than their first letter. A name with a type
/// in front is that of this type only.
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

/// Fields that are always there.
const NO_POINTERS: [(&str, &str); 5] = [
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// Fields of a pod that are in its security context.
const IN_SECURITY_CONTEXT: [&str; 5] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];

/// Fields of a pod that are elsewhere, or mirror another one.
const ELSEWHERE: [&str; 6] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
    "serviceAccount",
];

/// A struct as a fault shows it. `type_name` has its package: `core.v1.PodTemplateSpec`.
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

/// A list of structs as an error shows it. The rest of a long one is left out.
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

/// The schema in a schema, alone or in a list, as a fault shows it.
pub fn internal_schemas_json(value: Option<&Value>) -> String {
    let mut printer = Printer {
        schema: &TYPES,
        text: String::new(),
    };
    printer.schemas(value);
    html_safe(printer.text)
}

/// Any JSON as Go prints it.
pub fn any_json(value: Option<&Value>) -> String {
    html_safe(value.unwrap_or(&Value::Null).to_string())
}

/// Go's JSON may stand in HTML: what begins tags and entities is escaped. It can be in texts only.
pub fn html_safe(json: String) -> String {
    if !json.contains(['<', '>', '&']) {
        return json;
    }
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e");
    json.replace('&', "\\u0026")
}

/// The fault of a struct that breaks a rule.
pub fn invalid_struct<'f>(
    field: &Field<'f>,
    type_name: &'f str,
    detail: impl Into<Detail<'f>>,
) -> LazyError<'f> {
    let value = field.value();
    let error = field.invalid(detail);
    error.showing_json(move || internal_json(type_name, value))
}

/// Fields of structs whose order differs from that of their declaration: those that come behind
/// another one.
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

/// The text of a struct is cut behind this length, of which faults show less.
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

    /// The name of a member, with a comma in front if it is not the first.
    fn name(&mut self, name: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.text.push_str(&Value::from(name).to_string());
        self.text.push(':');
    }

    /// The fields as clients see them, without those that are empty.
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
                // The fields of an object's metadata stand beside the others.
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

    /// The security context of a pod has what clients see beside it, and is always there.
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

    /// A schema in a schema.
    fn inner_schema(&mut self, value: Option<&Value>) {
        let of = self.schema.find("apiextensions.v1.JSONSchemaProps");
        match of.and_then(|id| self.schema.get(id)) {
            Some(of) if value.is_some_and(Value::is_object) => self.structure(of, value),
            _ => self.text.push_str("null"),
        }
    }

    /// The schema of items, or a list of them.
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

    /// A schema, or whether anything is allowed.
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

/// What an absent value prints.
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

/// The fields in order of their declaration.
fn declared(of: &Struct) -> Vec<&SchemaField> {
    let mut fields: Vec<&SchemaField> = of.fields().iter().collect();
    fields.sort_by_key(|field| field.position);
    fields
}

/// The fields in the order that they have in memory.
fn ordered(of: &Struct) -> Vec<&SchemaField> {
    let mut fields = declared(of);
    let moved = MOVED.iter().filter(|(name, ..)| *name == of.name);
    for (_, name, behind) in moved {
        let Some(from) = fields.iter().position(|field| field.name == *name) else {
            continue;
        };
        let field = fields.remove(from);
        let to = fields.iter().position(|field| field.name == *behind);
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

    /// What kube-apiserver 1.36 shows of such values.
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
