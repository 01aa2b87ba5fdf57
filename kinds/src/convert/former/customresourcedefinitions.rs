//! CustomResourceDefinitions in `apiextensions.k8s.io/v1beta1`.

use api::object::Object;
use serde_json::{Value, json};

use super::super::customresourcedefinitions::v1beta1_to_v1;
use crate::defaults::apiextensions::customresourcedefinition;
use crate::defaults::{member, member_or_new, set_default};

/// Applies the defaults of `v1beta1` and converts a definition.
pub(super) fn v1beta1(object: &mut Object) {
    if let Some(spec) = member_or_new(&mut object.0, "spec") {
        set_default(spec, "scope", "Namespaced");
        if let Some(conversion) = member(spec, "conversion")
            && conversion.get("strategy") == Some(&json!("Webhook"))
        {
            let reviews = conversion.get("conversionReviewVersions");
            if reviews.and_then(Value::as_array).is_none_or(Vec::is_empty) {
                let reviews = json!(["v1beta1"]);
                conversion.insert("conversionReviewVersions".to_owned(), reviews);
            }
        }
    }
    v1beta1_to_v1(object);
    customresourcedefinition(object);
}
