//! The review that a conversion webhook is sent, and its answer (HK-77, HK-78, HK-80, CRD-206 to
//! CRD-208).
//! Pure.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};

use crate::admission::hooks::client::{ReviewForm, ReviewVersion};
use crate::api::field_error::FieldError;
use crate::api::names;
use crate::api::object::Object;
use crate::api::text::json_type;
use crate::documents::types;
use crate::kinds::validation::apiextensions::aggregated;
use crate::schema::ObjectType;

static REVIEW: LazyLock<ObjectType> = LazyLock::new(|| {
    let types = types(include_str!("reviews.txt"));
    types.object_type("apiextensions.ConversionReview")
});

/// The members of metadata that a webhook may change.
const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

/// Returns the form of conversion reviews in a version.
fn form(version: ReviewVersion) -> ReviewForm {
    ReviewForm {
        group: "apiextensions.k8s.io",
        kind: "ConversionReview",
        version,
    }
}

/// The fault of an answer that cannot be used. Each has a label of its own in metrics (HK-83), and
/// continues the text `conversion webhook for <version and kind> ` in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call failed, or its answer is not a review of the version.
    Call(String),
    /// The review does not answer the request, or says that the conversion failed.
    Malformed(String),
    /// It has another number of objects.
    Partial(String),
    /// One of its objects is not a conversion of what was sent.
    Invalid(String),
}

impl Fault {
    /// Returns the text after that which names the kind of the objects.
    pub fn text(&self) -> String {
        match self {
            Fault::Call(why) | Fault::Malformed(why) => format!("failed: {why}"),
            Fault::Partial(why) | Fault::Invalid(why) => why.clone(),
        }
    }

    /// Returns its label in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Fault::Call(_) => "conversion_webhook_call_failure",
            Fault::Malformed(_) => "conversion_webhook_malformed_response_failure",
            Fault::Partial(_) => "conversion_webhook_partial_response_failure",
            Fault::Invalid(_) => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// Writes the review of a request.
pub fn review(version: ReviewVersion, uid: &str, desired: &str, objects: &[Object]) -> Bytes {
    let documents = objects.iter().cloned();
    let documents: Vec<Json> = documents
        .map(|object| Json::Object(object.into_document()))
        .collect();
    let form = form(version);
    let review = json!({
        "kind": form.kind,
        "apiVersion": form.api_version(),
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": documents},
    });
    // JSON values can always be written.
    serde_json::to_vec(&review).unwrap_or_default().into()
}

/// Reads an answer. Returns the converted objects, whose number and content are not checked yet.
///
/// # Errors
/// The body is not a successful answer to the request with this uid.
pub fn read(body: &[u8], version: ReviewVersion, uid: &str) -> Result<Vec<Json>, Fault> {
    let review = form(version).read(body, &REVIEW).map_err(Fault::Call)?;
    review.check_form().map_err(Fault::Malformed)?;
    let response = review.response();
    let response = response.ok_or_else(|| Fault::Malformed("no response provided".to_owned()))?;
    review.check_uid(uid).map_err(Fault::Malformed)?;
    let result = |name: &str| {
        let found = response.pointer(&format!("/result/{name}"));
        found.and_then(Json::as_str).unwrap_or_default()
    };
    match (result("status"), result("message")) {
        ("Success", _) => {}
        (status, "") => {
            let why = format!("response.result.status was '{status}', not 'Success'");
            return Err(Fault::Malformed(why));
        }
        (_, message) => return Err(Fault::Malformed(message.to_owned())),
    }
    let objects = response.get("convertedObjects").and_then(Json::as_array);
    Ok(objects.cloned().unwrap_or_default())
}

/// Takes the converted objects over: of their metadata only labels and annotations, the rest is
/// that of the objects which were sent (HK-80). The result is in order.
///
/// # Errors
/// One of them is not a conversion of its object to the desired version.
pub fn taken_over(
    sent: Vec<Object>,
    converted: Vec<Json>,
    desired: &str,
    is_list: bool,
) -> Result<Vec<Object>, Fault> {
    let (wanted, given) = (sent.len(), converted.len());
    if wanted != given {
        let why = format!("returned {given} objects, expected {wanted}");
        return Err(Fault::Partial(why));
    }
    let pairs = sent.into_iter().zip(converted).enumerate();
    let taken = pairs.map(|(index, (sent, converted))| {
        let place = Place { index, is_list };
        let Json::Object(members) = converted else {
            return Err(place.no_object(&converted));
        };
        take_over(&place, sent, members, desired)
    });
    taken.collect()
}

/// The place of an object in an answer, for texts.
struct Place {
    index: usize,
    is_list: bool,
}

impl Place {
    fn no_object(&self, found: &Json) -> Fault {
        let why = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(found)
        );
        Fault::Invalid(match self.is_list {
            true => format!("{}: {why}", self.converted_object()),
            false => format!("{}: {why}", self.object()),
        })
    }

    fn converted_object(&self) -> String {
        format!("returned invalid converted object at index {}", self.index)
    }

    /// Begins the text about a wrong type.
    fn object(&self) -> String {
        match self.is_list {
            true => self.converted_object(),
            false => "returned invalid object at index 0".to_owned(),
        }
    }

    /// Begins the text about a wrong identity.
    fn identity(&self) -> String {
        match self.is_list {
            true => self.converted_object(),
            false => "returned invalid object".to_owned(),
        }
    }

    /// Begins the text about wrong metadata.
    fn metadata(&self) -> String {
        match self.is_list {
            true => format!(
                "returned invalid metadata in object at index {}",
                self.index
            ),
            false => "returned invalid metadata".to_owned(),
        }
    }
}

fn take_over(
    place: &Place,
    sent: Object,
    members: Map<String, Json>,
    desired: &str,
) -> Result<Object, Fault> {
    let mut converted = Object::of(members);
    let invalid = |begin: String, why: String| Err(Fault::Invalid(format!("{begin}: {why}")));
    let (wanted, given) = (desired, converted.api_version());
    if wanted != given {
        let why = format!("invalid groupVersion (expected {wanted}, received {given})");
        return invalid(place.object(), why);
    }
    let (wanted, given) = (sent.kind(), converted.kind());
    if wanted != given {
        let why = format!("invalid kind (expected {wanted}, received {given})");
        return invalid(place.object(), why);
    }
    for (what, member) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let (wanted, given) = (sent.meta(member), converted.meta(member));
        if wanted != given {
            let why = format!("must have the same {what}: {wanted} != {given}");
            return invalid(place.identity(), why);
        }
    }
    let given = match converted.0.remove("metadata") {
        Some(Json::Object(given)) => given,
        None => {
            return invalid(
                place.metadata(),
                "missing metadata in converted object".to_owned(),
            );
        }
        Some(other) => {
            let why = format!(
                "invalid metadata of type {} in converted object",
                go_type(&other)
            );
            return invalid(place.metadata(), why);
        }
    };
    let owners = sent.managed_fields().cloned();
    let mut sent_members = sent.0;
    let mut metadata = match sent_members.remove("metadata") {
        Some(Json::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for name in CHANGEABLE {
        match given.get(name) {
            None | Some(Json::Null) => drop(metadata.remove(name)),
            Some(value) => {
                let checked = check_texts(name, value, metadata.get(name));
                if let Err(why) = checked {
                    return invalid(place.metadata(), why);
                }
                metadata.insert(name.to_owned(), value.clone());
            }
        }
    }
    converted.0.insert("metadata".to_owned(), metadata.into());
    converted.set_managed_fields(owners);
    Ok(converted)
}

/// Checks labels or annotations, if they have changed.
fn check_texts(name: &str, value: &Json, before: Option<&Json>) -> Result<(), String> {
    let Json::Object(texts) = value else {
        let found = go_type(value);
        return Err(format!(
            "invalid metadata.{name} of type {found} in converted object"
        ));
    };
    if let Some((key, other)) = texts.iter().find(|(_, value)| !value.is_string()) {
        let found = go_type(other);
        return Err(format!(
            "metadata.{name}[{key}] must be a string, but is {found} in converted object"
        ));
    }
    if Some(value) == before {
        return Ok(());
    }
    let texts = texts.iter();
    let errors = texts.flat_map(|(key, value)| match name {
        "labels" => label_errors(key, value.as_str().unwrap_or_default()),
        _ => annotation_errors(key),
    });
    aggregated(errors.collect()).map_or(Ok(()), Err)
}

fn label_errors(key: &str, value: &str) -> Vec<String> {
    let error = |of: &str, why: String| FieldError::invalid("metadata.labels", of, why).to_string();
    let of_key = names::qualified_name(key).into_iter();
    let of_key = of_key.map(|why| error(key, why.to_string()));
    let of_value = names::label_value(value).into_iter();
    let of_value = of_value.map(|why| error(value, why.to_string()));
    of_key.chain(of_value).collect()
}

fn annotation_errors(key: &str) -> Vec<String> {
    // Kubernetes' own path of annotations.
    let path = "metadata.annotation";
    let wrong = names::qualified_name(&key.to_lowercase()).into_iter();
    let errors = wrong.map(|why| FieldError::invalid(path, key, why.to_string()).to_string());
    errors.collect()
}

/// Returns the name of the type that a JSON value has in Go.
fn go_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Json) -> Object {
        let Json::Object(members) = value else {
            panic!("not an object");
        };
        Object::of(members)
    }

    fn sent() -> Object {
        object(json!({
            "apiVersion": "g.io/v1", "kind": "Port",
            "metadata": {"name": "b", "uid": "u", "generation": 2, "labels": {"l": "1"}},
        }))
    }

    fn answered(response: &Json) -> Result<Vec<Json>, String> {
        let review = json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": response,
        });
        let body = serde_json::to_vec(&review).unwrap();
        read(&body, ReviewVersion::V1, "u").map_err(|fault| fault.text())
    }

    #[test]
    fn the_type_of_reviews_is_known_hk_77() {
        assert!(REVIEW.found().is_some());
    }

    #[test]
    fn answers_that_do_not_succeed_are_failures_hk_78() {
        for (response, text) in [
            (json!(null), "failed: no response provided"),
            (
                json!({"uid": "other", "result": {"status": "Success"}}),
                "failed: expected response.uid=\"u\", got \"other\"",
            ),
            (
                json!({"uid": "u", "result": {"status": "Failure", "message": "cannot"}}),
                "failed: cannot",
            ),
            (
                json!({"uid": "u", "result": {"status": "Failure"}}),
                "failed: response.result.status was 'Failure', not 'Success'",
            ),
            (
                json!({"uid": "u"}),
                "failed: response.result.status was '', not 'Success'",
            ),
        ] {
            assert_eq!(answered(&response), Err(text.to_owned()));
        }
        let beta = br#"{"response":{"result":{"status":"Success"},"convertedObjects":[1]}}"#;
        assert_eq!(read(beta, ReviewVersion::V1Beta1, "u"), Ok(vec![json!(1)]));
        let unnamed = read(beta, ReviewVersion::V1, "u").map_err(|fault| fault.text());
        let text = "failed: expected webhook response of apiextensions.k8s.io/v1, \
                    Kind=ConversionReview, got /, Kind=";
        assert_eq!(unnamed, Err(text.to_owned()));
    }

    #[test]
    fn objects_that_are_no_conversions_are_refused_hk_78() {
        let good = json!({
            "apiVersion": "g.io/v2", "kind": "Port", "metadata": {"name": "b", "uid": "u"},
        });
        let changed = |pointer: &str, value: Json| {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed
        };
        for (converted, one, list) in [
            (
                changed("/kind", "Z".into()),
                "returned invalid object at index 0: invalid kind (expected Port, received Z)",
                "returned invalid converted object at index 0: invalid kind (expected Port, \
                 received Z)",
            ),
            (
                changed("/apiVersion", "g.io/v1".into()),
                "returned invalid object at index 0: invalid groupVersion (expected g.io/v2, \
                 received g.io/v1)",
                "returned invalid converted object at index 0: invalid groupVersion (expected \
                 g.io/v2, received g.io/v1)",
            ),
            (
                changed("/metadata/name", "z".into()),
                "returned invalid object: must have the same name: b != z",
                "returned invalid converted object at index 0: must have the same name: b != z",
            ),
            (
                changed(
                    "/metadata",
                    json!({"name": "b", "uid": "u", "labels": {"a": 1}}),
                ),
                "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in \
                 converted object",
                "returned invalid metadata in object at index 0: metadata.labels[a] must be a \
                 string, but is int64 in converted object",
            ),
        ] {
            for (is_list, text) in [(false, one), (true, list)] {
                let taken = taken_over(vec![sent()], vec![converted.clone()], "g.io/v2", is_list);
                assert_eq!(taken.map_err(|fault| fault.text()), Err(text.to_owned()));
            }
        }
        let none = taken_over(vec![sent()], Vec::new(), "g.io/v2", false);
        let text = "returned 0 objects, expected 1";
        assert_eq!(none.map_err(|fault| fault.text()), Err(text.to_owned()));
    }

    #[test]
    fn labels_and_annotations_are_those_of_the_webhook_hk_80() {
        let converted = json!({
            "apiVersion": "g.io/v2", "kind": "Port", "spec": {"port": 1},
            "metadata": {
                "name": "b", "uid": "u", "generation": 77, "finalizers": ["x.io/y"],
                "annotations": {"a": "b"},
            },
        });
        let taken = taken_over(vec![sent()], vec![converted], "g.io/v2", false).unwrap();
        let wanted = json!({
            "apiVersion": "g.io/v2", "kind": "Port", "spec": {"port": 1},
            "metadata": {"name": "b", "uid": "u", "generation": 2, "annotations": {"a": "b"}},
        });
        assert_eq!(taken, [object(wanted)]);
    }
}
