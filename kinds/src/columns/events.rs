//! The columns of Events (API-218), in both of their versions.

use api::object::Object;
use api::resource::{Cell, Column, OfField};
use jiff::Timestamp;
use serde_json::Value;

use super::{computed, integer, member, since, text, text_or};

/// The member names of one version of Events.
struct Members {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
    object: &'static str,
    message: &'static str,
    controller: &'static str,
}

const CORE: Members = Members {
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    source: "source",
    object: "involvedObject",
    message: "message",
    controller: "reportingComponent",
};

const EVENTS: Members = Members {
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    source: "deprecatedSource",
    object: "regarding",
    message: "note",
    controller: "reportingController",
};

/// Returns the member names of the event's version.
fn members(event: &Object) -> &'static Members {
    match event.api_version() {
        "events.k8s.io/v1" => &EVENTS,
        _ => &CORE,
    }
}

/// Returns the columns of Events.
pub fn events() -> Vec<Column> {
    let last = computed(|event, now| last_seen(event, now).into());
    let first = computed(|event, now| first_seen(event, now).into());
    let object = computed(|event, _| object(event).into());
    let part = computed(|event, _| event.text(&[members(event).object, "fieldPath"]).into());
    let source = computed(|event, _| source(event).into());
    let message = computed(|event, _| event.text(&[members(event).message]).trim().into());
    let count = computed(|event, _| count(event));
    let name = Column {
        format: "name".to_owned(),
        ..Column::text("Name", OfField("meta.v1.ObjectMeta.name"), Cell::Name).wide()
    };
    vec![
        Column::text("Last Seen", OfField("core.v1.Event.lastTimestamp"), last),
        Column::text("Type", OfField("core.v1.Event.type"), text("type")),
        Column::text("Reason", OfField("core.v1.Event.reason"), text("reason")),
        Column::text("Object", OfField("core.v1.Event.involvedObject"), object),
        Column::text(
            "Subobject",
            OfField("core.v1.ObjectReference.fieldPath"),
            part,
        )
        .wide(),
        Column::text("Source", OfField("core.v1.Event.source"), source).wide(),
        Column::text("Message", OfField("core.v1.Event.message"), message),
        Column::text("First Seen", OfField("core.v1.Event.firstTimestamp"), first).wide(),
        Column::text("Count", OfField("core.v1.Event.count"), count).wide(),
        name,
    ]
}

/// Returns the first of these times that is set.
fn first_given<'e>(event: &'e Object, names: &[&str]) -> &'e str {
    let mut times = names.iter().map(|name| event.text(&[*name]));
    times.find(|time| !time.is_empty()).unwrap_or_default()
}

fn first_seen(event: &Object, now: Timestamp) -> String {
    since(
        first_given(event, &[members(event).first, "eventTime"]),
        now,
    )
}

fn last_seen(event: &Object, now: Timestamp) -> String {
    let names = members(event);
    match event.at(&["series"]) {
        Some(series) => since(member(series, "lastObservedTime"), now),
        None => since(
            first_given(event, &[names.last, names.first, "eventTime"]),
            now,
        ),
    }
}

fn object(event: &Object) -> String {
    let names = members(event);
    let kind = event.text(&[names.object, "kind"]).to_lowercase();
    match event.text(&[names.object, "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Object) -> String {
    let names = members(event);
    let (component, host) = (
        event.text(&[names.source, "component"]),
        event.text(&[names.source, "host"]),
    );
    let component = text_or(component, event.text(&[names.controller]));
    match text_or(host, event.text(&["reportingInstance"])) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

fn count(event: &Object) -> Value {
    if event.at(&["series"]).is_some() {
        return integer(event, &["series", "count"]);
    }
    match integer(event, &[members(event).count]) {
        none if none == 0 => 1.into(),
        count => count,
    }
}
