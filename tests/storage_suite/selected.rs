//! Lists by fields, some of them indexed, compared with lists of everything.

use std::rc::Rc;

use actors::engine::Revision;
use taffrail::storage::{Asked, ObjectList};

use crate::harness::*;

const NODES: [&str; 3] = ["n1", "n10", "n2"];

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Creates, binds, moves or deletes a pod.
async fn change(h: &Harness, dice: &mut Dice) {
    let (namespace, name) = (dice.one(&["a", "a-b", "b"]), format!("p{}", dice.below(7)));
    let key = format!("/pods/{namespace}/{name}");
    let is_there = h.get(&key, Asked::Unset).await.unwrap().is_some();
    let node = dice.one(&NODES);
    match (is_there, dice.below(4)) {
        (false, 0) => drop(h.create(&pod(namespace, &name)).await),
        (false, _) => drop(h.create(&with_node(pod(namespace, &name), node)).await),
        (true, 0) => drop(h.delete(&key).await.unwrap()),
        (true, _) => drop(h.set_node(&key, node).await),
    }
}

fn shown(list: &ObjectList) -> Vec<(String, Revision)> {
    let items = list.items.iter();
    items
        .map(|item| {
            (
                String::from_utf8_lossy(item.key()).into_owned(),
                item.revision,
            )
        })
        .collect()
}

/// Reads a list in pages, while others write, and compares it with the list of everything at its
/// version.
async fn check(h: &Harness, dice: &mut Dice, revisions: &[Revision], seed: u64) {
    let key = dice.one(&["/pods", "/pods/a", "/pods/b"]);
    let node = dice.one(&["n1", "n10", "n2", "n3", ""]);
    let fields = dice.one(&["", ",metadata.namespace=a", ",metadata.name!=p3"]);
    let fields = format!("spec.nodeName={node}{fields}");
    let limit = dice.below(5);
    let begin = match dice.below(2) {
        0 => List::below(key),
        _ => List::below(key).exact(revisions[dice.below(revisions.len())]),
    };
    let first = h.list(begin.limit(limit).select("", &fields)).await;
    let mut page = first.unwrap();
    let at = page.revision;
    let mut found = shown(&page);
    while let Some(token) = page.continue_token {
        assert!(page.items.len() == limit, "seed {seed}: {fields}");
        assert_eq!(page.remaining_item_count, None, "seed {seed}: {fields}");
        change(h, dice).await;
        let next = List::below(key).limit(limit).token(token);
        page = h.list(next.select("", &fields)).await.unwrap();
        assert_eq!(page.revision, at, "seed {seed}: {fields}");
        found.extend(shown(&page));
    }
    let mut all = h.list(List::below(key).exact(at)).await.unwrap();
    let selection = selection("", &fields);
    all.items.retain(|item| selection.matches(item));
    assert_eq!(found, shown(&all), "seed {seed}: {fields} at {at}");
}

/// A failure says the seed, which `TAFFRAIL_SEED` runs again.
pub async fn li_39_a_list_by_a_field_is_the_selected_part_of_everything(h: Rc<Harness>) {
    let seed = std::env::var("TAFFRAIL_SEED").ok();
    let seed = seed.map_or_else(rand_seed, |seed| seed.parse().expect("a number"));
    let mut dice = Dice(seed);
    let mut revisions = vec![h.create(&pod("a", "first")).await.revision];
    for _ in 0..40 {
        change(&h, &mut dice).await;
        let newest = h.list(List::below("/pods")).await.unwrap();
        revisions.push(newest.revision);
        check(&h, &mut dice, &revisions, seed).await;
    }
}

fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::from(since.subsec_nanos()) | 1
}
