//! `/statusz` and `/flagz`: the version, the start time and the flags (http.md 1.9). They are text
//! for people, and objects for clients whose Accept names group, version and kind.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};

use super::Answered;
use super::service_paths::paths;
use crate::api::status::Status;
use crate::build_info::KUBERNETES_MINOR;
use crate::clock;
use crate::server::encoding::{JSON, MediaTypeRef, YAML};
use crate::server::negotiation;
use crate::server::request_scope::{RequestScope, indented_json};
use crate::server::respond::{self, Form};

/// The component name that Kubernetes clients know.
const COMPONENT: &str = "kube-apiserver";

const GROUP: &str = "config.k8s.io";
const OLD_VERSION: &str = "v1alpha1";
const VERSIONS: [&str; 2] = ["v1beta1", OLD_VERSION];

/// The warning that kube-apiserver puts at the top of these pages.
const UNSTABLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting \
                        compatibility guarantees and is for debugging purposes only.";

/// First path segments that `/statusz` does not list.
const UNLISTED: [&str; 6] = ["", "api", "apis", "openapi", "openid", ".well-known"];

/// The form of a page that the client accepts.
enum Wanted {
    Text,
    Object(Form, &'static str),
}

/// `/statusz`.
///
/// # Errors
/// 406
pub fn statusz(scope: &RequestScope<'_>) -> Answered {
    let started = scope.server.process.started;
    let seconds = clock::of_machine().as_second() - started.as_second();
    let seconds = seconds.max(0);
    let (binary, emulated) = (
        format!("1.{KUBERNETES_MINOR}.0"),
        format!("1.{KUBERNETES_MINOR}"),
    );
    let all = paths(scope);
    let first = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let listed: BTreeSet<String> = all.iter().map(|path| first(path)).collect();
    let listed = listed.into_iter();
    let listed = listed.filter(|first| !UNLISTED.contains(&first.as_str()));
    let listed: Vec<String> = listed.map(|first| format!("/{first}")).collect();
    answer(
        scope,
        "Statusz",
        || {
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            format!(
                "\n{COMPONENT} statusz\n{UNSTABLE}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min \
                 {:02} sec\nGo version: \nBinary version: {binary}\nEmulation version: \
                 {emulated}\nPaths: {}\n",
                started.strftime("%a %b %e %H:%M:%S UTC %Y"),
                seconds % 60,
                listed.join(" ")
            )
        },
        || {
            json!({
                "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "uptimeSeconds": seconds,
                "goVersion": "",
                "binaryVersion": binary,
                "emulationVersion": emulated,
                "paths": listed,
            })
        },
    )
}

/// `/flagz`.
///
/// # Errors
/// 406
pub fn flagz(scope: &RequestScope<'_>) -> Answered {
    let flags = &scope.server.process.flags;
    answer(
        scope,
        "Flagz",
        || {
            let lines = flags
                .iter()
                .map(|(name, value)| format!("{name}={value}\n"));
            let lines: String = lines.collect();
            format!("\n{COMPONENT} flagz\n{UNSTABLE}\n\n{lines}")
        },
        || {
            let flags = flags.iter().cloned();
            let flags = flags.map(|(name, value)| (name, Value::from(value)));
            json!({ "flags": Value::Object(flags.collect()) })
        },
    )
}

fn answer(
    scope: &RequestScope<'_>,
    kind: &str,
    text: impl Fn() -> String,
    fields: impl Fn() -> Value,
) -> Answered {
    let (form, version) = match wanted(scope, kind)? {
        Wanted::Text => return Ok(respond::text(StatusCode::OK, text())),
        Wanted::Object(form, version) => (form, version),
    };
    if version == OLD_VERSION {
        let newer = VERSIONS[0];
        scope.context.warnings.add(format!(
            "{GROUP}/{version} {kind} is deprecated; use {GROUP}/{newer} {kind}"
        ));
    }
    let mut object = json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{version}"),
        "metadata": {"name": COMPONENT},
    });
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields()) {
        object.extend(fields);
    }
    let document = object.to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

/// Negotiates the form. Objects must be requested by group, version and kind.
fn wanted(scope: &RequestScope<'_>, kind: &str) -> Result<Wanted, Box<Status>> {
    let clauses = negotiation::clauses(scope.headers);
    if clauses.is_empty() {
        return Ok(Wanted::Text);
    }
    for clause in clauses {
        let names = |key: &str, value: &str| clause.parameter(key) == Some(value);
        let version = VERSIONS.iter().find(|version| names("v", version));
        let is_named = names("g", GROUP) && names("as", kind);
        match (clause.media_type, version) {
            ("*/*" | "text/*" | "text/plain", _) => return Ok(Wanted::Text),
            (media_type, Some(version)) if is_named => {
                let known = MediaTypeRef::named(media_type);
                if let Some(media_type) = known.filter(|known| !known.is_protobuf()) {
                    let mut form = indented_json(scope.headers);
                    form.encoding.media_type = media_type;
                    return Ok(Wanted::Object(form, version));
                }
            }
            _ => {}
        }
    }
    Err(Box::new(Status::not_acceptable(&[
        "text/plain",
        JSON,
        YAML,
    ])))
}
