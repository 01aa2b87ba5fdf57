//! The SubjectAccessReview that a webhook gets, to the byte (AC-38). Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::answer::ReviewKind;
use super::review_version::ReviewVersion;
use crate::api::go_json::write_json;
use crate::api::selector::{Requirement, field_requirements, label_requirements};
use crate::auth::Attributes;

/// Questions whose attributes have so many bytes are not kept: the client chooses these texts.
const CONTROLLED_BYTES_MAX: usize = 10_000;

/// The question of a review.
pub(super) struct Question<'r> {
    attributes: &'r Attributes<'r>,
    fields: Vec<Requirement>,
    labels: Vec<Requirement>,
}

#[derive(Serialize)]
struct Review<'q> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'q str,
    metadata: Empty,
    spec: Spec<'q>,
    status: NotAllowed,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct NotAllowed {
    allowed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'q> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'q>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<NonResourceAttributes<'q>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'q str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'q [String],
    /// The name of `groups` in v1beta1.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    group: &'q [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'q BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'q str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAttributes<'q> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'q str,
    #[serde(skip_serializing_if = "Requirements::is_empty")]
    field_selector: Requirements<'q>,
    #[serde(skip_serializing_if = "Requirements::is_empty")]
    label_selector: Requirements<'q>,
}

#[derive(Serialize)]
struct NonResourceAttributes<'q> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'q str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'q str,
}

#[derive(Serialize)]
struct Requirements<'q> {
    requirements: Vec<OneRequirement<'q>>,
}

#[derive(Serialize)]
struct OneRequirement<'q> {
    key: &'q str,
    operator: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    values: &'q [String],
}

impl<'q> Requirements<'q> {
    fn of(requirements: &'q [Requirement]) -> Requirements<'q> {
        let requirements = requirements.iter().map(|one| OneRequirement {
            key: &one.key,
            operator: one.operator,
            values: &one.values,
        });
        Requirements {
            requirements: requirements.collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl<'r> Question<'r> {
    /// Returns the question about a request.
    pub(super) fn of(attributes: &'r Attributes<'r>) -> Question<'r> {
        Question {
            attributes,
            fields: field_requirements(attributes.field_selector),
            labels: label_requirements(attributes.label_selector),
        }
    }

    fn spec(&self, version: ReviewVersion) -> Spec<'_> {
        let Attributes { user, verb, .. } = *self.attributes;
        let of = self.attributes;
        let resource_attributes = of.is_resource_request.then(|| ResourceAttributes {
            namespace: of.namespace,
            verb,
            group: of.api_group,
            version: of.api_version,
            resource: of.resource,
            subresource: of.subresource,
            name: of.name,
            field_selector: Requirements::of(&self.fields),
            label_selector: Requirements::of(&self.labels),
        });
        let non_resource_attributes = (!of.is_resource_request).then_some(NonResourceAttributes {
            path: of.path,
            verb,
        });
        let (groups, group) = match version {
            ReviewVersion::V1 => (&*user.groups, &[][..]),
            ReviewVersion::V1Beta1 => (&[][..], &*user.groups),
        };
        Spec {
            resource_attributes,
            non_resource_attributes,
            user: &user.name,
            groups,
            group,
            extra: &user.extra,
            uid: &user.uid,
        }
    }

    /// The spec by which answers are kept.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut text = Vec::new();
        write_json(&mut text, &self.spec(ReviewVersion::V1));
        text
    }

    /// Whether answers may be kept: texts that the client chooses must not fill the memory.
    pub(super) fn may_be_kept(&self) -> bool {
        let of = self.attributes;
        let (resource, path) = match of.is_resource_request {
            true => (
                [
                    of.namespace,
                    of.api_group,
                    of.api_version,
                    of.resource,
                    of.subresource,
                    of.name,
                ],
                "",
            ),
            false => ([""; 6], of.path),
        };
        let bytes: usize = resource.iter().map(|text| text.len()).sum();
        bytes + of.verb.len() + path.len() < CONTROLLED_BYTES_MAX
    }

    /// The body of the request.
    pub(super) fn body(&self, version: ReviewVersion) -> Bytes {
        let form = ReviewKind::Access.in_version(version);
        let review = Review {
            kind: form.kind.name(),
            api_version: &form.api_version(),
            metadata: Empty {},
            spec: self.spec(version),
            status: NotAllowed { allowed: false },
        };
        let mut text = Vec::new();
        write_json(&mut text, &review);
        text.push(b'\n');
        text.into()
    }

    /// The value of `request` in match conditions: all texts are there, also empty ones (AC-36).
    pub(super) fn to_value(&self) -> Value {
        let of = self.attributes;
        let user = of.user;
        let mut request = json!({
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        });
        let (name, attributes) = match of.is_resource_request {
            true => ("resourceAttributes", self.resource_value()),
            false => {
                let attributes = json!({"path": of.path, "verb": of.verb});
                ("nonResourceAttributes", attributes)
            }
        };
        if let Some(members) = request.as_object_mut() {
            members.insert(name.to_owned(), attributes);
        }
        request
    }

    fn resource_value(&self) -> Value {
        let of = self.attributes;
        let mut members = Map::new();
        for (name, text) in [
            ("namespace", of.namespace),
            ("verb", of.verb),
            ("group", of.api_group),
            ("version", of.api_version),
            ("resource", of.resource),
            ("subresource", of.subresource),
            ("name", of.name),
        ] {
            members.insert(name.to_owned(), text.into());
        }
        for (name, requirements) in [
            ("fieldSelector", &self.fields),
            ("labelSelector", &self.labels),
        ] {
            let list = requirements
                .iter()
                .map(|one| json!({"key": one.key, "operator": one.operator, "values": one.values}));
            let list: Vec<Value> = list.collect();
            if !list.is_empty() {
                members.insert(name.to_owned(), json!({"requirements": list}));
            }
        }
        members.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::user_info::UserInfo;

    fn alice() -> UserInfo {
        UserInfo {
            name: "alice".to_owned(),
            uid: "u1".to_owned(),
            groups: vec!["b".to_owned(), "a".to_owned()],
            extra: [("k".to_owned(), vec!["<v>".to_owned()])].into(),
        }
    }

    fn sent(attributes: &Attributes<'_>, version: ReviewVersion) -> String {
        let body = Question::of(attributes).body(version);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn the_review_of_a_resource_is_sent_to_the_byte_ac_38() {
        let user = alice();
        let attributes = Attributes {
            namespace: "n",
            name: "p",
            subresource: "log",
            api_version: "v1",
            field_selector: "spec.nodeName=x,a!=b",
            label_selector: "z in (y,x),app!=web,e,!d,n>1",
            ..Attributes::on_resource(&user, "list", "apps", "pods")
        };
        let spec = concat!(
            r#"{"resourceAttributes":{"namespace":"n","verb":"list","group":"apps","version":"v1","#,
            r#""resource":"pods","subresource":"log","name":"p","fieldSelector":{"requirements":["#,
            r#"{"key":"spec.nodeName","operator":"In","values":["x"]},"#,
            r#"{"key":"a","operator":"NotIn","values":["b"]}]},"labelSelector":{"requirements":["#,
            r#"{"key":"app","operator":"NotIn","values":["web"]},"#,
            r#"{"key":"d","operator":"DoesNotExist"},{"key":"e","operator":"Exists"},"#,
            r#"{"key":"z","operator":"In","values":["x","y"]}]}},"user":"alice","#,
            r#""groups":["b","a"],"extra":{"k":["\u003cv\u003e"]},"uid":"u1"}"#
        );
        let whole = |version: &str, spec: &str| {
            format!(
                "{{\"kind\":\"SubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/\
                 {version}\",\"metadata\":{{}},\"spec\":{spec},\"status\":{{\"allowed\":false}}}}\n"
            )
        };
        assert_eq!(sent(&attributes, ReviewVersion::V1), whole("v1", spec));
        let beta = spec.replace("\"groups\"", "\"group\"");
        assert_eq!(
            sent(&attributes, ReviewVersion::V1Beta1),
            whole("v1beta1", &beta)
        );
        assert_eq!(Question::of(&attributes).key(), spec.as_bytes());
    }

    #[test]
    fn the_review_of_a_path_has_no_resource_and_empty_texts_are_left_out_ac_38() {
        let user = UserInfo {
            name: "a".to_owned(),
            ..UserInfo::default()
        };
        let attributes = Attributes {
            is_resource_request: false,
            path: "/version",
            ..Attributes::on_resource(&user, "get", "x", "y")
        };
        let key = Question::of(&attributes).key();
        let expected = r#"{"nonResourceAttributes":{"path":"/version","verb":"get"},"user":"a"}"#;
        assert_eq!(String::from_utf8(key).unwrap(), expected);
    }

    #[test]
    fn conditions_see_every_text_ac_36() {
        let user = alice();
        let attributes = Attributes::on_resource(&user, "get", "", "nodes");
        let expected = json!({
            "user": "alice", "uid": "u1", "groups": ["b", "a"], "extra": {"k": ["<v>"]},
            "resourceAttributes": {
                "namespace": "", "verb": "get", "group": "", "version": "*", "resource": "nodes",
                "subresource": "", "name": "",
            },
        });
        assert_eq!(Question::of(&attributes).to_value(), expected);
    }

    #[test]
    fn long_questions_are_not_kept_ac_39() {
        let user = alice();
        let name = "x".repeat(9_993);
        let attributes = Attributes {
            name: &name,
            ..Attributes::on_resource(&user, "get", "", "")
        };
        // The version has one byte, the verb three.
        assert!(Question::of(&attributes).may_be_kept());
        let attributes = Attributes {
            resource: "abc",
            ..attributes
        };
        assert!(!Question::of(&attributes).may_be_kept());
        let path = Attributes {
            is_resource_request: false,
            path: &name,
            ..attributes
        };
        assert!(Question::of(&path).may_be_kept());
    }
}
