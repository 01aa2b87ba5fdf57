//! The same requests to the program and to etcd 3.5 have the same answers, errors included.

use std::fmt::Debug;

use etcd_client::{
    Client, CompactionOptions, Compare, CompareOp, DeleteOptions, Error, Event, GetOptions,
    PutOptions, SortOrder, SortTarget, Txn, TxnOp, WatchFilterType, WatchOptions, WatchStream,
};
use regex::Regex;

use super::*;
use crate::load::{Random, seed};
use crate::servers::etcd::{Cluster, find};

/// A client of one of both, and what it was answered.
struct Side {
    client: Client,
    /// Numbers that differ from one store to the next.
    numbers: Regex,
    lines: Vec<String>,
}

impl Side {
    async fn of(url: String) -> Side {
        Side {
            client: Client::connect([url], None).await.unwrap(),
            numbers: Regex::new("(cluster_id|member_id|raft_term): [0-9]+").unwrap(),
            lines: Vec::new(),
        }
    }

    fn note(&mut self, request: &str, answer: Result<impl Debug, Error>) {
        let line = match answer {
            Ok(answer) => {
                let text = format!("{answer:?}");
                let text = self.numbers.replace_all(&text, "");
                text.into_owned()
            }
            Err(Error::GRpcStatus(status)) => format!("{:?}: {}", status.code(), status.message()),
            Err(error) => format!("{error:?}"),
        };
        self.lines.push(format!("{request} -> {line}"));
    }

    async fn put(&mut self, key: &str, value: &str, options: Option<PutOptions>) {
        let answer = self.client.put(key, value, options).await;
        self.note(&format!("put {key:?}"), answer);
    }

    async fn get(&mut self, key: &str, options: Option<GetOptions>) {
        let request = format!("get {key:?} {options:?}");
        let answer = self.client.get(key, options).await;
        self.note(&request, answer);
    }

    async fn delete(&mut self, key: &str, options: Option<DeleteOptions>) {
        let answer = self.client.delete(key, options).await;
        self.note(&format!("delete {key:?}"), answer);
    }

    async fn txn(&mut self, txn: Txn) {
        let request = format!("{txn:?}");
        let answer = self.client.txn(txn).await;
        let answer = answer.map(|answer| {
            let operations = answer.op_responses();
            (
                answer.succeeded(),
                answer.header().unwrap().revision(),
                operations,
            )
        });
        self.note(&request, answer);
        // etcd fills only the revision of headers within.
        let line = self.lines.pop().unwrap();
        let header = Regex::new(r"Some\(ResponseHeader \{[^}]*\}\)|None").unwrap();
        self.lines.push(header.replace_all(&line, "").into_owned());
    }

    async fn compact(&mut self, revision: i64) {
        let options = Some(CompactionOptions::new().with_physical());
        let answer = self.client.compact(revision, options).await;
        self.note(&format!("compact {revision}"), answer);
    }

    /// The first answers of a watch, until one of them cancels it or this many events have come.
    async fn watch(&mut self, key: &str, options: WatchOptions, events: usize) {
        let has_all = |seen: &[Event]| seen.len() >= events;
        self.watch_until(key, options, has_all, i64::MAX).await;
    }

    /// The first answers of a watch, until one of them cancels it or the events are enough. Events
    /// after the last revision may come with those before it or not, and are left out.
    async fn watch_until(
        &mut self,
        key: &str,
        options: WatchOptions,
        is_enough: impl Fn(&[Event]) -> bool,
        last: i64,
    ) {
        let request = format!("watch {key:?} {options:?}");
        let mut stream: WatchStream = match self.client.watch(key, Some(options)).await {
            Ok(stream) => stream,
            Err(error) => return self.note(&request, Err::<(), _>(error)),
        };
        let (mut seen, mut ends) = (Vec::new(), Vec::new());
        while !is_enough(&seen) && ends.is_empty() {
            let message = tokio::time::timeout(WITHIN, stream.message()).await;
            let Some(message) = message.expect(&request).unwrap() else {
                break;
            };
            if message.canceled() {
                ends.push((
                    message.compact_revision(),
                    message.cancel_reason().to_owned(),
                ));
            }
            // How events share messages is not compared.
            seen.extend(message.events().iter().cloned());
        }
        seen.retain(|event| revision_of(event) <= last);
        self.note(&request, Ok((seen, ends)));
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv().unwrap().mod_revision()
}

/// Runs a script on both, and compares the answers.
async fn same(script: impl AsyncFn(&mut Side)) {
    if find("3.5").is_none() {
        return;
    }
    let ours = Etcd::start(&[]);
    let theirs = tokio::task::spawn_blocking(|| Cluster::single("3.5"));
    let theirs = theirs.await.unwrap();
    let mut sides = [
        Side::of(ours.url()).await,
        Side::of(theirs.members[0].url()).await,
    ];
    for side in &mut sides {
        script(side).await;
    }
    let [ours, theirs] = sides;
    assert_eq!(ours.lines.len(), theirs.lines.len());
    let differences: Vec<String> = ours
        .lines
        .iter()
        .zip(&theirs.lines)
        .filter(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| format!("ours:   {ours}\ntheirs: {theirs}\n"))
        .collect();
    let shown = differences.iter().take(10).cloned().collect::<String>();
    assert!(
        differences.is_empty(),
        "{} differ:\n{shown}",
        differences.len()
    );
}

async fn fill(side: &mut Side) {
    for key in ["/a/1", "/a/2", "/a/3", "/b", "/a0", "a", "/a/2"] {
        side.put(key, &format!("value of {key}"), None).await;
    }
    side.delete("/a/3", None).await;
    side.delete("/a/3", None).await;
    side.put("/a/3", "again", Some(PutOptions::new().with_prev_key()))
        .await;
    side.put("/a/3", "more", Some(PutOptions::new().with_prev_key()))
        .await;
    let options = DeleteOptions::new().with_prev_key();
    side.delete("/b", Some(options)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_the_same() {
    same(async |side: &mut Side| {
        side.get("/a/1", None).await;
        fill(side).await;
        let options = || Some(GetOptions::new());
        for revision in [-1, 0, 1, 2, 5, 8, 12, 13, 1000] {
            let at = |options: GetOptions| Some(options.with_revision(revision));
            side.get("/a/3", at(GetOptions::new())).await;
            side.get("/a/", at(GetOptions::new().with_prefix())).await;
        }
        for limit in [-1, 0, 1, 2, 3, 4, 100] {
            side.get("/a/", options().map(|o| o.with_prefix().with_limit(limit)))
                .await;
            side.get(
                "/a",
                options().map(|o| o.with_range("/a/3").with_limit(limit)),
            )
            .await;
        }
        side.get("/a/2", options().map(GetOptions::with_from_key))
            .await;
        side.get("", options().map(GetOptions::with_all_keys)).await;
        side.get("/a/2", options().map(|o| o.with_range("/a/1")))
            .await;
        side.get("/a/2", options().map(|o| o.with_range("/a/2")))
            .await;
        side.get("/", options().map(|o| o.with_prefix().with_count_only()))
            .await;
        side.get(
            "/a",
            options().map(|o| o.with_range("/a/3").with_count_only()),
        )
        .await;
        side.get("/a/1", options().map(GetOptions::with_count_only))
            .await;
        side.get("/", options().map(|o| o.with_prefix().with_keys_only()))
            .await;
        side.get("/nothing", options().map(GetOptions::with_count_only))
            .await;
        side.get("", None).await;
        for order in [SortOrder::None, SortOrder::Ascend, SortOrder::Descend] {
            for target in [
                SortTarget::Key,
                SortTarget::Version,
                SortTarget::Create,
                SortTarget::Mod,
                SortTarget::Value,
            ] {
                let sorted = options().map(|o| o.with_prefix().with_sort(target, order));
                side.get("/", sorted.clone()).await;
                side.get("/", sorted.map(|o| o.with_limit(2))).await;
            }
        }
        side.get(
            "/",
            options().map(|o| o.with_prefix().with_min_mod_revision(8)),
        )
        .await;
        side.get(
            "/",
            options().map(|o| o.with_prefix().with_max_create_revision(4)),
        )
        .await;
        let both = options().map(|o| o.with_prefix().with_max_mod_revision(11).with_limit(1));
        side.get("/", both).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_and_their_refusals_are_the_same() {
    same(async |side: &mut Side| {
        fill(side).await;
        side.put("", "x", None).await;
        side.delete("", None).await;
        side.put("/a/1", "", Some(PutOptions::new().with_ignore_value()))
            .await;
        side.put("/a/1", "x", Some(PutOptions::new().with_ignore_value()))
            .await;
        side.put("/new", "", Some(PutOptions::new().with_ignore_value()))
            .await;
        side.put("/new", "x", Some(PutOptions::new().with_ignore_lease()))
            .await;
        side.put("/a/1", "x", Some(PutOptions::new().with_ignore_lease()))
            .await;
        side.put("/a/1", "x", Some(PutOptions::new().with_lease(12345)))
            .await;
        let both = PutOptions::new().with_lease(1).with_ignore_lease();
        side.put("/a/1", "x", Some(both)).await;
        side.put("/large", &"x".repeat(1 << 20), None).await;
        side.put("/large", &"x".repeat(1_600_000), None).await;
        side.get("/large", Some(GetOptions::new().with_keys_only()))
            .await;
        side.delete("/nothing", Some(DeleteOptions::new().with_prefix()))
            .await;
        let one = DeleteOptions::new().with_range("/a/2").with_prev_key();
        side.delete("/a/1", Some(one)).await;
        side.get("", Some(GetOptions::new().with_all_keys().with_keys_only()))
            .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_are_the_same() {
    same(async |side: &mut Side| {
        fill(side).await;
        let key = "/a/1";
        let get = || TxnOp::get(key, None);
        let put = |value: &str| TxnOp::put(key, value, None);
        side.txn(Txn::new()).await;
        side.txn(Txn::new().and_then([get()])).await;
        for operation in [
            CompareOp::Equal,
            CompareOp::Greater,
            CompareOp::Less,
            CompareOp::NotEqual,
        ] {
            for key in [key, "/absent"] {
                for compare in [
                    Compare::version(key, operation, 1),
                    Compare::create_revision(key, operation, 2),
                    Compare::mod_revision(key, operation, 0),
                    Compare::value(key, operation, "value of /a/1"),
                    Compare::lease(key, operation, 0),
                ] {
                    let txn = Txn::new().when([compare]);
                    side.txn(txn.and_then([get()]).or_else([get()])).await;
                }
            }
        }
        let range = Compare::version("/a/", CompareOp::Greater, 0).with_prefix();
        side.txn(Txn::new().when([range]).and_then([get()])).await;
        let absent = Compare::mod_revision("/create", CompareOp::Equal, 0);
        let create = || TxnOp::put("/create", "x", None);
        for _ in 0..2 {
            let txn = Txn::new().when([absent.clone()]).and_then([create()]);
            side.txn(txn.or_else([TxnOp::get("/create", None)])).await;
        }
        side.txn(Txn::new().and_then([get(), put("b"), get()]))
            .await;
        let previous = PutOptions::new().with_prev_key();
        let twice = Compare::version(key, CompareOp::Equal, 2);
        let kept = Compare::value(key, CompareOp::Equal, "b");
        let txn = Txn::new().when([twice, kept]);
        side.txn(txn.and_then([TxnOp::put(key, "c", Some(previous)), get()]))
            .await;
        let other = Compare::mod_revision("/a/2", CompareOp::Greater, 2);
        let whole = TxnOp::get("/", Some(GetOptions::new().with_prefix().with_limit(3)));
        let txn = Txn::new()
            .when([other])
            .and_then([whole.clone(), put("d"), whole]);
        side.txn(txn).await;
        let gone = DeleteOptions::new().with_prev_key();
        side.txn(Txn::new().and_then([TxnOp::delete(key, Some(gone)), get()]))
            .await;
        side.txn(Txn::new().and_then([TxnOp::delete(key, None), get()]))
            .await;
        side.txn(Txn::new().and_then([put("a"), put("b")])).await;
        let delete = TxnOp::delete("/", Some(DeleteOptions::new().with_prefix()));
        side.txn(Txn::new().and_then([put("a"), delete])).await;
        side.txn(Txn::new().and_then(vec![get(); 128])).await;
        side.txn(Txn::new().and_then(vec![get(); 129])).await;
        side.txn(Txn::new().when([Compare::version("", CompareOp::Equal, 0)]))
            .await;
        side.txn(Txn::new().and_then([TxnOp::put("", "x", None)]))
            .await;
        let later = TxnOp::get(key, Some(GetOptions::new().with_revision(1000)));
        side.txn(Txn::new().and_then([put("e"), later])).await;
        let leased = TxnOp::put(key, "f", Some(PutOptions::new().with_lease(77)));
        side.txn(Txn::new().and_then([leased])).await;
        side.get("", Some(GetOptions::new().with_all_keys())).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_and_compaction_are_the_same() {
    same(async |side: &mut Side| {
        fill(side).await;
        let options = WatchOptions::new;
        let all = || options().with_prefix();
        side.watch("/a/", all().with_start_revision(2), 7).await;
        side.watch("/a/", all().with_start_revision(2).with_prev_key(), 7)
            .await;
        let filters = vec![WatchFilterType::NoPut];
        side.watch("/", all().with_start_revision(2).with_filters(filters), 2)
            .await;
        let filters = vec![WatchFilterType::NoDelete];
        side.watch(
            "/a/3",
            options().with_start_revision(2).with_filters(filters),
            3,
        )
        .await;
        side.watch("/a/3", options().with_start_revision(2).with_prev_key(), 4)
            .await;
        side.watch("", options().with_all_keys().with_start_revision(1), 11)
            .await;
        side.watch("/a/2", options().with_from_key().with_start_revision(3), 9)
            .await;
        side.watch("/a", options().with_range("/a/2").with_start_revision(1), 1)
            .await;
        side.watch("/b", options().with_range("/a"), 1).await;
        side.compact(1000).await;
        side.compact(8).await;
        side.compact(8).await;
        side.compact(7).await;
        side.get("/a/2", Some(GetOptions::new().with_revision(7)))
            .await;
        side.get("/a/2", Some(GetOptions::new().with_revision(8)))
            .await;
        side.get("/a/3", Some(GetOptions::new().with_revision(8)))
            .await;
        side.watch("/a/", all().with_start_revision(5), 1).await;
        side.watch("/a/", all().with_start_revision(8), 3).await;
        side.watch("/a/", all().with_start_revision(9).with_prev_key(), 3)
            .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_the_same() {
    same(async |side: &mut Side| {
        for ttl in [100, 9_000_000_001] {
            let granted = side.client.lease_grant(ttl, None).await;
            side.note("grant", granted.map(|granted| granted.ttl()));
        }
        let lease = side.client.lease_grant(50, None).await.unwrap().id();
        for key in ["/l/1", "/l/2"] {
            let options = Some(PutOptions::new().with_lease(lease));
            let put = side.client.put(key, "x", options).await;
            side.note("put", put);
        }
        let options = etcd_client::LeaseTimeToLiveOptions::new().with_keys();
        let left = side.client.lease_time_to_live(lease, Some(options)).await;
        side.note(
            "left",
            left.map(|left| {
                // etcd keeps them in a map of Go, which has no order.
                let mut keys = left.keys().to_vec();
                keys.sort();
                (left.granted_ttl(), keys)
            }),
        );
        let gone = side.client.lease_time_to_live(4711, None).await;
        side.note("left of none", gone);
        let (mut keeper, mut answers) = side.client.lease_keep_alive(lease).await.unwrap();
        keeper.keep_alive().await.unwrap();
        let kept = answers.message().await;
        side.note("kept", kept.map(|kept| kept.map(|kept| kept.ttl())));
        let count = side.client.leases().await.unwrap().leases().len();
        side.note("leases", Ok(count));
        // The keys go in any order, each at a revision of its own with us (D-107).
        side.delete("/l/2", None).await;
        let revoked = side.client.lease_revoke(lease).await;
        side.note("revoke", revoked);
        let revoked = side.client.lease_revoke(lease).await;
        side.note("revoke", revoked);
        side.get("/l/", Some(GetOptions::new().with_prefix())).await;
        let unknown = side.client.lease_keep_alive(4711).await;
        side.note("keep none alive", unknown.map(|_| ()));
    })
    .await;
}

/// Any requests about few keys: those that would change several at once are left out (D-107).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_have_the_same_answers() {
    let seed = seed();
    println!("TAFFRAIL_SEED={seed}");
    same(async |side: &mut Side| {
        let mut random = Random::new(seed);
        let keys = ["/a/1", "/a/2", "/a/", "/b/1", "c", "/a/1/x"];
        for number in 0..400 {
            let key = random.of(&keys);
            let other = random.of(&keys);
            let revision = random.below(number + 2) as i64;
            match random.below(10) {
                0..3 => side.put(key, &format!("v{number}"), None).await,
                3 => side.delete(key, None).await,
                4 => {
                    let options = GetOptions::new().with_range(other);
                    let options = options.with_limit(random.below(4) as i64);
                    side.get(key, Some(options.with_revision(revision))).await;
                }
                5 => {
                    let options = GetOptions::new().with_from_key();
                    side.get(key, Some(options.with_revision(revision))).await;
                }
                6 => {
                    let options = WatchOptions::new().with_prefix().with_prev_key();
                    let start = 1.max(revision / 2);
                    let options = options.with_start_revision(start);
                    // The newest change that an object shows is certain to come.
                    let prefix = Some(GetOptions::new().with_prefix());
                    let found = side.client.get(key, prefix).await.unwrap();
                    let changes = found.kvs().iter().map(|one| one.mod_revision());
                    let newest = changes.filter(|change| *change >= start).max();
                    let last = newest.unwrap_or(0);
                    let has_all = |seen: &[Event]| {
                        newest.is_none() || seen.iter().any(|event| revision_of(event) >= last)
                    };
                    side.watch_until(key, options, has_all, last).await;
                }
                // The first revision is compacted from the beginning here.
                7 if random.below(8) == 0 => side.compact(2.max(revision / 2)).await,
                _ => {
                    let compare = Compare::mod_revision(key, CompareOp::Less, revision);
                    let put = TxnOp::put(other, format!("t{number}"), None);
                    let txn = Txn::new().when([compare]).and_then([put]);
                    side.txn(txn.or_else([TxnOp::delete(other, None)])).await;
                }
            }
        }
    })
    .await;
}
