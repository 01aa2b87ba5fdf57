//! The user of a request (API-277 to API-283).

use std::collections::BTreeMap;

use crate::names::{dns_label, dns_subdomain};

/// The user of requests without credentials (API-280).
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of users with valid credentials (API-279).
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of users without credentials (API-280).
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members are allowed everything (API-286).
pub const MASTERS: &str = "system:masters";
/// The group of kubelets (API-283).
pub const NODES: &str = "system:nodes";
/// The group that may read metrics and health.
pub const MONITORING: &str = "system:monitoring";

/// The group of all service accounts (API-281).
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The prefix of the user names of service accounts (API-281).
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A user, as authenticators report it and authorizers and admission see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name of the user.
    pub name: String,
    /// Distinguishes users that had the same name at different times. May be empty.
    pub uid: String,
    /// The groups the user belongs to.
    pub groups: Vec<String>,
    /// Further data from an authenticator, by lower-case keys.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Returns the user of a request without credentials (API-280).
    pub fn anonymous() -> UserInfo {
        UserInfo {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..UserInfo::default()
        }
    }

    /// Returns a user with valid credentials. Adds the group of authenticated users, unless the
    /// user is anonymous or in the group of unauthenticated users (API-279).
    pub fn authenticated(name: impl Into<String>, groups: Vec<String>) -> UserInfo {
        let user = UserInfo {
            name: name.into(),
            groups,
            ..UserInfo::default()
        };
        match user.name == ANONYMOUS || user.is_in(UNAUTHENTICATED) {
            true => user,
            false => user.with_group(AUTHENTICATED),
        }
    }

    /// Adds the user to a group.
    #[must_use]
    pub fn with_group(mut self, group: &str) -> UserInfo {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
        self
    }

    /// Returns whether the user is a member of a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}

/// Returns the namespace and name of the service account with this user name (API-281).
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let account = user.strip_prefix(SERVICE_ACCOUNT)?;
    let (namespace, name) = account.split_once(':')?;
    let is_one = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

/// Returns the user name of a service account (API-281).
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// Returns the groups of the service accounts of a namespace (API-281).
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    let of_namespace = format!("{SERVICE_ACCOUNTS}:{namespace}");
    vec![SERVICE_ACCOUNTS.to_owned(), of_namespace]
}

/// Returns the node whose kubelet has this user name (API-283).
pub fn node(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    dns_subdomain(name).is_empty().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_credentials_add_the_authenticated_group_once_api_279() {
        let ada = UserInfo::authenticated("ada", vec!["crew".to_owned()]);
        assert_eq!(ada.groups, ["crew", AUTHENTICATED]);
        let again = UserInfo::authenticated("ada", ada.groups.clone());
        assert_eq!(again, ada);
        assert!(ada.is_in("crew") && !ada.is_in("cre"));
        assert_eq!(UserInfo::anonymous().groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn names_of_service_accounts_and_nodes_have_a_form_api_281_api_283() {
        let account = service_account("system:serviceaccount:d:a.b");
        assert_eq!(account, Some(("d", "a.b")));
        assert_eq!(
            service_account_groups("d"),
            ["system:serviceaccounts", "system:serviceaccounts:d"]
        );
        for none in [
            "ada",
            "system:serviceaccount:d",
            "system:serviceaccount:d:",
            "system:serviceaccount::a",
            "system:serviceaccount:d:a:b",
            "system:serviceaccount:d.e:a",
            "system:serviceaccount:d:A",
        ] {
            assert_eq!(service_account(none), None, "{none}");
        }
        assert_eq!(node("system:node:n1.example"), Some("n1.example"));
        for none in ["n1", "system:node:", "system:node:N1", "system:nodes:n1"] {
            assert_eq!(node(none), None, "{none}");
        }
    }
}
