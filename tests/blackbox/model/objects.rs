//! The objects and selections of the model. All show their value in a label. Services show it in a
//! field as well, Pods have a field that never changes.

use serde_json::{Value, json};

use crate::load::{Collection, Random};

pub const NAMESPACES: [&str; 3] = ["m0", "m1", "m2"];
const COLORS: [&str; 3] = ["red", "blue", "green"];
/// What is in the fields: the node of a pod, the type of a service.
const NODES: [&str; 3] = ["n0", "n1", "n2"];
const TYPES: [&str; 3] = ["ClusterIP", "NodePort", "LoadBalancer"];
const PADDING_MAX: u64 = 3_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ConfigMaps,
    Pods,
    Services,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::ConfigMaps, Kind::Pods, Kind::Services];

    /// The path of the collection in one namespace or in all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let plural = match self {
            Kind::ConfigMaps => "configmaps",
            Kind::Pods => "pods",
            Kind::Services => "services",
        };
        match namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{plural}"),
            None => format!("/api/v1/{plural}"),
        }
    }

    /// Whether the daemon has objects of the kind, too: the service of the API, and a ConfigMap
    /// about itself. They have no color.
    fn is_shared(self) -> bool {
        matches!(self, Kind::ConfigMaps | Kind::Services)
    }

    /// The parameter that selects the objects of the model.
    pub fn own(self) -> &'static str {
        match self.is_shared() {
            true => "&labelSelector=color",
            false => "",
        }
    }

    /// The field with which the kind is selected, if it has one.
    fn field(self) -> Option<&'static str> {
        match self {
            Kind::ConfigMaps => None,
            Kind::Pods => Some("nodeName"),
            Kind::Services => Some("type"),
        }
    }

    /// What the field of an object contains. The node of a pod follows from its name, because it
    /// can't change.
    fn field_of(self, name: &str, value: &str) -> &'static str {
        let place = |bytes: &str| bytes.bytes().map(usize::from).sum::<usize>() % 3;
        match self {
            Kind::ConfigMaps => "",
            Kind::Pods => NODES[place(name)],
            Kind::Services => TYPES[place(word(value, 2))],
        }
    }
}

/// Objects of one kind in one namespace. A value is `UNIQUE COLOR NODE PADDING`.
pub struct ModelCollection {
    pub kind: Kind,
    pub namespace: &'static str,
}

impl Collection for ModelCollection {
    fn path(&self) -> String {
        self.kind.path(Some(self.namespace))
    }

    fn object(&self, name: &str, value: &str) -> Value {
        let (color, padding) = (color(value), padding(value));
        let field = self.kind.field_of(name, value);
        let annotations = json!({ "value": value, "padding": "x".repeat(padding) });
        let metadata =
            json!({ "name": name, "labels": { "color": color }, "annotations": annotations });
        match self.kind {
            Kind::ConfigMaps => json!({ "metadata": metadata }),
            Kind::Pods => {
                let containers = json!([{ "name": "c", "image": "i" }]);
                let spec = json!({ "nodeName": field, "containers": containers });
                json!({ "metadata": metadata, "spec": spec })
            }
            Kind::Services => {
                let spec = json!({ "type": field, "ports": [{ "port": 80 }] });
                json!({ "metadata": metadata, "spec": spec })
            }
        }
    }

    fn value_of(&self, object: &Value) -> String {
        read(object).1
    }

    fn value(&self, unique: String, random: &mut Random) -> String {
        let (color, node) = (random.of(&COLORS), random.of(&NODES));
        format!("{unique} {color} {node} {}", random.below(PADDING_MAX))
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    fn is_deleted_gracefully(&self) -> bool {
        self.kind == Kind::Pods
    }
}

fn word(value: &str, index: usize) -> &str {
    value.split(' ').nth(index).unwrap()
}

fn color(value: &str) -> &str {
    word(value, 1)
}

fn padding(value: &str) -> usize {
    word(value, 3).parse().unwrap()
}

/// The name and the value of an object, which must be consistent. The value of a terminating object
/// ends in "deleted".
pub fn read(object: &Value) -> (String, String) {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let value = text(&metadata["annotations"]["value"]);
    assert_eq!(metadata["labels"]["color"], color(&value), "{object}");
    let padded = metadata["annotations"]["padding"].as_str().unwrap().len();
    assert_eq!(padded, padding(&value), "{object}");
    let own = text(&metadata["name"]);
    for kind in Kind::ALL {
        let field = kind
            .field()
            .and_then(|field| object["spec"][field].as_str());
        if let Some(found) = field {
            assert_eq!(found, kind.field_of(&own, &value), "{object}");
        }
    }
    let value = match metadata["deletionTimestamp"].is_null() {
        true => value,
        false => value + " deleted",
    };
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    (format!("{namespace}/{name}"), value)
}

/// What a watch selects.
#[derive(Clone, Debug)]
pub struct Selection {
    pub kind: Kind,
    namespace: Option<&'static str>,
    color: Option<&'static str>,
    is_other_color: bool,
    /// What its field contains.
    field: Option<&'static str>,
    name: Option<String>,
}

impl Selection {
    pub fn all(kind: Kind) -> Selection {
        Selection {
            kind,
            namespace: None,
            color: None,
            is_other_color: false,
            field: None,
            name: None,
        }
    }

    /// A random selection.
    pub fn any(kind: Kind, random: &mut Random) -> Selection {
        let mut sometimes = |times| random.below(times) == 0;
        let (namespace, color, is_other_color) = (sometimes(3), sometimes(3), sometimes(4));
        let (field, name) = (kind.field().is_some() && sometimes(2), sometimes(6));
        let contents = if kind == Kind::Services {
            &TYPES
        } else {
            &NODES
        };
        Selection {
            kind,
            namespace: namespace.then(|| random.of(&NAMESPACES)),
            color: color.then(|| random.of(&COLORS)),
            is_other_color,
            field: field.then(|| random.of(contents)),
            name: name.then(|| format!("w{}-{}", random.below(6), random.below(4))),
        }
    }

    /// The same selection, restricted to one color.
    pub fn of_color(self, color: &'static str) -> Selection {
        Selection {
            color: Some(color),
            ..self
        }
    }

    /// The path of a watch, to which parameters can be appended.
    pub fn path(&self) -> String {
        let mut path = format!("{}?watch=true", self.kind.path(self.namespace));
        let mut fields = Vec::new();
        if let (Some(field), Some(content)) = (self.kind.field(), self.field) {
            fields.push(format!("spec.{field}%3D{content}"));
        }
        let name = self.name.as_ref();
        fields.extend(name.map(|name| format!("metadata.name%3D{name}")));
        if !fields.is_empty() {
            path += &format!("&fieldSelector={}", fields.join("%2C"));
        }
        let mut labels = Vec::new();
        if self.kind.is_shared() {
            labels.push("color".to_owned());
        }
        if let Some(color) = self.color {
            let equals = if self.is_other_color { "!%3D" } else { "%3D" };
            labels.push(format!("color{equals}{color}"));
        }
        if !labels.is_empty() {
            path += &format!("&labelSelector={}", labels.join("%2C"));
        }
        path
    }

    /// Whether it selects an object while it has this value.
    pub fn selects(&self, full_name: &str, value: &str) -> bool {
        let (namespace, name) = full_name.split_once('/').unwrap();
        self.namespace.is_none_or(|wanted| wanted == namespace)
            && self.name.as_ref().is_none_or(|wanted| wanted == name)
            && self
                .color
                .is_none_or(|wanted| (wanted == color(value)) != self.is_other_color)
            && self
                .field
                .is_none_or(|wanted| wanted == self.kind.field_of(name, value))
    }
}
