//! `taffrail get`: an object, or all of a kind, as they were.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{Server, conclude, to_yaml};
use crate::cli::running::Request;
use crate::cli::table as columns;
use crate::config::Config;

/// What a Table is asked for by.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What is shown, of when, and how.
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
    /// A revision, or a time: 2026-11-23T12:00:00Z. Without it they are shown as they are now.
    #[arg(long, value_name = "REVISION|TIME")]
    at: Option<String>,
    /// Form of the output.
    #[arg(long, short, value_name = "FORM", value_enum, default_value = "table")]
    output: Output,
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
    conclude("get", get(config, options))
}

fn get(config: &Config, options: &GetOptions) -> Result<String, String> {
    let server = Server::of(config)?;
    let resource = server.resource(&options.kind)?;
    let path = match &options.name {
        Some(name) => resource.object(&options.namespace, name),
        None => resource.collection(&options.namespace),
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
        Output::Table => table(&document),
        Output::Yaml => to_yaml(&document),
        Output::Json => format!("{document:#}\n"),
    })
}

/// The revision of a point in the past.
fn revision(server: &Server, at: &str) -> Result<u64, String> {
    if let Ok(revision) = at.parse() {
        return Ok(revision);
    }
    let time: jiff::Timestamp = at.parse().map_err(|_| {
        format!("--at={at}: neither a revision nor a time such as 2026-11-23T12:00:00Z")
    })?;
    let document = server.json(Request::get(&format!("/taffrail/v1/revision?time={time}")))?;
    let revision = document["resourceVersion"].as_str();
    let revision = revision.and_then(|revision| revision.parse().ok());
    revision.ok_or_else(|| format!("the daemon's answer can't be read: {document}"))
}

/// The columns that kubectl shows without being asked for more.
fn table(document: &Value) -> String {
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
    let mut rows = vec![shown.iter().map(|column| head(*column)).collect::<Vec<_>>()];
    for row in document["rows"].as_array().unwrap_or(&none) {
        rows.push(
            shown
                .iter()
                .map(|column| text(&row["cells"][column]))
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
