//! `taffrail history`: shows the history of an object, change by change.

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::diff::diff;
use super::to_yaml;
use super::{Color, ObjectArguments, Server, conclude};
use crate::api::deep;
use crate::cli::output::Output;
use crate::cli::running::Request;
use crate::config::Config;

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct HistoryOptions {
    #[command(flatten)]
    object: ObjectArguments,
    /// Form of the output. JSON has a line for each change, with the whole object.
    #[arg(long, short, value_name = "FORM", value_enum, default_value = "text")]
    output: Output,
    /// The former name of --output=json.
    #[arg(long, hide = true)]
    json: bool,
    /// When differences have colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    color: Color,
}

/// Prints the history.
pub fn run(config: &Config, options: &HistoryOptions) -> ExitCode {
    conclude("history", || history(config, options))
}

fn history(config: &Config, options: &HistoryOptions) -> Result<String, String> {
    let ObjectArguments {
        kind,
        name,
        namespace,
        server,
    } = &options.object;
    let server = Server::of(config, server)?;
    let resource = server.resource(kind)?;
    let path = format!("/taffrail/v1/history{}", resource.object(namespace, name));
    let answer = server.ask(Request::get(&path))?;
    let text = String::from_utf8(answer).map_err(|error| error.to_string())?;
    if text.is_empty() {
        return Err(format!(
            "{}/{name}: it is not in the history that is kept",
            resource.plural
        ));
    }
    match options.json || options.output == Output::Json {
        true => Ok(text),
        false => told(&text, options.color.is_wanted()),
    }
}

/// A change, or the Status that ends a history. An object may be as deep as the API allows, so it
/// is parsed separately.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Change {
    kind: String,
    message: String,
    r#type: String,
    resource_version: String,
    time: String,
    user: String,
    manager: String,
    unreadable: Option<String>,
    object: Option<Box<RawValue>>,
}

fn told(lines: &str, is_coloured: bool) -> Result<String, String> {
    let unread = |error| format!("the daemon's answer can't be read: {error}");
    let (mut told, mut before) = (String::new(), String::new());
    for line in lines.lines() {
        let change: Change = serde_json::from_str(line).map_err(unread)?;
        if change.kind == "Status" {
            return Err(change.message);
        }
        told.push_str(&head(&change));
        if let Some(why) = &change.unreadable {
            told.push_str(&format!("    its value can't be read: {why}\n"));
            continue;
        }
        let now = match &change.object {
            None => String::new(),
            Some(object) => comparable(deep::from_json(object.get().as_bytes()).map_err(unread)?),
        };
        told.push_str(&diff(&before, &now, is_coloured));
        before = now;
    }
    Ok(told)
}

/// The line that shows when a change was made and by whom.
fn head(change: &Change) -> String {
    let what = match change.r#type.as_str() {
        "EARLIER" => "before the history that is kept",
        "ADDED" => "created",
        "DELETED" => "deleted",
        _ => "changed",
    };
    let mut line = format!("revision {}: {what}", change.resource_version);
    for (word, text) in [
        ("at", &change.time),
        ("by", &change.user),
        ("with", &change.manager),
    ] {
        if !text.is_empty() {
            // Names may come from any client, and a terminal obeys some characters.
            line += &format!(" {word} {}", text.escape_debug());
        }
    }
    line + "\n"
}

/// The object without its version, which differs each time.
fn comparable(mut object: Value) -> String {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    to_yaml(&object)
}
