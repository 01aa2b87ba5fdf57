//! Limits the duration of requests (API-15, API-17).

use std::time::Duration;

use crate::api::options::{self, Query};
use crate::api::request_info::RequestInfo;
use crate::api::status::Status;

/// The usual limit for all requests except long-running ones, such as watches and backups.
pub const REQUEST: Duration = Duration::from_secs(60);
/// The limit for requests that write one object, a hard constant of kube-apiserver.
pub const WRITE: Duration = Duration::from_secs(34);

/// The time limit of a request, and the error when it is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The time limit.
    pub within: Duration,
    /// The limit without that of writes.
    asked: Duration,
    is_write_limit: bool,
}

impl Allowed {
    /// Returns the limit of a request, or `None` for long-running requests (API-16). `longest` is
    /// the limit of all requests.
    ///
    /// # Errors
    /// 400 for a `timeout` that is not a valid duration.
    pub fn of(
        info: &RequestInfo,
        query: &Query,
        longest: Duration,
    ) -> Result<Option<Allowed>, Box<Status>> {
        if info.is_long_running() {
            return Ok(None);
        }
        let asked = options::request_timeout(query, longest)?.unwrap_or(longest);
        let writes_one = info.is_resource
            && matches!(info.verb.as_str(), "create" | "update" | "patch" | "delete");
        let is_write_limit = writes_one && asked >= WRITE;
        Ok(Some(Allowed {
            within: if is_write_limit { WRITE } else { asked },
            asked,
            is_write_limit,
        }))
    }

    /// The limit of a request that another server answers. That server has limits of its own for
    /// writes.
    #[must_use]
    pub fn elsewhere(self) -> Allowed {
        Allowed {
            within: self.asked,
            is_write_limit: false,
            ..self
        }
    }

    /// Returns the error when the limit is exceeded (API-17).
    pub fn exceeded(&self) -> Status {
        if self.is_write_limit {
            Status::write_timeout()
        } else {
            Status::request_timeout()
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn allowed(method: Method, path: &str, query: &str) -> Result<Option<Duration>, u16> {
        let query = Query::parse(query);
        let info = RequestInfo::parse(&method, path, query.flag("watch"), "").unwrap();
        Allowed::of(&info, &query, REQUEST)
            .map(|allowed| allowed.map(|allowed| allowed.within))
            .map_err(|status| status.code)
    }

    #[test]
    fn requests_have_a_minute_and_writes_34_seconds_api_17() {
        let pods = "/api/v1/namespaces/d/pods";
        let pod = "/api/v1/namespaces/d/pods/p";
        assert_eq!(allowed(Method::GET, pods, ""), Ok(Some(REQUEST)));
        assert_eq!(allowed(Method::DELETE, pods, ""), Ok(Some(REQUEST)));
        assert_eq!(allowed(Method::GET, "/version", ""), Ok(Some(REQUEST)));
        for (method, path) in [
            (Method::POST, pods),
            (Method::PUT, pod),
            (Method::PATCH, pod),
            (Method::DELETE, pod),
        ] {
            assert_eq!(
                allowed(method.clone(), path, ""),
                Ok(Some(WRITE)),
                "{method}"
            );
        }
    }

    #[test]
    fn the_parameter_timeout_shortens_and_never_lengthens_api_15() {
        let pod = "/api/v1/namespaces/d/pods/p";
        let seconds = |n| Ok(Some(Duration::from_secs(n)));
        assert_eq!(allowed(Method::GET, pod, "timeout=5s"), seconds(5));
        assert_eq!(allowed(Method::PUT, pod, "timeout=5s"), seconds(5));
        assert_eq!(allowed(Method::GET, pod, "timeout=1h"), seconds(60));
        assert_eq!(allowed(Method::PUT, pod, "timeout=1h"), seconds(34));
        assert_eq!(allowed(Method::GET, pod, "timeout=0"), seconds(60));
        assert_eq!(allowed(Method::GET, pod, "timeout=nonsense"), Err(400));
    }

    #[test]
    fn a_watch_and_a_compaction_have_no_deadline_here_api_16() {
        for path in ["/taffrail/v1/compact", "/taffrail/v1/storage/rewrite"] {
            assert_eq!(allowed(Method::POST, path, ""), Ok(None), "{path}");
        }
        assert_eq!(
            allowed(Method::GET, "/api/v1/pods", "watch=true&timeout=1s"),
            Ok(None)
        );
    }

    #[test]
    fn writes_elsewhere_have_the_usual_limit_cn_34() {
        let query = Query::parse("");
        let path = "/apis/g.example/v1/namespaces/d/as";
        let info = RequestInfo::parse(&Method::POST, path, false, "").unwrap();
        let allowed = Allowed::of(&info, &query, REQUEST).unwrap().unwrap();
        assert_eq!(
            (allowed.within, allowed.elsewhere().within),
            (WRITE, REQUEST)
        );
        assert!(
            allowed
                .elsewhere()
                .exceeded()
                .message
                .ends_with("within the allotted timeout")
        );
    }

    #[test]
    fn each_limit_has_its_own_words_api_17() {
        let text = |is_write_limit| {
            let within = WRITE;
            Allowed {
                within,
                asked: within,
                is_write_limit,
            }
            .exceeded()
            .message
        };
        assert!(text(true).ends_with("context deadline exceeded"));
        assert!(text(false).ends_with("within the allotted timeout"));
    }
}
