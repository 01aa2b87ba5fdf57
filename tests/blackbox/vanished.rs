//! Clients whose machines are gone, and clients that are well but read nothing.
//!
//! The test starts itself again in a network of its own, where it can drop the packets to the
//! addresses of clients.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::own_network::{in_own_network, ip};
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Target, body, configmap};

const NAME: &str =
    "vanished::clients_that_vanish_are_gone_within_two_minutes_and_full_windows_stay";

/// A client has vanished after a minute, and sockets are looked at every 15 s.
const TOLD_WITHIN: Duration = Duration::from_secs(120);

const WATCHES: &str = "apiserver_longrunning_requests";

fn client_address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 7, last).into()
}

#[test]
fn clients_that_vanish_are_gone_within_two_minutes_and_full_windows_stay() {
    in_own_network(NAME, inside());
}

/// Opens a watch and reads no byte of it beyond the headers.
async fn unread_watch(target: &Target, token: &str) -> impl Sized + use<> {
    let narrow = target.narrow(4096);
    let mut stream = narrow.tls(&[b"http/1.1"]).await.unwrap();
    let request = format!(
        "GET {CONFIGMAPS}?watch=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

async fn write(client: &Client, number: u64) {
    let value = number.to_string().repeat(20_000);
    let call = Call::put(&configmap("big"), &body("big", &value));
    client.call(call).await.expect(200);
}

async fn inside() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let big = body("big", "0");
    client.call(Call::post(CONFIGMAPS, &big)).await.expect(201);
    let target = daemon.target();
    // One that is sent events, one of a quiet resource, and two that read nothing.
    let busy = target.from(client_address(1)).client();
    let mut busy = busy.watch(&format!("{CONFIGMAPS}?watch=true")).await;
    let quiet = target.from(client_address(2)).client();
    let _quiet = quiet.watch("/api/v1/secrets?watch=true").await;
    let token = daemon.token();
    let _full = unread_watch(&target.from(client_address(3)), &token).await;
    let _full_and_gone = unread_watch(&target.from(client_address(4)), &token).await;
    busy.event().await;
    for number in 1..40 {
        write(&client, number).await;
    }
    assert_eq!(daemon.count(WATCHES).await, 4);

    for last in [1, 2, 4] {
        let address = client_address(last).to_string();
        ip(&["route", "add", "blackhole", &address, "table", "local"]);
    }
    let gone = Instant::now();
    let mut number = 40;
    while daemon.count(WATCHES).await > 1 {
        assert!(gone.elapsed() < TOLD_WITHIN, "{}", daemon.stderr());
        number += 1;
        write(&client, number).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let told = gone.elapsed();
    println!("the last was found gone after {told:?}");
    assert!(told > Duration::from_secs(50), "{told:?} is too soon");
    assert!(daemon.count("taffrail_connections_vanished_total").await >= 1);
    // The one that is well would have been taken for a vanished one by now.
    let rest = Duration::from_secs(95).saturating_sub(told);
    tokio::time::sleep(rest).await;
    assert_eq!(daemon.count(WATCHES).await, 1);
}
