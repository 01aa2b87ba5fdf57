//! The authorization modes, as in the flag of kube-apiserver.

use std::fmt;
use std::str::FromStr;

use super::storage::entries;

/// A kind of authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Allows everything.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
    /// Decides by a file of policies.
    Abac,
    /// Asks a webhook.
    Webhook,
    /// Decides by roles and bindings.
    Rbac,
    /// Decides what a kubelet needs.
    Node,
}

impl AuthorizationMode {
    const ALL: [AuthorizationMode; 6] = [
        AuthorizationMode::AlwaysAllow,
        AuthorizationMode::AlwaysDeny,
        AuthorizationMode::Abac,
        AuthorizationMode::Webhook,
        AuthorizationMode::Rbac,
        AuthorizationMode::Node,
    ];

    /// The name of the mode in flags and metrics.
    pub fn name(self) -> &'static str {
        match self {
            AuthorizationMode::AlwaysAllow => "AlwaysAllow",
            AuthorizationMode::AlwaysDeny => "AlwaysDeny",
            AuthorizationMode::Abac => "ABAC",
            AuthorizationMode::Webhook => "Webhook",
            AuthorizationMode::Rbac => "RBAC",
            AuthorizationMode::Node => "Node",
        }
    }
}

/// The modes in the order in which they are asked, each at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationModes(pub Vec<AuthorizationMode>);

impl AuthorizationModes {
    /// Whether a mode is one of them.
    pub fn has(&self, mode: AuthorizationMode) -> bool {
        self.0.contains(&mode)
    }
}

impl Default for AuthorizationModes {
    fn default() -> AuthorizationModes {
        AuthorizationModes(vec![AuthorizationMode::Node, AuthorizationMode::Rbac])
    }
}

impl FromStr for AuthorizationModes {
    type Err = String;

    fn from_str(text: &str) -> Result<AuthorizationModes, String> {
        let mut modes = Vec::new();
        for name in entries(text) {
            let mut all = AuthorizationMode::ALL.into_iter();
            let mode = all.find(|mode| mode.name() == name);
            let mode = mode.ok_or_else(|| format!("{name:?} is not a valid mode"))?;
            if modes.contains(&mode) {
                return Err(format!("{text:?} has mode specified more than once"));
            }
            modes.push(mode);
        }
        match modes.is_empty() {
            true => Err("at least one authorization mode must be passed".to_owned()),
            false => Ok(AuthorizationModes(modes)),
        }
    }
}

impl fmt::Display for AuthorizationModes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|mode| mode.name()).collect();
        formatter.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_listed_in_order_and_once_ac_27() {
        let read = |text: &str| text.parse::<AuthorizationModes>();
        let modes = read("Webhook,RBAC").unwrap();
        assert_eq!(modes.to_string(), "Webhook,RBAC");
        assert!(modes.has(AuthorizationMode::Rbac) && !modes.has(AuthorizationMode::Node));
        assert_eq!(read("rbac").unwrap_err(), "\"rbac\" is not a valid mode");
        let twice = read("RBAC,Node,RBAC").unwrap_err();
        assert_eq!(
            twice,
            "\"RBAC,Node,RBAC\" has mode specified more than once"
        );
        assert!(read("").is_err());
        assert_eq!(AuthorizationModes::default().to_string(), "Node,RBAC");
    }
}
