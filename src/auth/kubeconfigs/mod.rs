//! Kubeconfigs that an operator names: those of webhooks for tokens and authorization, which say
//! where a webhook is ([`Server`], AC-24), and those of admission webhooks, which say how this
//! daemon authenticates to each of them ([`UsersByServer`], HK-98).
//!
//! A kubeconfig is read once; the files that it names are read again when they change
//! ([`Followed`]). No text of a fault has a secret in it.

mod by_server;
mod server;
#[cfg(test)]
mod tests;
mod user;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::documents::{Tree, types};
use crate::files::{Followed, Source, Stamp, given};
use crate::schema::ObjectType;
pub use by_server::{Presented, UsersByServer};
pub use server::Server;
use user::{Impersonation, User};

/// More than a kubeconfig with certificates in it needs.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// More than a header may carry.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

static CONFIG: LazyLock<ObjectType> =
    LazyLock::new(|| types(include_str!("kubeconfig.txt")).object_type("kubeconfig.Config"));

/// A kubeconfig that cannot be used. The text names the file and the member, and no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct KubeconfigError {
    /// The kubeconfig.
    pub file: PathBuf,
    /// The fault.
    pub problem: String,
}

/// A kubeconfig as it is written.
struct Kubeconfig {
    value: Value,
}

impl Kubeconfig {
    fn read(file: &Path) -> Result<Kubeconfig, String> {
        let given = given::read(file, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        // A user who can write it may do everything.
        given.check_writers().map_err(|error| error.to_string())?;
        // Errors of syntax may quote the text, which has secrets.
        let tree =
            Tree::of_file(&given.bytes).map_err(|_| "it is neither YAML nor JSON".to_owned())?;
        let of = tree.kind_and_version()?;
        if !matches!(&*of.kind, "" | "Config") || !matches!(&*of.api_version, "" | "v1") {
            return Err("it is not of kind Config and apiVersion v1".to_owned());
        }
        Ok(Kubeconfig {
            value: tree.typed(&CONFIG)?.value,
        })
    }

    /// The name of the current context, which may be empty.
    fn current_context(&self) -> &str {
        text(&self.value, "current-context")
    }

    /// The entries of a list: each name with its member.
    fn entries<'k>(
        &'k self,
        list: &str,
        member: &'k str,
    ) -> impl Iterator<Item = (&'k str, Value)> {
        let items = self.value.get(list).and_then(Value::as_array);
        let items = items.map(Vec::as_slice).unwrap_or_default().iter();
        items.map(move |item| {
            let value = item.get(member).cloned().unwrap_or_default();
            (text(item, "name"), value)
        })
    }

    /// The first entry with this name.
    fn entry(&self, list: &str, member: &str, name: &str) -> Option<Value> {
        let mut entries = self.entries(list, member);
        // linear: the entries of one list, once at the start.
        let found = entries.find(|(one, _)| *one == name);
        found.map(|(_, value)| value)
    }
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a part is given, in the kubeconfig or in a file.
fn is_given(of: &Value, name: &str) -> bool {
    !text(of, name).is_empty() || !text(of, &format!("{name}-data")).is_empty()
}

/// A file that a member of a kubeconfig names, seen from the folder of the kubeconfig.
fn file_of(kubeconfig: &Path, of: &Value, name: &str) -> Option<PathBuf> {
    let path = Some(text(of, name)).filter(|path| !path.is_empty())?;
    let folder = kubeconfig.parent().unwrap_or(Path::new(""));
    Some(folder.join(path))
}

/// The files as they are now.
fn stamped(files: impl IntoIterator<Item = Option<PathBuf>>) -> Vec<(PathBuf, Option<Stamp>)> {
    let files = files.into_iter().flatten();
    files.map(|file| (file.clone(), Stamp::of(&file))).collect()
}

/// Refuses a part that is given both in the kubeconfig and in a file.
fn check_once(of: &Value, name: &str, whose: &str) -> Result<(), String> {
    let data = format!("{name}-data");
    match text(of, name).is_empty() || text(of, &data).is_empty() {
        true => Ok(()),
        false => Err(format!("{data} and {name} are both specified for {whose}")),
    }
}

fn unreadable(name: &str, file: &Path, error: &std::io::Error) -> String {
    format!("{name} {}: {error}", file.display())
}
