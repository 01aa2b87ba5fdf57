//! Events that can't be decoded: they end the watches that they may concern, and no others.

use super::*;
use crate::engine::Prefix;
use crate::testing::{interest, key, receive_all};

fn namespace(name: &str) -> Scope {
    Scope::Namespace(Prefix::new(format!("/registry/things/{name}/")))
}

/// All frames of a watch, and whether it has ended.
async fn received(watcher: &mut Watcher) -> (Vec<String>, bool) {
    let received = receive_all(watcher).await;
    (received.lines, received.has_ended)
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_is_delivered_after_an_event_that_cannot_be_read_wa_33_ts_70() {
    run(async {
        let fake = FakeCacher::new(RING_BYTES);
        fake.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut all = dispatcher.watch_all(&fake, 0);
        let mut red = dispatcher.watch_where(&fake, 1, selecting(Scope::All, "red"));
        let mut quiet = dispatcher.watch_where(&fake, 1, interest(namespace("ns")));
        let mut elsewhere = dispatcher.watch_where(&fake, 1, interest(namespace("other")));
        let object = Scope::Object(key("ns/a"));
        let mut object = dispatcher.watch_where(&fake, 1, interest(object));
        assert_eq!(received(&mut quiet).await, (lines(&[]), false));
        assert_eq!(received(&mut elsewhere).await, (lines(&[]), false));
        assert_eq!(received(&mut object).await, (lines(&[]), false));

        fake.engine.put(&key("ns/b"), "red 2");
        fake.engine.put(&key("ns/c"), "undecodable");
        fake.engine.put(&key("other/d"), "red 4");
        fake.engine.put(&key("ns/a"), "red 5");
        fake.publish();
        dispatcher.take_hints();
        let error = "ERROR the value of /registry/things/ns/c at revision 3 can't be decoded: \
                     undecodable";
        let (one, two) = ("ADDED ns/a@1 red 1", "ADDED ns/b@2 red 2");
        assert_eq!(received(&mut all).await, (lines(&[one, two, error]), true));
        assert_eq!(received(&mut red).await, (lines(&[two, error]), true));
        assert_eq!(received(&mut quiet).await, (lines(&[two, error]), true));
        let four = "ADDED other/d@4 red 4";
        assert_eq!(received(&mut elsewhere).await, (lines(&[four]), false));
        let five = "MODIFIED ns/a@5 red 5";
        assert_eq!(received(&mut object).await, (lines(&[five]), false));

        // Watches that were not concerned continue from the ring.
        fake.put("other/d", "red 6");
        dispatcher.take_hints();
        let six = "MODIFIED other/d@6 red 6";
        assert_eq!(received(&mut elsewhere).await, (lines(&[six]), false));
        let reads = fake.engine.history_reads();
        let mut later = dispatcher.watch_all(&fake, 4);
        assert_eq!(received(&mut later).await, (lines(&[five, six]), false));
        assert_eq!(fake.engine.history_reads(), reads);
    });
}

#[test]
fn what_takes_the_place_of_a_value_that_cannot_be_read_is_no_guess_wa_32_pf_29() {
    run(async {
        let fake = FakeCacher::unfilled(RING_BYTES);
        fake.engine.put(&key("ns/a"), "undecodable");
        fake.engine.put(&key("ns/b"), "undecodable");
        fake.fill();
        let dispatcher = dispatcher();
        let mut all = dispatcher.watch_all(&fake, 2);
        let mut red = dispatcher.watch_where(&fake, 2, selecting(Scope::All, "red"));
        fake.put("ns/a", "red 3");
        dispatcher.take_hints();
        let three = "MODIFIED ns/a@3 red 3";
        assert_eq!(received(&mut all).await, (lines(&[three]), false));
        let (said, has_ended) = received(&mut red).await;
        assert!(has_ended && said[0].starts_with("ERROR "), "{said:?}");

        fake.delete("ns/b");
        dispatcher.take_hints();
        let (said, has_ended) = received(&mut all).await;
        assert!(
            has_ended && said[0].contains("ns/b at revision 2"),
            "{said:?}"
        );
        // The state can be decoded again, and so can later events.
        let mut again = dispatcher.watch_all(&fake, 4);
        fake.put("ns/b", "red 5");
        dispatcher.take_hints();
        let five = "ADDED ns/b@5 red 5";
        assert_eq!(received(&mut again).await, (lines(&[five]), false));
    });
}
