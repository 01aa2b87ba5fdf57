use proptest::prelude::*;

use super::*;

fn environment() -> Environment {
    Environment::default().with("object", Type::Dyn).with_bind()
}

fn why(text: &str) -> String {
    compile(text, &environment()).unwrap_err()
}

/// What the reference implementation says of such expressions (CRD-50). Recorded answers to many
/// more are compared in the crate `kinds`.
#[test]
fn faults_are_told_with_their_places() {
    assert_eq!(
        why("object.a &&\n foo == 1"),
        "ERROR: <input>:2:2: undeclared reference to 'foo' (in container '')\n |  foo == 1\n | .^"
    );
    assert_eq!(
        why("1 + 'a'"),
        "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n \
         | 1 + 'a'\n | ..^"
    );
    assert_eq!(
        why("(1"),
        "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'\n | (1\n | ..^"
    );
}

#[test]
fn the_names_that_an_expression_asks_for_are_known() {
    let compiled = compile("object.x.exists(y, y == object.z)", &environment()).unwrap();
    assert_eq!(compiled.result, Type::Bool);
    assert_eq!(compiled.names, ["object"]);
}

/// Deep and long expressions take no stack and no time that grows without a bound.
#[test]
fn hostile_expressions_are_refused_in_bounded_time() {
    let repeat = |part: &str| part.repeat(16 * 1024 / part.len());
    for part in [
        "(", "[", "{1:", "!", "-", "1+", "a.", "a[", "f(", "a?b:", "a?", "[x,", "x{a:", "'",
    ] {
        assert!(compile(&repeat(part), &environment()).is_err(), "{part}");
    }
    let nested = format!("{}1{}", "(".repeat(40_000), ")".repeat(40_000));
    assert_eq!(
        why(&nested),
        "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    );
    let chain = format!("1{}", " + 1".repeat(20_000));
    assert_eq!(
        why(&chain),
        "ERROR: <input>:-1:0: max recursion depth exceeded"
    );
    assert!(compile(&format!("object{}", ".a".repeat(40_000)), &environment()).is_err());
    assert!(compile(&"a".repeat(200_000), &environment()).is_err());
    let terms = format!("true{}", " && true".repeat(10_000));
    assert!(compile(&terms, &environment()).is_ok());
    // Each step doubles the type.
    let doubling = format!("[1]{}.size() > 0", ".map(x, {x: x})".repeat(200));
    assert!(compile(&doubling, &environment()).is_ok());
}

/// Pieces of expressions in any order.
const PIECES: [&str; 40] = [
    "object",
    "x",
    "1",
    "1.5",
    "1u",
    "'a'",
    "\"",
    "'''",
    "b'x'",
    "r'\\'",
    "true",
    "null",
    "in",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "+",
    "-",
    "!",
    "==",
    "<",
    "&&",
    "||",
    "=",
    " ",
    "\n",
    "é",
    ".all(x, ",
    ".map(x, x, ",
    "has(",
    "size(",
    "optional.of(",
    "cel.bind(y, 1, ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_a_panic(pieces in prop::collection::vec(0..PIECES.len(), 0..24)) {
        let text: String = pieces.iter().map(|at| PIECES[*at]).collect();
        if let Err(why) = compile(&text, &environment()) {
            prop_assert!(why.starts_with("ERROR: <input>:"), "{text:?}: {why}");
        }
    }

    #[test]
    fn any_characters_are_read_without_a_panic(text in ".{0,40}") {
        let _ = compile(&text, &environment());
    }
}
