//! The evaluation of a policy: its conditions, its validations with their messages, and its audit
//! annotations (HK-13, HK-53 to HK-59). Pure, except that it asks about permissions.

use std::time::{Duration, Instant};

use super::ALL_COST_MAX;
use super::compiled::Compiled;
use super::definition::{Spec, Validation};
use super::metrics::ErrorType;
use crate::admission::hooks::answers::Asker;
use crate::admission::hooks::conditions::Met;
use crate::admission::hooks::measured_conditions::{ConditionLabels, evaluate};
use crate::admission::hooks::scope::{Facts, Fault, OutOfBudget, Scope};
use crate::admission::hooks::settings::FailurePolicy;
use crate::api::cel::Value;

/// The most bytes of a computed message (HK-53).
const MAX_MESSAGE_BYTES: usize = 5120;

impl From<&Fault> for ErrorType {
    fn from(fault: &Fault) -> ErrorType {
        match fault {
            Fault::Compile(_) => ErrorType::Compile,
            Fault::Evaluation(_) => ErrorType::Invalid,
        }
    }
}

/// The outcome of one validation that does not hold, or that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Its place among the validations.
    pub place: usize,
    /// Whether it refuses the request.
    pub is_denied: bool,
    pub error: ErrorType,
    pub message: String,
    /// The reason of the answer: `Invalid`, `Forbidden` or `RequestEntityTooLarge`.
    pub reason: String,
    pub took: Duration,
}

/// The outcome of one audit annotation that has a value, or that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    Publish { key: String, value: String },
    Failed { message: String, error: ErrorType },
}

/// The outcome of an evaluation. Validations that hold are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Validated {
    pub decisions: Vec<Decision>,
    pub annotations: Vec<Annotation>,
}

/// Evaluates a policy over facts. `Ignore` drops what fails.
pub(super) async fn validate(
    spec: &Spec,
    compiled: &Compiled,
    facts: Facts<'_>,
    asker: &dyn Asker,
    labels: &ConditionLabels<'_>,
) -> Validated {
    let is_denied = spec.failure_policy == FailurePolicy::Fail;
    let whole = |message: String, error: ErrorType| Validated {
        decisions: vec![Decision {
            place: 0,
            is_denied,
            error,
            message,
            reason: String::new(),
            took: Duration::ZERO,
        }],
        annotations: Vec::new(),
    };
    let conditions = &compiled.conditions;
    match evaluate(labels, conditions, &compiled.variables, &facts, asker).await {
        Met::All => {}
        Met::NotAll => return Validated::default(),
        Met::Failed(_) if !is_denied => return Validated::default(),
        Met::Failed(why) => return whole(why, ErrorType::Invalid),
    }
    let mut evaluation = Evaluation {
        spec,
        compiled,
        facts,
        asker,
        is_denied,
    };
    let decisions = match evaluation.decisions().await {
        Ok(decisions) => decisions,
        Err(spent) => return whole(spent.to_string(), ErrorType::OutOfBudget),
    };
    match evaluation.annotations().await {
        Ok(annotations) => Validated {
            decisions,
            annotations,
        },
        Err(spent) => whole(spent.to_string(), ErrorType::OutOfBudget),
    }
}

struct Evaluation<'e, 'k> {
    spec: &'e Spec,
    compiled: &'e Compiled,
    facts: Facts<'k>,
    asker: &'e dyn Asker,
    /// Whether what fails refuses the request.
    is_denied: bool,
}

impl<'k> Evaluation<'_, 'k> {
    /// Returns the facts for messages and annotations, which may not ask about permissions.
    fn silent(&self) -> Facts<'k> {
        Facts {
            permissions: None,
            ..self.facts.clone()
        }
    }

    async fn decisions(&mut self) -> Result<Vec<Decision>, OutOfBudget> {
        let mut scope = Scope::new(&self.compiled.variables, self.facts.clone(), ALL_COST_MAX);
        let mut failed = Vec::new();
        for (place, expression) in self.compiled.validations.iter().enumerate() {
            let began = Instant::now();
            let value = scope.evaluate(expression, self.asker).await?;
            if !matches!(value, Ok(Value::Bool(true))) {
                failed.push((place, value.err(), began.elapsed()));
            }
        }
        let mut messages = Messages {
            compiled: self.compiled,
            scope: Scope::new(&self.compiled.variables, self.silent(), scope.left()),
            asker: self.asker,
        };
        let mut decisions = Vec::with_capacity(failed.len());
        for (place, fault, took) in failed {
            let Some(validation) = self.spec.validations.get(place) else {
                continue;
            };
            let decision = match fault {
                Some(fault) => Decision {
                    place,
                    is_denied: self.is_denied,
                    error: (&fault).into(),
                    message: fault.to_string(),
                    reason: String::new(),
                    took,
                },
                None => match messages.of(place, validation).await {
                    Ok(message) => Decision {
                        place,
                        is_denied: true,
                        error: ErrorType::NoError,
                        message,
                        reason: validation.reason.clone(),
                        took,
                    },
                    Err(spent) => Decision {
                        place,
                        is_denied: self.is_denied,
                        error: ErrorType::OutOfBudget,
                        message: format!("failed messageExpression: {spent}"),
                        reason: String::new(),
                        took,
                    },
                },
            };
            decisions.push(decision);
        }
        Ok(decisions)
    }

    async fn annotations(&mut self) -> Result<Vec<Annotation>, OutOfBudget> {
        let mut annotations = Vec::new();
        if self.compiled.annotations.is_empty() {
            return Ok(annotations);
        }
        let mut scope = Scope::new(&self.compiled.variables, self.silent(), ALL_COST_MAX);
        let all = self.spec.audit_annotations.iter();
        for (annotation, expression) in all.zip(&self.compiled.annotations) {
            let failed = |message: String, error: ErrorType| match self.is_denied {
                true => Some(Annotation::Failed { message, error }),
                false => None,
            };
            let made = match scope.evaluate(expression, self.asker).await? {
                Ok(Value::String(text)) => {
                    let value = text.trim();
                    (!value.is_empty()).then(|| Annotation::Publish {
                        key: annotation.key.clone(),
                        value: value.to_owned(),
                    })
                }
                Ok(Value::Null) => None,
                Ok(other) => Some(Annotation::Failed {
                    message: format!(
                        "valueExpression '{}' resulted in unsupported return type: {}. Return \
                         type must be either string or null.",
                        annotation.value_expression,
                        other.type_name()
                    ),
                    error: ErrorType::Invalid,
                }),
                Err(fault) => failed(fault.to_string(), (&fault).into()),
            };
            annotations.extend(made);
        }
        Ok(annotations)
    }
}

/// The messages of validations that do not hold. Those of others are not evaluated (D-116).
struct Messages<'s, 'k, 'a> {
    compiled: &'s Compiled,
    scope: Scope<'s, 'k>,
    asker: &'a dyn Asker,
}

impl Messages<'_, '_, '_> {
    /// Returns the message of a validation (HK-53).
    async fn of(&mut self, place: usize, validation: &Validation) -> Result<String, OutOfBudget> {
        if let Some(Some(expression)) = self.compiled.messages.get(place) {
            let value = self.scope.evaluate(expression, self.asker).await?;
            if let Ok(Value::String(text)) = value {
                let text = text.trim();
                let is_usable = text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
                if is_usable && !text.is_empty() {
                    return Ok(text.to_owned());
                }
            }
        }
        let written = validation.message.trim();
        Ok(match written.is_empty() {
            true => format!("failed expression: {}", validation.expression.trim()),
            false => written.to_owned(),
        })
    }
}
