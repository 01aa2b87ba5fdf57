//! The expressions of issuers: what of claims makes a user, and what claims and users must be
//! (AC-21). The cost of each evaluation is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::api::cel::{
    Environment, ObjectName, Outcome, Program, Refused, Type, Value as Cel, Work, check,
};
use crate::api::structural::Budget;
use crate::api::user_info::UserInfo;

/// The cost limit of one evaluation, that of Kubernetes.
const COST_MAX: u64 = 1_000_000;

/// The environment of expressions over claims.
pub(super) static CLAIMS: LazyLock<Environment> =
    LazyLock::new(|| Environment::default().with("claims", Type::map(Type::String, Type::Any)));

/// The environment of expressions over users.
pub(super) static USER: LazyLock<Environment> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let fields = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", texts()),
        ("extra", Type::map(Type::String, texts())),
    ];
    let fields = fields.map(|(name, of)| (Arc::from(name), of));
    let user = Type::object(ObjectName::new("kubernetes.UserInfo"), fields);
    Environment::default().with("user", user)
});

/// The types that an expression may evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A condition.
    Bool,
    /// A text.
    String,
    /// A text or a list of texts.
    Strings,
}

impl Wanted {
    fn fits(self, result: &Type) -> bool {
        if matches!(result, Type::Any | Type::Dyn) {
            return true;
        }
        match self {
            Wanted::Bool => *result == Type::Bool,
            Wanted::String => *result == Type::String,
            Wanted::Strings => {
                let is_list = |of: &Type| matches!(of, Type::String | Type::Any | Type::Dyn);
                let is_texts = matches!(result, Type::List(of) if is_list(of));
                *result == Type::String || is_texts || *result == Type::Null
            }
        }
    }

    fn refusal(self) -> &'static str {
        match self {
            Wanted::Bool => "must evaluate to bool",
            Wanted::String => "must evaluate to string",
            Wanted::Strings => "must evaluate to one of [string list(string)]",
        }
    }
}

/// An expression that can be evaluated.
pub(super) struct Expression {
    text: String,
    program: Program,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The fault, in the words of Kubernetes.
    pub(super) fn compile(
        text: &str,
        environment: &Environment,
        wanted: Wanted,
    ) -> Result<Expression, String> {
        let failed = |why: &str| format!("compilation failed: {why}");
        let budget = Budget::of_expressions(text.len());
        let checked = check(text, environment, &budget).map_err(|refused| match refused {
            Refused::Wrong(why) => failed(&why),
            Refused::Spent => failed("the expression takes too long to check"),
        })?;
        if !wanted.fits(&checked.result) {
            return Err(wanted.refusal().to_owned());
        }
        let program = checked.program();
        Ok(Expression {
            text: text.to_owned(),
            program: program.map_err(|why| failed(&why))?,
        })
    }

    /// The expression itself.
    pub(super) fn shown(&self) -> &str {
        &self.text
    }

    /// Evaluates the expression with the value of its only name.
    fn value<'v>(&self, of: &Cel<'v>) -> Result<Cel<'v>, String> {
        let name = |_: &str| -> Option<Outcome<Cel<'v>>> { Some(Ok(of.clone())) };
        let found = self.program.evaluate(name, COST_MAX, &Work::default());
        found
            .outcome
            .map_err(|why| format!("expression '{}' resulted in error: {why}", self.text))
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// It has failed, or is not a condition.
    pub(super) fn holds(&self, of: &Cel<'_>) -> Result<bool, String> {
        match self.value(of)? {
            Cel::Bool(holds) => Ok(holds),
            other => Err(format!(
                "expression '{}' must return bool, got {}",
                self.text,
                other.type_name()
            )),
        }
    }

    /// Evaluates to a text.
    ///
    /// # Errors
    /// It has failed, or is not a text.
    pub(super) fn text(&self, of: &Cel<'_>) -> Result<String, String> {
        match present(self.value(of)?) {
            Some(Cel::String(text)) => Ok((*text).to_owned()),
            other => Err(self.wrong(other.as_ref())),
        }
    }

    /// Evaluates to texts. Nothing and empty texts are left out.
    ///
    /// # Errors
    /// It has failed, or is neither a text nor a list of them.
    pub(super) fn texts(&self, of: &Cel<'_>) -> Result<Vec<String>, String> {
        let mut texts = Vec::new();
        match present(self.value(of)?) {
            None | Some(Cel::Null) => {}
            Some(Cel::String(text)) => texts.push((*text).to_owned()),
            Some(Cel::List(list)) => {
                for item in list.iter() {
                    match item {
                        Ok(Cel::String(text)) => texts.push((*text).to_owned()),
                        Ok(other) => return Err(self.wrong(Some(&other))),
                        Err(why) => return Err(format!("expression '{}': {why}", self.text)),
                    }
                }
            }
            other => return Err(self.wrong(other.as_ref())),
        }
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }

    fn wrong(&self, found: Option<&Cel<'_>>) -> String {
        let found = found.map_or("nothing", Cel::type_name);
        format!("expression '{}' has a result of type {found}", self.text)
    }
}

/// Returns the value of an optional one.
fn present(value: Cel<'_>) -> Option<Cel<'_>> {
    match value {
        Cel::Optional(inner) => inner.map(|inner| (*inner).clone()),
        other => Some(other),
    }
}

/// Returns claims as a value of expressions.
pub(super) fn claims(claims: &Value) -> Cel<'_> {
    Cel::untyped(claims)
}

/// Returns a user as JSON for expressions.
pub(super) fn user(user: &UserInfo) -> Value {
    let extra: &BTreeMap<String, Vec<String>> = &user.extra;
    let extra: Map<String, Value> = extra
        .iter()
        .map(|(key, values)| (key.clone(), json!(values)))
        .collect();
    json!({
        "username": user.name,
        "uid": user.uid,
        "groups": user.groups,
        "extra": extra,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_claims(text: &str, wanted: Wanted) -> Result<Expression, String> {
        Expression::compile(text, &CLAIMS, wanted)
    }

    fn texts(text: &str) -> Result<Vec<String>, String> {
        let all = json!({
            "sub": "ada", "empty": "", "none": null, "list": ["a", "", "b"], "number": 3,
            "nested": {"list": ["c"], "text": "d"}, "mixed": ["a", 1],
        });
        over_claims(text, Wanted::Strings)?.texts(&claims(&all))
    }

    #[test]
    fn claims_are_a_map_with_nested_values_ac_21() {
        let found = |all: &[&str]| Ok(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(texts("claims.sub"), found(&["ada"]));
        assert_eq!(texts("'p:' + claims.sub"), found(&["p:ada"]));
        assert_eq!(texts("claims.list"), found(&["a", "b"]));
        assert_eq!(texts("claims.nested.list"), found(&["c"]));
        assert_eq!(texts("claims.nested.text"), found(&["d"]));
        assert_eq!(texts("claims.?other.orValue('x')"), found(&["x"]));
        for empty in ["claims.empty", "claims.none", "[]", "''"] {
            assert_eq!(texts(empty), found(&[]), "{empty}");
        }
        for wrong in ["claims.number", "claims.mixed", "claims.other"] {
            assert!(texts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_are_those_of_kubernetes_ac_21() {
        let refusal = |text: &str, environment: &Environment, wanted| {
            let refused = Expression::compile(text, environment, wanted);
            refused.err().unwrap()
        };
        let undefined = refusal("user.name", &USER, Wanted::Bool);
        let start = "compilation failed: ERROR: <input>:1:5: undefined field 'name'";
        assert!(undefined.starts_with(start), "{undefined}");
        assert_eq!(
            refusal("'a'", &CLAIMS, Wanted::Bool),
            "must evaluate to bool"
        );
        assert_eq!(
            refusal("true", &CLAIMS, Wanted::String),
            "must evaluate to string"
        );
        assert_eq!(
            refusal("1", &CLAIMS, Wanted::Strings),
            "must evaluate to one of [string list(string)]"
        );
        refusal("user.username == ''", &CLAIMS, Wanted::Bool);
    }

    #[test]
    fn users_have_names_groups_and_further_data_ac_21() {
        let mut ada = UserInfo::authenticated("ada", vec!["crew".to_owned()]);
        ada.extra.insert("a/b".to_owned(), vec!["1".to_owned()]);
        let ada = user(&ada);
        let rule = "user.username == 'ada' && 'crew' in user.groups && user.uid == '' && \
                    user.extra['a/b'] == ['1'] && !user.username.startsWith('system:')";
        let rule = Expression::compile(rule, &USER, Wanted::Bool).unwrap();
        assert_eq!(rule.holds(&claims(&ada)), Ok(true));
    }

    #[test]
    fn a_hostile_expression_ends_by_its_cost_ac_21() {
        let text = "claims.list.all(a, claims.list.all(b, claims.list.all(c, a + b + c != 'x')))";
        let rule = over_claims(text, Wanted::Bool).unwrap();
        let list: Vec<String> = (0..500).map(|number| number.to_string()).collect();
        let refused = rule.holds(&claims(&json!({ "list": list }))).unwrap_err();
        assert!(refused.contains("cost limit exceeded"), "{refused}");
        let long = "[".repeat(100_000);
        assert!(over_claims(&long, Wanted::Strings).is_err());
        let wide = format!("claims.sub{}", " + 'a'".repeat(30_000));
        let _ = over_claims(&wide, Wanted::String).is_err();
    }
}
