//! The paths of webhooks (HK-44). Pure.

use crate::api::percent::cleaned_path;

/// Returns the path that requests are posted to: without empty segments, `.`, `..` and a slash at
/// the end, as Kubernetes' clients join paths.
pub(super) fn cleaned(path: &str) -> String {
    match cleaned_path(path).trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

/// Splits a URL into scheme with host, and path. Stored URLs have neither query nor fragment.
pub(super) fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(host..).and_then(|rest| rest.find('/'));
    url.split_at(end.map_or(url.len(), |end| host + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_clients_of_kubernetes_do_hk_44() {
        for (given, path) in [
            ("//mutate-x", "/mutate-x"),
            ("/a/./b/../c/", "/a/c"),
            ("", "/"),
            ("/", "/"),
            ("/../a", "/a"),
        ] {
            assert_eq!(cleaned(given), path, "{given}");
        }
    }

    #[test]
    fn urls_are_split_before_their_path_hk_44() {
        for (url, parts) in [
            (
                "https://a.example:8443//x",
                ("https://a.example:8443", "//x"),
            ),
            ("https://[::1]", ("https://[::1]", "")),
        ] {
            assert_eq!(split(url), parts);
        }
    }
}
