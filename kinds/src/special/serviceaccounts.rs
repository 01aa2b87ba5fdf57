//! ServiceAccounts: only the names of their Secrets count (http.md 6.2).

use api::object::Object;
use serde_json::Value;

/// Drops everything but names of Secrets.
pub fn prepare(object: &mut Object) {
    let secrets = object.0.get_mut("secrets").and_then(Value::as_array_mut);
    let secrets = secrets.into_iter().flatten();
    for secret in secrets.filter_map(Value::as_object_mut) {
        secret.retain(|name, _| name == "name");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_names_of_secrets_are_kept() {
        let secrets = json!([{"name": "x", "namespace": "n", "kind": "k"}, {"namespace": "z"}]);
        let mut account = Object::default();
        account.0.insert("secrets".to_owned(), secrets);
        prepare(&mut account);
        assert_eq!(account.0.get("secrets"), Some(&json!([{"name": "x"}, {}])));
    }
}
