//! `taffrail history`: what became of an object, change by change.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::diff::diff;
use super::{Color, ObjectArguments, Server, conclude, to_yaml};
use crate::cli::output::Output;
use crate::cli::running::Request;
use crate::config::Config;

/// What is shown, and how.
#[derive(Args, Clone, Debug)]
pub struct HistoryOptions {
    #[command(flatten)]
    object: ObjectArguments,
    /// Form of the output. JSON is a line for each change, with the whole object.
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
    conclude("history", history(config, options))
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

fn told(lines: &str, is_coloured: bool) -> Result<String, String> {
    let (mut told, mut before) = (String::new(), String::new());
    for line in lines.lines() {
        let change: Value = serde_json::from_str(line)
            .map_err(|error| format!("the daemon's answer can't be read: {error}"))?;
        if change["kind"] == "Status" {
            return Err(change["message"].as_str().unwrap_or(line).to_owned());
        }
        told.push_str(&head(&change));
        let now = match (&change["object"], change["unreadable"].as_str()) {
            (_, Some(why)) => {
                told.push_str(&format!("    its value can't be read: {why}\n"));
                continue;
            }
            (Value::Null, None) => String::new(),
            (object, None) => comparable(object),
        };
        told.push_str(&diff(&before, &now, is_coloured));
        before = now;
    }
    Ok(told)
}

/// The line that says when and by whom.
fn head(change: &Value) -> String {
    let text = |name: &str| change[name].as_str().unwrap_or_default();
    let what = match text("type") {
        "EARLIER" => "before the history that is kept",
        "ADDED" => "created",
        "DELETED" => "deleted",
        _ => "changed",
    };
    let mut line = format!("revision {}: {what}", text("resourceVersion"));
    for (word, name) in [("at", "time"), ("by", "user"), ("with", "manager")] {
        if !text(name).is_empty() {
            // Names may be anybody's, and a terminal obeys some characters.
            line += &format!(" {word} {}", text(name).escape_debug());
        }
    }
    line + "\n"
}

/// The object without its version, which differs each time.
fn comparable(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    to_yaml(&object)
}
