//! Expressions that cost more than their length suggests: deep ones, large ones, and ones with many
//! errors.

use super::*;

fn environment() -> Environment {
    let environment = Environment::default().with("object", Type::Dyn);
    environment.with_bind().with_objects()
}

fn read(text: &str) -> Result<Compiled, Refused> {
    compile(text, &environment(), &Budget::of_expressions(text.len()))
}

fn why(text: &str) -> String {
    match read(text).unwrap_err() {
        Refused::Wrong(why) => why,
        Refused::Spent => panic!("the budget is spent: {text:.20}"),
    }
}

/// Constructs that nest, before and after the inner expression.
const AROUND: [(&str, &str); 31] = [
    ("(", ")"),
    ("[", "]"),
    ("{1: ", "}"),
    ("{", ": 1}"),
    ("true ? 1 : ", ""),
    ("[true ? ", " : 1]"),
    ("[1][", "]"),
    ("size(", ")"),
    ("[1].map(x, ", ")"),
    ("[1].map(x, true, ", ")"),
    ("cel.bind(y, 1, ", ")"),
    ("cel.bind(y, ", ", 1)"),
    ("'%s'.format([", "])"),
    ("has(object[", "].x)"),
    ("Object{a: ", "}"),
    ("google.protobuf.Int64Value{value: ", "}"),
    ("[?", "]"),
    ("{?1: ", "}"),
    ("object[?", "]"),
    ("!(", ")"),
    ("-(", ")"),
    ("", "+ 1"),
    ("", ".a"),
    ("", ".?a"),
    ("", "[1]"),
    ("", ".a()"),
    ("", ".map(x, x)"),
    ("(true && ", ")"),
    ("(true || ", ")"),
    ("(1 in ", ")"),
    ("1 in [", "]"),
];

/// Pieces to repeat, which return the parser to the same state, with or without error recovery.
const REPEATED: [&str; 45] = [
    "(", "[", "{", "?:", "!", "-", "a.", "a[", "f(", "&&", "||", "in", "a{", "a{b:", "]-", ")!",
    "}-", "?-", ",-", "-]", "*-", ":-", "in-", "&&!", "[]-", "()!", "?[", "!(", "-(", "a?b:", "a?",
    "in ", "1 in ", "a&&", "a||", "]!", "-!", "!-", "\"", "'''", "`", "//", "\\", "a,", ".map(x,",
];

/// Expressions one level deeper than the limit, for each construct, on a stack that is too small
/// for all of it.
#[test]
fn expressions_deeper_than_the_bound_are_refused_on_a_small_stack() {
    let levels = |part: &str| part.repeat(251);
    let around = AROUND.map(|(open, close)| format!("{}1{}", levels(open), levels(close)));
    let chain = format!("object{}", levels(".a"));
    let mut deep: Vec<String> = around.into_iter().chain([chain]).collect();
    for part in REPEATED {
        deep.push(part.repeat(100_000 / part.len()));
        deep.push(format!("{}1", part.repeat(99_999 / part.len())));
    }
    let check = move || {
        for text in deep {
            match read(&text) {
                // Double negations add no level, and comments add nothing.
                Ok(_) => assert!(
                    text.starts_with("!!") || text.starts_with("--"),
                    "{text:.20}"
                ),
                Err(Refused::Spent) => panic!("{text:.20}"),
                Err(Refused::Wrong(why)) => assert!(why.starts_with("ERROR: <input>:"), "{why}"),
            }
        }
    };
    let stack = std::thread::Builder::new().stack_size(512 * 1024);
    stack.spawn(check).unwrap().join().unwrap();
}

/// Expressions exactly as deep as the limit.
#[test]
fn expressions_as_deep_as_the_limit_are_parsed() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("size([", "])"),
        ("[1].map(x, ", ")"),
    ] {
        let levels = |part: &str| part.repeat(if open.contains("size") { 120 } else { 248 });
        let text = format!("{}1{}", levels(open), levels(close));
        assert!(read(&text).is_ok(), "{open}: {:?}", read(&text));
    }
    for part in ["]-", ")!", "&&!"] {
        let why = why(&format!("{}1", part.repeat(1000)));
        let deep = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(why, deep, "{part}");
    }
}

/// Types that double, in lists of two of them, take steps for their size.
#[test]
fn an_expression_that_costs_more_than_its_budget_is_refused() {
    let names: Vec<char> = ('a'..='j').collect();
    let doubled = names.windows(2).map(|pair| match pair {
        [from, to] => format!("[{{{from}: {from}}}].map({to}, "),
        _ => String::new(),
    });
    let doubled: String = doubled.collect();
    let items = "j, i, ".repeat(5000);
    let text = format!("[1].map(a, {doubled}[{items}]{})", ")".repeat(9));
    let budget = Budget::of_expressions(text.len());
    let refused = compile(&text, &environment(), &budget);
    assert_eq!(refused.unwrap_err(), Refused::Spent);
    // Nothing is checked any more.
    let refused = compile("1", &environment(), &budget);
    assert_eq!(refused.unwrap_err(), Refused::Spent);
}

/// An ordinary expression takes only a part of its budget.
#[test]
fn ordinary_expressions_are_far_from_their_budget() {
    let text = "object.spec.x.all(x, has(x.y) && x.y.z.startsWith('a') ? x.n in [1, 2, 3] : true)";
    let text = vec![text; 100].join(" && ");
    let budget = Budget::of_expressions(text.len());
    compile(&text, &environment(), &budget).unwrap();
    assert!(budget.percent() < 50, "{}", budget.percent());
}

/// Only the first errors are shown, however many there are, and only those are formatted.
#[test]
fn faults_are_bounded() {
    let shown = why(&format!("[{}", "9999999999999999999 , ".repeat(4500)));
    let start = "ERROR: <input>:1:2: invalid int literal\n | [9999";
    assert!(shown.starts_with(start) && shown.len() < 20_000, "{shown}");
    let shown = why(&"$\n".repeat(50_000));
    assert_eq!(shown.matches("ERROR").count(), 100);
    assert!(shown.contains("ERROR: <input>:100:1: "), "{shown}");
    let shown = why(&format!("f({})", vec!["{1: 'a'}"; 10_000].join(",")));
    assert!(
        shown.starts_with("ERROR: <input>:1:2: undeclared reference to 'f'"),
        "{shown}"
    );
    let shown = why(&format!("size({})", vec!["{1: 'a'}"; 10_000].join(",")));
    assert!(shown.contains("map(int, string), map(int") && shown.len() < 20_000);
}
