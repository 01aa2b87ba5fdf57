//! The metrics port with slow clients.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, body};

/// More than the maximum at a time.
const SLOW: usize = 120;

async fn scrape(address: SocketAddr) -> String {
    let scraping = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    };
    let page = tokio::time::timeout(Duration::from_secs(1), scraping).await;
    page.expect("a scrape within a second")
}

#[tokio::test]
async fn connections_that_ask_for_nothing_delay_no_scrape() {
    let daemon = Daemon::start().await;
    let address = daemon.metrics_address();
    let open = || daemon_sockets(daemon.pid());
    let before = open();
    for begun in [
        "",
        "GET /met",
        "GET /metrics HTTP/1.1\r\nhost: x\r\nx-slow: a",
    ] {
        let mut slow = Vec::new();
        for _ in 0..SLOW {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The oldest are closed in the meantime.
            let _ = stream.write_all(begun.as_bytes()).await;
            slow.push(stream);
        }
        let start = Instant::now();
        for _ in 0..5 {
            let page = scrape(address).await;
            assert!(page.starts_with("HTTP/1.1 200"), "{page}");
            assert!(page.contains("taffrail_"), "{page}");
        }
        println!("5 scrapes beside {begun:?} took {:?}", start.elapsed());
        assert!(open() < before + 40, "{} sockets more", open() - before);
    }
}

#[tokio::test]
async fn a_kept_connection_goes_on_beside_silent_ones_and_a_long_header_is_refused() {
    let daemon = Daemon::start().await;
    let address = daemon.metrics_address();
    let mut kept = TcpStream::connect(address).await.unwrap();
    let mut ask = async || {
        kept.write_all(b"HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 1024];
        let reading = tokio::time::timeout(Duration::from_secs(1), kept.read(&mut answer));
        let length = reading.await.unwrap().unwrap();
        assert!(
            answer[..length].starts_with(b"HTTP/1.1 200"),
            "{length} bytes"
        );
    };
    ask().await;
    let mut silent = Vec::new();
    for _ in 0..SLOW {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    scrape(address).await;
    ask().await;

    let mut long = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nx-long: {}",
        "a".repeat(40_000)
    );
    let _ = long.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(5), long.read_to_end(&mut answer));
    // Refused with a status, or cut off while there was more to read.
    let _ = reading.await.expect("an end of it");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"));
}

fn daemon_sockets(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// Every resource that is served, with its subresources.
async fn served(client: &Client) -> Vec<String> {
    let mut paths = Vec::new();
    for root in [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/events.k8s.io/v1",
    ] {
        let document = client.call(Call::get(root)).await;
        if document.status != 200 {
            continue;
        }
        for resource in document.json()["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
            let namespaced = resource["namespaced"].as_bool().unwrap();
            let scope = if namespaced {
                "/namespaces/default"
            } else {
                ""
            };
            let object = format!("{root}{scope}/{plural}/nobody");
            paths.push(match subresource {
                "" => object,
                _ => format!("{object}/{subresource}"),
            });
        }
    }
    paths
}

/// Every verb on every resource, and what the outcome is, is all that makes series: the page stays
/// small, and clients who invent names, paths, verbs and users add nothing to it.
#[tokio::test]
async fn the_page_stays_small_whatever_clients_do() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let paths = served(&client).await;
    assert!(paths.len() > 15, "{paths:?}");
    for object in &paths {
        let collection = object.replace("/nobody", "");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            client.call(Call::new(method, object)).await;
        }
        client.call(Call::get(&collection)).await;
        client
            .call(Call::get(&format!("{collection}?labelSelector=a%3Db")))
            .await;
        let watch = format!("{collection}?watch=true&timeoutSeconds=1");
        if let Ok(lines) = client.lines(Call::get(&watch)).await {
            drop(lines);
        }
    }
    let hostile = async |round: usize| {
        for number in 0..50 {
            let name = format!("x{round}-{number}");
            let nobody = daemon.target().with_token(&name).client();
            nobody.call(Call::get(&format!("/api/v1/{name}"))).await;
            for path in [
                format!("/{name}"),
                format!("/apis/{name}/v1/{name}"),
                format!("/api/v1/namespaces/{name}/configmaps/{name}"),
                format!("/readyz/{name}"),
                format!("/readyz?exclude={name}"),
                format!("/api/v1/namespaces/default/configmaps?fieldSelector={name}%3Da"),
            ] {
                let call = Call::get(&path)
                    .header("User-Agent", &name)
                    .header("Impersonate-User", &name);
                client.call(call).await;
                client.call(Call::get(&path)).await;
            }
            client
                .call(Call::new(&format!("VERB{number}"), "/api/v1/nodes"))
                .await;
        }
    };
    hostile(1).await;
    let before = scrape(daemon.metrics_address()).await;
    hostile(2).await;
    let after = scrape(daemon.metrics_address()).await;
    assert!(
        !after.contains("x1-") && !after.contains("VERB"),
        "a client made a series"
    );
    assert_eq!(before.lines().count(), after.lines().count());
    println!("{} bytes, {} lines", after.len(), after.lines().count());
    // Each resource adds about 11 KB when it is used in every way.
    assert!(after.len() < 1_000_000, "{} bytes", after.len());
}

#[tokio::test]
async fn metrics_that_others_can_reach_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = taffrail()
        .args([
            "--secure-port=0",
            "--metrics-bind-address=0.0.0.0:0",
            "--data-dir",
        ])
        .arg(folder.path().join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(daemon.stderr.take().unwrap());
    let lines = stderr.lines().map_while(Result::ok);
    let told: Vec<String> = lines.take_while(|line| !line.contains("serving")).collect();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let warns = |line: &String| {
        line.contains("WARN") && line.contains("every client that reaches this address")
    };
    assert!(told.iter().any(warns), "{told:?}");
}

/// Sizes are told while the writer never rests.
#[tokio::test]
async fn revisions_and_free_space_are_told_under_load() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let number = |page: &str, name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {page}"))
            .trim()
            .parse()
            .unwrap()
    };
    let begun = Instant::now();
    let mut seen = Vec::new();
    for round in 0.. {
        let created = Call::post(CONFIGMAPS, &body(&format!("a{round}"), "1"));
        client.call(created).await.expect(201);
        if round % 50 == 0 {
            let page = scrape(daemon.metrics_address()).await;
            seen.push(number(&page, "taffrail_storage_revision "));
            let reserve = number(&page, "taffrail_storage_reserve_bytes ");
            assert!(number(&page, "taffrail_storage_free_bytes ") > reserve);
            assert_eq!(number(&page, "taffrail_storage_reopened_total "), 0.0);
        }
        seen.dedup();
        if seen.len() >= 4 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{seen:?}");
    }
}
