//! A store that lacks acknowledged data, that two programs open, or whose pages are damaged, from
//! the view of its operator and its clients.

use std::fs;

use rustix::process::Signal;

use crate::harness::daemon::taffrail;
use crate::harness::{CONFIGMAPS, Call, Client, Daemon, Options, body, version};
use crate::lost_store::refusal;

const JOURNAL: [&str; 2] = ["journal-0", "journal-1"];

/// Creates objects. Answers the version of the last one.
async fn create(client: &Client, names: std::ops::Range<u64>) -> u64 {
    let mut newest = 0;
    for name in names {
        let created = Call::post(CONFIGMAPS, &body(&format!("n{name}"), "v"));
        newest = version(&client.call(created).await.expect(201));
    }
    newest
}

#[tokio::test]
async fn a_journal_that_is_no_longer_the_one_of_its_store_is_refused_with_what_to_do() {
    for older in [true, false] {
        let mut daemon = Daemon::start().await;
        create(&daemon.client(), 0..50).await;
        let (folder, data) = (daemon.folder(), daemon.data());
        let copies = JOURNAL.map(|name| fs::read(data.join(name)).unwrap());
        let newest = create(&daemon.client(), 50..100).await;
        daemon.kill().await;
        for (name, copy) in JOURNAL.iter().zip(&copies) {
            match older {
                true => fs::write(data.join(name), copy).unwrap(),
                false => fs::write(data.join(name), b"").unwrap(),
            }
        }
        let said = refusal(folder.path(), &[]);
        for words in [
            "lacks the revisions from ",
            "restore the directory from a backup",
            "--accept-loss=",
        ] {
            assert!(said.contains(words), "{said}");
        }
        let (_, rest) = said.split_once("--accept-loss=").unwrap();
        let flag = rest.split(|byte: char| !byte.is_ascii_digit()).next();
        let first: u64 = flag.unwrap().parse().unwrap();
        assert!(first <= newest, "{said}");
        refusal(folder.path(), &[&format!("--accept-loss={}", first + 1)]);
        let accepted = Options::default()
            .over(folder.clone())
            .arguments(&[&format!("--accept-loss={first}")]);
        let daemon = accepted.start().await;
        let list = daemon
            .client()
            .call(Call::get(CONFIGMAPS))
            .await
            .expect(200);
        let items = list["items"].as_array().unwrap().len();
        assert!(items < 100, "{items}");
        assert_eq!(items >= 50, older, "{items} objects are left");
        // A client that saw a lost revision does not take the store for one that it knows.
        let version_now = list["metadata"]["resourceVersion"].as_str().unwrap();
        assert!(version_now.parse::<u64>().unwrap() > newest);
        let watch = format!("{CONFIGMAPS}?watch=1&resourceVersion={newest}");
        let told = daemon.client().call(Call::get(&watch)).await.expect(200);
        assert_eq!(told["object"]["code"], 410, "{told}");
        assert!(create(&daemon.client(), 100..101).await > newest);
    }
}

async fn backup(daemon: &Daemon) -> Vec<u8> {
    let answer = daemon.client().call(Call::get("/taffrail/v1/backup")).await;
    assert_eq!(answer.status, 200);
    answer.body.to_vec()
}

#[tokio::test]
async fn a_store_has_one_owner_whatever_file_is_removed() {
    let daemon = Daemon::start().await;
    create(&daemon.client(), 0..3).await;
    let (folder, data) = (daemon.folder(), daemon.data());
    fs::write(folder.path().join("backup"), backup(&daemon).await).unwrap();
    for name in ["lock", "store", "journal-0", "journal-1", "events.redb"] {
        let _ = fs::remove_file(data.join(name));
        let said = refusal(folder.path(), &[]);
        assert!(said.contains("is in use by"), "without {name}: {said}");
        let directory = data.to_str().unwrap();
        let restore = ["restore", "--data-dir", directory, "backup"];
        let mut ran = taffrail();
        let ran = ran
            .args(restore)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains("is in use by"), "without {name}: {said}");
    }
    // The daemon serves its caches all the time.
    let list = daemon
        .client()
        .call(Call::get(CONFIGMAPS))
        .await
        .expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

/// Every page of the database that holds keys of configmaps is damaged in turn.
#[tokio::test]
async fn a_damaged_page_takes_no_object_out_of_a_list() {
    const OBJECTS: u64 = 120;
    const PAGE: usize = 4096;
    let mut daemon = Daemon::start().await;
    create(&daemon.client(), 0..OBJECTS).await;
    daemon.stop(Signal::TERM).await;
    let (folder, log) = (daemon.folder(), daemon.data().join("events.redb"));
    let whole = fs::read(&log).unwrap();
    let key = b"/configmaps/default/n";
    let pages: Vec<usize> = (0..whole.len() / PAGE)
        .filter(|page| {
            let bytes = &whole[page * PAGE..(page + 1) * PAGE];
            bytes.windows(key.len()).any(|part| part == key)
        })
        .collect();
    assert!(pages.len() > 3);
    let mut refused = 0;
    // A page of each kind, and not all: a start takes a while.
    for page in pages.iter().step_by(pages.len().div_ceil(12)) {
        let mut damaged = whole.clone();
        // The number of its entries.
        damaged[page * PAGE + 2] ^= 1;
        fs::write(&log, &damaged).unwrap();
        let launched = match Options::default().over(folder.clone()).attempt().await {
            Ok(launched) => launched,
            Err(said) => {
                assert!(said.contains("the page at byte"), "{said}");
                assert!(!said.contains("panicked"), "{said}");
                refused += 1;
                continue;
            }
        };
        let answer = launched.client().call(Call::get(CONFIGMAPS)).await;
        match answer.status.as_u16() {
            200 => {
                let items = answer.json()["items"].as_array().unwrap().len();
                assert_eq!(items as u64, OBJECTS, "page {page} is damaged");
            }
            _ => refused += 1,
        }
    }
    assert!(refused > 0);
}
