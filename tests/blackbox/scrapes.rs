//! The metrics port with slow clients.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::Daemon;

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
