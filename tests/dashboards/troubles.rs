//! Daemons in trouble: gone, without their etcd, on a full disk, without their key, with failing
//! actors; and requests that meet the trouble.

use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::daemon::Options;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Target, body};
use crate::process::Running;
use crate::{faults, load};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Between two requests of a kind.
const PAUSE: Duration = Duration::from_millis(100);

/// The daemons. Their names are the labels `instance` of what Prometheus scrapes.
pub struct Troubles {
    /// It has none, so that alerts are seen to stay quiet.
    pub healthy: Daemon,
    /// It is killed.
    pub gone: Daemon,
    /// The etcd of this one is not there.
    pub waiting: Daemon,
    /// It wants to keep more free than any disk has, and its certificate ends within two days.
    pub full: Daemon,
    /// It lacks the key that its Secrets were encrypted with.
    pub locked: Daemon,
}

impl Troubles {
    /// Starts them all; each file goes into the folder.
    pub async fn begin(folder: &Path) -> Troubles {
        Troubles {
            healthy: Daemon::start().await,
            gone: Daemon::start().await,
            waiting: waiting().await,
            full: full(folder).await,
            locked: locked(folder).await,
        }
    }

    /// Makes all of it felt, beside a daemon with actors that fail. It never ends.
    pub async fn are_felt(&self, faulty: &Running) {
        // The authority of this one is not known.
        let address = ([127, 0, 0, 1], self.full.port()).into();
        let full = Target::new(address, Some(self.full.token()), None);
        tokio::join!(
            ask_as_usual(self.healthy.client()),
            ask_the_full(full),
            ask_the_locked(self.locked.client()),
            ask_the_waiting(self.waiting.client()),
            ask_the_faulty(faulty.client()),
        );
    }
}

/// A certificate that ends within two days, and its key: their flags.
fn short_lived(folder: &Path) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(48);
    let end = end.to_zoned(jiff::tz::TimeZone::UTC).date();
    let (month, day) = (end.month().cast_unsigned(), end.day().cast_unsigned());
    certificate.not_after = rcgen::date_time_ymd(end.year().into(), month, day);
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let key = write("tls.key", &key.serialize_pem());
    [
        format!("--tls-cert-file={}", write("tls.crt", &certificate)),
        format!("--tls-private-key-file={key}"),
    ]
}

async fn full(folder: &Path) -> Daemon {
    let [certificate, key] = short_lived(folder);
    let flags = ["--disk-reserve-bytes=1000TiB", &certificate, &key];
    // It is never ready.
    Options::default().arguments(&flags).launch().await
}

async fn waiting() -> Daemon {
    // Nothing listens at the port of discarded bytes.
    let flags = ["--etcd-servers=http://127.0.0.1:9"];
    Options::default().arguments(&flags).launch().await
}

async fn locked(folder: &Path) -> Daemon {
    let mut daemon = Daemon::with(&[&load::encryption(folder, 1)]).await;
    let secret = json!({ "metadata": { "name": "a" }, "data": { "k": "MQ==" } });
    let created = daemon.client().call(Call::post(SECRETS, &secret)).await;
    created.expect(201);
    daemon.stop(Signal::TERM).await;
    let other_key = load::encryption(folder, 2);
    let counts = "--etcd-count-metric-poll-period=1s";
    let options = Options::default().arguments(&[&other_key, counts]);
    options.over(daemon.folder()).start().await
}

/// What nobody would complain of.
async fn ask_as_usual(client: Client) {
    for number in 0.. {
        let object = body(&format!("a{number}"), "1");
        let created = client.call(Call::post(CONFIGMAPS, &object)).await;
        created.expect(201);
        client.call(Call::get(CONFIGMAPS)).await.expect(200);
        tokio::time::sleep(5 * PAUSE).await;
    }
}

/// Writes that are refused, and credentials that are not good.
async fn ask_the_full(target: Target) {
    let client = target.client();
    let stranger = target.with_token("wrong").client();
    let namespace = json!({ "metadata": { "name": "a" } });
    loop {
        let refused = client.call(Call::post("/api/v1/namespaces", &namespace));
        refused.await.expect(503);
        for _ in 0..3 {
            stranger.call(Call::get(CONFIGMAPS)).await.expect(401);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A Secret that cannot be read.
async fn ask_the_locked(client: Client) {
    loop {
        let path = format!("{SECRETS}/a");
        client.call(Call::get(&path)).await.expect(500);
        tokio::time::sleep(PAUSE).await;
    }
}

/// What etcd would have to be asked for.
async fn ask_the_waiting(client: Client) {
    loop {
        let path = format!("{CONFIGMAPS}/a?timeout=1s");
        client.call(Call::get(&path)).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Parts that stall and die; then requests that are refused because of that.
async fn ask_the_faulty(client: Client) {
    faults::stall_a_part(&client).await;
    faults::kill_a_cacher(&client).await;
    faults::leave_a_cacher_alone(&client).await;
    loop {
        load::many_compactions(&client).await;
        client.call(Call::get(CONFIGMAPS)).await;
        tokio::time::sleep(PAUSE).await;
    }
}
