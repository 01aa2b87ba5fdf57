//! `taffrail inspect`: shows the contents of a daemon's store and the state of its parts.
//!
//! The running daemon reports them. If none runs, the command opens the data directory, and shows
//! only the store.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use actors::engine::{At, Engine, EngineError, Prefix, RangeRequest};
use clap::Args;
use serde_json::{Value, json};

use super::access::ServerArguments;
use super::backup::OpenStore;
use super::output::{Output, OutputOptions};
use super::running::{self, Unreached};
use super::table::table;
use crate::build_info;
use crate::cli::complaint::failed;
use crate::config::{Config, StorageBackend};
use crate::storage::Root;

const PATH: &str = "/taffrail/v1/inspect";
/// The longest answer of a daemon.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How the state is shown.
#[derive(Args, Clone, Debug)]
pub struct InspectOptions {
    #[command(flatten)]
    form: OutputOptions,
    #[command(flatten)]
    server: ServerArguments,
}

/// Prints the state. `open` opens the data directory when no daemon answers.
pub fn run(config: &Config, options: &InspectOptions, open: OpenStore<'_>) -> ExitCode {
    match inspected(config, &options.server, open) {
        Ok(document) => {
            let text = match options.form.output {
                Output::Json => format!("{document:#}\n"),
                Output::Text => text(&document),
            };
            // The reader of the pipe may be gone, as with `head`.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(problem) => failed("inspect", &problem),
    }
}

fn inspected(
    config: &Config,
    server: &ServerArguments,
    open: OpenStore<'_>,
) -> Result<Value, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let data_dir = config.data_dir.as_path();
    if let Some(access) = server.access(data_dir)? {
        let mut answer = Vec::new();
        let mut hear = |piece: &[u8]| match answer.len() + piece.len() > ANSWER_BYTES_MAX {
            true => Err("its answer is too long".to_owned()),
            false => {
                answer.extend_from_slice(piece);
                Ok(())
            }
        };
        match runtime.block_on(running::get(&access, PATH, &mut hear)) {
            Ok(()) => return serde_json::from_slice(&answer).map_err(|error| error.to_string()),
            Err(Unreached::NobodyThere(_)) if !server.is_given() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    if let StorageBackend::Memory | StorageBackend::Etcd3 = config.backend() {
        return Err("no daemon answers, and the store is not in the data directory".to_owned());
    }
    if !data_dir.exists() {
        return Err(format!(
            "--data-dir={}: there is no such directory",
            data_dir.display()
        ));
    }
    let engine = open(config)?;
    let document = runtime.block_on(of_directory(&engine, config));
    // After an error too, because closing releases the lock properly.
    runtime.block_on(engine.close());
    document.map_err(|error| error.to_string())
}

/// The store alone, with its keys counted by their first part, which is the resource.
async fn of_directory(engine: &Arc<dyn Engine>, config: &Config) -> Result<Value, EngineError> {
    let root = Root::from(config.etcd_prefix.as_str()).to_string();
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut start = None;
    loop {
        let page = engine.range(RangeRequest {
            prefix: Prefix::new(&root),
            start: start.take(),
            at: At::Latest,
            limit: 0,
            count_only: false,
        });
        let page = page.await?;
        for item in &page.items {
            let key = item.key.to_string();
            let resource = resource_of(key.strip_prefix(&root).unwrap_or(&key));
            let (objects, bytes) = counts.entry(resource.to_owned()).or_default();
            *objects += 1;
            *bytes += item.value.len() as u64;
        }
        match page.items.last().filter(|_| page.more) {
            Some(last) => start = Some([last.key.as_bytes(), &[0]].concat()),
            None => break,
        }
    }
    let stats = engine.stats();
    let resources = counts.into_iter().map(|(resource, (objects, bytes))| {
        json!({ "resource": resource, "objects": objects, "averageBytes": bytes / objects.max(1) })
    });
    Ok(json!({
        "program": build_info::program(),
        "stores": [{
            "name": "base",
            "health": "no daemon runs",
            "revision": stats.revision.0,
            "compactedRevision": stats.compacted.0,
            "keys": stats.live_keys,
            "retainedBytes": stats.retained_bytes,
            "fileBytes": stats.file_bytes,
        }],
        "resources": resources.collect::<Vec<_>>(),
    }))
}

/// The resource of a key below the root. Groups of other resources have a dot in their names.
fn resource_of(key: &str) -> &str {
    let ends: Vec<usize> = key.match_indices('/').map(|(at, _)| at).collect();
    let first = ends.first().copied().unwrap_or(key.len());
    let has_group = key.get(..first).is_some_and(|first| first.contains('.'));
    let end = match has_group {
        true => ends.get(1).copied().unwrap_or(key.len()),
        false => first,
    };
    key.get(..end).unwrap_or(key)
}

/// A table for each part of the document.
fn text(document: &Value) -> String {
    let mut text = format!("{}\n", cell(&document["program"]));
    let parts: [(&str, &[(&str, &str)]); 4] = [
        (
            "stores",
            &[
                ("STORE", "name"),
                ("REVISION", "revision"),
                ("COMPACTED", "compactedRevision"),
                ("KEYS", "keys"),
                ("RETAINED BYTES", "retainedBytes"),
                ("FILE BYTES", "fileBytes"),
                ("HEALTH", "health"),
            ],
        ),
        (
            "resources",
            &[
                ("RESOURCE", "resource"),
                ("GROUP", "group"),
                ("OBJECTS", "objects"),
                ("AVERAGE BYTES", "averageBytes"),
            ],
        ),
        (
            "actors",
            &[
                ("ACTOR", "name"),
                ("RESTARTS", "restarts"),
                ("STATE", "state"),
            ],
        ),
        (
            "queues",
            &[("QUEUE", "name"), ("VALUE", "value"), ("LABELS", "labels")],
        ),
    ];
    for (part, columns) in parts {
        let Some(rows) = document[part].as_array() else {
            continue;
        };
        let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        let row = |row: &Value| columns.iter().map(|(_, name)| cell(&row[*name])).collect();
        let rows: Vec<Vec<String>> = [head].into_iter().chain(rows.iter().map(row)).collect();
        text += &format!("\n{}", table(&rows));
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_key_is_its_resource() {
        assert_eq!(resource_of("configmaps/default/a"), "configmaps");
        assert_eq!(resource_of("namespaces/a"), "namespaces");
        assert_eq!(
            resource_of("example.com/widgets/default/a"),
            "example.com/widgets"
        );
        assert_eq!(resource_of("alone"), "alone");
    }
}
