//! Writers that race, and what differs from etcd on purpose (D-107).

use etcd_client::{
    Compare, CompareOp, DeleteOptions, Error, GetOptions, LeaseGrantOptions, PutOptions, Txn,
    TxnOp, WatchOptions,
};
use tonic::Code;

use super::*;

/// Each increment is decided against the value before it: none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_race_lose_nothing() {
    let etcd = Etcd::start(&[]);
    let mut client = etcd.client().await;
    client.put("/count", "0", None).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let mut client = etcd.client().await;
        tasks.spawn(async move {
            for _ in 0..20 {
                loop {
                    let found = client.get("/count", None).await.unwrap();
                    let kv = &found.kvs()[0];
                    let count: u64 = kv.value_str().unwrap().parse().unwrap();
                    let same = Compare::mod_revision("/count", CompareOp::Equal, kv.mod_revision());
                    let put = TxnOp::put("/count", (count + 1).to_string(), None);
                    let txn = Txn::new().when([same]).and_then([put]);
                    if client.txn(txn).await.unwrap().succeeded() {
                        break;
                    }
                }
                // Others that do not compare, and one that reads all keys.
                client
                    .put(format!("/own/{writer}"), "x", None)
                    .await
                    .unwrap();
                let own = TxnOp::put(format!("/own/{writer}"), "y", None);
                let whole = TxnOp::get("/", Some(GetOptions::new().with_prefix()));
                client.txn(Txn::new().and_then([whole, own])).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let found = client.get("/count", None).await.unwrap();
    assert_eq!(found.kvs()[0].value_str().unwrap(), "160");
    assert_eq!(found.kvs()[0].version(), 161);
    assert_eq!(found.header().unwrap().revision(), 2 + 160 * 3);
}

fn code(answer: Result<impl std::fmt::Debug, Error>) -> Code {
    match answer {
        Err(Error::GRpcStatus(status)) => status.code(),
        other => panic!("{other:?}"),
    }
}

/// D-107: a transaction changes one key, keys of a range are deleted one after the other, and a
/// lease has the number that the store gives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_changes_one_key_d_107() {
    let etcd = Etcd::start(&[]);
    let mut client = etcd.client().await;
    for key in ["/a/1", "/a/2", "/b"] {
        client.put(key, "x", None).await.unwrap();
    }
    let put = |key: &str| TxnOp::put(key, "y", None);
    let range = || TxnOp::delete("/a/", Some(DeleteOptions::new().with_prefix()));
    for several in [
        vec![put("/a/1"), put("/b")],
        vec![range()],
        vec![put("/b"), range()],
    ] {
        let txn = client.txn(Txn::new().and_then(several)).await;
        assert_eq!(code(txn), Code::Unimplemented);
    }
    let nested = TxnOp::txn(Txn::new().and_then([put("/b")]));
    let txn = client.txn(Txn::new().and_then([nested])).await;
    assert_eq!(code(txn), Code::Unimplemented);
    let chosen = Some(LeaseGrantOptions::new().with_id(7));
    assert_eq!(
        code(client.lease_grant(10, chosen).await),
        Code::Unimplemented
    );
    // Nothing of that was done.
    let found = client
        .get("/", Some(GetOptions::new().with_prefix()))
        .await
        .unwrap();
    assert_eq!(found.header().unwrap().revision(), 4);
    // The branch that is not taken does not count.
    let never = Compare::version("/b", CompareOp::Equal, 5);
    let txn = Txn::new().when([never]).and_then([put("/a/1"), put("/b")]);
    let txn = client.txn(txn.or_else([put("/b")])).await.unwrap();
    assert!(!txn.succeeded());

    let options = DeleteOptions::new().with_prefix().with_prev_key();
    let deleted = client.delete("/a/", Some(options)).await.unwrap();
    assert_eq!((deleted.deleted(), deleted.prev_kvs().len()), (2, 2));
    assert_eq!(deleted.header().unwrap().revision(), 7);
    let options = WatchOptions::new().with_prefix().with_start_revision(6);
    let mut watch = client.watch("/a/", Some(options)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let message = watch.message().await.unwrap().unwrap();
        seen.extend(
            message
                .events()
                .iter()
                .map(|event| event.kv().unwrap().mod_revision()),
        );
    }
    assert_eq!(seen, [6, 7]);
}

/// Services that have no meaning for one member say so, and the others answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smaller_services_answer() {
    let etcd = Etcd::start(&["--name=alone"]);
    let mut client = etcd.client().await;
    client.put("/a", "x", None).await.unwrap();
    let status = client.status().await.unwrap();
    assert!(status.version().starts_with("3.6."));
    assert_eq!(status.leader(), status.header().unwrap().member_id());
    assert!(status.db_size() > 0 && status.raft_index() == 2);
    let members = client.member_list().await.unwrap();
    assert_eq!(members.members().len(), 1);
    assert_eq!(members.members()[0].name(), "alone");
    assert_eq!(members.members()[0].client_urls(), [etcd.url()]);
    client.defragment().await.unwrap();
    let alarms = client.alarm(
        etcd_client::AlarmAction::Get,
        etcd_client::AlarmType::None,
        None,
    );
    assert!(alarms.await.unwrap().alarms().is_empty());
    let added = client.member_add(["http://127.0.0.1:1"], None).await;
    assert_eq!(code(added), Code::Unimplemented);
    assert_eq!(code(client.hash().await), Code::Unimplemented);
    assert_eq!(code(client.user_list().await), Code::Unimplemented);
    // A request that is far too large ends the call, and nothing else.
    let huge = "x".repeat(16 << 20);
    assert!(client.put("/huge", huge, None).await.is_err());
    let long = client.put("k".repeat(100 << 10), "x", None).await;
    assert_eq!(code(long), Code::InvalidArgument);
    assert_eq!(client.get("/a", None).await.unwrap().count(), 1);
}

/// A lease that runs out takes its keys along, and one that is kept alive does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_run_out_unless_they_are_kept_alive() {
    let etcd = Etcd::start(&[]);
    let mut client = etcd.client().await;
    let short = client.lease_grant(1, None).await.unwrap().id();
    let kept = client.lease_grant(3, None).await.unwrap().id();
    for (key, lease) in [("/short", short), ("/kept", kept)] {
        let options = Some(PutOptions::new().with_lease(lease));
        client.put(key, "x", options).await.unwrap();
    }
    let (mut keeper, mut answers) = client.lease_keep_alive(kept).await.unwrap();
    let began = Instant::now();
    let mut is_there = true;
    while is_there || began.elapsed() < Duration::from_secs(4) {
        assert!(began.elapsed() < WITHIN);
        is_there = client.get("/short", None).await.unwrap().count() > 0;
        keeper.keep_alive().await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap().ttl(), 3);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.get("/kept", None).await.unwrap().count(), 1);
    keeper = client.lease_keep_alive(kept).await.unwrap().0;
    drop(keeper);
    until_absent(&mut client, "/kept").await;
}

async fn until_absent(client: &mut Client, key: &str) {
    let began = Instant::now();
    while client.get(key, None).await.unwrap().count() > 0 {
        assert!(began.elapsed() < WITHIN, "{key} is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
