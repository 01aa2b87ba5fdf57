//! `taffrail get`: shows an object, or all of a kind, as they were in the past.

use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{Server, conclude, to_json, to_yaml};
use crate::cli::access::ServerArguments;
use crate::cli::running::Request;
use crate::cli::table as columns;
use crate::config::{Config, Period};

/// The media type that requests a Table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct GetOptions {
    /// Kind, plural or short name: configmap, deployments.apps, ns.
    #[arg(value_name = "KIND")]
    kind: String,
    /// Name of the object. Without it all of the kind are shown.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Namespace of the objects.
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Show the objects of all namespaces, whatever --namespace says.
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// A revision, a time (2026-11-23T12:00:00Z), or how long ago (-5m). Without it the objects are
    /// shown as they are now.
    #[arg(
        long,
        value_name = "REVISION|TIME|-DURATION",
        allow_hyphen_values = true
    )]
    at: Option<String>,
    /// Form of the output.
    #[arg(long, short, value_name = "FORM", value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    server: ServerArguments,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table, as kubectl has it.
    Table,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Prints the objects.
pub fn run(config: &Config, options: &GetOptions) -> ExitCode {
    conclude("get", || get(config, options))
}

fn get(config: &Config, options: &GetOptions) -> Result<String, String> {
    let server = Server::of(config, &options.server)?;
    let resource = server.resource(&options.kind)?;
    let path = match (&options.name, options.all_namespaces) {
        (Some(_), true) => {
            let text = "--all-namespaces: one object is of one namespace; leave out its name";
            return Err(text.to_owned());
        }
        (Some(name), false) => resource.object(&options.namespace, name),
        (None, true) => resource.everywhere(),
        (None, false) => resource.collection(&options.namespace),
    };
    let path = match &options.at {
        None => path,
        Some(at) => {
            let revision = revision(&server, at)?;
            format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact")
        }
    };
    let asked = Request::get(&path);
    let asked = match options.output {
        Output::Table => asked.accepting(TABLE),
        Output::Yaml | Output::Json => asked,
    };
    let document = server.json(asked)?;
    Ok(match options.output {
        Output::Table => {
            let is_everywhere = options.all_namespaces && resource.is_namespaced;
            table(&document, is_everywhere)
        }
        Output::Yaml => to_yaml(&document),
        Output::Json => to_json(&document),
    })
}

/// The revision of a point in the past.
fn revision(server: &Server, at: &str) -> Result<u64, String> {
    if let Ok(revision) = at.parse() {
        return Ok(revision);
    }
    let time = time(at, SystemTime::now()).ok_or_else(|| {
        format!(
            "--at={at}: neither a revision nor a time such as 2026-11-23T12:00:00Z or -5m, five \
             minutes ago"
        )
    })?;
    let document = server.json(Request::get(&format!("/taffrail/v1/revision?time={time}")))?;
    let revision = document["resourceVersion"].as_str();
    let revision = revision.and_then(|revision| revision.parse().ok());
    revision.ok_or_else(|| format!("the daemon's answer can't be read: {document}"))
}

/// A time, or a duration before `now`.
fn time(at: &str, now: SystemTime) -> Option<jiff::Timestamp> {
    match at.strip_prefix('-') {
        Some(ago) => {
            let Period(ago) = ago.parse().ok()?;
            now.checked_sub(ago)?.try_into().ok()
        }
        None => at.parse().ok(),
    }
}

/// The columns that kubectl shows without `-o wide`, preceded by the namespace for objects of all
/// namespaces.
fn table(document: &Value, is_everywhere: bool) -> String {
    let none = Vec::new();
    let columns = document["columnDefinitions"].as_array().unwrap_or(&none);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|column| {
            columns
                .get(*column)
                .is_some_and(|column| column["priority"] == 0)
        })
        .collect();
    let head = |column: usize| text(&columns[column]["name"]).to_uppercase();
    let namespace = |text: String| is_everywhere.then_some(text).into_iter();
    let heads = namespace("NAMESPACE".to_owned());
    let mut rows: Vec<Vec<String>> = vec![
        heads
            .chain(shown.iter().map(|column| head(*column)))
            .collect(),
    ];
    for row in document["rows"].as_array().unwrap_or(&none) {
        let cells = namespace(text(&row["object"]["metadata"]["namespace"]));
        rows.push(
            cells
                .chain(shown.iter().map(|column| text(&row["cells"][column])))
                .collect(),
        );
    }
    columns::table(&rows)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_counts_back_from_now() {
        let now = "2026-11-23T12:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let told = |at: &str| time(at, now.into()).map(|time| time.to_string());
        assert_eq!(told("-1h5m").as_deref(), Some("2026-11-23T10:55:00Z"));
        let then = "2026-11-01T00:00:00Z";
        assert_eq!(told(then).as_deref(), Some(then));
        for wrong in ["-", "-5", "--5m", "5m", "-o", "yesterday", "-99999999999d"] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }
}
