//! Events that can't be read: an end for those they may be for, and nothing to all others.

use super::*;
use crate::engine::Prefix;
use crate::testing::{hear_all, interest, key};

fn namespace(name: &str) -> Scope {
    Scope::Namespace(Prefix::new(format!("/registry/things/{name}/")))
}

/// All there is to be heard, and whether that is the end.
async fn heard(watcher: &mut Watcher) -> (Vec<String>, bool) {
    let heard = hear_all(watcher).await;
    (heard.lines, heard.has_ended)
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_is_delivered_after_an_event_that_cannot_be_read_wa_33_ts_70() {
    run(async {
        let stage = Stage::new(RING_BYTES);
        stage.put("ns/a", "red 1");
        let dispatcher = dispatcher();
        let mut all = dispatcher.watch_all(&stage, 0);
        let mut red = dispatcher.watch_where(&stage, 1, selecting(Scope::All, "red"));
        let mut quiet = dispatcher.watch_where(&stage, 1, interest(namespace("ns")));
        let mut elsewhere = dispatcher.watch_where(&stage, 1, interest(namespace("other")));
        let object = Scope::Object(key("ns/a"));
        let mut object = dispatcher.watch_where(&stage, 1, interest(object));
        assert_eq!(heard(&mut quiet).await, (lines(&[]), false));
        assert_eq!(heard(&mut elsewhere).await, (lines(&[]), false));
        assert_eq!(heard(&mut object).await, (lines(&[]), false));

        stage.engine.put(&key("ns/b"), "red 2");
        stage.engine.put(&key("ns/c"), "undecodable");
        stage.engine.put(&key("other/d"), "red 4");
        stage.engine.put(&key("ns/a"), "red 5");
        stage.publish();
        dispatcher.take_hints();
        let error = "ERROR the value of /registry/things/ns/c at revision 3 can't be decoded: \
                     undecodable";
        let (one, two) = ("ADDED ns/a@1 red 1", "ADDED ns/b@2 red 2");
        assert_eq!(heard(&mut all).await, (lines(&[one, two, error]), true));
        assert_eq!(heard(&mut red).await, (lines(&[two, error]), true));
        assert_eq!(heard(&mut quiet).await, (lines(&[two, error]), true));
        let four = "ADDED other/d@4 red 4";
        assert_eq!(heard(&mut elsewhere).await, (lines(&[four]), false));
        let five = "MODIFIED ns/a@5 red 5";
        assert_eq!(heard(&mut object).await, (lines(&[five]), false));

        // Those who were not concerned go on, in the ring again.
        stage.put("other/d", "red 6");
        dispatcher.take_hints();
        let six = "MODIFIED other/d@6 red 6";
        assert_eq!(heard(&mut elsewhere).await, (lines(&[six]), false));
        let reads = stage.engine.history_reads();
        let mut later = dispatcher.watch_all(&stage, 4);
        assert_eq!(heard(&mut later).await, (lines(&[five, six]), false));
        assert_eq!(stage.engine.history_reads(), reads);
    });
}

#[test]
fn what_takes_the_place_of_a_value_that_cannot_be_read_is_no_guess_wa_32_pf_29() {
    run(async {
        let stage = Stage::unfilled(RING_BYTES);
        stage.engine.put(&key("ns/a"), "undecodable");
        stage.engine.put(&key("ns/b"), "undecodable");
        stage.fill();
        let dispatcher = dispatcher();
        let mut all = dispatcher.watch_all(&stage, 2);
        let mut red = dispatcher.watch_where(&stage, 2, selecting(Scope::All, "red"));
        stage.put("ns/a", "red 3");
        dispatcher.take_hints();
        let three = "MODIFIED ns/a@3 red 3";
        assert_eq!(heard(&mut all).await, (lines(&[three]), false));
        let (said, has_ended) = heard(&mut red).await;
        assert!(has_ended && said[0].starts_with("ERROR "), "{said:?}");

        stage.delete("ns/b");
        dispatcher.take_hints();
        let (said, has_ended) = heard(&mut all).await;
        assert!(
            has_ended && said[0].contains("ns/b at revision 2"),
            "{said:?}"
        );
        // The state is whole again, and so is what follows.
        let mut again = dispatcher.watch_all(&stage, 4);
        stage.put("ns/b", "red 5");
        dispatcher.take_hints();
        let five = "ADDED ns/b@5 red 5";
        assert_eq!(heard(&mut again).await, (lines(&[five]), false));
    });
}
