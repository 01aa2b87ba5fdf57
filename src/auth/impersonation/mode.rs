//! The modes of impersonation, and to whom they apply (AC-76). Pure.

use crate::api::user_info::{UserInfo, node, service_account};

/// The extra value of a service account's token with the name of the node of its pod.
pub(super) const NODE_OF_TOKEN: &str = "authentication.kubernetes.io/node-name";

/// A way to become another user, with rights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The node that the requester's own token names.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    /// A service account.
    ServiceAccount,
    /// A user who is neither a node nor a service account.
    UserInfo,
    /// The verb `impersonate`.
    Legacy,
}

impl Mode {
    /// All modes, in the order in which they are tried.
    pub(super) const ALL: [Mode; 5] = [
        Mode::AssociatedNode,
        Mode::ArbitraryNode,
        Mode::ServiceAccount,
        Mode::UserInfo,
        Mode::Legacy,
    ];

    /// The name in verbs and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "legacy",
        }
    }

    /// The verb that grants the parts of a user.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "impersonate:associated-node",
            Mode::ArbitraryNode => "impersonate:arbitrary-node",
            Mode::ServiceAccount => "impersonate:serviceaccount",
            Mode::UserInfo => "impersonate:user-info",
            Mode::Legacy => "impersonate",
        }
    }

    /// Whether the action counts, and not only the user.
    pub(super) fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    /// The constraint that the audit log shows; the old verb has none.
    pub(super) fn constraint(self) -> Option<&'static str> {
        self.is_constrained().then(|| self.verb())
    }

    /// Whether the mode is meant for this user. Nodes and service accounts have fixed groups, so
    /// the headers must not have other parts.
    pub(super) fn applies(self, wanted: &UserInfo, requester: &UserInfo) -> bool {
        let is_named_alone =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node(&wanted.name), service_account(&wanted.name));
        match self {
            Mode::AssociatedNode => {
                let of_token = requester.extra.get(NODE_OF_TOKEN).map(Vec::as_slice);
                is_named_alone
                    && service_account(&requester.name).is_some()
                    && matches!((of_token, node), (Some([own]), Some(node)) if own == node)
            }
            Mode::ArbitraryNode => is_named_alone && node.is_some(),
            Mode::ServiceAccount => is_named_alone && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }
}
