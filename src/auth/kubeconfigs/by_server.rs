//! The users of a kubeconfig, each for the servers that its name stands for (HK-98).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;

use super::{Followed, Impersonation, Kubeconfig, KubeconfigError, Source, User, stamped, text};
use crate::egress::{Credentials, Identity, Roots, Target, TargetSettings};
use crate::files::Stamp;

/// The user for all servers that have none of their own.
const ANY: &str = "*";

/// Users of this name are also for servers whose name has no port.
const DEFAULT_PORT: &str = ":443";

/// Characters that are escaped in the name of a header for further data of a user.
const NOT_IN_NAMES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'(')
    .add(b')')
    .add(b',')
    .add(b'/')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'{')
    .add(b'}');

/// The things by which this daemon authenticates to a server.
#[derive(Clone, Default)]
pub struct Presented {
    /// The header Authorization.
    pub credentials: Option<Credentials>,
    /// The certificate.
    pub identity: Option<Identity>,
    /// The headers that name another user.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The users of a kubeconfig.
#[derive(Default)]
pub struct UsersByServer {
    by_name: HashMap<String, Arc<Followed<Presenting>>>,
    /// The user of the current context.
    of_context: Option<Arc<Followed<Presenting>>>,
}

impl UsersByServer {
    /// Reads a kubeconfig and the files that its users name.
    ///
    /// # Errors
    /// [`KubeconfigError`]
    pub fn load(file: &Path) -> Result<UsersByServer, KubeconfigError> {
        UsersByServer::read(file).map_err(|problem| KubeconfigError {
            file: file.to_owned(),
            problem,
        })
    }

    fn read(file: &Path) -> Result<UsersByServer, String> {
        let config = Kubeconfig::read(file)?;
        let mut users = UsersByServer::default();
        for (name, value) in config.entries("users", "user") {
            let user = User {
                name: name.to_owned(),
                value,
                kubeconfig: file.to_owned(),
            };
            user.check(Impersonation::Allowed)?;
            let user = Arc::new(Followed::new(Presenting(user))?);
            if users.by_name.insert(name.to_owned(), user).is_some() {
                return Err(format!("user {name:?} is there twice"));
            }
        }
        let context = config.entry("contexts", "context", config.current_context());
        let of_context = context.and_then(|context| {
            let name = Some(text(&context, "user")).filter(|name| !name.is_empty())?;
            users.by_name.get(name).cloned()
        });
        Ok(UsersByServer {
            of_context,
            ..users
        })
    }

    /// Returns what is presented to a server, which is named as `host:port`.
    pub async fn presented_to(&self, server: &str) -> Option<Arc<Presented>> {
        match self.user_of(server) {
            Some(user) => Some(user.newest().await),
            None => None,
        }
    }

    /// The user for a server: the one of its name, or else of the longest end of its name after
    /// `*.`, first with and then without the port 443; or else `*`, or that of the current context.
    fn user_of(&self, server: &str) -> Option<&Arc<Followed<Presenting>>> {
        let named = |name: &str| {
            let exact = self.by_name.get(name);
            exact.or_else(|| {
                let mut ends = name.match_indices('.');
                ends.find_map(|(dot, _)| self.by_name.get(&format!("*{}", name.get(dot..)?)))
            })
        };
        let without_port = || {
            let host = server.strip_suffix(DEFAULT_PORT)?;
            let address = host
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            named(address.unwrap_or(host))
        };
        named(server)
            .or_else(without_port)
            .or_else(|| self.by_name.get(ANY))
            .or(self.of_context.as_ref())
    }
}

/// A user that may impersonate another one.
struct Presenting(User);

impl Source for Presenting {
    type Made = Presented;

    fn what(&self) -> String {
        self.0.what()
    }

    fn stamps(&self) -> Vec<(PathBuf, Option<Stamp>)> {
        stamped(self.0.files())
    }

    fn make(&self) -> Result<Presented, String> {
        let user = &self.0;
        let presented = Presented {
            credentials: user.credentials()?,
            identity: user.identity()?,
            headers: headers(&user.value).map_err(|why| format!("user {:?}: {why}", user.name))?,
        };
        // A target that is not used checks the rest.
        let mut settings = TargetSettings::new("https://localhost", Roots::Anyone);
        settings.credentials.clone_from(&presented.credentials);
        settings.identity.clone_from(&presented.identity);
        let target = Target::new(settings).map_err(|why| format!("user {:?}: {why}", user.name))?;
        let checked = target.check();
        checked.map_err(|why| format!("user {:?}: {why}", user.name))?;
        Ok(presented)
    }
}

/// The headers by which a user impersonates another one.
fn headers(user: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    let name = text(user, "as");
    if name.is_empty() {
        return Ok(headers);
    }
    let mut add = |header: &str, of: &str, value: &str| {
        let header = header.to_ascii_lowercase().parse::<HeaderName>();
        let header = header.map_err(|_| format!("a header cannot have the name of {of}"))?;
        let value = HeaderValue::from_str(value);
        let mut value =
            value.map_err(|_| format!("{of} has characters that no header can have"))?;
        value.set_sensitive(true);
        headers.push((header, value));
        Ok::<(), String>(())
    };
    add("impersonate-user", "as", name)?;
    match text(user, "as-uid") {
        "" => {}
        uid => add("impersonate-uid", "as-uid", uid)?,
    }
    for group in texts(user.get("as-groups"), "as-groups")? {
        add("impersonate-group", "as-groups", group)?;
    }
    let extra = user.get("as-user-extra").filter(|extra| !extra.is_null());
    let extra = match extra {
        None => None,
        Some(Value::Object(extra)) => Some(extra),
        Some(_) => return Err("as-user-extra is not a map".to_owned()),
    };
    for (key, values) in extra.into_iter().flatten() {
        let key = utf8_percent_encode(key, NOT_IN_NAMES);
        for value in texts(Some(values), "as-user-extra")? {
            add(&format!("impersonate-extra-{key}"), "as-user-extra", value)?;
        }
    }
    Ok(headers)
}

fn texts<'v>(value: Option<&'v Value>, of: &str) -> Result<Vec<&'v str>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| {
                item.as_str()
                    .ok_or_else(|| format!("{of} has an item that is not a text"))
            })
            .collect(),
        Some(_) => Err(format!("{of} is not a list")),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn users(text: &str) -> Result<UsersByServer, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooks.kubeconfig");
        std::fs::write(&file, text).unwrap();
        let users = UsersByServer::load(&file);
        users.map_err(|error| {
            assert_eq!(error.file, file);
            error.problem
        })
    }

    /// The token that a server is presented.
    fn token(users: &UsersByServer, server: &str) -> String {
        let presented = users.presented_to(server).now_or_never().unwrap();
        match presented.and_then(|presented| presented.credentials.clone()) {
            Some(Credentials::Bearer(token)) => token.to_string(),
            Some(Credentials::Basic(name, password)) => format!("{name}:{}", *password),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn the_longest_name_of_a_server_has_its_user_hk_98() {
        let named = |names: &[&str]| {
            let entries = names
                .iter()
                .map(|name| format!("- name: '{name}'\n  user: {{token: '{name}'}}\n"));
            users(&format!("users:\n{}", entries.collect::<String>())).unwrap()
        };
        let all = [
            "a.ns.svc:443",
            "a.ns.svc:8443",
            "*.ns.svc:443",
            "*.svc",
            "*.ns.svc:8443",
            "b.ns.svc",
            "*",
            "127.0.0.1:9443",
            "*.0.1:1",
        ];
        let all = named(&all);
        for (server, user) in [
            ("a.ns.svc:443", "a.ns.svc:443"),
            ("a.ns.svc:8443", "a.ns.svc:8443"),
            // A name with the port comes before all without one.
            ("b.ns.svc:443", "*.ns.svc:443"),
            ("c.d.ns.svc:443", "*.ns.svc:443"),
            ("b.ns.svc:8443", "*.ns.svc:8443"),
            ("b.other.svc:443", "*.svc"),
            // Only 443 may be left out.
            ("b.other.svc:8443", "*"),
            ("127.0.0.1:9443", "127.0.0.1:9443"),
            ("10.2.0.1:1", "*.0.1:1"),
            ("svc:443", "*"),
        ] {
            assert_eq!(token(&all, server), user, "{server}");
        }
        let few = named(&["b.ns.svc", "*.ns.svc"]);
        assert_eq!(token(&few, "b.ns.svc:443"), "b.ns.svc");
        assert_eq!(token(&few, "c.ns.svc:443"), "*.ns.svc");
        assert_eq!(token(&few, "ns.svc:443"), "nothing");
    }

    #[test]
    fn the_user_of_the_context_is_the_last_one_hk_98() {
        let text = "users:\n- name: u\n  user: {username: me, password: p}\n- name: h:1\n  user: \
                    {token: t}\ncontexts:\n- name: x\n  context: {user: u, cluster: \
                    none}\ncurrent-context: x\n";
        let of_context = users(text).unwrap();
        assert_eq!(token(&of_context, "h:1"), "t");
        assert_eq!(token(&of_context, "h:2"), "me:p");
        let other = users(&text.replace("current-context: x", "current-context: z")).unwrap();
        assert_eq!(token(&other, "h:2"), "nothing");
        assert_eq!(token(&users("").unwrap(), "h:2"), "nothing");
    }

    #[test]
    fn a_user_may_impersonate_hk_98() {
        let text = "users:\n- name: '*'\n  user: {token: t, as: jane, as-uid: '1', as-groups: [a, \
                    b], as-user-extra: {'a/B c': [x, z]}}\n";
        let all = users(text).unwrap();
        let presented = all.presented_to("h:1").now_or_never().unwrap().unwrap();
        let headers = presented.headers.iter();
        let headers = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        assert_eq!(
            headers.collect::<Vec<_>>(),
            [
                "impersonate-user: jane",
                "impersonate-uid: 1",
                "impersonate-group: a",
                "impersonate-group: b",
                "impersonate-extra-a%2fb%20c: x",
                "impersonate-extra-a%2fb%20c: z",
            ]
        );
    }

    #[test]
    fn faults_name_the_user_and_show_no_secret_hk_98() {
        for (user, expected) in [
            (
                "{exec: {command: c}}",
                "exec of user \"h\" is not supported",
            ),
            (
                "{auth-provider: {name: c}}",
                "auth-provider of user \"h\" is not supported",
            ),
            (
                "{token: schluessel, username: me}",
                "more than one authentication method found for h",
            ),
            (
                "{token: \"schluessel\\x01\"}",
                "user \"h\": the credentials have characters",
            ),
            (
                "{as: a, as-groups: x}",
                "json: cannot unmarshal string into Go struct field AuthInfo.users.user.as-groups",
            ),
            (
                "{as: a, as-user-extra: {x: a}}",
                "user \"h\": as-user-extra is not a list",
            ),
            (
                "{as: a, as-user-extra: [x]}",
                "user \"h\": as-user-extra is not a map",
            ),
            (
                "{as: a, as-user-extra: {x: [1]}}",
                "user \"h\": as-user-extra has an item",
            ),
            ("{tokenFile: none}", "tokenFile "),
            (
                "{client-key: none}",
                "client-certificate-data or client-certificate must be",
            ),
            ("{}\n- name: h\n  user: {}", "user \"h\" is there twice"),
        ] {
            let found = users(&format!("users:\n- name: h\n  user: {user}\n"))
                .err()
                .unwrap();
            let is_expected =
                found.starts_with(expected) || found.contains(&format!(": {expected}"));
            assert!(is_expected, "{user}: {found}");
            assert!(!found.contains("schluessel"), "{found}");
        }
        let broken = users("users: {").err().unwrap();
        assert_eq!(broken, "it is neither YAML nor JSON");
    }
}
