//! `taffrail undo`: restores an object to an earlier revision, by a normal update.

use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use http::{Method, StatusCode};
use serde_json::Value;

use super::{ObjectArguments, Server, conclude};
use crate::cli::running::Request;
use crate::config::Config;

/// The manager of the update, for managedFields.
const MANAGER: &str = "taffrail-undo";

/// The members that only the server sets. A new object gets its own.
const OF_THE_SERVER: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// The object to restore, and the revision.
#[derive(Args, Clone, Debug)]
pub struct UndoOptions {
    #[command(flatten)]
    object: ObjectArguments,
    /// Revision to restore, as `taffrail history` shows them.
    #[arg(long, value_name = "REVISION")]
    to: u64,
}

/// Restores the object.
pub fn run(config: &Config, options: &UndoOptions) -> ExitCode {
    conclude("undo", || undo(config, options))
}

fn undo(config: &Config, options: &UndoOptions) -> Result<String, String> {
    let ObjectArguments {
        kind,
        name,
        namespace,
        server,
    } = &options.object;
    let server = Server::of(config, server)?;
    let resource = server.resource(kind)?;
    let path = resource.object(namespace, name);
    let exact = format!(
        "{path}?resourceVersion={}&resourceVersionMatch=Exact",
        options.to
    );
    let mut object = server.json(Request::get(&exact))?;
    let current = match server.json(Request::get(&path)) {
        Ok(current) => Some(current),
        Err(refused) if refused.code == Some(StatusCode::NOT_FOUND) => None,
        Err(refused) => return Err(refused.text),
    };
    take_over(&mut object, current.as_ref());
    let body = Bytes::from(object.to_string());
    let by = format!("?fieldManager={MANAGER}");
    let what = format!("{}/{name}", resource.plural);
    let written = match &current {
        Some(_) => {
            let path = path + &by;
            server.json(Request::new(Method::PUT, &path, body))?
        }
        None => {
            let path = resource.collection(namespace) + &by;
            server.json(Request::new(Method::POST, &path, body))?
        }
    };
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let revision = version(&written);
    let revision = revision.as_str().unwrap_or_default();
    Ok(match current {
        None => format!("{what}: created again as it was, revision {revision}\n"),
        Some(current) if version(&current) == revision => {
            format!("{what}: it is what it was, nothing is changed\n")
        }
        Some(_) => format!("{what}: as it was, revision {revision}\n"),
    })
}

/// Copies the members that the server keeps from the current object to the earlier one.
fn take_over(object: &mut Value, current: Option<&Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for name in OF_THE_SERVER {
        let kept = current.and_then(|current| current["metadata"].get(name));
        match kept {
            Some(kept) => _ = metadata.insert(name.to_owned(), kept.clone()),
            None => _ = metadata.remove(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_current_identity_stays_and_a_new_object_gets_its_own() {
        let earlier = json!({ "metadata": { "name": "a", "uid": "1", "resourceVersion": "3",
            "labels": { "a": "b" }, "deletionTimestamp": "now" }, "data": { "k": "1" } });
        let current = json!({ "metadata": { "name": "a", "uid": "2", "resourceVersion": "9" } });
        let mut object = earlier.clone();
        take_over(&mut object, Some(&current));
        let wanted = json!({ "name": "a", "uid": "2", "resourceVersion": "9",
            "labels": { "a": "b" } });
        assert_eq!(object["metadata"], wanted);
        let mut object = earlier;
        take_over(&mut object, None);
        assert_eq!(
            object["metadata"],
            json!({ "name": "a", "labels": { "a": "b" } })
        );
        assert_eq!(object["data"], json!({ "k": "1" }));
    }
}
