//! The file of `--admission-control-config-file`, which configures plugins (HK-98, HK-99).
//!
//! This folder owns the documents of that file, their types and their checks. It reads the file and
//! those that it names, and returns the [`PluginSettings`] from which plugins are made, or the
//! first fault with its place. The plugins read their own parts of the documents.

mod document;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{LimitedResource, PodSecuritySettings};
use crate::admission::TolerationSeconds;
use crate::api::field_error::{FieldError, FieldErrorKind, joined};
use crate::auth::kubeconfigs::UsersByServer;
use crate::documents::Tree;
use crate::files::given;
use document::{
    ADMISSION, DocumentKind, MUTATING_POLICIES, POD_SECURITY, RESOURCE_QUOTA, VALIDATING_POLICIES,
    WEBHOOKS,
};

/// More than any of the files needs.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The settings of plugins.
#[derive(Clone, Default)]
pub struct PluginSettings {
    /// The policy of namespaces without labels, and what is exempt.
    pub pod_security: Arc<PodSecuritySettings>,
    /// The resources that need a quota.
    pub limited: Arc<[LimitedResource]>,
    /// How long pods stay on failed nodes.
    pub tolerations: TolerationSeconds,
    /// How this daemon authenticates to mutating webhooks.
    pub users_for_mutating: Option<Arc<UsersByServer>>,
    /// How this daemon authenticates to validating webhooks.
    pub users_for_validating: Option<Arc<UsersByServer>>,
}

/// A configuration that can be used.
#[derive(Default)]
pub struct Loaded {
    /// The settings.
    pub settings: PluginSettings,
    /// Parts of the file that nothing obeys.
    pub warnings: Vec<String>,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct ConfigurationError {
    /// The file.
    pub file: PathBuf,
    /// The fault, with its place.
    pub problem: String,
}

/// Reads a file and those that it names. `is_built` knows the names of plugins, and whether they
/// are built here.
///
/// # Errors
/// [`ConfigurationError`]
pub fn load(
    file: &Path,
    is_built: &dyn Fn(&str) -> Option<bool>,
) -> Result<Loaded, ConfigurationError> {
    loaded(file, is_built).map_err(|problem| ConfigurationError {
        file: file.to_owned(),
        problem,
    })
}

fn loaded(file: &Path, is_built: &dyn Fn(&str) -> Option<bool>) -> Result<Loaded, String> {
    let configuration = read(file).and_then(|text| ADMISSION.read(&text))?;
    let plugins = configuration["plugins"].as_array();
    let mut loaded = Loaded::default();
    let mut names = HashSet::new();
    for (place, entry) in plugins.into_iter().flatten().enumerate() {
        let name = text(entry, "name");
        let at = format!("plugins[{place}]");
        check_name(name, &at, is_built)?;
        if !names.insert(name) {
            let path = format!("{at}.name");
            let error = FieldError::new(FieldErrorKind::Duplicate, path, &name.into(), "");
            return Err(error.to_string());
        }
        let document = Document::of(entry, file).map_err(|why| format!("{at} ({name}): {why}"))?;
        let Some(document) = document else {
            continue;
        };
        let is_used = obey(name, &document, &mut loaded.settings);
        if !is_used.map_err(|why| format!("{at} ({name}): {}: {why}", document.place()))? {
            loaded.warnings.push(format!(
                "{at} of {}: the plugin {name} has no configuration, so what is said about it has \
                 no effect",
                file.display()
            ));
        }
    }
    Ok(loaded)
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of[name].as_str().unwrap_or_default()
}

/// Reads a file that nobody else could have written.
fn read(file: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
    let given = given::read(file, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    given.check_writers().map_err(|error| error.to_string())?;
    Ok(given.bytes)
}

fn check_name(name: &str, at: &str, is_built: &dyn Fn(&str) -> Option<bool>) -> Result<(), String> {
    if name.is_empty() {
        return Err(FieldError::required(format!("{at}.name"), "").to_string());
    }
    match is_built(name) {
        Some(true) => Ok(()),
        Some(false) => Err(format!(
            "{at}: the admission plugin {name} is not built here, so it would refuse and change \
             nothing; leave it out"
        )),
        None => Err(format!("{at}: there is no admission plugin {name:?}")),
    }
}

/// The configuration of a plugin.
enum Document {
    Embedded(Value),
    File(PathBuf, zeroize::Zeroizing<Vec<u8>>),
}

impl Document {
    /// Returns the configuration that an entry embeds or names.
    fn of(entry: &Value, file: &Path) -> Result<Option<Document>, String> {
        let embedded = entry.get("configuration").filter(|one| !one.is_null());
        match (text(entry, "path"), embedded) {
            ("", None) => Ok(None),
            ("", Some(value)) => Ok(Some(Document::Embedded(value.clone()))),
            (_, Some(_)) => Err("path and configuration are both specified".to_owned()),
            (path, None) => {
                let folder = file.parent().unwrap_or(Path::new(""));
                let path = folder.join(path);
                let text = read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
                Ok(Some(Document::File(path, text)))
            }
        }
    }

    fn place(&self) -> String {
        match self {
            Document::Embedded(_) => "configuration".to_owned(),
            Document::File(path, _) => path.display().to_string(),
        }
    }

    fn read(&self, kind: &DocumentKind) -> Result<Value, String> {
        match self {
            Document::Embedded(value) => kind.typed(Tree::of(value.clone())),
            Document::File(_, text) => kind.read(text),
        }
    }
}

/// Takes over the configuration of a plugin. Returns whether it has one.
fn obey(name: &str, document: &Document, settings: &mut PluginSettings) -> Result<bool, String> {
    match name {
        "MutatingAdmissionWebhook" => {
            settings.users_for_mutating = users(&document.read(&WEBHOOKS)?)?;
        }
        "ValidatingAdmissionWebhook" => {
            settings.users_for_validating = users(&document.read(&WEBHOOKS)?)?;
        }
        "MutatingAdmissionPolicy" => no_manifests(&document.read(&MUTATING_POLICIES)?)?,
        "ValidatingAdmissionPolicy" => no_manifests(&document.read(&VALIDATING_POLICIES)?)?,
        "PodSecurity" => {
            let read = PodSecuritySettings::read(&document.read(&POD_SECURITY)?);
            settings.pod_security = Arc::new(read.map_err(|faults| joined(&faults))?);
        }
        "ResourceQuota" => {
            let read = LimitedResource::read(&document.read(&RESOURCE_QUOTA)?);
            settings.limited = read.map_err(|faults| joined(&faults))?.into();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The users of the kubeconfig that the configuration of a plugin for webhooks names.
fn users(configuration: &Value) -> Result<Option<Arc<UsersByServer>>, String> {
    let file = text(configuration, "kubeConfigFile");
    if !file.is_empty() && !Path::new(file).is_absolute() {
        let detail = "must be an absolute file path";
        return Err(FieldError::invalid("kubeConfigFile", file, detail).to_string());
    }
    no_manifests(configuration)?;
    if file.is_empty() {
        return Ok(None);
    }
    let users = UsersByServer::load(Path::new(file));
    let users = users.map_err(|error| format!("kubeConfigFile: {error}"))?;
    Ok(Some(Arc::new(users)))
}

/// Refuses a folder of manifests (HK-99).
fn no_manifests(configuration: &Value) -> Result<(), String> {
    match text(configuration, "staticManifestsDir") {
        "" => Ok(()),
        _ => Err(
            "staticManifestsDir: Forbidden: staticManifestsDir requires the \
             ManifestBasedAdmissionControlConfig feature gate to be enabled, which is not built \
             here"
                .to_owned(),
        ),
    }
}
