use super::*;

fn parse(method: Method, target: &str) -> RequestInfo {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parameter = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let watch = parameter("watch").is_some_and(|text| text != "0" && text != "false");
    RequestInfo::parse(
        &method,
        path,
        watch,
        parameter("fieldSelector").unwrap_or_default(),
    )
    .expect("a path that can be parsed")
}

/// verb, group, version, namespace, resource, subresource, name
type Row<'r> = (
    &'r str,
    &'r str,
    &'r str,
    &'r str,
    &'r str,
    &'r str,
    &'r str,
);

fn row(info: &RequestInfo) -> Row<'_> {
    (
        info.verb.as_str(),
        &info.group,
        &info.version,
        &info.namespace,
        &info.resource,
        &info.subresource,
        &info.name,
    )
}

#[test]
fn paths_with_too_few_parts_name_no_resource_api_1() {
    for path in [
        "/",
        "",
        "/version",
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/apps/v1/",
        "/healthz/ping",
        "/openapi/v3/apis/apps/v1",
    ] {
        let info = parse(Method::POST, path);
        assert!(!info.is_resource, "{path}");
        assert_eq!(info.verb, "post", "{path}");
    }
}

#[test]
fn resource_paths_api_1_to_6() {
    let table: &[(Method, &str, Row<'_>)] = &[
        (
            Method::GET,
            "/api/v1/pods",
            ("list", "", "v1", "", "pods", "", ""),
        ),
        (
            Method::GET,
            "/api/v1/pods/",
            ("list", "", "v1", "", "pods", "", ""),
        ),
        (
            Method::HEAD,
            "/api/v1/pods",
            ("list", "", "v1", "", "pods", "", ""),
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=true",
            ("watch", "", "v1", "", "pods", "", ""),
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=false",
            ("list", "", "v1", "", "pods", "", ""),
        ),
        (
            Method::GET,
            "/api/v1/nodes/n",
            ("get", "", "v1", "", "nodes", "", "n"),
        ),
        (
            Method::GET,
            "/api/v1/nodes/n?watch=true",
            ("get", "", "v1", "", "nodes", "", "n"),
        ),
        (
            Method::PUT,
            "/api/v1/namespaces/d/pods/p",
            ("update", "", "v1", "d", "pods", "", "p"),
        ),
        (
            Method::PATCH,
            "/apis/apps/v1/namespaces/d/deployments/w/status",
            ("patch", "apps", "v1", "d", "deployments", "status", "w"),
        ),
        (
            Method::DELETE,
            "/apis/apps/v1/namespaces/d/deployments",
            ("deletecollection", "apps", "v1", "d", "deployments", "", ""),
        ),
        (
            Method::DELETE,
            "/api/v1/nodes/n",
            ("delete", "", "v1", "", "nodes", "", "n"),
        ),
        (
            Method::POST,
            "/api/v1/namespaces/d/pods",
            ("create", "", "v1", "d", "pods", "", ""),
        ),
        (
            Method::OPTIONS,
            "/api/v1/pods",
            ("", "", "v1", "", "pods", "", ""),
        ),
    ];
    for (method, target, expected) in table {
        assert_eq!(
            &row(&parse(method.clone(), target)),
            expected,
            "{method} {target}"
        );
    }
}

#[test]
fn a_namespace_object_has_its_name_as_namespace_api_4() {
    let table: &[(&str, Row<'_>)] = &[
        (
            "/api/v1/namespaces",
            ("list", "", "v1", "", "namespaces", "", ""),
        ),
        (
            "/api/v1/namespaces/d",
            ("get", "", "v1", "d", "namespaces", "", "d"),
        ),
        (
            "/api/v1/namespaces/d/status",
            ("get", "", "v1", "d", "namespaces", "status", "d"),
        ),
        (
            "/api/v1/namespaces/d/finalize",
            ("get", "", "v1", "d", "namespaces", "finalize", "d"),
        ),
        (
            "/api/v1/namespaces/d/pods",
            ("list", "", "v1", "d", "pods", "", ""),
        ),
    ];
    for (path, expected) in table {
        assert_eq!(&row(&parse(Method::GET, path)), expected, "{path}");
    }
    assert!(!parse(Method::GET, "/api/v1/namespaces/d").is_below_namespace);
    assert!(parse(Method::GET, "/api/v1/namespaces/d/pods").is_below_namespace);
    assert!(parse(Method::GET, "/api/v1/namespaces/d/namespaces/e").is_below_namespace);
}

#[test]
fn the_old_watch_paths_are_watches_api_3_and_139() {
    let table: &[(&str, Row<'_>)] = &[
        (
            "/api/v1/watch/pods",
            ("watch", "", "v1", "", "pods", "", ""),
        ),
        (
            "/api/v1/watch/namespaces/d/pods/p",
            ("watch", "", "v1", "d", "pods", "", "p"),
        ),
        (
            "/api/v1/watch/namespaces/d",
            ("watch", "", "v1", "d", "namespaces", "", "d"),
        ),
        (
            "/apis/apps/v1/watch/deployments",
            ("watch", "apps", "v1", "", "deployments", "", ""),
        ),
    ];
    for (path, expected) in table {
        let info = parse(Method::GET, path);
        assert_eq!(&row(&info), expected, "{path}");
        assert!(info.is_watch_path, "{path}");
    }
}

#[test]
fn a_watch_of_nothing_is_refused_api_3() {
    for path in ["/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/proxy"] {
        let refused = RequestInfo::parse(&Method::GET, path, false, "");
        assert!(
            matches!(refused, Err(RequestInfoError::NoResource(_))),
            "{path}"
        );
    }
}

#[test]
fn parts_after_the_subresource_are_kept_api_5() {
    let info = parse(Method::GET, "/api/v1/namespaces/d/pods/p/proxy/a/b");
    assert_eq!(info.subresource, "proxy");
    assert_eq!(info.rest, ["a", "b"]);
}

#[test]
fn a_field_selector_that_demands_a_name_gives_it_api_7() {
    for (selector, name) in [
        ("metadata.name=x", "x"),
        ("metadata.name==x", "x"),
        ("status.phase=Running,metadata.name=x", "x"),
        ("metadata.name!=x", ""),
        ("metadata.name=", ""),
        ("metadata.name=a/b", ""),
        ("metadata.name=..", ""),
    ] {
        let info = RequestInfo::parse(&Method::GET, "/api/v1/pods", false, selector)
            .expect("a path that can be parsed");
        assert_eq!(info.name, name, "{selector}");
        assert!(!info.is_named, "{selector}");
    }
    for method in [Method::POST, Method::DELETE] {
        let info = RequestInfo::parse(&method, "/api/v1/pods", false, "metadata.name=x")
            .expect("a path that can be parsed");
        assert_eq!(info.name, "", "{method}: only reads look at selectors");
    }
}

#[test]
fn names_are_percent_decoded_once_api_11() {
    assert_eq!(
        parse(Method::GET, "/api/v1/nodes/system%3Anode").name,
        "system:node"
    );
    assert_eq!(parse(Method::GET, "/api/v1/nodes/a:b").name, "a:b");
    assert_eq!(parse(Method::GET, "/api/v1/nodes/%2561").name, "%61");
    for broken in ["/api/v1/nodes/%", "/api/v1/nodes/%4", "/api/v1/nodes/%zz"] {
        let refused = RequestInfo::parse(&Method::GET, broken, false, "");
        assert!(
            matches!(refused, Err(RequestInfoError::BadEncoding(_))),
            "{broken}"
        );
    }
}

#[test]
fn what_counts_as_reading_and_as_long_running_api_16_and_19() {
    for (method, target, reads, long) in [
        (Method::GET, "/api/v1/pods", true, false),
        (Method::GET, "/api/v1/pods?watch=1", true, true),
        (Method::GET, "/api/v1/watch/pods", true, true),
        (Method::GET, "/api/v1/nodes/n", true, false),
        (Method::GET, "/api/v1/namespaces/d/pods/p/log", true, true),
        (
            Method::POST,
            "/api/v1/namespaces/d/pods/p/exec",
            false,
            true,
        ),
        (
            Method::GET,
            "/api/v1/namespaces/d/pods/p/status",
            true,
            false,
        ),
        (Method::POST, "/api/v1/nodes", false, false),
        (Method::DELETE, "/api/v1/nodes", false, false),
        (Method::GET, "/version", true, false),
        (Method::POST, "/taffrail/v1/compact", false, true),
    ] {
        let info = parse(method, target);
        assert_eq!(
            (info.is_read_only(), info.is_long_running()),
            (reads, long),
            "{target}"
        );
    }
}
