//! Validation of CSIDrivers, CSINodes and CSIStorageCapacities.

use std::collections::{HashMap, HashSet};

use api::field::Field;
use api::names;
use api::object::Object;
use serde_json::Value;

use crate::defaults::pods::resources::read;
use crate::types::internal::{internal_json, invalid_struct};
use crate::validation::enums::validate_one_of;
use crate::validation::pods::volumes::drivers::validate_csi_driver_name;
use crate::validation::report;
use crate::validation::required::require_text;
use crate::validation::selectors::validate_label_selector;
use api::error_list::ErrorList;

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const MIN_UPDATE_PERIOD: i64 = 10;
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MAX_NODE_ID: usize = 256;

/// Validates a CSIDriver.
pub fn validate_csidriver(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    for name in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        let field = spec.member(name);
        if !field.is_set() {
            errors.push(field.required(""));
        }
    }
    let policy = spec.member("fsGroupPolicy");
    validate_one_of(&policy, &GROUP_POLICIES, errors);
    let tokens = spec.member("tokenRequests");
    validate_token_requests(&tokens, errors);
    let modes = spec.member("volumeLifecycleModes");
    for mode in modes.list() {
        let mode = modes.with_value(mode);
        validate_one_of(&mode, &LIFECYCLE_MODES, errors);
    }
    let period = spec.member("nodeAllocatableUpdatePeriodSeconds");
    if period
        .int()
        .is_some_and(|period| period < MIN_UPDATE_PERIOD)
    {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
    let secrets = spec.member("serviceAccountTokenInSecrets");
    if secrets.is_set() && tokens.is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(secrets.invalid(detail));
    }
}

/// Validates an update of a CSIDriver.
pub fn validate_csidriver_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_csidriver(object, errors);
    let spec = Field::of(object, "spec");
    let before = Field::of(stored, "spec");
    // Kubernetes misspells the first one.
    let names = [
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ];
    for (name, shown) in names {
        let field = spec.member(name);
        if let (true, value) = (field.value() != before.member(name).value(), field.value()) {
            let place = spec.member(shown);
            let value = value.cloned().unwrap_or_default();
            errors.push(place.invalid_value(value, "field is immutable"));
        }
    }
}

fn validate_token_requests(requests: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (request, value) in requests.items().zip(requests.list()) {
        let audience = value.get("audience").and_then(Value::as_str);
        let audience = audience.unwrap_or_default();
        if !seen.insert(audience) {
            errors.push(request.member("audience").duplicate());
            continue;
        }
        let seconds = request.member("expirationSeconds");
        let Some(number) = seconds.int() else {
            continue;
        };
        if number < MIN_TOKEN_SECONDS {
            errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        if number > MAX_TOKEN_SECONDS {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(seconds.invalid(detail));
        }
    }
}

/// Validates a CSINode.
pub fn validate_csinode(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let drivers = spec.member("drivers");
    let mut seen = HashSet::new();
    for (driver, value) in drivers.items().zip(drivers.list()) {
        validate_csi_driver_name(&driver.member("name"), errors);
        let id = driver.member("nodeID");
        if require_text(&id, errors) && id.text().len() > MAX_NODE_ID {
            errors.push(id.invalid(format!("must be {MAX_NODE_ID} characters or less")));
        }
        let allocatable = driver.member("allocatable");
        let count = allocatable.member("count");
        if count.int().is_some_and(|count| count < 0) {
            errors.push(count.invalid("must be greater than or equal to 0"));
        }
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !seen.insert(name) {
            errors.push(driver.member("name").duplicate());
        }
        validate_topology_keys(&driver, errors);
    }
}

/// Validates the topology keys of a driver. Errors have the path of the driver.
fn validate_topology_keys(driver: &Field<'_>, errors: &mut ErrorList) {
    let keys = driver.member("topologyKeys");
    let mut seen = HashSet::new();
    for key in keys.list() {
        let place = driver.with_value(key);
        require_text(&place, errors);
        if !seen.insert(key) {
            errors.push(place.duplicate());
        }
        report(&place, names::qualified_name(place.text()), errors);
    }
}

/// Validates an update of a CSINode. Drivers that stay are immutable, except for `allocatable`.
pub fn validate_csinode_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_csinode(object, errors);
    let spec = Field::of(object, "spec");
    let before = Field::of(stored, "spec");
    let drivers = spec.member("drivers");
    fn fixed(driver: &Value) -> [Option<&Value>; 2] {
        ["nodeID", "topologyKeys"].map(|name| driver.get(name))
    }
    let mut by_name: HashMap<Option<&Value>, Vec<&Value>> = HashMap::new();
    let mut forms: HashMap<Option<&Value>, HashSet<_>> = HashMap::new();
    for driver in drivers.list() {
        let name = driver.get("name");
        by_name.entry(name).or_default().push(driver);
        forms.entry(name).or_default().insert(fixed(driver));
    }
    for old in before.member("drivers").list() {
        let name = old.get("name");
        let of_name = forms.get(&name);
        let is_kept = of_name.is_none_or(|of_name| of_name.iter().eq([&fixed(old)]));
        // Each search among the drivers of a name finds an error, and the number of errors is
        // limited.
        if is_kept || errors.is_full() {
            continue;
        }
        for driver in by_name.get(&name).into_iter().flatten() {
            if fixed(old) != fixed(driver) {
                errors.push(drivers.invalid("field is immutable").showing_json(|| {
                    // Kubernetes compares and shows it without `allocatable`.
                    let mut driver = (*driver).clone();
                    if let Some(members) = driver.as_object_mut() {
                        members.remove("allocatable");
                    }
                    internal_json("storage.v1.CSINodeDriver", Some(&driver))
                }));
            }
        }
    }
}

/// Validates a CSIStorageCapacity.
pub fn validate_csistoragecapacity(object: &Object, errors: &mut ErrorList) {
    validate_label_selector(&Field::of(object, "nodeTopology"), false, errors);
    let class = Field::of(object, "storageClassName");
    report(&class, names::dns_subdomain(class.text()), errors);
    let capacity = Field::of(object, "capacity");
    let quantity = capacity.value().and_then(read);
    if let Some(quantity) = quantity.filter(|quantity| quantity.sign() < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(capacity.invalid_value(quantity.to_string(), detail));
    }
}

/// Validates an update of a CSIStorageCapacity.
pub fn validate_csistoragecapacity_update(
    object: &Object,
    stored: &Object,
    errors: &mut ErrorList,
) {
    validate_csistoragecapacity(object, errors);
    let detail = "field is immutable";
    let topology = Field::of(object, "nodeTopology");
    if topology.value() != Field::of(stored, "nodeTopology").value() {
        errors.push(invalid_struct(&topology, "meta.v1.LabelSelector", detail));
    }
    let class = Field::of(object, "storageClassName");
    if class.text() != Field::of(stored, "storageClassName").text() {
        errors.push(class.invalid_value(class.text(), detail));
    }
}
