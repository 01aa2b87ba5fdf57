//! Generated expressions: no evaluation panics, costs are bounded, and the result is the same with
//! and without short cuts.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::super::values::value::Outcome;
use super::super::{Environment, Failure, Shape, Value, Work, check};
use super::tests::{LIMIT, shown};
use crate::structural::Budget;

/// A generator of numbers, whose seed a failing test prints.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Returns an expression of a type.
fn expression(random: &mut Random, of: char, depth: usize) -> String {
    let leaf = depth == 0 || random.below(6) == 0;
    let text = |random: &mut Random, forms: &[&str]| {
        let form = random.one_of(forms);
        let mut out = String::new();
        for letter in form.chars() {
            match letter {
                'B' | 'I' | 'S' | 'L' | 'D' | 'U' | 'O' | 'M' => {
                    out.push_str(&expression(random, letter, depth.saturating_sub(1)));
                }
                other => out.push(other),
            }
        }
        out
    };
    match (of, leaf) {
        ('B', true) => random
            .one_of(&["true", "false", "self.b", "has(self.n)"])
            .to_owned(),
        ('B', false) => text(
            random,
            &[
                "(B && B)",
                "(B || B)",
                "!B",
                "(I < I)",
                "(I == I)",
                "(S == S)",
                "(S != S)",
                "(D >= D)",
                "S.contains(S)",
                "S.startsWith(S)",
                "S.matches('[a-c]+')",
                "(I in L)",
                "(I in [1, 2, 3])",
                "L.all(x, x > I)",
                "L.exists(x, B)",
                "L.exists_one(x, x == I)",
                "L.isSorted()",
                "(L == L)",
                "(B ? B : B)",
                "(dyn(I) == dyn(S))",
                "O.hasValue()",
                "('a' in M)",
                "M.all(k, v, v > I)",
                "has(self.absent)",
                "(self.ios == I)",
                "isQuantity(S)",
                "(U > I)",
                "(M == M)",
                "sets.contains(L, L)",
            ],
        ),
        ('I', true) => random
            .one_of(&[
                "0",
                "1",
                "-2",
                "3",
                "9223372036854775807",
                "self.i",
                "self.absent",
            ])
            .to_owned(),
        ('I', false) => text(
            random,
            &[
                "(I + I)",
                "(I - I)",
                "(I * I)",
                "(I / I)",
                "(I % I)",
                "-(I)",
                "size(S)",
                "L.size()",
                "L[I]",
                "int(D)",
                "int(S)",
                "(B ? I : I)",
                "L.sum()",
                "L.max()",
                "O.orValue(I)",
                "S.indexOf(S)",
                "self.m[S]",
                "M.size()",
                "self.l[I]",
                "int(U)",
                "L.map(x, x * I).sum()",
                "self.when.getHours()",
            ],
        ),
        ('S', true) => random
            .one_of(&["''", "'a'", "'abc'", "self.s", "'12'"])
            .to_owned(),
        ('S', false) => text(
            random,
            &[
                "(S + S)",
                "string(I)",
                "string(B)",
                "S.replace(S, S)",
                "S.substring(I)",
                "S.upperAscii()",
                "S.split(S).join('-')",
                "(B ? S : S)",
                "S.charAt(I)",
                "S.trim()",
                "'%s %d'.format([S, I])",
                "S.find('b')",
                "string(D)",
                "M.map(k, k).join(S)",
                "O.optMap(v, string(v)).orValue(S)",
                "strings.quote(S)",
            ],
        ),
        ('D', true) => random
            .one_of(&["0.5", "-1.0", "self.d", "1e300"])
            .to_owned(),
        ('D', false) => text(
            random,
            &["(D + D)", "(D * D)", "(D / D)", "double(I)", "-(D)"],
        ),
        ('U', true) => random
            .one_of(&["0u", "7u", "18446744073709551615u"])
            .to_owned(),
        ('U', false) => text(
            random,
            &["(U + U)", "(U - U)", "uint(I)", "(U / U)", "(U * U)"],
        ),
        ('L', true) => random
            .one_of(&["[]", "[1]", "[3, 1, 2]", "self.l"])
            .to_owned(),
        ('L', false) => text(
            random,
            &[
                "[I, I]",
                "(L + L)",
                "L.map(x, x + I)",
                "L.filter(x, x > I)",
                "L.map(x, B, I)",
                "(B ? L : L)",
                "L.sort()",
                "L.reverse()",
                "L.slice(0, I)",
                "[?O, I]",
                "L.transformList(i, v, i + v)",
                "L.distinct()",
                "L.sortBy(x, -x)",
                "lists.range(L.size())",
            ],
        ),
        ('O', true) => random
            .one_of(&["optional.of(1)", "self.?i", "self.?absent"])
            .to_owned(),
        ('O', false) => text(
            random,
            &[
                "optional.of(I)",
                "L[?I]",
                "O.or(O)",
                "M[?S]",
                "(B ? O : O)",
                "L.first()",
            ],
        ),
        (_, true) => random
            .one_of(&["{'a': 1}", "{'a': 1, 'b': 2}", "self.m"])
            .to_owned(),
        (_, false) => text(
            random,
            &[
                "{S: I}",
                "{'a': I, S: I}",
                "M.transformMap(k, v, v + I)",
                "(B ? M : M)",
            ],
        ),
    }
}

/// Returns an outcome in words, or nothing if the evaluation was stopped.
fn outcome(found: &Outcome<Value<'_>>) -> Option<String> {
    match found {
        Ok(value) => Some(shown(value)),
        Err(Failure::Error(what)) => Some(format!("!{what}")),
        Err(_) => None,
    }
}

#[test]
fn results_are_the_same_with_and_without_short_cuts() {
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let chosen = std::env::var("TAFFRAIL_CEL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = chosen.unwrap_or(u64::try_from(clock % u128::from(u64::MAX)).unwrap() | 1);
    println!("TAFFRAIL_CEL_SEED={seed}");
    let schema = json!({"type": "object", "properties": {
        "b": {"type": "boolean"}, "i": {"type": "integer"}, "s": {"type": "string"},
        "d": {"type": "number"}, "n": {"type": "string", "nullable": true},
        "absent": {"type": "integer"}, "ios": {"x-kubernetes-int-or-string": true},
        "when": {"type": "string", "format": "date-time"},
        "l": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}}}});
    let object: Json = json!({"b": true, "i": 2, "s": "abcabc", "d": 2.5, "n": null, "ios": 3,
        "when": "2020-01-02T03:04:05Z", "l": [5, 1, 4], "m": {"a": 1, "abc": 2}});
    let shape = Shape::of(&schema, true, &Budget::of(&schema));
    let of = shape.declared(&Budget::of(&schema)).unwrap();
    let environment = Environment::default().with("self", of);
    let mut random = Random(seed);
    let (mut compiled, mut values) = (0, 0);
    for _ in 0..4_000 {
        let of = ['B', 'I', 'S', 'L', 'M', 'O'][random.below(6)];
        let text = expression(&mut random, of, 4);
        let budget = Budget::of_expressions(100_000);
        let Ok(checked) = check(&text, &environment, &budget) else {
            continue;
        };
        compiled += 1;
        let estimate = checked.estimate(&shape, &budget).unwrap();
        assert!(estimate.min <= estimate.max, "{seed}: {text}");
        let (Ok(short), Ok(full)) = (checked.program(), checked.program_in_full()) else {
            continue;
        };
        let run = |program: &super::Program, limit: u64| {
            let work = Work::default();
            let value = |_: &str| Some(Value::shaped(&object, &shape));
            let found = program.evaluate(value, limit, &work);
            (outcome(&found.outcome), found.cost)
        };
        let (found, cost) = run(&short, LIMIT);
        let (in_full, full_cost) = run(&full, LIMIT);
        if let (Some(found), Some(in_full)) = (&found, &in_full) {
            values += usize::from(!found.starts_with('!'));
            assert_eq!(found, in_full, "{seed}: {text}");
            assert!(cost <= full_cost, "{seed}: {text} {cost} {full_cost}");
        }
        // The cost is that of the shortest limit within which the evaluation ends.
        if found.is_some() && cost > 0 {
            assert_eq!(run(&short, cost).0, found, "{seed}: {text}");
            assert_eq!(run(&short, cost - 1).0, None, "{seed}: {text}");
        }
    }
    assert!(
        compiled > 2_000 && values > 800,
        "{seed}: {compiled} {values}"
    );
}
