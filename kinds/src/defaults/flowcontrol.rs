//! Defaults of FlowSchemas and PriorityLevelConfigurations (API-260).

use api::object::Object;

use super::{Members, member, set_absent, set_number};

/// Sets the defaults of a FlowSchema.
pub fn flowschema(object: &mut Object) {
    if let Some(spec) = member(&mut object.0, "spec") {
        set_number(spec, "matchingPrecedence", 1000);
    }
}

/// Sets the defaults of a PriorityLevelConfiguration.
pub fn prioritylevelconfiguration(object: &mut Object) {
    let Some(spec) = member(&mut object.0, "spec") else {
        return;
    };
    if let Some(limited) = member(spec, "limited") {
        set_shares(limited, 30);
        let response = member(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| member(response, "queuing")) {
            set_number(queuing, "queues", 64);
            set_number(queuing, "handSize", 8);
            set_number(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = member(spec, "exempt") {
        set_shares(exempt, 0);
    }
}

fn set_shares(level: &mut Members, shares: i64) {
    set_absent(level, "nominalConcurrencyShares", shares);
    set_absent(level, "lendablePercent", 0);
}
