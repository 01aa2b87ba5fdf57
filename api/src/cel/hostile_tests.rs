//! Expressions that cost more than they say: what is deep, what is large, what is wrong often.

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

/// What nests, in front of and behind what is in it.
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

/// What comes back to where it began, after a fault that is mended or not.
const REPEATED: [&str; 45] = [
    "(", "[", "{", "?:", "!", "-", "a.", "a[", "f(", "&&", "||", "in", "a{", "a{b:", "]-", ")!",
    "}-", "?-", ",-", "-]", "*-", ":-", "in-", "&&!", "[]-", "()!", "?[", "!(", "-(", "a?b:", "a?",
    "in ", "1 in ", "a&&", "a||", "]!", "-!", "!-", "\"", "'''", "`", "//", "\\", "a,", ".map(x,",
];

/// One level more than the bound of everything that nests, on a stack that would not hold all of
/// it.
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
                // What cancels each other is no level, and what is a comment is nothing.
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

/// What is as deep as the bound is no deeper.
#[test]
fn expressions_as_deep_as_the_bound_are_read() {
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

/// Types that double, in lists of two of them, cost their steps.
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
    // Nothing is looked at any more.
    let refused = compile("1", &environment(), &budget);
    assert_eq!(refused.unwrap_err(), Refused::Spent);
}

/// What an ordinary expression takes is a part of its budget.
#[test]
fn ordinary_expressions_are_far_from_their_budget() {
    let text = "object.spec.x.all(x, has(x.y) && x.y.z.startsWith('a') ? x.n in [1, 2, 3] : true)";
    let text = vec![text; 100].join(" && ");
    let budget = Budget::of_expressions(text.len());
    compile(&text, &environment(), &budget).unwrap();
    assert!(budget.percent() < 50, "{}", budget.percent());
}

/// The faults that are shown are the first ones, however many there are, and no more of them is
/// written than is shown.
#[test]
fn faults_are_bounded() {
    let told = why(&format!("[{}", "9999999999999999999 , ".repeat(4500)));
    let start = "ERROR: <input>:1:2: invalid int literal\n | [9999";
    assert!(told.starts_with(start) && told.len() < 20_000, "{told}");
    let told = why(&"$\n".repeat(50_000));
    assert_eq!(told.matches("ERROR").count(), 100);
    assert!(told.contains("ERROR: <input>:100:1: "), "{told}");
    let told = why(&format!("f({})", vec!["{1: 'a'}"; 10_000].join(",")));
    assert!(
        told.starts_with("ERROR: <input>:1:2: undeclared reference to 'f'"),
        "{told}"
    );
    let told = why(&format!("size({})", vec!["{1: 'a'}"; 10_000].join(",")));
    assert!(told.contains("map(int, string), map(int") && told.len() < 20_000);
}
