//! Measures what ordinary users notice of one user who sends as many requests as possible, or large
//! bodies.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Target, body};
use crate::load::{self, STREAMS, Until, Verb};
use crate::meter::Sample;
use crate::report::{Durations, figure, part};

const OBJECTS: u64 = 5_000;
const ORDINARY_CLIENTS: u64 = 50;
/// The time between two requests of an ordinary client.
const PACE: Duration = Duration::from_millis(100);
const DURATION: Duration = Duration::from_secs(8);
/// How often each abuse is measured. Each time the same load is also measured without it.
const ROUNDS: usize = 3;
const KINDS: [&str; 2] = ["reads", "writes"];

const LISTERS: usize = 40;
const WATCHES: usize = 10_000;
const SENDERS: usize = 20;
/// The size of the ordinary client's bodies while another user sends large ones.
const BODY_BYTES: usize = 100_000;

/// The argument with which this program starts itself again as the abuser.
pub const ABUSER: &str = "--abuser";
/// The line that the abuser prints once all of its work has begun.
const BUSY: &str = "busy";

/// The kinds of abuse.
#[derive(Clone, Copy)]
struct Abuse {
    name: &'static str,
    listers: usize,
    watches: usize,
    /// The number of connections that send bodies of 3 MB.
    senders: usize,
}

const LARGE_BODIES: Abuse = Abuse {
    name: "bodies of 3 MB",
    listers: 0,
    watches: 0,
    senders: SENDERS,
};

const ABUSES: [Abuse; 3] = [
    Abuse {
        name: "unpaged lists",
        listers: LISTERS,
        watches: 0,
        senders: 0,
    },
    Abuse {
        name: "10,000 watches",
        listers: 0,
        watches: WATCHES,
        senders: 0,
    },
    Abuse {
        name: "both",
        listers: LISTERS,
        watches: WATCHES,
        senders: 0,
    },
];

/// Starts the abuser: a separate process, which runs when nobody else wants the processors. Real
/// abusers have machines of their own, so only the daemon's work for them may delay others.
fn start(abuse: Abuse, daemon: &Daemon) -> Child {
    let program = std::env::current_exe().unwrap();
    let child = Command::new("chrt")
        .args(["--idle", "0"])
        .arg(program)
        .args([ABUSER, &daemon.target().address.to_string(), "t-abuser"])
        .args([abuse.listers, abuse.watches, abuse.senders].map(|count| count.to_string()))
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = child.expect("the program chrt, of the package util-linux");
    let mut said = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).unwrap();
    assert_eq!(said.trim(), BUSY);
    child
}

/// Runs the abuser's process, with the arguments from [`start`].
pub async fn abuse(arguments: &[String]) {
    let [address, token, listers, watches, senders] = arguments else {
        panic!("{ABUSER} is for this program itself");
    };
    let target = Target::new(address.parse().unwrap(), Some(token.clone()), None);
    let watches: usize = watches.parse().unwrap();
    for _ in 0..watches / STREAMS {
        let client = Arc::new(target.client());
        let path = format!("{}?watch=true&timeoutSeconds=3600", load::collection());
        for mut lines in join_all((0..STREAMS).map(|_| client.watch(&path))).await {
            let client = Arc::clone(&client);
            tokio::spawn(async move {
                while let Ok(Some(_)) = lines.next().await {}
                drop(client);
            });
        }
    }
    for _ in 0..listers.parse().unwrap() {
        let client = target.client();
        tokio::spawn(async move {
            loop {
                // The abuser continues after a refusal.
                let _ = client.attempt(Call::get(&load::collection())).await;
            }
        });
    }
    let values = "1,".repeat(1_450_000);
    for number in 0..senders.parse().unwrap() {
        let client = target.client();
        let body = format!(
            r#"{{"metadata":{{"name":"a{number}"}},"revision":1,"data":{{"values":[{values}1]}}}}"#
        );
        let path = "/apis/apps/v1/namespaces/default/controllerrevisions?dryRun=All";
        let call = Call::new("POST", path).body("application/json", body);
        tokio::spawn(async move {
            loop {
                let _ = client.attempt(call.clone()).await;
            }
        });
    }
    println!("{BUSY}");
    std::future::pending::<()>().await;
}

/// The durations of requests. Writes also wait for the disk.
#[derive(Default)]
struct Times {
    reads: Durations,
    writes: Durations,
}

impl Times {
    /// Returns the 99th percentiles of reads and writes, in milliseconds.
    fn p99(&mut self) -> [f64; 2] {
        [self.reads.percentile(0.99), self.writes.percentile(0.99)]
    }
}

/// Runs a client that reads and writes an object of its own at a fixed pace.
async fn behave(client: Client, number: u64, until: Instant) -> Times {
    let path = format!("{}/{}", load::collection(), load::name(number));
    let mut times = Times::default();
    let mut due = Instant::now() + PACE.mul_f64(number as f64 / ORDINARY_CLIENTS as f64);
    for round in number.. {
        tokio::time::sleep_until(due.into()).await;
        if due >= until {
            break;
        }
        let (call, durations) = match round % 10 {
            0 => {
                let object = load::object(number, &round.to_string());
                (Call::put(&path, &object), &mut times.writes)
            }
            1 => {
                let path = format!("{}?limit=10", load::collection());
                (Call::get(&path), &mut times.reads)
            }
            _ => (Call::get(&path), &mut times.reads),
        };
        let answer = client.call(call).await;
        // The duration counts from when the request was due, because a client that waits for a late
        // response also sends its next request late.
        durations.add(due.elapsed());
        assert_eq!(answer.status, 200, "{}", answer.text());
        due += PACE;
    }
    times
}

async fn ordinary_clients(daemon: &Daemon, duration: Duration) -> Times {
    let clients = (0..ORDINARY_CLIENTS).map(|number| async move {
        let client = daemon.target().with_token(&format!("t-{number}")).client();
        client.call(Call::get("/version")).await.expect(200);
        client
    });
    let clients = join_all(clients).await;
    let until = Instant::now() + duration;
    let running = (0..).zip(clients);
    let running = running.map(|(number, client)| tokio::spawn(behave(client, number, until)));
    let mut all = Times::default();
    for each in join_all(running).await {
        let Times { reads, writes } = each.unwrap();
        all.reads.extend(reads);
        all.writes.extend(writes);
    }
    all
}

async fn daemon() -> Daemon {
    let users = (0..ORDINARY_CLIENTS).map(|number| number.to_string());
    let users = users.chain(["abuser".to_owned()]);
    let lines = users.map(|user| format!("t-{user},{user},u-{user},system:masters\n"));
    Daemon::with_users(&lines.collect::<String>(), &[]).await
}

pub async fn measure() {
    part(&format!(
        "{ORDINARY_CLIENTS} users with {}/s requests each, while one lists {OBJECTS} ConfigMaps \
         {LISTERS} times at once, or watches them {WATCHES} times",
        1.0 / PACE.as_secs_f64()
    ));
    let daemon = daemon().await;
    load::namespace(&daemon).await;
    load::write(&daemon, Verb::Create, 64, 0, Until::Count(OBJECTS)).await;
    ordinary_clients(&daemon, Duration::from_secs(3)).await;
    for abuse in ABUSES {
        let mut ratios = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let alone = ordinary_clients(&daemon, DURATION).await.p99();
            let mut abuser = start(abuse, &daemon);
            let before = Sample::take(daemon.pid());
            let beside = ordinary_clients(&daemon, DURATION).await.p99();
            let used = before.until(&Sample::take(daemon.pid()));
            abuser.kill().unwrap();
            abuser.wait().unwrap();
            let cores = used.daemon / used.elapsed.as_secs_f64();
            figure(
                &format!("{}: cores of the daemon", abuse.name),
                cores,
                "",
                "",
            );
            for (kind, ratios) in ratios.iter_mut().enumerate() {
                let name = |when: &str| format!("{}: p99 of {} {when}", abuse.name, KINDS[kind]);
                figure(&name("alone"), alone[kind], "ms", "");
                figure(&name("with it"), beside[kind], "ms", "");
                ratios.push(beside[kind] / alone[kind]);
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        for (kind, ratios) in KINDS.iter().zip(&mut ratios) {
            ratios.sort_by(f64::total_cmp);
            let name = format!("{}: p99 of {kind} with it / alone, median", abuse.name);
            figure(&name, ratios[ROUNDS / 2], "", "<= 2");
        }
        figure(
            &format!("{}: memory", abuse.name),
            daemon.resident(),
            "MiB",
            "",
        );
    }
}

/// Creates one object after the other, with a body of moderate size.
async fn create_large(daemon: &Daemon, names: &str) -> Durations {
    let client = daemon.target().with_token("t-1").client();
    client.call(Call::get("/version")).await.expect(200);
    let (value, mut times) = ("x".repeat(BODY_BYTES), Durations::default());
    let until = Instant::now() + DURATION;
    for number in 0.. {
        let began = Instant::now();
        if began >= until {
            break;
        }
        let object = body(&format!("{names}-{number}"), &value);
        client
            .call(Call::post(CONFIGMAPS, &object))
            .await
            .expect(201);
        times.add(began.elapsed());
        tokio::time::sleep(PACE).await;
    }
    times
}

/// Creates objects with bodies of 100 kB, alone and while another user sends bodies of 3 MB.
pub async fn measure_large_bodies() {
    part(&format!(
        "creates of {} kB, alone and while another user sends bodies of 3 MB over {SENDERS} \
         connections",
        BODY_BYTES / 1000
    ));
    let daemon = daemon().await;
    for round in 0..ROUNDS {
        let mut alone = create_large(&daemon, &format!("alone-{round}")).await;
        let mut abuser = start(LARGE_BODIES, &daemon);
        let mut beside = create_large(&daemon, &format!("beside-{round}")).await;
        abuser.kill().unwrap();
        abuser.wait().unwrap();
        for (when, times, most) in [
            ("alone", &mut alone, "<= 50"),
            ("with it", &mut beside, "<= 2000"),
        ] {
            let name = |which: &str| format!("{}: {which} of creates {when}", LARGE_BODIES.name);
            figure(&name("p50"), times.percentile(0.5), "ms", "");
            figure(&name("p99"), times.percentile(0.99), "ms", most);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let name = format!("{}: memory", LARGE_BODIES.name);
    figure(&name, daemon.resident(), "MiB", "");
}
