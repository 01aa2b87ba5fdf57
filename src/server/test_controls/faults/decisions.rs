//! Pure. Which faults requests and watches meet, by rules, counts and random numbers.

use std::time::Duration;

use serde_json::{Map, Value};

use super::generator::Generator;
use super::plan::{Code, DELAY_MAX, FaultPlan, Rule};
use super::selection::Subject;

/// The number of the sequence of a rule's first watch, beyond those of its requests.
const WATCHES: u64 = 1 << 32;

/// An error that a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Drawn {
    pub(in crate::server) code: Code,
    /// The seconds of `Retry-After`, if there are any.
    pub(in crate::server) retry_after: u32,
}

/// The effect of the rules on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) delay: Duration,
    pub(super) error: Option<Drawn>,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The stream ends without a word.
    Dropped,
    /// The last event says that the version of the watch is too old.
    Expired,
}

impl End {
    /// The name in metrics and counts.
    pub(super) const fn name(self) -> &'static str {
        match self {
            End::Dropped => "dropWatches",
            End::Expired => "expireWatches",
        }
    }
}

/// The name of a delay in metrics and counts.
pub(super) const LATENCY: &str = "latency";

/// The faults in force, with their counts.
#[derive(Debug)]
pub(super) struct Decisions {
    seed: u64,
    rules: Vec<RuleState>,
}

#[derive(Debug)]
struct RuleState {
    rule: Rule,
    /// Decides about requests.
    generator: Generator,
    /// The number of the rule's first sequence of a watch, and of the watches so far.
    first_watch: u64,
    watches: u64,
    /// How often the rule has applied.
    applied: u64,
    /// How often each fault was injected.
    hits: Vec<(&'static str, u64)>,
}

/// The random numbers of one watch for one rule.
#[derive(Debug)]
pub(super) struct WatchDraws {
    /// The place of the rule.
    rule: usize,
    generator: Generator,
}

impl RuleState {
    fn covers(&self, subject: &Subject<'_>) -> bool {
        let has_room = self.rule.count.is_none_or(|count| self.applied < count);
        has_room && self.rule.selection.covers(subject)
    }

    fn hit(&mut self, fault: &'static str) {
        // linear: one for each fault
        match self.hits.iter_mut().find(|(name, _)| *name == fault) {
            Some((_, times)) => *times += 1,
            None => self.hits.push((fault, 1)),
        }
    }

    fn drawn_delay(&mut self) -> Duration {
        let jitter = self.rule.jitter;
        let more = match jitter.is_zero() {
            true => Duration::ZERO,
            false => jitter.mul_f64(self.generator.unit()),
        };
        self.rule.latency + more
    }

    /// Draws an error. One that `suits` refuses makes no sense for the request.
    fn drawn_error(&mut self, suits: impl Fn(Code) -> bool) -> Option<Drawn> {
        if self.rule.errors.is_empty() {
            return None;
        }
        let mut left = self.generator.unit();
        for error in &self.rule.errors {
            left -= error.rate;
            if left < 0.0 {
                return suits(error.code).then_some(Drawn {
                    code: error.code,
                    retry_after: error.retry_after,
                });
            }
        }
        None
    }
}

impl Decisions {
    /// Begins with the first number of each rule.
    pub(super) fn new(plan: FaultPlan, seed: u64) -> Decisions {
        let rules = (0_u64..).zip(plan.rules).map(|(number, rule)| RuleState {
            rule,
            generator: Generator::new(seed, number),
            first_watch: WATCHES * (number + 1),
            watches: 0,
            applied: 0,
            hits: Vec::new(),
        });
        Decisions {
            seed,
            rules: rules.collect(),
        }
    }

    /// Decides about the next request. `suits` says which errors make sense for it. Each rule
    /// that selects the request draws its numbers, whatever the rules before it have decided, so
    /// rules do not depend on each other.
    pub(super) fn of_request(
        &mut self,
        subject: &Subject<'_>,
        suits: impl Fn(Code) -> bool,
    ) -> Decision {
        let mut decision = Decision::default();
        for state in &mut self.rules {
            if !state.covers(subject) {
                continue;
            }
            let delay = state.drawn_delay();
            // The first error is the answer.
            let error = state
                .drawn_error(&suits)
                .filter(|_| decision.error.is_none());
            if !delay.is_zero() {
                state.hit(LATENCY);
            }
            if let Some(error) = error {
                state.hit(error.code.name());
            }
            state.applied += u64::from(!delay.is_zero() || error.is_some());
            decision.delay = (decision.delay + delay).min(DELAY_MAX);
            decision.error = decision.error.or(error);
        }
        decision
    }

    /// Returns the numbers of a watch, for each rule that may end it.
    pub(super) fn of_watch(&mut self, subject: &Subject<'_>) -> Vec<WatchDraws> {
        let seed = self.seed;
        let states = self.rules.iter_mut().enumerate();
        let draws = states.filter_map(|(rule, state)| {
            let ends = state.rule.dropped_watches > 0.0 || state.rule.expired_watches > 0.0;
            if !ends || !state.covers(subject) {
                return None;
            }
            let number = state.first_watch + state.watches;
            state.watches += 1;
            Some(WatchDraws {
                rule,
                generator: Generator::new(seed, number),
            })
        });
        draws.collect()
    }

    /// Decides whether a watch ends after its next event.
    pub(super) fn after_event(&mut self, draws: &mut [WatchDraws]) -> Option<End> {
        let mut end = None;
        for WatchDraws { rule, generator } in draws {
            let Some(state) = self.rules.get_mut(*rule) else {
                continue;
            };
            let dropped = generator.unit() < state.rule.dropped_watches;
            let expired = generator.unit() < state.rule.expired_watches;
            let drawn = match (expired, dropped) {
                (true, _) => End::Expired,
                (_, true) => End::Dropped,
                _ => continue,
            };
            let has_room = state.rule.count.is_none_or(|count| state.applied < count);
            if end.is_none() && has_room {
                state.hit(drawn.name());
                state.applied += 1;
                end = Some(drawn);
            }
        }
        end
    }

    /// Returns the document of the rules with their counts.
    pub(super) fn shown(&self) -> Value {
        let rules = self.rules.iter().map(|state| {
            let mut shown = state.rule.shown();
            let hits = state.hits.iter();
            let hits: Map<String, Value> = hits
                .map(|(name, times)| ((*name).to_owned(), (*times).into()))
                .collect();
            shown.insert("hits".to_owned(), hits.into());
            Value::from(shown)
        });
        let rules: Vec<Value> = rules.collect();
        serde_json::json!({ "seed": self.seed, "rules": rules })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::api::resource::{ResourceDefinition, Verb};
    use crate::kinds::definitions::built_in;

    fn decisions(seed: u64, rules: &Value) -> Decisions {
        let text = json!({ "rules": rules }).to_string();
        Decisions::new(FaultPlan::read(text.as_bytes()).unwrap(), seed)
    }

    fn config_maps() -> Arc<ResourceDefinition> {
        let mut rows = built_in().into_iter();
        rows.find(|row| row.plural == "configmaps").unwrap()
    }

    fn subject(resource: &ResourceDefinition, verb: Verb) -> Subject<'_> {
        Subject {
            verb,
            resource,
            subresource: None,
            namespace: Some("default"),
            user: "ann",
            user_agent: "",
        }
    }

    /// The errors of requests in a row.
    fn errors(decisions: &mut Decisions, count: usize) -> Vec<Option<u16>> {
        let resource = config_maps();
        let subject = subject(&resource, Verb::Update);
        let all = (0..count).map(|_| decisions.of_request(&subject, |_| true).error);
        all.map(|error| error.map(|error| error.code.number()))
            .collect()
    }

    #[test]
    fn a_seed_repeats_all_decisions_and_rates_are_kept() {
        let rules = json!([{"errors": [{"code": 409, "rate": 0.1}, {"code": 429, "rate": 0.05}]}]);
        let first = errors(&mut decisions(7, &rules), 1000);
        assert_eq!(first, errors(&mut decisions(7, &rules), 1000));
        assert_ne!(first, errors(&mut decisions(8, &rules), 1000));
        let count = |code| first.iter().filter(|error| **error == Some(code)).count();
        assert!(count(409).abs_diff(100) < 40, "{}", count(409));
        assert!(count(429).abs_diff(50) < 30, "{}", count(429));
        // A rule in front that draws nothing changes nothing for those after it.
        let more = json!([{"latency": "1s", "jitter": "1s", "count": 3}, rules[0]]);
        let alone = json!([{"latency": "1s", "match": {"users": ["bob"]}}, rules[0]]);
        let second = errors(&mut decisions(7, &more), 1000);
        assert_eq!(second, errors(&mut decisions(7, &alone), 1000));
    }

    #[test]
    fn errors_that_make_no_sense_are_drawn_and_left_out() {
        let resource = config_maps();
        let subject = subject(&resource, Verb::Get);
        let rules = json!([{"errors": [{"code": 409, "rate": 0.5}, {"code": 500, "rate": 0.5}]}]);
        let mut decisions = decisions(1, &rules);
        let all = (0..100).map(|_| decisions.of_request(&subject, |code| code != Code::Conflict));
        let all: Vec<_> = all.map(|decision| decision.error).collect();
        let none = all.iter().filter(|error| error.is_none()).count();
        assert!(none.abs_diff(50) < 20, "{none}");
        assert!(
            all.iter()
                .flatten()
                .all(|error| error.code == Code::Internal)
        );
    }

    #[test]
    fn all_rules_apply_delays_add_up_and_the_first_error_counts() {
        let resource = config_maps();
        let subject = subject(&resource, Verb::Update);
        let mut decisions = decisions(
            1,
            &json!([
                {"latency": "40s", "errors": [{"code": 503, "rate": 1, "retryAfterSeconds": 5}],
                    "count": 2},
                {"latency": "40s", "errors": [{"code": 500, "rate": 1}]},
            ]),
        );
        let first = decisions.of_request(&subject, |_| true);
        assert_eq!(first.delay, DELAY_MAX, "the longest delay");
        let error = first.error.unwrap();
        assert_eq!((error.code, error.retry_after), (Code::Unavailable, 5));
        decisions.of_request(&subject, |_| true);
        let third = decisions.of_request(&subject, |_| true);
        assert_eq!(
            third.error.unwrap().code,
            Code::Internal,
            "the first is used up"
        );
        assert_eq!(third.delay, Duration::from_secs(40));
        let shown = decisions.shown();
        assert_eq!(shown["rules"][0]["hits"], json!({"latency": 2, "503": 2}));
        assert_eq!(shown["rules"][1]["hits"], json!({"latency": 3, "500": 1}));
        assert_eq!(shown["seed"], 1);
    }

    #[test]
    fn watches_have_numbers_of_their_own() {
        let resource = config_maps();
        let subject = subject(&resource, Verb::Watch);
        let rules = json!([{"dropWatches": {"rate": 0.1}, "expireWatches": {"rate": 0.05}}]);
        let ends = |decisions: &mut Decisions| {
            let mut draws = decisions.of_watch(&subject);
            let ends = (0..500).map(|_| decisions.after_event(&mut draws));
            ends.collect::<Vec<Option<End>>>()
        };
        let mut one = decisions(3, &rules);
        let (first, second) = (ends(&mut one), ends(&mut one));
        assert_ne!(first, second);
        let mut other = decisions(3, &rules);
        // Requests do not disturb watches.
        errors(&mut other, 10);
        assert_eq!(
            (first.clone(), second),
            (ends(&mut other), ends(&mut other))
        );
        let count = |end| first.iter().filter(|one| **one == Some(end)).count();
        assert!(count(End::Dropped).abs_diff(50) < 30);
        assert!(count(End::Expired).abs_diff(25) < 20);
        let mut few = decisions(3, &json!([{"dropWatches": {"rate": 1}, "count": 2}]));
        let mut draws = few.of_watch(&subject);
        let ends: Vec<_> = (0..3).map(|_| few.after_event(&mut draws)).collect();
        assert_eq!(ends, [Some(End::Dropped), Some(End::Dropped), None]);
        assert!(few.of_watch(&subject).is_empty(), "used up");
    }
}
