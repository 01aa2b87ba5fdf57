//! Health, metrics, logs and printed text: the operator's view of the daemon.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{CONFIGMAPS, Call, Daemon, Protocol, body, version};

/// The page that a scraper gets over plain HTTP.
async fn scrape(daemon: &Daemon, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(daemon.metrics_address())
        .await
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The names of the metrics on a page.
fn described(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect()
}

#[tokio::test]
async fn metrics_are_served_on_both_ports_under_kubernetes_names() {
    // API-52, ME-8 ...
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("a", "1")))
        .await
        .expect(201);
    let list = client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let version = version(&list);
    let path = format!("{CONFIGMAPS}?watch=true&resourceVersion={version}");
    let mut watch = client.watch(&path).await;
    client
        .call(Call::post(CONFIGMAPS, &body("b", "1")))
        .await
        .expect(201);
    watch.event().await;

    let page = client.call(Call::get("/metrics")).await;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/plain"),
        "{:?}",
        page.headers
    );
    let page = page.text();
    let names = described(&page);
    for name in [
        "apiserver_request_total",
        "apiserver_request_duration_seconds",
        "apiserver_longrunning_requests",
        "apiserver_current_inflight_requests",
        "apiserver_watch_events_total",
        "apiserver_storage_objects",
        "apiserver_watch_cache_events_received_total",
        "apiserver_watch_cache_resource_version",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    assert!(
        names.iter().any(|name| name.starts_with("taffrail_")),
        "{names:?}"
    );
    let created = page.lines().find(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"verb="POST""#)
            && line.contains(r#"resource="configmaps""#)
            && line.contains(r#"code="201""#)
    });
    assert!(
        created.is_some_and(|line| line.ends_with(" 2")),
        "{created:?}"
    );
    let nameless = |name: &&&str| !page.contains(&format!("# HELP {name} "));
    let nameless: Vec<_> = names.iter().filter(nameless).collect();
    assert!(nameless.is_empty(), "not described: {nameless:?}");

    let plain = scrape(&daemon, "/metrics").await;
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    assert!(
        described(&plain).contains(&"apiserver_request_total"),
        "{plain}"
    );
    let secret = scrape(&daemon, CONFIGMAPS).await;
    assert!(
        secret.starts_with("HTTP/1.1 404"),
        "the metrics port serves objects: {secret}"
    );
}

#[tokio::test]
async fn health_is_told_check_by_check() {
    // API-47 .. API-50.
    let daemon = Daemon::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = daemon.target().anonymous().client_over(protocol);
        for name in ["livez", "readyz", "healthz"] {
            let answer = client.call(Call::get(&format!("/{name}"))).await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (200, "ok".to_owned())
            );
            let verbose = client
                .call(Call::get(&format!("/{name}?verbose")))
                .await
                .text();
            assert!(verbose.contains("[+]ping ok\n"), "{verbose}");
            assert!(
                verbose
                    .trim_end()
                    .ends_with(&format!("{name} check passed")),
                "{verbose}"
            );
            // To who may see more than the roots (API-290).
            let client = daemon.target().client_over(protocol);
            let one = client.call(Call::get(&format!("/{name}/ping"))).await;
            assert_eq!(one.text(), "ok");
            let without = client
                .call(Call::get(&format!("/{name}?verbose&exclude=ping")))
                .await;
            assert!(
                without.text().contains("[+]ping excluded: ok\n"),
                "{}",
                without.text()
            );
        }
    }
}

#[tokio::test]
async fn the_user_is_told_where_it_listens_and_how_to_reach_it() {
    let daemon = Daemon::start().await;
    let said = daemon.stdout();
    assert!(
        said.contains(&format!("https://127.0.0.1:{}", daemon.port())),
        "{said}"
    );
    let kubeconfig = daemon.kubeconfig();
    assert!(
        said.contains(&format!("export KUBECONFIG={}", kubeconfig.display())),
        "{said}"
    );
    assert!(said.contains(daemon.data().to_str().unwrap()), "{said}");
}

#[tokio::test]
async fn at_debug_level_each_resource_says_how_it_is_stored() {
    let daemon = Daemon::with(&["--log-level", "debug"]).await;
    let log = daemon.stderr();
    for resource in [
        "configmaps",
        "secrets",
        "deployments.apps",
        "leases.coordination.k8s.io",
    ] {
        let lines = log.lines().filter(|line| {
            line.contains("DEBUG") && line.contains(resource) && line.contains("/registry/")
        });
        assert!(lines.count() >= 1, "nothing on {resource}:\n{log}");
    }
}

#[tokio::test]
async fn logs_are_json_when_asked() {
    let daemon = Daemon::with(&["--log-format", "json", "--log-level", "info"]).await;
    let log = daemon.stderr();
    assert!(!log.is_empty());
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
    }
}

#[tokio::test]
async fn the_soft_limit_of_open_files_is_raised_and_logged() {
    let daemon = Daemon::start().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let mut numbers = line.split_whitespace().skip(3);
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert_eq!(soft, hard, "the soft limit isn't the hard one");
    assert!(
        daemon.stderr().contains(soft),
        "the limit isn't logged:\n{}",
        daemon.stderr()
    );
}

/// The sum of a metric's samples that have these labels.
fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    let samples = page.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    });
    samples
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[tokio::test]
async fn consistent_lists_come_from_the_cache_and_are_counted() {
    // LI-34, LI-35: each costs the store one read of its revision and no list.
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for name in ["a", "b", "c"] {
        client
            .call(Call::post(CONFIGMAPS, &body(name, "1")))
            .await
            .expect(201);
    }
    let measure = async || {
        let page = client.call(Call::get("/metrics")).await.text();
        let of = |name: &str, more: &[&str]| {
            let labels = [&[r#"resource="configmaps""#], more].concat();
            sum(&page, name, &labels)
        };
        let reads = "apiserver_watch_cache_consistent_read_total";
        (
            of("apiserver_storage_list_total", &[]),
            of("apiserver_cache_list_total", &[]),
            of(reads, &[r#"success="true""#, r#"fallback="false""#]),
            of(reads, &[]),
        )
    };
    let before = measure().await;
    let page = client
        .call(Call::get(&format!("{CONFIGMAPS}?limit=1")))
        .await
        .expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    // {"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}: wherever it has got to (LI-30).
    let newest = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9";
    let consistent = [
        String::new(),
        "?labelSelector=x".to_owned(),
        "?fieldSelector=metadata.name=b".to_owned(),
        format!("?continue={newest}"),
    ];
    let others = [
        format!("?continue={token}"),
        "?resourceVersion=0".to_owned(),
        format!("?resourceVersion={}", version(&page)),
    ];
    for query in consistent.iter().chain(&others) {
        let list = client
            .call(Call::get(&format!("{CONFIGMAPS}{query}")))
            .await;
        list.expect(200);
    }
    let after = measure().await;
    assert_eq!(after.0, before.0, "lists of the store");
    let lists = 1 + consistent.len() + others.len();
    assert_eq!(after.1 - before.1, lists as f64, "lists of the cache");
    let reads = 1.0 + consistent.len() as f64;
    assert_eq!((after.2 - before.2, after.3 - before.3), (reads, reads));
}
