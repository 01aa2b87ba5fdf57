//! The requests that write a field.

use std::sync::Arc;

use serde_json::{Value, json};
use taffrail::api::resource::ResourceDefinition;

use crate::items::{Items, items};
use crate::places::Place;

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    MergePatch,
    StrategicPatch,
    JsonPatch,
    /// By this field manager, who takes what others own.
    Apply(&'static str),
}

/// A write of an object.
pub struct Request {
    pub kind: Arc<ResourceDefinition>,
    pub subresource: String,
    pub namespace: Option<&'static str>,
    pub name: String,
    pub verb: Verb,
    pub body: Vec<u8>,
}

impl Request {
    pub fn of(place: &Place, verb: Verb, body: &Value) -> Request {
        let kind = Arc::clone(&place.kind);
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        Request {
            namespace: kind.is_namespaced().then_some("default"),
            kind,
            subresource: String::new(),
            name: name.to_owned(),
            verb,
            body: body.to_string().into_bytes(),
        }
    }
}

impl Request {
    /// The path and its query. Nothing is stored in a dry run.
    pub fn path(&self, dry_run: bool) -> String {
        let Request {
            kind,
            name,
            subresource,
            ..
        } = self;
        let mut path = match kind.group.as_str() {
            "" => format!("/api/{}", kind.version),
            group => format!("/apis/{group}/{}", kind.version),
        };
        if let Some(namespace) = self.namespace {
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", kind.plural);
        if self.verb != Verb::Create {
            path = format!("{path}/{name}");
        }
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        let dry_run = if dry_run { "dryRun=All" } else { "" };
        match self.verb {
            Verb::Apply(manager) => format!("{path}?{dry_run}&force=true&fieldManager={manager}"),
            _ => format!("{path}?{dry_run}"),
        }
    }

    pub fn method(&self) -> &'static str {
        match self.verb {
            Verb::Create => "POST",
            Verb::Update => "PUT",
            _ => "PATCH",
        }
    }

    pub fn content_type(&self) -> &'static str {
        match self.verb {
            Verb::Create | Verb::Update => "application/json",
            Verb::MergePatch => "application/merge-patch+json",
            Verb::StrategicPatch => "application/strategic-merge-patch+json",
            Verb::JsonPatch => "application/json-patch+json",
            Verb::Apply(_) => "application/apply-patch+yaml",
        }
    }
}

/// What a request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There is no object.
    Nothing,
    /// An object with these items.
    With(Items),
}

/// A request of a place with items.
pub struct Step {
    pub name: &'static str,
    pub stored: Stored,
    pub verb: Verb,
    pub sent: Items,
}

const fn step(name: &'static str, stored: Stored, verb: Verb, sent: Items) -> Step {
    Step {
        name,
        stored,
        verb,
        sent,
    }
}

const FIRST: Items = Items::Distinct(0);
/// None of these is among the first 16,000.
const OTHERS: Items = Items::Distinct(20_000);

/// All requests of each place.
pub const STEPS: &[Step] = &[
    step("create, empty", Stored::Nothing, Verb::Create, Items::Empty),
    step("create, equal", Stored::Nothing, Verb::Create, Items::Equal),
    step("create, distinct", Stored::Nothing, Verb::Create, FIRST),
    step(
        "update, empty",
        Stored::With(FIRST),
        Verb::Update,
        Items::Empty,
    ),
    step(
        "update, reversed",
        Stored::With(FIRST),
        Verb::Update,
        Items::Reversed,
    ),
    step("update, others", Stored::With(FIRST), Verb::Update, OTHERS),
    step(
        "merge patch, reversed",
        Stored::With(FIRST),
        Verb::MergePatch,
        Items::Reversed,
    ),
    step(
        "strategic patch, reversed",
        Stored::With(FIRST),
        Verb::StrategicPatch,
        Items::Reversed,
    ),
    step(
        "strategic patch, others",
        Stored::With(FIRST),
        Verb::StrategicPatch,
        OTHERS,
    ),
    step(
        "JSON patch, reversed",
        Stored::With(FIRST),
        Verb::JsonPatch,
        Items::Reversed,
    ),
    step(
        "apply, reversed",
        Stored::With(FIRST),
        Verb::Apply("other"),
        Items::Reversed,
    ),
    step(
        "apply, others",
        Stored::With(FIRST),
        Verb::Apply("first"),
        OTHERS,
    ),
    step(
        "update, equal",
        Stored::With(Items::Equal),
        Verb::Update,
        Items::Equal,
    ),
];

impl Step {
    /// Whether the request is one of those that are tried with a place. What follows a patch is the
    /// same as with an update, and merge and JSON patches know no types: a place gets a strategic
    /// patch where its field says how that merges it, else one of the two, in turns. So are some
    /// updates.
    pub fn suits(&self, place: &Place) -> bool {
        let is_merged = place.field.patch.is_some();
        let is_even = place.name.len().is_multiple_of(2);
        match (self.verb, self.sent) {
            (Verb::StrategicPatch, _) => is_merged,
            (Verb::MergePatch, _) => !is_merged && is_even,
            (Verb::JsonPatch, _) => !is_merged && !is_even,
            (Verb::Update, Items::Equal) => is_even && !place.is_map(),
            (Verb::Update, Items::Distinct(_)) => !is_even || place.is_map(),
            _ => true,
        }
    }

    /// The request with `n` items. `None` where there is no such list or map. `stored` is the
    /// object as it is.
    pub fn request(&self, place: &Place, stored: Option<&Value>, n: usize) -> Option<Request> {
        let sent = items(place, self.sent, n)?;
        let base = stored.unwrap_or(&place.body);
        let body = match self.verb {
            Verb::Create => place.with(base, sent, n),
            Verb::Update => {
                let mut body = place.with(base, sent, n);
                // Something else changes, too.
                body["metadata"]["annotations"]["search"] = "changed".into();
                body
            }
            Verb::JsonPatch => json!([{"op": "replace", "path": place.pointer, "value": sent}]),
            Verb::MergePatch | Verb::StrategicPatch | Verb::Apply(_) => {
                let mut patch = json!({});
                patch["metadata"]["name"] = base["metadata"]["name"].clone();
                if let Verb::Apply(_) = self.verb {
                    patch = place.body.clone();
                }
                place.with(&patch, sent, n)
            }
        };
        let mut request = Request::of(place, self.verb, &body);
        if self.stored != Stored::Nothing {
            request.subresource.clone_from(&place.subresource);
            let name = base["metadata"]["name"].as_str().unwrap_or_default();
            request.name = name.to_owned();
        }
        Some(request)
    }
}
