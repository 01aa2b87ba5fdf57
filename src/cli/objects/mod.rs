//! Commands about objects and their past: `taffrail history`, `get` and `undo`.
//!
//! This folder owns the commands and their output. They send requests to a running daemon, as the
//! admin or with a given kubeconfig. This folder must not know how history is kept.

mod diff;
pub mod get;
pub mod history;
mod resource;
pub mod undo;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use http::StatusCode;
use serde_json::Value;

use super::access::{Access, ServerArguments};
use super::running::{self, Request, Unreached};
use crate::api::deep;
use crate::api::indentation::is_out_of_proportion;
use crate::cli::complaint::failed;
use crate::config::Config;
use resource::Resource;

/// The longest answer that is read as a whole.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An object.
#[derive(Args, Clone, Debug)]
pub struct ObjectArguments {
    /// Kind, plural or short name: configmap, deployments.apps, ns.
    #[arg(value_name = "KIND")]
    kind: String,
    /// Name of the object.
    #[arg(value_name = "NAME")]
    name: String,
    /// Namespace of the object.
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// When output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    fn is_wanted(self) -> bool {
        match self {
            Color::Auto => {
                let is_refused = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
                std::io::stdout().is_terminal() && !is_refused
            }
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// Runs a command, with room for objects that nest deeply, and prints its output or its problem.
fn conclude(command: &str, carry_out: impl FnOnce() -> Result<String, String>) -> ExitCode {
    match deep::with_room(carry_out) {
        Ok(text) => {
            // The reader of the pipe may be gone, as with `head`.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(problem) => failed(command, &problem),
    }
}

/// The running daemon.
struct Server {
    runtime: tokio::runtime::Runtime,
    access: Access,
}

impl Server {
    fn of(config: &Config, arguments: &ServerArguments) -> Result<Server, String> {
        let data_dir = config.data_dir.as_path();
        let access = arguments.access(data_dir)?.ok_or_else(|| {
            let data_dir = data_dir.display();
            format!(
                "--data-dir={data_dir}: no daemon has run there; start one first, or name a \
                 --kubeconfig"
            )
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Server { runtime, access })
    }

    /// The whole answer to a request, or the code and the text of a refusal.
    fn ask(&self, asked: Request<'_>) -> Result<Vec<u8>, Refused> {
        let mut answer = Vec::new();
        let mut hear = |piece: &[u8]| match answer.len() + piece.len() > ANSWER_BYTES_MAX {
            true => Err("its answer is too long".to_owned()),
            false => {
                answer.extend_from_slice(piece);
                Ok(())
            }
        };
        let request = running::request(&self.access, asked, &mut hear);
        match self.runtime.block_on(request) {
            Ok(()) => Ok(answer),
            Err(Unreached::Refused(code, text)) => Err(Refused {
                code: Some(code),
                text,
            }),
            Err(error) => Err(Refused {
                code: None,
                text: error.to_string(),
            }),
        }
    }

    fn json(&self, asked: Request<'_>) -> Result<Value, Refused> {
        let answer = self.ask(asked)?;
        deep::from_json(&answer).map_err(|error| Refused {
            code: None,
            text: format!("the daemon's answer can't be read: {error}"),
        })
    }

    /// The resource that a kind on the command line means.
    fn resource(&self, kind: &str) -> Result<Resource, String> {
        let mut known = Vec::new();
        for path in ["/api", "/apis"] {
            let document = self.json(Request::get(path).accepting(resource::AGGREGATED))?;
            known.extend(resource::all(&document));
        }
        resource::find(known, kind)
    }
}

/// The reasons why the daemon did not answer.
struct Refused {
    code: Option<StatusCode>,
    text: String,
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.text
    }
}

/// The object as YAML for people, without the members that change with each write. It is compact
/// JSON if indentation would multiply its length.
fn to_yaml(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let json = object.to_string();
    match is_out_of_proportion(json.as_bytes()) {
        true => json + "\n",
        false => serde_saphyr::to_string(&object).unwrap_or(json),
    }
}

/// A document as indented JSON, or as compact JSON if indentation would multiply its length.
fn to_json(document: &Value) -> String {
    let compact = document.to_string();
    match is_out_of_proportion(compact.as_bytes()) {
        true => compact + "\n",
        false => format!("{document:#}\n"),
    }
}
