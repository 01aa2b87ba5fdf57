//! Limits on input from the network: unread responses, streams, connections, floods, endless
//! bodies. docs/security.md lists each limit.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::frames::{
    self, Frames, GOAWAY, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use crate::harness::{CONFIGMAPS, Call, Daemon, body, configmap};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The error code of GOAWAY and RST_STREAM for a client that must slow down.
const ENHANCE_YOUR_CALM: u8 = 11;
const REFUSED_STREAM: u8 = 7;

/// A path that an answer would repeat with four bytes for each of its own.
fn costly_path() -> String {
    format!("/{}", "\"".repeat(3_900))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_strangers_do_not_read_hold_little() {
    const CONNECTIONS: usize = 20;
    const STREAMS: u32 = 200;
    const GROWTH_MAX_MIB: f64 = 20.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let before = daemon.resident();
    let path = costly_path();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Frames::open(&daemon.target(), 0).await.unwrap();
        for number in 0..STREAMS {
            // The connection may be closed already.
            let asked = frames::get(2 * number + 1, &path, None);
            if connection.write(&asked).await.is_err() {
                break;
            }
        }
        connections.push(connection);
    }
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let frames = connections[0].settled().await;
    let answered = frames.iter().filter(|frame| frame.0 == frames::HEADERS);
    assert!(
        answered.count() <= 16,
        "streams before authentication are few"
    );
    let refused = |(kind, _, payload): &&(u8, u32, Vec<u8>)| {
        *kind == RST_STREAM && payload.last() == Some(&REFUSED_STREAM)
    };
    assert!(frames.iter().filter(refused).count() >= 100);
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");
    assert!(daemon.count("taffrail_http2_requests_refused_total").await >= 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_who_goes_on_after_refusals_is_shown_out() {
    const REQUESTS: u32 = 15_000;
    let daemon = Daemon::start().await;
    let connection = Frames::open(&daemon.target(), 0).await.unwrap();
    let (reading, mut writing) = tokio::io::split(connection.0);
    let asking = tokio::spawn(async move {
        for first in (0..REQUESTS).step_by(100) {
            let many = (first..first + 100).flat_map(|n| frames::get(2 * n + 1, "/a", None));
            let many: Vec<u8> = many.collect();
            if writing.write_all(&many).await.is_err() {
                break;
            }
        }
    });
    let mut reading = Frames(reading);
    let calmed = async {
        while let Some((kind, _, payload)) = reading.next().await {
            if kind == GOAWAY {
                return payload[4..8].to_vec();
            }
        }
        Vec::new()
    };
    let calmed = tokio::time::timeout(TIMEOUT, calmed).await.unwrap();
    // Who goes on writing to a closed connection resets it, which can overtake the farewell.
    assert!(calmed.is_empty() || calmed == [0, 0, 0, ENHANCE_YOUR_CALM]);
    asking.await.unwrap();
    daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_a_user_does_not_read_hold_a_bounded_number_of_bytes_and_come_in_the_end() {
    const OBJECT_BYTES: usize = 1 << 20;
    const ANSWERS: u32 = 50;
    /// 8 MiB, one answer, and the objects that it was made from.
    const GROWTH_MAX_MIB: f64 = 20.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let large = body("large", &"x".repeat(OBJECT_BYTES));
    client
        .call(Call::post(CONFIGMAPS, &large))
        .await
        .expect(201);
    client
        .call(Call::get(&configmap("large")))
        .await
        .expect(200);
    let before = daemon.resident();
    let mut connection = Frames::open(&daemon.target(), 0).await.unwrap();
    let token = daemon.token();
    for number in 0..ANSWERS {
        let asked = frames::get(2 * number + 1, &configmap("large"), Some(&token));
        connection.write(&asked).await.unwrap();
    }
    let waiting = connection.settled().await;
    let heads = waiting.iter().filter(|frame| frame.0 == frames::HEADERS);
    assert!((1..=9).contains(&heads.count()));
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");

    let mut windows = frames::frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    windows.extend(frames::frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    connection.write(&windows).await.unwrap();
    let reading = async {
        let (mut ended, mut bytes) = (0, 0);
        while ended < ANSWERS {
            let mut head = [0; 9];
            connection.0.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            connection.0.read_exact(&mut payload).await.unwrap();
            assert_ne!(head[3], RST_STREAM, "none is given up");
            if head[3] == 0 {
                bytes += payload.len();
                ended += u32::from(head[4] & 1);
            }
        }
        bytes
    };
    let bytes = tokio::time::timeout(TIMEOUT, reading).await.unwrap();
    assert!(bytes > ANSWERS as usize * OBJECT_BYTES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_watches_have_little_window_for_hold_a_bounded_number_of_bytes() {
    const WATCHES: u32 = 60;
    const OBJECT_BYTES: usize = 1 << 20;
    const GROWTH_MAX_MIB: f64 = 30.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut connection = Frames::open(&daemon.target(), 1).await.unwrap();
    let (token, path) = (daemon.token(), format!("{CONFIGMAPS}?watch=true"));
    for number in 0..WATCHES {
        let asked = frames::get(2 * number + 1, &path, Some(&token));
        connection.write(&asked).await.unwrap();
    }
    connection.settled().await;
    let before = daemon.resident();
    let large = body("large", &"x".repeat(OBJECT_BYTES));
    client
        .call(Call::post(CONFIGMAPS, &large))
        .await
        .expect(201);
    connection.settled().await;
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");

    // With room for them all of them come.
    let mut windows = frames::frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0]);
    windows.extend(frames::frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    connection.write(&windows).await.unwrap();
    let reading = async {
        let mut bytes = 0;
        while bytes < WATCHES as usize * OBJECT_BYTES {
            let (kind, _, payload) = connection.next().await.unwrap();
            bytes += if kind == 0 { payload.len() } else { 0 };
        }
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap();
}

/// What waits counts, and must not wait for itself.
#[tokio::test]
async fn requests_with_long_heads_are_answered_however_many_come_at_once() {
    let daemon = Daemon::start().await;
    let mut connection = Frames::open(&daemon.target(), 65_535).await.unwrap();
    let path = format!("/healthz?x={}", "x".repeat(7_000));
    let many = (0..16).flat_map(|number| frames::get(2 * number + 1, &path, None));
    connection.write(&many.collect::<Vec<_>>()).await.unwrap();
    let answered = connection.settled().await;
    let heads = answered.iter().filter(|frame| frame.0 == frames::HEADERS);
    assert_eq!(heads.count(), 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_whose_answers_are_not_read_hold_little() {
    const CONNECTIONS: usize = 20;
    const GROWTH_MAX_MIB: f64 = 20.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let before = daemon.resident();
    let request = format!("GET {} HTTP/1.1\r\nhost: a\r\n\r\n", costly_path());
    let many = request.repeat(100);
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        // Until the daemon accepts no more, because it can't send its answers.
        let writing = async {
            for _ in 0..100 {
                stream.write_all(many.as_bytes()).await?;
            }
            std::io::Result::Ok(())
        };
        let _ = tokio::time::timeout(Duration::from_millis(500), writing).await;
        connections.push(stream);
    }
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let grown = daemon.resident() - before;
    assert!(grown < GROWTH_MAX_MIB, "{grown} MiB");
}

#[tokio::test]
async fn silent_connections_of_one_address_keep_nobody_out() {
    let daemon = Daemon::with(&["--max-connections", "60"]).await;
    let mut kept = Vec::new();
    for _ in 0..100 {
        kept.push(TcpStream::connect(daemon.target().address).await.unwrap());
    }
    for _ in 0..20 {
        let client = daemon.client();
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
        let probe = daemon.target().anonymous().client();
        assert_eq!(probe.call(Call::get("/readyz")).await.status, 200);
    }
    // Of half the slots three quarters are for one address: the oldest had to go.
    assert!(
        daemon
            .count("taffrail_connections_unauthenticated_closed_total")
            .await
            >= 78
    );
    assert!(daemon.count("taffrail_connections_unauthenticated").await <= 22);
    let first = tokio::time::timeout(TIMEOUT, kept[0].read(&mut [0])).await;
    assert!(matches!(first.unwrap(), Ok(0) | Err(_)));
}

/// Many clients that reconnect at once, from one address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_crowd_of_one_address_everybody_is_served() {
    const CLIENTS: usize = 400;
    let daemon = Daemon::start().await;
    let target = daemon.target();
    let request = format!(
        "GET {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\r\n",
        daemon.token()
    );
    let crowd = (0..CLIENTS).map(|_| {
        let (target, request) = (target.clone(), request.clone());
        tokio::spawn(async move {
            let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
            // The round trip to a very distant client.
            tokio::time::sleep(Duration::from_millis(300)).await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            stream
        })
    });
    let crowd = futures_util::future::join_all(crowd);
    let served = tokio::time::timeout(TIMEOUT, crowd).await.unwrap();
    assert!(served.into_iter().all(|one| one.is_ok()));
    assert_eq!(
        daemon
            .count("taffrail_connections_unauthenticated_closed_total")
            .await,
        0
    );
}

#[tokio::test]
async fn users_may_have_all_slots_but_a_few_for_probes() {
    let daemon = Daemon::with(&["--max-connections", "16"]).await;
    let mut watchers = Vec::new();
    for _ in 0..15 {
        let client = daemon.client();
        let watch = client.watch(&format!("{CONFIGMAPS}?watch=true")).await;
        watchers.push((client, watch));
    }
    let probe = daemon.target().anonymous().client();
    assert_eq!(probe.call(Call::get("/readyz")).await.status, 200);
    let answer = daemon.client().call(Call::get(CONFIGMAPS)).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    watchers.pop();
    let retried = async {
        loop {
            if let Ok(answer) = daemon.client().attempt(Call::get(CONFIGMAPS)).await
                && answer.status == 200
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, retried).await.unwrap();
}

#[tokio::test]
async fn floods_of_frames_that_carry_nothing_end_their_connection() {
    let daemon = Daemon::start().await;
    for (kind, payload) in [
        (PING, &[0; 8][..]),
        (SETTINGS, &[]),
        (PRIORITY, &[0, 0, 0, 0, 1]),
        (WINDOW_UPDATE, &[0, 0, 0, 1]),
        (0xbe, &[]),
    ] {
        let stream = u32::from(kind == PRIORITY);
        let one = frames::frame(kind, 0, stream, payload);
        let mut connection = Frames::open(&daemon.target(), 65_535).await.unwrap();
        let flood = one.repeat(1_000);
        let mut written = 0;
        while written < 5_000 && connection.write(&flood).await.is_ok() {
            written += 1;
            while let Ok(Some((kind, _, payload))) =
                tokio::time::timeout(Duration::from_millis(1), connection.next()).await
            {
                if kind == GOAWAY {
                    assert_eq!(payload[4..8], [0, 0, 0, ENHANCE_YOUR_CALM]);
                }
            }
        }
        assert!(written < 5_000, "frames of kind {kind} are taken for ever");
    }
    assert!(daemon.count("taffrail_http2_floods_total").await >= 5);
    // An ordinary number of them is accepted.
    let mut connection = Frames::open(&daemon.target(), 65_535).await.unwrap();
    let pings = frames::frame(PING, 0, 0, &[0; 8]).repeat(500);
    connection.write(&pings).await.unwrap();
    let answered = connection.settled().await;
    assert_eq!(answered.iter().filter(|frame| frame.0 == PING).count(), 500);
}

#[tokio::test]
async fn http1_wants_a_host_and_lines_that_end_with_crlf() {
    let daemon = Daemon::start().await;
    let token = daemon.token();
    let bearer = format!("authorization: Bearer {token}");
    let post = "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    for (request, says) in [
        (
            format!("GET {CONFIGMAPS} HTTP/1.1\r\n{bearer}\r\n\r\n"),
            "missing required Host header",
        ),
        (
            format!("DELETE {CONFIGMAPS}/#a HTTP/1.1\r\nhost: a\r\n{bearer}\r\n\r\n"),
            "",
        ),
        (
            format!("GET {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\nhost: b\r\n{bearer}\r\n\r\n"),
            "too many Host headers",
        ),
        (
            format!("GET {CONFIGMAPS} HTTP/1.1\r\nhost: a\n{bearer}\r\n\r\n"),
            "",
        ),
        (
            format!("GET {CONFIGMAPS} HTTP/1.1\nhost: a\n{bearer}\n\n"),
            "",
        ),
        (
            format!(
                "POST {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\n{bearer}\r\n{post}2\n{{}}\r\n0\r\n\r\n"
            ),
            "",
        ),
        (
            format!(
                "POST {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\n{bearer}\r\n{post}2;a\nXX\r\n{{}}\r\n0\r\n\r\n"
            ),
            "",
        ),
        (
            format!(
                "POST {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\n{bearer}\r\ncontent-length:{}2\r\n\r\n{{}}",
                " ".repeat(60)
            ),
            "",
        ),
    ] {
        let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(TIMEOUT, reading)
            .await
            .expect("the connection ends");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
        assert!(answer.contains(says), "{request}: {answer}");
    }
    // HTTP/1.0 has no Host.
    let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    let request = format!("GET {CONFIGMAPS} HTTP/1.0\r\n{bearer}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.0 200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_leave_room_for_others() {
    const BODY_BYTES: usize = 2_900_000;
    const BODIES: usize = 60;
    // One user has seven eighths of the room.
    const ROOM: usize = (56 << 20) / BODY_BYTES;
    let daemon = Daemon::start().await;
    let token = daemon.token();
    let head = format!(
        "POST {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n{{"
    );
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..BODIES {
        let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let answered = stream.read_exact(&mut answer);
        match tokio::time::timeout(Duration::from_millis(100), answered).await {
            Ok(read) => {
                read.unwrap();
                assert_eq!(&answer, b"HTTP/1.1 429");
                refused += 1;
            }
            Err(_) => held.push(stream),
        }
    }
    assert_eq!((held.len(), refused), (ROOM, BODIES - ROOM));
    let client = daemon.client();
    client
        .call(Call::post(CONFIGMAPS, &body("short", "1")))
        .await
        .expect(201);
    let long = body("long", &"x".repeat(800_000));
    let status = client
        .call(Call::post(CONFIGMAPS, &long))
        .await
        .refusal(429, "TooManyRequests");
    assert_eq!(status["details"]["retryAfterSeconds"], json!(1));
    let other = Call::post(CONFIGMAPS, &body("other", &"x".repeat(500_000)));
    let other = other
        .header("Impersonate-User", "bob")
        .header("Impersonate-Group", "system:masters");
    client.call(other).await.expect(201);
    assert_eq!(
        daemon.count("taffrail_request_bodies_refused_total").await,
        refused as u64 + 1
    );
    drop(held);
    let retried = async {
        while client.call(Call::post(CONFIGMAPS, &long)).await.status != 201 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, retried).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_a_burst_goes_back_to_the_system() {
    const BODY_BYTES: usize = 2_900_000;
    const BODIES: usize = 20;
    const GROWTH_MIN_MIB: f64 = 40.0;
    const LEFT_MAX_MIB: f64 = 15.0;
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.call(Call::get(CONFIGMAPS)).await.expect(200);
    let before = daemon.resident();
    let token = daemon.token();
    let mut request = format!(
        "POST {CONFIGMAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    request.push_str(&"x".repeat(BODY_BYTES - 1));
    // After the first round the allocator keeps freed memory.
    for _ in 0..3 {
        let mut held = Vec::new();
        for _ in 0..BODIES {
            let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            held.push(stream);
        }
        let grown = async {
            while daemon.resident() < before + GROWTH_MIN_MIB {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, grown).await.unwrap();
    }
    let given_back = async {
        while daemon.resident() > before + LEFT_MAX_MIB {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, given_back).await.unwrap();
}
