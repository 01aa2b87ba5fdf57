//! Each language that bodies are written in has one bound of depth. What reads, writes, compares,
//! copies and drops what is as deep as the bound takes a small stack, and one level more is
//! refused. docs/security.md lists the bounds; expressions have a test of their own.

use api::decode::{self, BodyFormat, MAX_DEPTH, decode_value};
use api::field_set::FieldSet;
use api::go_json::{may_be_too_deep, syntax_error};
use api::structural::pattern::Pattern;
use api::structural::{Budget, Patterns, prune, validate_value};
use serde_json::Value;

/// Runs a check on a stack that holds little.
fn on_a_small_stack(check: fn()) {
    let thread = std::thread::Builder::new().stack_size(512 * 1024);
    let ended = thread.spawn(check).map(std::thread::JoinHandle::join);
    assert!(matches!(ended, Ok(Ok(()))));
}

fn nested(open: &str, inside: &str, close: &str, levels: usize) -> String {
    format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn documents() {
    on_a_small_stack(|| {
        for (open, close, format) in [
            ("[", "]", BodyFormat::Json),
            ("{\"a\":", "}", BodyFormat::Json),
            ("[{\"a\":", "}]", BodyFormat::Json),
            ("[", "]", BodyFormat::Yaml),
            ("{a: ", "}", BodyFormat::Yaml),
            ("- ", "", BodyFormat::Yaml),
            ("? ", "", BodyFormat::Yaml),
        ] {
            let levels = MAX_DEPTH / if open.starts_with("[{") { 2 } else { 1 };
            let text = nested(open, "1", close, levels);
            // A key of YAML is no level of a value.
            if open != "? " {
                let (value, _) = decode_value(text.as_bytes(), format).unwrap();
                assert!(!decode::is_deeper_than(&value, MAX_DEPTH));
                assert_eq!(value.clone(), value);
                assert_eq!(value.to_string().parse::<Value>().unwrap(), value);
            }
            for more in [1, 20_000] {
                let text = nested(open, "1", close, levels + more);
                assert!(decode_value(text.as_bytes(), format).is_err(), "{open}");
            }
        }
    });
}

/// API-63: what is not kept may be deeper, as deep as Go reads anything.
#[test]
fn members_that_are_not_kept() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), ("{\"\\\"[\":", "}")] {
            let fits = nested(open, "1", close, 10_000);
            assert!(!may_be_too_deep(fits.as_bytes()) && syntax_error(fits.as_bytes()).is_none());
            let deep = nested(open, "1", close, 10_001);
            assert!(may_be_too_deep(deep.as_bytes()));
            assert_eq!(syntax_error(deep.as_bytes()).unwrap(), "exceeded max depth");
        }
        // Brackets in texts are no levels.
        assert!(!may_be_too_deep(
            format!("\"{}\"", "[".repeat(20_000)).as_bytes()
        ));
        assert!(!may_be_too_deep("[],".repeat(20_000).as_bytes()));
    });
}

#[test]
fn sets_of_fields() {
    on_a_small_stack(|| {
        let text = |levels| nested("{\"f:a\":", "{}", "}", levels);
        let set = FieldSet::from_fields_v1(&text(MAX_DEPTH)).unwrap();
        assert_eq!(set.to_fields_v1(), text(MAX_DEPTH));
        assert_eq!(set.clone(), set);
        for more in [1, 20_000] {
            assert!(FieldSet::from_fields_v1(&text(MAX_DEPTH + more)).is_err());
        }
    });
}

#[test]
fn patterns() {
    on_a_small_stack(|| {
        for open in ["(", "(?:", "(?P<a>", "(?i:", "(a|", "(a*"] {
            let text = |levels| nested(open, "a", ")", levels);
            // The library counts what is in groups, too, and refuses some of these.
            let pattern = Pattern::new(&text(200)).unwrap();
            drop(pattern.compiled());
            for more in [1, 20_000] {
                let why = Pattern::new(&text(200 + more)).unwrap_err();
                assert!(why.starts_with("expression nests too deeply"), "{why:.40}");
            }
        }
        // What nests without brackets is refused in any case.
        assert!(Pattern::new(&"a?".repeat(20_000)).is_ok());
        assert!(Pattern::new(&"*".repeat(20_000)).is_err());
        assert!(Pattern::new(&"[".repeat(20_000)).is_err());
    });
}

/// Schemas are documents, so they are no deeper; a value beside them neither.
#[test]
fn schemas_and_values() {
    on_a_small_stack(|| {
        let value = |text: &str| text.parse::<Value>().unwrap();
        for (open, close) in [
            ("{\"items\":", "}"),
            ("{\"properties\":{\"a\":", "}}"),
            ("{\"additionalProperties\":", "}"),
            ("{\"allOf\":[", "]}"),
            ("{\"anyOf\":[", "]}"),
            ("{\"oneOf\":[", "]}"),
            ("{\"not\":", "}"),
        ] {
            let levels = MAX_DEPTH / close.len();
            let schema = value(&nested(open, "{\"type\":\"integer\"}", close, levels));
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let mut value = value(&nested(open, "1", close, MAX_DEPTH));
                let budget = Budget::of(&schema);
                validate_value(&value, &schema, &mut Patterns::default(), &budget);
                assert!(!budget.is_spent());
                prune(&mut value, &schema, false);
            }
        }
    });
}
