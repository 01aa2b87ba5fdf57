//! Descriptions of defaulted FlowSchemas and PriorityLevelConfigurations.

use api::completeness::Expected;

use super::of;

/// Describes a defaulted FlowSchema.
pub fn flowschema() -> Expected {
    of(Expected::default().filled(&["matchingPrecedence"]))
}

/// Describes a defaulted PriorityLevelConfiguration.
pub fn prioritylevelconfiguration() -> Expected {
    let shares = || Expected::default().given(&["lendablePercent", "nominalConcurrencyShares"]);
    let queuing = Expected::default().filled(&["handSize", "queueLengthLimit", "queues"]);
    let response = Expected::default().below("queuing", queuing);
    let spec = Expected::default()
        .below("exempt", shares())
        .below("limited", shares().below("limitResponse", response));
    of(spec)
}
