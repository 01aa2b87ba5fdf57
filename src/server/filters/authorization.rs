//! Who may do what: the admin everything, others only what probes and `kubectl version` need.

use crate::api::status::{Denied, Status};
use crate::server::auth::User;
use crate::server::request_info::RequestInfo;

/// What needs no credentials (API-38, API-47).
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Whether it asks for what needs no credentials.
pub fn is_public(info: &RequestInfo) -> bool {
    !info.is_resource && info.verb == "get" && PUBLIC_PATHS.contains(&info.path.as_str())
}

/// Lets a request pass or not.
///
/// # Errors
/// 403 in the words of API-290.
pub fn authorize(user: &User, info: &RequestInfo) -> Result<(), Box<Status>> {
    if is_public(info) || user.is_admin() {
        return Ok(());
    }
    Err(Box::new(if info.is_resource {
        Status::forbidden_request(&Denied {
            user: &user.name,
            verb: &info.verb,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            reason: "",
        })
    } else {
        Status::forbidden_path(&user.name, &info.verb, &info.path)
    }))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn decided(user: User, method: Method, path: &str) -> Result<(), String> {
        let info = RequestInfo::parse(&method, path, false, "").unwrap();
        authorize(&user, &info).map_err(|status| status.message)
    }

    #[test]
    fn the_admin_may_do_everything_api_286() {
        for path in ["/", "/api/v1/secrets", "/metrics", "/nonsense"] {
            assert_eq!(
                decided(User::admin(), Method::DELETE, path),
                Ok(()),
                "{path}"
            );
        }
    }

    #[test]
    fn nobody_may_read_health_and_version_api_38_and_47() {
        for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
            assert_eq!(
                decided(User::anonymous(), Method::GET, path),
                Ok(()),
                "{path}"
            );
        }
    }

    #[test]
    fn nobody_may_do_anything_else_api_290() {
        for (method, path, message) in [
            (
                Method::GET,
                "/api/v1/namespaces/d/configmaps",
                r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "d""#,
            ),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/d/deployments/w/status",
                r#"deployments.apps "w" is forbidden: User "system:anonymous" cannot update resource "deployments/status" in API group "apps" in the namespace "d""#,
            ),
            (
                Method::GET,
                "/api/v1/nodes/n",
                r#"nodes "n" is forbidden: User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                Method::GET,
                "/metrics",
                r#"forbidden: User "system:anonymous" cannot get path "/metrics""#,
            ),
            (
                Method::POST,
                "/healthz",
                r#"forbidden: User "system:anonymous" cannot post path "/healthz""#,
            ),
            (
                Method::GET,
                "/readyz/ping",
                r#"forbidden: User "system:anonymous" cannot get path "/readyz/ping""#,
            ),
        ] {
            let refused = decided(User::anonymous(), method, path);
            assert_eq!(refused, Err(message.to_owned()), "{path}");
        }
    }
}
