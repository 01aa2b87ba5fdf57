//! The limits on depth of the languages in which bodies are written. Functions that read, write,
//! compare, copy and drop a document at the limit must fit into the stack that is reserved for it,
//! and one level more is refused. docs/security.md lists the limits; expressions have their own
//! test.

mod stack;

use std::task::{Context, Poll, Waker};

use api::cel::Shape;
use api::cel::rules::{Checking, Rules, Scope, compiled};
use api::decode::{self, BodyFormat, decode_value};
use api::deep::{self, MAX_DEPTH, Roomy};
use api::field_set::FieldSet;
use api::go_json::{may_be_too_deep, syntax_error};
use api::structural::pattern::Pattern;
use api::structural::{Budget, StructuralSchema, prune, set_defaults, validate_value};
use serde_json::Value;

use stack::fits;

/// Runs a check on half the stack of the daemon's threads.
fn on_a_small_stack(check: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1024 * 1024);
    let ended = thread.spawn(check).map(std::thread::JoinHandle::join);
    assert!(matches!(ended, Ok(Ok(()))));
}

fn nested(open: &str, inside: &str, close: &str, levels: usize) -> String {
    format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
}

/// For each language, the start and end of a construct that nests, its number of levels, and the
/// format.
const CONSTRUCTS: [(&str, &str, usize, BodyFormat); 8] = [
    ("[", "]", 1, BodyFormat::Json),
    ("{\"a\":", "}", 1, BodyFormat::Json),
    ("[{\"a\":", "}]", 2, BodyFormat::Json),
    ("[", "]", 1, BodyFormat::Yaml),
    ("{a: ", "}", 1, BodyFormat::Yaml),
    ("- ", "", 1, BodyFormat::Yaml),
    ("{? a : ", "}", 1, BodyFormat::Yaml),
    ("!!seq [", "]", 1, BodyFormat::Yaml),
];

/// Functions that read, copy, compare and drop a tree fit into the stack that is reserved for its
/// levels.
#[test]
fn documents() {
    for (open, close, of, format) in CONSTRUCTS {
        let text = nested(open, "1", close, MAX_DEPTH / of);
        let read = move || decode_value(text.as_bytes(), format).map(|(value, _)| value);
        let name = move |step| format!("{step} {open:?} {format:?}");
        let most = match format {
            BodyFormat::Json => deep::LEVEL_BYTES,
            BodyFormat::Yaml => deep::YAML_LEVEL_BYTES,
        };
        let again = read.clone();
        fits(name("read"), most, move || {
            std::mem::forget(again().unwrap())
        });
        for (what, step) in STEPS {
            // A test's thread has too small a stack for the tree.
            let value = deep::with_room(|| read().unwrap());
            fits(name(what), deep::LEVEL_BYTES, move || {
                step(&value);
                std::mem::forget(value);
            });
        }
        let value = deep::with_room(|| read().unwrap());
        fits(name("drop"), deep::LEVEL_BYTES, move || drop(value));
    }
}

type Step = fn(&Value);

/// The functions on trees.
const STEPS: [(&str, Step); 6] = [
    ("clone", |value| std::mem::forget(Value::clone(value))),
    ("compare", |value| {
        let copy = value.clone();
        assert!(copy == *value);
        std::mem::forget(copy);
    }),
    ("print", |value| drop(value.to_string())),
    ("print as Go does", |value| {
        api::go_json::write_value(&mut Vec::new(), value)
    }),
    ("count levels", |value| {
        assert!(!decode::is_deeper_than(value, MAX_DEPTH))
    }),
    ("count bytes", |value| {
        assert!(decode::tree_bytes(value) > 0)
    }),
];

/// One level too many is refused, and so is a document for which the stack is too small.
#[test]
fn deeper_documents_are_refused() {
    on_a_small_stack(|| {
        for (open, close, of, format) in CONSTRUCTS {
            let read = |levels| {
                let text = nested(open, "1", close, levels / of);
                decode_value(text.as_bytes(), format).map(drop)
            };
            for levels in [MAX_DEPTH + of, 30_000] {
                let refused = deep::retry_with_room(|| read(levels)).unwrap_err();
                assert!(refused.contains("exceeded max depth"), "{open}: {refused}");
            }
            assert!(!deep::has_room());
            assert_eq!(read(deep::SHALLOW / of * of), Ok(()), "{open}");
            assert!(read(deep::SHALLOW + of).is_err(), "{open}");
            assert_eq!(deep::retry_with_room(|| read(MAX_DEPTH)), Ok(()), "{open}");
        }
    });
}

/// Work that asks for the larger stack runs on it from then on, also while it is dropped. Other
/// work does not.
#[test]
fn work_has_room_when_it_asks() {
    on_a_small_stack(|| {
        let text = nested("[", "1", "]", MAX_DEPTH);
        let read = || decode_value(text.as_bytes(), BodyFormat::Json);
        let waits = std::future::pending::<()>;
        let mut context = Context::from_waker(Waker::noop());
        let mut work = Box::pin(Roomy::new(async {
            let tree = deep::retry(read).await.unwrap();
            waits().await;
            drop(tree);
        }));
        assert!(work.as_mut().poll(&mut context).is_pending());
        assert!(!deep::has_room());
        drop(work);
        // Outside of such work the stack stays small.
        let mut work = Box::pin(deep::retry(read));
        let polled = work.as_mut().poll(&mut context);
        assert!(matches!(polled, Poll::Ready(Err(_))));
    });
}

/// API-63: members that are not kept may be as deep as Go allows.
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
        // Brackets in strings do not count.
        assert!(!may_be_too_deep(
            format!("\"{}\"", "[".repeat(20_000)).as_bytes()
        ));
        assert!(!may_be_too_deep("[],".repeat(20_000).as_bytes()));
    });
}

#[test]
fn sets_of_fields() {
    let text = |levels| nested("{\"f:a\":", "{}", "}", levels);
    let most = text(MAX_DEPTH - 1);
    fits("FieldsV1".to_owned(), deep::LEVEL_BYTES, move || {
        let set = FieldSet::from_fields_v1(&most).unwrap();
        assert_eq!(set.to_fields_v1(), most);
        let copy = set.clone();
        assert_eq!(copy, set);
        assert_eq!(copy.union(&set), set);
        assert!(copy.difference(&set).is_empty());
    });
    on_a_small_stack(move || {
        for levels in [deep::SHALLOW + 1, MAX_DEPTH + 1, 30_000] {
            assert!(FieldSet::from_fields_v1(&text(levels)).is_err());
        }
    });
}

#[test]
fn patterns() {
    on_a_small_stack(|| {
        for open in ["(", "(?:", "(?P<a>", "(?i:", "(a|", "(a*"] {
            let text = |levels| nested(open, "a", ")", levels);
            // The `regex` crate also counts levels inside of groups, and refuses some of these.
            let pattern = Pattern::new(&text(200)).unwrap();
            drop(pattern.compiled());
            for more in [1, 20_000] {
                let why = Pattern::new(&text(200 + more)).unwrap_err();
                assert!(why.starts_with("expression nests too deeply"), "{why:.40}");
            }
        }
        // Repetitions and brackets that are never closed don't recurse.
        assert!(Pattern::new(&"a?".repeat(20_000)).is_ok());
        assert!(Pattern::new(&"*".repeat(20_000)).is_err());
        assert!(Pattern::new(&"[".repeat(20_000)).is_err());
    });
}

/// Schemas and the values that they validate are documents, so the same limit applies.
/// Rules over deep schemas: their shapes and types, and deep defaults.
#[test]
fn rules() {
    for (open, close) in [
        (r#"{"type":"array","items":"#, "}"),
        (r#"{"type":"object","properties":{"a":"#, "}}"),
        (r#"{"type":"object","additionalProperties":"#, "}"),
    ] {
        fits(open.to_owned(), deep::LEVEL_BYTES, move || {
            // The integer and the rule at the root are deeper by a few levels.
            let levels = MAX_DEPTH / close.len() - 4;
            let text = nested(open, r#"{"type":"integer"}"#, close, levels);
            let (mut schema, _) = decode_value(text.as_bytes(), BodyFormat::Json).unwrap();
            schema["x-kubernetes-validations"] = serde_json::json!([{"rule": "self == oldSelf"}]);
            let budget = Budget::of(&schema);
            let shape = Shape::of(&schema, false, &budget);
            let scope = Scope::of(&shape, &budget).unwrap();
            let rule = &schema["x-kubernetes-validations"][0];
            let found = compiled(rule, &scope, &shape, &budget);
            assert_eq!(found.fault, None);
            let rules = Rules::of(&schema, false, &budget).unwrap();
            assert!(!budget.is_spent());
            let object = match open.contains("array") {
                true => serde_json::json!([]),
                false => serde_json::json!({}),
            };
            let found = rules.check(&object, Checking::update(&object));
            assert!(found.errors.is_empty());
        });
    }
}

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
            let levels = deep::SHALLOW / close.len() - 1;
            let schema = value(&nested(open, "{\"type\":\"integer\"}", close, levels));
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let mut value = value(&nested(open, "1", close, deep::SHALLOW));
                let budget = Budget::of(&schema);
                let compiled = StructuralSchema::compile(&schema);
                validate_value(&value, Some((&value).into()), compiled.root(), &budget);
                assert!(!budget.is_spent());
                if let Value::Object(members) = &mut value {
                    set_defaults(members, compiled.root());
                }
                prune(&mut value, compiled.root(), false);
            }
        }
    });
}
