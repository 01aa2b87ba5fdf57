//! The file of `--config`: YAML, one mapping of setting names to scalars.
//!
//! The parser of the flags reads its entries, so that a value has the same meaning and the same
//! error messages in both places.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use serde_json::Value;

use super::apiserver_flags::separator;
use super::refusal::ConfigError;
use super::settings::Settings;
use crate::files::given;

/// A configuration file has a few dozen lines. A larger file was given by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(super) fn read(path: &Path) -> Result<Settings, ConfigError> {
    let text = read_text(path)?;
    let entries = entries(&text).map_err(|problem| ConfigError::in_file(path, problem))?;
    parse(entries).map_err(|refusal| refusal.of_file(path))
}

/// The settings with these names and values.
pub(super) fn parse(
    entries: impl IntoIterator<Item = (String, String)>,
) -> Result<Settings, ConfigError> {
    let arguments = entries.into_iter();
    let arguments = arguments.map(|(name, value)| format!("--{name}={value}").into());
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = Settings::augment_args(Command::new("taffrail").no_binary_name(true))
        .disable_help_flag(true)
        .disable_version_flag(true);
    command
        .try_get_matches_from_mut(&arguments)
        .and_then(|matches| Settings::from_arg_matches(&matches))
        .map_err(|error| {
            let refusal = ConfigError::of_flags(&error, &arguments, &command);
            refusal.unwrap_or_else(|| ConfigError::of_text("not a file of settings"))
        })
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let file = given::read(path, FILE_BYTES_MAX);
    let text = file.and_then(|file| Ok(file.text()?.to_owned()));
    text.map_err(|error| ConfigError::in_file(path, error))
}

/// Names and values as texts.
fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let value: Option<Value> =
        serde_saphyr::from_str(text).map_err(|error| not_yaml(&error.to_string()))?;
    let map = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err("not a mapping of settings to values".to_owned()),
    };
    map.into_iter()
        .map(|(name, value)| match scalar(&value, separator(&name)) {
            Some(text) => Ok((name, text)),
            None => Err(format!("{name}: a single value is expected")),
        })
        .collect()
}

/// The parser's reason, without its advice to programmers.
fn not_yaml(reason: &str) -> String {
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let reason = reason.split(", set DuplicateKeyPolicy").next();
    format!("not valid YAML: {}", reason.unwrap_or_default())
}

/// The text of a value. The parts of a list are joined.
fn scalar(value: &Value, separator: &str) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let items = items.iter().map(|item| scalar(item, separator));
            let items: Option<Vec<String>> = items.collect();
            items.map(|items| items.join(separator))
        }
        Value::Object(_) => None,
    }
}
