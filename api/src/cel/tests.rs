use proptest::prelude::*;

use super::*;

/// As [`super::compile`], with the budget of an expression alone.
fn compile(text: &str, environment: &Environment) -> Result<Compiled, String> {
    let budget = Budget::of_expressions(text.len());
    super::compile(text, environment, &budget).map_err(|refused| match refused {
        Refused::Wrong(why) => why,
        Refused::Spent => "the budget is spent".to_owned(),
    })
}

fn environment() -> Environment {
    Environment::default().with("object", Type::Dyn).with_bind()
}

fn why(text: &str) -> String {
    compile(text, &environment()).unwrap_err()
}

/// The errors of cel-go for such expressions (CRD-50). Tests in the crate `kinds` compare many more
/// recorded ones.
#[test]
fn faults_are_shown_with_positions() {
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

/// Returns the first lines of errors, without the excerpts of the text.
fn messages(text: &str) -> Vec<String> {
    let why = why(text);
    let faults = why.lines().filter_map(|line| {
        let rest = line.strip_prefix("ERROR: <input>:1:")?;
        Some(rest.to_owned())
    });
    faults.collect()
}

#[track_caller]
fn accepted(texts: &[&str]) {
    for text in texts {
        let compiled = compile(text, &environment());
        assert!(compiled.is_ok(), "{text}: {compiled:?}");
    }
}

#[track_caller]
fn refused(cases: &[(&str, &[&str])]) {
    for (text, wanted) in cases {
        assert_eq!(messages(text), *wanted, "{text}");
    }
}

#[test]
fn lists_have_their_functions() {
    accepted(&[
        "lists.range(3).size() == 3",
        ".lists.range(3).size() == 3",
        "[1, 2].slice(0, 1) == [1]",
        "[[1]].flatten() == [1]",
        "[dyn(1)].flatten() == [1]",
        "[[[1]]].flatten(2) == [1]",
        "[1, 1].distinct() == [1]",
        "[2, 1].sort() == [1, 2]",
        "[2, 1].sortBy(x, -x) == [2, 1]",
        "object.x.sortBy(x, x.y) == 1",
        "[1, 2].reverse() == [2, 1]",
        "[1, 2].first().value() == 1",
        "[1, 2].last().hasValue()",
        "[object.x].sum() == 'a'",
    ]);
    refused(&[
        (
            "[1].flatten() == [1]",
            &["12: found no matching overload for 'flatten' applied to 'list(int).()'"],
        ),
        (
            "[[1]].sort() == 1",
            &["11: found no matching overload for 'sort' applied to 'list(list(int)).()'"],
        ),
        (
            "'a'.reverse() == 'a'",
            &["12: found no matching overload for 'reverse' applied to 'string.()'"],
        ),
        (
            "['a'].sum() == 'a'",
            &["10: found no matching overload for 'sum' applied to 'list(string).()'"],
        ),
        (
            "[].sum() == 'a'",
            &["10: found no matching overload for '_==_' applied to '(int, string)'"],
        ),
        (
            "[2, 1].sortBy(x, [x]) == 1",
            &[
                "14: found no matching overload for '@sortByAssociatedKeys' applied to \
                 'list(int).(list(list(int)))'",
            ],
        ),
        (
            "{'a': 1}.sortBy(x, x) == 1",
            &[
                "1: sortBy can only be applied to a list, identifier, comprehension, call or \
                 select expression",
            ],
        ),
        (
            "[2, 1].sortBy(1, x) == 1",
            &["15: argument is not an identifier"],
        ),
    ]);
}

#[test]
fn functions_are_those_of_the_reference() {
    refused(&[
        (
            "isIP('1.2.3.4', 4)",
            &["5: found no matching overload for 'isIP' applied to '(string, int)'"],
        ),
        (
            "quantity('1').sign() == 1",
            &["19: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"],
        ),
        (
            "[1].includes(1)",
            &["13: undeclared reference to 'includes' (in container '')"],
        ),
        (
            "jsonpatch.escapeKey('a/b') == ''",
            &[
                "1: undeclared reference to 'jsonpatch' (in container '')",
                "20: undeclared reference to 'escapeKey' (in container '')",
            ],
        ),
        (
            "type(1) == 'a'",
            &["9: found no matching overload for '_==_' applied to '(type(int), string)'"],
        ),
        (
            ".nope(1) == 1",
            &["6: undeclared reference to '.nope' (in container '')"],
        ),
    ]);
    accepted(&[
        ".int('1') == 1",
        "type(1) == string",
        "net.IP == type(ip('1.2.3.4'))",
        "google.protobuf.Int64Value{value: 1} == 1",
        "object.x.all(a, type(a) == google.protobuf.Timestamp)",
        "[optional.none(), optional.of(1)].size() == 2",
        "[object.x.optMap(y, y), optional.of(1)].size() == 2",
    ]);
    let patches = environment().with_objects();
    assert!(compile("jsonpatch.escapeKey('a/b') == ''", &patches).is_ok());
}

/// A variable does not hide dotted names that begin with its name.
#[test]
fn dotted_names_are_found_despite_variables() {
    let of = Type::Opaque("kubernetes.authorization.ResourceCheck");
    let environment = environment().with("authorizer.requestResource", of);
    let text = "object.x.all(a, authorizer.requestResource.check(a).allowed())";
    assert!(compile(text, &environment).is_ok());
}

#[test]
fn items_of_a_literal_have_one_type() {
    refused(&[
        (
            "[1, 2, 'a', 2.0].size() == 2",
            &["8: expected type 'int' but found 'string'"],
        ),
        (
            "[dyn(1), 'a'].size() == 2",
            &["10: expected type 'dyn' but found 'string'"],
        ),
        (
            "[duration('1s'), null].size() == 2",
            &["18: expected type 'duration' but found 'null'"],
        ),
        (
            "[[], [1], ['a']].size() == 2",
            &["11: expected type 'list(int)' but found 'list(string)'"],
        ),
        (
            "{1: 'a', 'b': 2}.size() == 2",
            &[
                "10: expected type 'int' but found 'string'",
                "15: expected type 'string' but found 'int'",
            ],
        ),
        // An erroneous part causes no further errors.
        (
            "(1 && true) == 3",
            &["2: expected type 'bool' but found 'int'"],
        ),
        (
            "[nope(1), true] == 3",
            &[
                "6: undeclared reference to 'nope' (in container '')",
                "17: found no matching overload for '_==_' applied to '(list(bool), int)'",
            ],
        ),
        // Mixed lists and invalid constants are not reported if there are type errors.
        (
            "[1, 'a'] == 1",
            &["10: found no matching overload for '_==_' applied to '(list(dyn), int)'"],
        ),
        (
            "'a'.matches('[') && 1 + 'a' == 2",
            &["23: found no matching overload for '_+_' applied to '(int, string)'"],
        ),
    ]);
    accepted(&[
        "[[], [1]].size() == 2",
        "[{}, {'a': 1}].size() == 2",
        "[?optional.of(1), 1].size() == 2",
    ]);
}

#[test]
fn values_of_format_strings_may_have_any_types() {
    accepted(&[
        "'%s %d'.format(['a', 1]) == ''",
        "'%s'.format([[1, 'a']]) == ''",
        "'%s'.format([{'a': 1, 'b': 'c'}]) == ''",
        "object.x.format([object.a, 1] + []) == ''",
        "[[1, 'a'].join()].join().format([]) == ''",
        "'%d %.2f %%'.format([object.a, 1.0]) == ''",
        "'%s'.format([[quantity('1')] + []]) == ''",
        "('%' + 'z').format([1]) == ''",
    ]);
    refused(&[
        (
            "[1, 'a'].size() == 2 && '%s'.format([[1, 'a']]) == ''",
            &["5: expected type 'int' but found 'string'"],
        ),
        (
            "'a'.format([1]) == ''",
            &["11: too many arguments supplied to string.format (expected 0, got 1)"],
        ),
        ("'%s %s'.format(['a']) == ''", &["15: index 1 out of range"]),
        ("'%'.format([1]) == ''", &["11: unexpected end of string"]),
        (
            "'%z'.format([1]) == ''",
            &["12: could not parse formatting clause: unrecognized formatting clause \"z\""],
        ),
        (
            "'%.s'.format(['a']) == ''",
            &[
                "13: could not parse formatting clause: error while parsing precision: error \
                 while converting precision to integer: strconv.Atoi: parsing \"\": invalid \
                 syntax",
            ],
        ),
        (
            "'%d'.format(['a']) == ''",
            &[
                "14: error during formatting: decimal clause can only be used on integers, was \
                 given string",
            ],
        ),
        (
            "'%s'.format([[1, quantity('1')]]) == ''",
            &[
                "26: error during formatting: string clause can only be used on strings, bools, \
                 bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given \
                 kubernetes.Quantity",
            ],
        ),
        (
            "'%s'.format(['%z'.format([1])]) == ''",
            &["25: could not parse formatting clause: unrecognized formatting clause \"z\""],
        ),
    ]);
}

#[test]
fn literals_have_bounds() {
    refused(&[
        (
            "1 + 9223372036854775808 + 1e400 == 'a' + foo",
            &["5: invalid int literal", "27: invalid double literal"],
        ),
        ("--9223372036854775808 == 1", &["3: invalid int literal"]),
        ("-0x8000000000000001 == 1", &["1: invalid int literal"]),
        ("18446744073709551616u == 1u", &["1: invalid uint literal"]),
        (r"'\ud800' == ''", &["1: invalid unicode code point"]),
        (r"'\U00110000' == ''", &["1: invalid unicode code point"]),
        (r"b'\u0041' == b''", &["1: unable to unescape string"]),
    ]);
    accepted(&[
        "-9223372036854775808 == 1",
        "- 9223372036854775808 == 1",
        "1e308 == 1.0",
        r"'\\ud800' == ''",
        r"r'\ud800' == ''",
        "!!-1 == 1",
    ]);
}

#[test]
fn names_in_backticks_are_refused() {
    refused(&[
        ("object.`a-b` == 1", &["8: unsupported syntax: '`'"]),
        ("object.?`a-b` == 1", &["9: unsupported syntax: '`'"]),
        ("function(1)", &["1: reserved identifier: function"]),
    ]);
}

/// A macro counts as a conditional, and errors of `has` are reported at its position.
#[test]
fn errors_of_macros_have_positions() {
    refused(&[
        (
            "[1].filter(x, 'a') == [1]",
            &[
                "11: found no matching overload for '_?_:_' applied to '(string, list(int), \
                 list(int))'",
            ],
        ),
        (
            "[1].map(x, 'a', 2.0) == [2.0]",
            &[
                "8: found no matching overload for '_?_:_' applied to '(string, list(double), \
                 list(double))'",
            ],
        ),
        (
            "[1].optMap(x, x) == object",
            &[
                "11: found no matching overload for 'hasValue' applied to 'list(int).()'",
                "11: found no matching overload for 'value' applied to 'list(int).()'",
            ],
        ),
        (
            "has(duration('1s').nope)",
            &["4: type 'duration' does not support field selection"],
        ),
    ]);
}

/// Deep and long expressions take bounded stack and time.
#[test]
fn hostile_expressions_are_refused_in_bounded_time() {
    let repeat = |part: &str| part.repeat(16 * 1024 / part.len());
    for part in [
        "(", "[", "{1:", "!", "-", "1+", "a.", "a[", "f(", "a?b:", "a?", "[x,", "x{a:", "'",
    ] {
        assert!(compile(&repeat(part), &environment()).is_err(), "{part}");
    }
    // Each `format` has another one among its values.
    let formats = format!("{}1{}", "'%s'.format([".repeat(60), "])".repeat(60));
    assert!(compile(&formats, &environment()).is_ok());
    let places = format!("'{}'.format([{}])", "%s".repeat(9000), "1,".repeat(9000));
    assert!(compile(&places, &environment()).is_ok());
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
    // Each step doubles the type, up to a depth of 10.
    let doubling = |times| format!("[1]{}.size() > 0", ".map(x, {x: x})".repeat(times));
    assert!(compile(&doubling(6), &environment()).is_ok());
    assert!(compile(&doubling(200), &environment()).is_ok());
}

/// Pieces of expressions, to be joined in any order.
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
