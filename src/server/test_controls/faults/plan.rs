//! Pure. The document that says which faults are injected: how it is read and shown.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::selection::Selection;
use crate::api::decode::{BodyFormat, decode_value};
use crate::api::resource::Verb;
use crate::api::text::go_duration;
use crate::server::test_controls::members::Members;

/// The most rules of a plan.
const RULES_MAX: usize = 64;
/// The longest delay of a request.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(60);
/// The largest count of a rule.
const COUNT_MAX: u64 = 1_000_000_000;
/// The longest wait that a refusal asks a client for.
const RETRY_AFTER_MAX: u64 = 3600;
/// The room for rounding in a sum of rates.
const ROUNDING: f64 = 1e-9;

/// An error that a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Code {
    Conflict,
    Expired,
    TooMany,
    Internal,
    Unavailable,
    Timeout,
}

impl Code {
    pub(super) const ALL: [Code; 6] = [
        Code::Conflict,
        Code::Expired,
        Code::TooMany,
        Code::Internal,
        Code::Unavailable,
        Code::Timeout,
    ];

    /// The number of the status.
    pub(super) const fn number(self) -> u16 {
        match self {
            Code::Conflict => 409,
            Code::Expired => 410,
            Code::TooMany => 429,
            Code::Internal => 500,
            Code::Unavailable => 503,
            Code::Timeout => 504,
        }
    }

    /// The name of the fault in metrics and counts.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Code::Conflict => "409",
            Code::Expired => "410",
            Code::TooMany => "429",
            Code::Internal => "500",
            Code::Unavailable => "503",
            Code::Timeout => "504",
        }
    }

    /// Whether requests of a verb can be answered with it.
    pub(in crate::server) const fn is_for(self, verb: Verb) -> bool {
        match self {
            Code::Conflict => matches!(verb, Verb::Update | Verb::Patch | Verb::Delete),
            Code::Expired => matches!(verb, Verb::List | Verb::Watch),
            _ => true,
        }
    }

    /// Whether an answer may say when to try again.
    const fn has_retry_after(self) -> bool {
        matches!(self, Code::TooMany | Code::Unavailable)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// An error of a rule, and the part of the requests that get it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ErrorFault {
    pub(super) code: Code,
    pub(super) rate: f64,
    /// The seconds of `Retry-After`, if the code has it.
    pub(super) retry_after: u32,
}

/// The faults of the requests that a rule selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    pub(super) selection: Selection,
    pub(super) latency: Duration,
    /// The most that is added to the latency.
    pub(super) jitter: Duration,
    pub(super) errors: Vec<ErrorFault>,
    /// How likely a watch ends after an event.
    pub(super) dropped_watches: f64,
    /// How likely a watch ends after an event with the error that its version is too old.
    pub(super) expired_watches: f64,
    /// How often the rule applies at most.
    pub(super) count: Option<u64>,
}

/// The faults that a test asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The seed of all decisions. Without one it is random.
    pub seed: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

impl FaultPlan {
    /// The largest seed: a number that every reader of JSON keeps exactly.
    pub const SEED_MAX: u64 = (1 << 53) - 1;

    /// Reads a document in JSON, or else in YAML.
    ///
    /// # Errors
    /// A line that says which member is wrong and why.
    pub fn read(text: &[u8]) -> Result<FaultPlan, String> {
        let (value, repeated) = match text.trim_ascii_start().starts_with(b"{") {
            true => {
                decode_value(text, BodyFormat::Json).map_err(|why| format!("not JSON: {why}"))?
            }
            false => decode_value(text, BodyFormat::Yaml)?,
        };
        match repeated.first() {
            Some(repeated) => Err(format!("{repeated}; give each member once")),
            None => FaultPlan::of(&value),
        }
    }

    fn of(value: &Value) -> Result<FaultPlan, String> {
        let members = Members::of("", value, &["seed", "rules"])?;
        let rules = members.list("rules", RULES_MAX)?;
        let rules = rules.iter().map(|(place, value)| rule(place, value));
        Ok(FaultPlan {
            seed: members.whole("seed", 0..=FaultPlan::SEED_MAX)?,
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Whether nothing is injected.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

fn rule(place: &str, value: &Value) -> Result<Rule, String> {
    let known = [
        "match",
        "latency",
        "jitter",
        "errors",
        "dropWatches",
        "expireWatches",
        "count",
        // Counted by the server, so that its answer may be sent back.
        "hits",
    ];
    let members = Members::of(place, value, &known)?;
    let errors = members.list("errors", Code::ALL.len())?;
    let errors = errors
        .iter()
        .map(|(place, value)| error_fault(place, value));
    let rule = Rule {
        selection: match members.value("match") {
            Some(value) => Selection::read(&members.place("match"), value)?,
            None => Selection::default(),
        },
        latency: members.duration("latency", DELAY_MAX)?,
        jitter: members.duration("jitter", DELAY_MAX)?,
        errors: errors.collect::<Result<_, _>>()?,
        dropped_watches: rate_of(&members, "dropWatches")?,
        expired_watches: rate_of(&members, "expireWatches")?,
        count: members.whole("count", 1..=COUNT_MAX)?,
    };
    checked(place, rule, &members)
}

/// Checks what the members of a rule make together.
fn checked(place: &str, rule: Rule, members: &Members<'_>) -> Result<Rule, String> {
    if rule.latency + rule.jitter > DELAY_MAX {
        let at = members.place("jitter");
        return Err(format!(
            "{at}: latency and jitter make more than 1m together"
        ));
    }
    let sum: f64 = rule.errors.iter().map(|error| error.rate).sum();
    if sum > 1.0 + ROUNDING {
        let at = members.place("errors");
        return Err(format!(
            "{at}: the rates make {sum} together; at most 1 is possible"
        ));
    }
    for (number, error) in rule.errors.iter().enumerate() {
        let before = rule.errors.iter().take(number);
        // linear: at most one for each code
        if before.into_iter().any(|other| other.code == error.code) {
            let at = members.place("errors");
            return Err(format!(
                "{at}[{number}].code: {} is there twice",
                error.code
            ));
        }
    }
    if let Some((name, why)) = impossible(&rule) {
        return Err(format!("{}: {why}", members.place(name)));
    }
    if rule.errors.is_empty() && members.value("errors").is_some() {
        let at = members.place("errors");
        return Err(format!("{at}: it is empty; leave it out or give an error"));
    }
    let names = [
        "latency",
        "jitter",
        "errors",
        "dropWatches",
        "expireWatches",
    ];
    if names.iter().all(|name| members.value(name).is_none()) {
        return Err(format!(
            "{place}: it injects nothing; give one of {}",
            names.join(", ")
        ));
    }
    Ok(rule)
}

/// The member whose fault none of the selected verbs can meet, and why.
fn impossible(rule: &Rule) -> Option<(&'static str, String)> {
    let can_watch = rule.selection.has_verb(|verb| verb == Verb::Watch);
    let only = "its match.verbs lack watch";
    if rule.dropped_watches > 0.0 && !can_watch {
        return Some(("dropWatches", only.to_owned()));
    }
    if rule.expired_watches > 0.0 && !can_watch {
        return Some(("expireWatches", only.to_owned()));
    }
    let mut codes = rule.errors.iter().map(|error| error.code);
    // linear: at most one for each code
    let code = codes.find(|code| !rule.selection.has_verb(|verb| code.is_for(verb)))?;
    let verbs = Verb::ALL.into_iter().filter(|verb| code.is_for(*verb));
    let verbs: Vec<&str> = verbs.map(Verb::as_str).collect();
    let verbs = verbs.join(", ");
    Some((
        "errors",
        format!("{code} is only for {verbs}, of which match.verbs have none"),
    ))
}

fn error_fault(place: &str, value: &Value) -> Result<ErrorFault, String> {
    let members = Members::of(place, value, &["code", "rate", "retryAfterSeconds"])?;
    let number = members.whole("code", 0..=u64::from(u16::MAX))?;
    let code = Code::ALL
        .into_iter()
        .find(|code| Some(u64::from(code.number())) == number);
    let Some(code) = code else {
        let known = Code::ALL.map(Code::name).join(", ");
        return Err(format!("{}: must be one of {known}", members.place("code")));
    };
    let retry_after = members.whole("retryAfterSeconds", 1..=RETRY_AFTER_MAX)?;
    if retry_after.is_some() && !code.has_retry_after() {
        let at = members.place("retryAfterSeconds");
        return Err(format!("{at}: only 429 and 503 have it"));
    }
    let rate = members.rate("rate")?;
    let Some(rate) = rate else {
        return Err(format!(
            "{}: is missing; 1 is every request",
            members.place("rate")
        ));
    };
    Ok(ErrorFault {
        code,
        rate,
        retry_after: match code.has_retry_after() {
            true => u32::try_from(retry_after.unwrap_or(1)).unwrap_or(1),
            false => 0,
        },
    })
}

/// Reads the rate of a member that is an object.
fn rate_of(members: &Members<'_>, name: &str) -> Result<f64, String> {
    let Some(value) = members.value(name) else {
        return Ok(0.0);
    };
    let members = Members::of(&members.place(name), value, &["rate"])?;
    let rate = members.rate("rate")?;
    rate.ok_or_else(|| format!("{}: is missing; 1 is every event", members.place("rate")))
}

impl Rule {
    /// Returns the rule as a document has it.
    pub(super) fn shown(&self) -> Map<String, Value> {
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| {
            shown.insert(name.to_owned(), value);
        };
        if self.selection != Selection::default() {
            put("match", self.selection.shown());
        }
        for (name, duration) in [("latency", self.latency), ("jitter", self.jitter)] {
            if !duration.is_zero() {
                let nanos = go_duration::nanos(duration);
                put(name, go_duration::printed(nanos).into());
            }
        }
        if !self.errors.is_empty() {
            put(
                "errors",
                self.errors.iter().map(ErrorFault::shown).collect(),
            );
        }
        let rates = [
            ("dropWatches", self.dropped_watches),
            ("expireWatches", self.expired_watches),
        ];
        for (name, rate) in rates {
            if rate > 0.0 {
                put(name, json!({ "rate": rate }));
            }
        }
        if let Some(count) = self.count {
            put("count", count.into());
        }
        shown
    }
}

impl ErrorFault {
    fn shown(&self) -> Value {
        let mut shown = json!({ "code": self.code.number(), "rate": self.rate });
        if self.retry_after > 0
            && let Some(members) = shown.as_object_mut()
        {
            members.insert("retryAfterSeconds".to_owned(), self.retry_after.into());
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        FaultPlan::read(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_document_is_shown_as_it_was_read() {
        let text = r#"{"seed": 7, "rules": [
            {"match": {"verbs": ["update", "watch"], "resources": ["deployments.apps", "pods/status"],
                "namespaces": ["default"], "users": ["ann"], "userAgents": ["kubectl/"]},
             "latency": "50ms", "jitter": "20ms",
             "errors": [{"code": 409, "rate": 0.1},
                {"code": 429, "rate": 0.05, "retryAfterSeconds": 2}],
             "dropWatches": {"rate": 0.01}, "expireWatches": {"rate": 1}, "count": 3,
             "hits": {"latency": 5}},
            {"errors": [{"code": 503, "rate": 1}]}]}"#;
        let plan = FaultPlan::read(text.as_bytes()).unwrap();
        assert_eq!(plan.seed, Some(7));
        let shown: Vec<Value> = plan.rules.iter().map(|rule| rule.shown().into()).collect();
        let expected = json!([
            {"match": {"verbs": ["update", "watch"], "resources": ["deployments.apps", "pods/status"],
                "namespaces": ["default"], "users": ["ann"], "userAgents": ["kubectl/"]},
             "latency": "50ms", "jitter": "20ms",
             "errors": [{"code": 409, "rate": 0.1},
                {"code": 429, "rate": 0.05, "retryAfterSeconds": 2}],
             "dropWatches": {"rate": 0.01}, "expireWatches": {"rate": 1.0}, "count": 3},
            {"errors": [{"code": 503, "rate": 1.0, "retryAfterSeconds": 1}]}]);
        assert_eq!(Value::from(shown.clone()), expected);
        let again = json!({ "rules": shown }).to_string();
        assert_eq!(FaultPlan::read(again.as_bytes()).unwrap().rules, plan.rules);
        let yaml = "rules:\n- latency: 1m\n";
        let plan = FaultPlan::read(yaml.as_bytes()).unwrap();
        assert_eq!(plan.rules[0].latency, DELAY_MAX);
        assert!(FaultPlan::read(b"{}").unwrap().is_empty());
    }

    #[test]
    fn each_fault_of_a_document_is_named_with_its_place() {
        let rule = |rule: &str| refused(&format!(r#"{{"rules": [{rule}]}}"#));
        for (said, expected) in [
            (refused("[]"), "the document: must be an object"),
            (refused("{"), "not JSON: unexpected end"),
            (refused(r#"{"sead": 1}"#), "sead: is not known"),
            (
                refused(r#"{"seed": -1}"#),
                "seed: must be a whole number from 0 to 9007199254740991",
            ),
            (refused(r#"{"seed": 1.5}"#), "seed: must be a whole number"),
            (refused(r#"{"rules": {}}"#), "rules: must be a list"),
            (rule("3"), "rules[0]: must be an object"),
            (rule("{}"), "rules[0]: it injects nothing"),
            (rule(r#"{"errors": []}"#), "rules[0].errors: it is empty"),
            (
                refused(r#"{"rules": [], "rules": []}"#),
                "duplicate field \"rules\"; give each member once",
            ),
            (
                refused("rules: []\nrules: []\n"),
                "line 2: key \"rules\" already set in map; give each member once",
            ),
            (
                rule(
                    r#"{"match": {"verbs": ["get", "create"]}, "errors": [{"code": 409, "rate": 1}]}"#,
                ),
                "rules[0].errors: 409 is only for delete, patch, update, of which",
            ),
            (
                rule(r#"{"match": {"verbs": ["get"]}, "errors": [{"code": 410, "rate": 1}]}"#),
                "rules[0].errors: 410 is only for list, watch, of which",
            ),
            (
                rule(r#"{"match": {"verbs": ["get"]}, "dropWatches": {"rate": 1}}"#),
                "rules[0].dropWatches: its match.verbs lack watch",
            ),
            (
                rule(r#"{"match": {"verbs": ["list"]}, "expireWatches": {"rate": 1}}"#),
                "rules[0].expireWatches: its match.verbs lack watch",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"resources": ["pods", "deployments"]}}"#),
                "rules[0].match.resources[1]: \"deployments\" has the group apps; write \
                 deployments.apps",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"resources": ["podz/status"]}}"#),
                "rules[0].match.resources[0]: \"podz/status\" is no resource of the core group",
            ),
            (
                rule(r#"{"latency": 5}"#),
                "rules[0].latency: must be a text such as \"50ms\"",
            ),
            (
                rule(r#"{"latency": "5"}"#),
                "rules[0].latency: time: missing unit",
            ),
            (
                rule(r#"{"latency": "-1s"}"#),
                "rules[0].latency: must be from 0s to 1m0s",
            ),
            (
                rule(r#"{"latency": "61s"}"#),
                "rules[0].latency: must be from 0s to 1m0s",
            ),
            (
                rule(r#"{"latency": "31s", "jitter": "30s"}"#),
                "rules[0].jitter: latency and jitter",
            ),
            (
                rule(r#"{"errors": [{"code": 404, "rate": 1}]}"#),
                "rules[0].errors[0].code: must be one of",
            ),
            (
                rule(r#"{"errors": [{"rate": 1}]}"#),
                "rules[0].errors[0].code: must be one of",
            ),
            (
                rule(r#"{"errors": [{"code": 429}]}"#),
                "rules[0].errors[0].rate: is missing",
            ),
            (
                rule(r#"{"errors": [{"code": 429, "rate": 1.1}]}"#),
                "rules[0].errors[0].rate: must be a number from 0 to 1",
            ),
            (
                rule(r#"{"errors": [{"code": 429, "rate": "1"}]}"#),
                "rules[0].errors[0].rate: must be a number",
            ),
            (
                rule(r#"{"errors": [{"code": 429, "rate": 0.6}, {"code": 500, "rate": 0.6}]}"#),
                "rules[0].errors: the rates make 1.2 together",
            ),
            (
                rule(r#"{"errors": [{"code": 429, "rate": 0.1}, {"code": 429, "rate": 0.1}]}"#),
                "rules[0].errors[1].code: 429 is there twice",
            ),
            (
                rule(r#"{"errors": [{"code": 409, "rate": 1, "retryAfterSeconds": 1}]}"#),
                "rules[0].errors[0].retryAfterSeconds: only 429 and 503",
            ),
            (
                rule(r#"{"errors": [{"code": 429, "rate": 1, "retryAfterSeconds": 0}]}"#),
                "rules[0].errors[0].retryAfterSeconds: must be a whole number from 1 to 3600",
            ),
            (
                rule(r#"{"dropWatches": 0.1}"#),
                "rules[0].dropWatches: must be an object",
            ),
            (
                rule(r#"{"dropWatches": {}}"#),
                "rules[0].dropWatches.rate: is missing",
            ),
            (
                rule(r#"{"expireWatches": {"rate": 2}}"#),
                "rules[0].expireWatches.rate: must be",
            ),
            (
                rule(r#"{"latency": "1s", "count": 0}"#),
                "rules[0].count: must be a whole number from 1",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"verb": []}}"#),
                "rules[0].match.verb: is not known",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"verbs": ["put"]}}"#),
                "rules[0].match.verbs[0]: \"put\" is no verb",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"verbs": "get"}}"#),
                "rules[0].match.verbs: must be a list",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"users": [1]}}"#),
                "rules[0].match.users[0]: must be a text",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"users": [""]}}"#),
                "rules[0].match.users[0]: is empty",
            ),
            (
                rule(r#"{"latency": "1s", "match": {"resources": ["Pods"]}}"#),
                "rules[0].match.resources[0]: \"Pods\" is no resource",
            ),
        ] {
            assert!(said.starts_with(expected), "{said:?} is not {expected:?}");
        }
        let many = vec![r#"{"latency": "1s"}"#; RULES_MAX + 1].join(",");
        assert_eq!(
            rule(&many),
            "rules: 65 are too many; at most 64 are possible"
        );
    }
}
