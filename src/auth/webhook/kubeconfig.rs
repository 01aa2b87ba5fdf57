//! The kubeconfig of a webhook: where it is, how it is trusted, and with what credentials (AC-24).
//! It is read once; the files that it names are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use parking_lot::Mutex;
use serde_json::Value;
use zeroize::Zeroizing;

use super::super::documents::{Tree, types};
use crate::egress::{Credentials, HttpPolicy, Identity, Roots, Target, TargetSettings};
use crate::files::{Stamp, given};
use crate::schema::ObjectType;

/// More than a kubeconfig with certificates in it needs.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// More than a header may carry.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// How often files that the kubeconfig names are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(60);

/// Members of a user that are not supported.
const UNSUPPORTED: [&str; 6] = [
    "exec",
    "auth-provider",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
];

pub(super) static CONFIG: LazyLock<ObjectType> =
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

/// The server of a kubeconfig.
pub struct Server {
    source: Source,
    path: String,
    target: ArcSwap<Target>,
    looked: Mutex<Looked>,
}

/// The files that the kubeconfig names, as they were when they were last read.
struct Looked {
    at: Instant,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
}

impl Server {
    /// Reads a kubeconfig and the files that it names.
    ///
    /// # Errors
    /// [`KubeconfigError`]
    pub fn load(file: &Path) -> Result<Server, KubeconfigError> {
        let refuse = |problem: String| KubeconfigError {
            file: file.to_owned(),
            problem,
        };
        let source = Source::read(file).map_err(refuse)?;
        let stamps = source.stamps();
        let (target, path) = source.target().map_err(refuse)?;
        Ok(Server {
            source,
            path,
            target: ArcSwap::from_pointee(target),
            looked: Mutex::new(Looked {
                at: Instant::now(),
                stamps,
            }),
        })
    }

    /// The path of requests, without a query.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The server, with the credentials that its files have now.
    pub(super) async fn target(self: &Arc<Self>) -> Arc<Target> {
        if self.is_due() {
            let server = Arc::clone(self);
            // Without an answer the target stays as it is.
            let _ = tokio::task::spawn_blocking(move || server.look()).await;
        }
        self.target.load_full()
    }

    fn is_due(&self) -> bool {
        let mut looked = self.looked.lock();
        let is_due = !looked.stamps.is_empty() && looked.at.elapsed() >= LOOK_PERIOD;
        if is_due {
            looked.at = Instant::now();
        }
        is_due
    }

    /// Reads the files again if one has changed.
    fn look(&self) {
        let stamps = self.source.stamps();
        if self.looked.lock().stamps == stamps {
            return;
        }
        match self.source.target() {
            Ok((target, _)) => {
                self.target.store(Arc::new(target));
                self.looked.lock().stamps = stamps;
            }
            Err(problem) => tracing::warn!(
                file = %self.source.file.display(),
                problem,
                "the files of a webhook's kubeconfig have changed and cannot be used; \
                 keeping the previous ones"
            ),
        }
    }
}

/// The parts of a kubeconfig that the current context names.
struct Source {
    file: PathBuf,
    cluster_name: String,
    cluster: Value,
    user_name: String,
    user: Value,
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Source {
    fn read(file: &Path) -> Result<Source, String> {
        let given = given::read(file, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        // Who can write it decides who may do what.
        given.check_writers().map_err(|error| error.to_string())?;
        // Errors of syntax may quote the text, which has secrets.
        let tree =
            Tree::read(&given.bytes).map_err(|_| "it is neither YAML nor JSON".to_owned())?;
        let of = tree.kind_and_version()?;
        if !matches!(&*of.kind, "" | "Config") || !matches!(&*of.api_version, "" | "v1") {
            return Err("it is not of kind Config and apiVersion v1".to_owned());
        }
        let config = tree.typed(&CONFIG)?.value;
        let named = |list: &str, member: &str, name: &str| {
            let items = config.get(list).and_then(Value::as_array);
            // linear: the entries of one list, once at the start.
            let item = items?.iter().find(|item| text(item, "name") == name)?;
            Some(item.get(member).cloned().unwrap_or_default())
        };
        let current = text(&config, "current-context");
        if current.is_empty() {
            return Err("current-context is not set".to_owned());
        }
        let context = named("contexts", "context", current)
            .ok_or_else(|| format!("context was not found for specified context: {current}"))?;
        let (cluster_name, user_name) = (text(&context, "cluster"), text(&context, "user"));
        let cluster = named("clusters", "cluster", cluster_name).ok_or_else(|| {
            format!("cluster {cluster_name:?} was not found for context {current:?}")
        })?;
        let user = match (user_name, named("users", "user", user_name)) {
            (_, Some(user)) => user,
            ("", None) => Value::Null,
            (_, None) => {
                return Err(format!(
                    "user {user_name:?} was not found for context {current:?}"
                ));
            }
        };
        let source = Source {
            file: file.to_owned(),
            cluster_name: cluster_name.to_owned(),
            cluster,
            user_name: user_name.to_owned(),
            user,
        };
        source.check()?;
        Ok(source)
    }

    /// Refuses members that are not supported or exclude each other.
    fn check(&self) -> Result<(), String> {
        let (cluster, user) = (&self.cluster_name, &self.user_name);
        if text(&self.cluster, "server").is_empty() {
            return Err(format!("no server found for cluster {cluster:?}"));
        }
        if !text(&self.cluster, "proxy-url").is_empty() {
            return Err(format!("proxy-url of cluster {cluster:?} is not supported"));
        }
        let is_given = |name: &&str| match self.user.get(*name) {
            None | Some(Value::Null) => false,
            Some(value) => *value != "" && *value != Value::Array(Vec::new()),
        };
        if let Some(name) = UNSUPPORTED.iter().find(|name| is_given(name)) {
            return Err(format!("{name} of user {user:?} is not supported"));
        }
        for (of, what, name) in [
            (&self.cluster, cluster, "certificate-authority"),
            (&self.user, user, "client-certificate"),
            (&self.user, user, "client-key"),
        ] {
            let data = format!("{name}-data");
            if !text(of, name).is_empty() && !text(of, &data).is_empty() {
                return Err(format!("{data} and {name} are both specified for {what}"));
            }
        }
        let skips = self.cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true));
        if skips && self.names(&self.cluster, "certificate-authority") {
            return Err(
                "specifying a root certificates file with the insecure flag is not allowed"
                    .to_owned(),
            );
        }
        let (has_certificate, has_key) = (
            self.names(&self.user, "client-certificate"),
            self.names(&self.user, "client-key"),
        );
        if has_certificate && !has_key {
            return Err(format!(
                "client-key-data or client-key must be specified for {user} to use the clientCert \
                 authentication method"
            ));
        }
        if has_key && !has_certificate {
            return Err(format!(
                "client-certificate-data or client-certificate must be specified for {user} to \
                 use its client-key"
            ));
        }
        let has_token = ["token", "tokenFile"]
            .iter()
            .any(|name| !text(&self.user, name).is_empty());
        let has_name = ["username", "password"]
            .iter()
            .any(|name| !text(&self.user, name).is_empty());
        if has_token && has_name {
            return Err(format!(
                "more than one authentication method found for {user}; found [token basicAuth], \
                 only one is allowed"
            ));
        }
        Ok(())
    }

    /// Whether a part is given, in the kubeconfig or in a file.
    fn names(&self, of: &Value, name: &str) -> bool {
        !text(of, name).is_empty() || !text(of, &format!("{name}-data")).is_empty()
    }

    /// A file that the kubeconfig names, seen from its own folder.
    fn file(&self, of: &Value, name: &str) -> Option<PathBuf> {
        let path = Some(text(of, name)).filter(|path| !path.is_empty())?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        Some(folder.join(path))
    }

    /// The files that the kubeconfig names, as they are now.
    fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        let files = [
            self.file(&self.cluster, "certificate-authority"),
            self.file(&self.user, "client-certificate"),
            self.file(&self.user, "client-key"),
            self.file(&self.user, "tokenFile"),
        ];
        let files = files.into_iter().flatten();
        files.map(|file| (file.clone(), Stamp::of(&file))).collect()
    }

    /// The content of a part, from the kubeconfig or from a file.
    fn part(&self, of: &Value, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        let data = text(of, &format!("{name}-data"));
        if !data.is_empty() {
            let bytes = STANDARD.decode(data);
            let bytes = bytes.map_err(|_| format!("{name}-data is not base64"))?;
            return Ok(Some(Zeroizing::new(bytes)));
        }
        let Some(file) = self.file(of, name) else {
            return Ok(None);
        };
        let read = given::read(&file, given::PEM_BYTES_MAX);
        let read = read.map_err(|error| unreadable(name, &file, &error))?;
        Ok(Some(read.bytes))
    }

    fn credentials(&self) -> Result<Option<Credentials>, String> {
        if let Some(file) = self.file(&self.user, "tokenFile") {
            let unusable = |error: std::io::Error| unreadable("tokenFile", &file, &error);
            let read = given::read(&file, TOKEN_BYTES_MAX).map_err(unusable)?;
            let token = read.text().map_err(unusable)?.trim();
            if token.is_empty() {
                return Err(format!("tokenFile {}: it is empty", file.display()));
            }
            let token = Zeroizing::new(token.to_owned());
            return Ok(Some(Credentials::Bearer(token)));
        }
        let text = |name| text(&self.user, name).to_owned();
        let (token, name) = (text("token"), text("username"));
        let password = Zeroizing::new(text("password"));
        Ok(
            match (token.is_empty(), name.is_empty() && password.is_empty()) {
                (false, _) => Some(Credentials::Bearer(Zeroizing::new(token))),
                (true, false) => Some(Credentials::Basic(name, password)),
                (true, true) => None,
            },
        )
    }

    /// Makes the target, and returns the path of requests.
    fn target(&self) -> Result<(Target, String), String> {
        let authority = self.part(&self.cluster, "certificate-authority")?;
        let certificate = self.part(&self.user, "client-certificate")?;
        let key = self.part(&self.user, "client-key")?;
        let skips = self.cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true));
        let uses_tls = authority.is_some() || certificate.is_some() || skips;
        let given = text(&self.cluster, "server");
        let (origin, path) = split(given, uses_tls).ok_or_else(|| {
            format!(
                "server {given:?} of cluster {:?} is not a URL",
                self.cluster_name
            )
        })?;
        let roots = match (authority, skips) {
            (Some(bundle), _) => Roots::Bundle(bundle.to_vec()),
            (None, true) => Roots::Anyone,
            (None, false) => Roots::System,
        };
        let mut settings = TargetSettings::new(origin, roots);
        settings.http = HttpPolicy::Http1AndHttp2;
        settings.credentials = self.credentials()?;
        settings.identity = certificate.zip(key).map(|(certificate, key)| Identity {
            certificate: certificate.to_vec(),
            key,
        });
        let name = text(&self.cluster, "tls-server-name");
        settings.server_name = Some(name.to_owned()).filter(|name| !name.is_empty());
        let target = Target::new(settings).map_err(|why| {
            format!(
                "cluster {:?}, user {:?}: {why}",
                self.cluster_name, self.user_name
            )
        })?;
        target.check().map_err(|why| why.to_string())?;
        Ok((target, path))
    }
}

fn unreadable(name: &str, file: &Path, error: &std::io::Error) -> String {
    format!("{name} {}: {error}", file.display())
}

/// Splits a server's URL into its origin and its path, as Kubernetes' clients use them: a missing
/// scheme follows from the rest of the kubeconfig, queries and empty steps of the path are dropped.
fn split(server: &str, uses_tls: bool) -> Option<(String, String)> {
    let url = match server.contains("://") {
        true => server.to_owned(),
        false if uses_tls => format!("https://{server}"),
        false => format!("http://{server}"),
    };
    let url = url.split('#').next().unwrap_or_default();
    let uri: Uri = url.parse().ok()?;
    let origin = format!("{}://{}", uri.scheme_str()?, uri.authority()?);
    let mut steps: Vec<&str> = Vec::new();
    for step in uri.path().split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    Some((origin, format!("/{}", steps.join("/"))))
}

#[cfg(test)]
mod tests;
