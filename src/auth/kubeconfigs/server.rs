//! The server that a kubeconfig's current context names: where it is, how it is trusted, and with
//! what credentials (AC-24).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use serde_json::Value;

use super::user::part;
use super::{
    Followed, Impersonation, Kubeconfig, KubeconfigError, Source, User, check_once, file_of,
    is_given, stamped, text,
};
use crate::egress::{HttpPolicy, Roots, Target, TargetSettings};
use crate::files::Stamp;

/// The server of a kubeconfig.
pub struct Server {
    path: String,
    pub(super) target: Arc<Followed<Context>>,
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
        let context = Context::read(file).map_err(refuse)?;
        let (_, path) = context.place().map_err(refuse)?;
        let target = Followed::new(context).map_err(refuse)?;
        Ok(Server {
            path,
            target: Arc::new(target),
        })
    }

    /// The path of requests, without a query.
    pub(in crate::auth) fn path(&self) -> &str {
        &self.path
    }

    /// The server, with the credentials that its files have now.
    pub(in crate::auth) async fn target(&self) -> Arc<Target> {
        self.target.newest().await
    }
}

/// The parts of a kubeconfig that the current context names.
pub(super) struct Context {
    cluster_name: String,
    cluster: Value,
    user: User,
}

impl Context {
    fn read(file: &Path) -> Result<Context, String> {
        let config = Kubeconfig::read(file)?;
        let current = config.current_context();
        if current.is_empty() {
            return Err("current-context is not set".to_owned());
        }
        let context = config
            .entry("contexts", "context", current)
            .ok_or_else(|| format!("context was not found for specified context: {current}"))?;
        let (cluster_name, user_name) = (text(&context, "cluster"), text(&context, "user"));
        let cluster = config.entry("clusters", "cluster", cluster_name);
        let cluster = cluster.ok_or_else(|| {
            format!("cluster {cluster_name:?} was not found for context {current:?}")
        })?;
        let user = match (user_name, config.entry("users", "user", user_name)) {
            (_, Some(user)) => user,
            ("", None) => Value::Null,
            (_, None) => {
                return Err(format!(
                    "user {user_name:?} was not found for context {current:?}"
                ));
            }
        };
        let context = Context {
            cluster_name: cluster_name.to_owned(),
            cluster,
            user: User {
                name: user_name.to_owned(),
                value: user,
                kubeconfig: file.to_owned(),
            },
        };
        context.check()?;
        Ok(context)
    }

    /// Refuses members that are not supported or exclude each other.
    fn check(&self) -> Result<(), String> {
        let name = &self.cluster_name;
        if text(&self.cluster, "server").is_empty() {
            return Err(format!("no server found for cluster {name:?}"));
        }
        if !text(&self.cluster, "proxy-url").is_empty() {
            return Err(format!("proxy-url of cluster {name:?} is not supported"));
        }
        check_once(&self.cluster, "certificate-authority", name)?;
        if self.skips_verification() && is_given(&self.cluster, "certificate-authority") {
            return Err(
                "specifying a root certificates file with the insecure flag is not allowed"
                    .to_owned(),
            );
        }
        self.user.check(Impersonation::Refused)
    }

    fn skips_verification(&self) -> bool {
        self.cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true))
    }

    /// The origin of the server, and the path of requests.
    fn place(&self) -> Result<(String, String), String> {
        let uses_tls = is_given(&self.cluster, "certificate-authority")
            || is_given(&self.user.value, "client-certificate")
            || self.skips_verification();
        let given = text(&self.cluster, "server");
        split(given, uses_tls).ok_or_else(|| {
            format!(
                "server {given:?} of cluster {:?} is not a URL",
                self.cluster_name
            )
        })
    }
}

impl Source for Context {
    type Made = Target;

    fn what(&self) -> String {
        self.user.what()
    }

    fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        let authority = file_of(
            &self.user.kubeconfig,
            &self.cluster,
            "certificate-authority",
        );
        stamped(self.user.files().into_iter().chain([authority]))
    }

    fn make(&self) -> Result<Target, String> {
        let authority = part(
            &self.user.kubeconfig,
            &self.cluster,
            "certificate-authority",
        )?;
        let roots = match (authority, self.skips_verification()) {
            (Some(bundle), _) => Roots::Bundle(bundle.to_vec()),
            (None, true) => Roots::Anyone,
            (None, false) => Roots::System,
        };
        let (origin, _) = self.place()?;
        let mut settings = TargetSettings::new(origin, roots);
        settings.http = HttpPolicy::Http1AndHttp2;
        settings.credentials = self.user.credentials()?;
        settings.identity = self.user.identity()?;
        let name = text(&self.cluster, "tls-server-name");
        settings.server_name = Some(name.to_owned()).filter(|name| !name.is_empty());
        let target = Target::new(settings).map_err(|why| {
            format!(
                "cluster {:?}, user {:?}: {why}",
                self.cluster_name, self.user.name
            )
        })?;
        target.check().map_err(|why| why.to_string())?;
        Ok(target)
    }
}

/// Splits a server's URL into its origin and its path, as Kubernetes' clients use them: a missing
/// scheme follows from the rest of the kubeconfig, queries and empty steps of the path are dropped.
pub(super) fn split(server: &str, uses_tls: bool) -> Option<(String, String)> {
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
