//! Digests of who wants to be whom, for what (AC-78). Pure.

use sha2::{Digest, Sha256};

use super::mode::Mode;
use crate::api::user_info::UserInfo;
use crate::auth::Attributes;
use crate::auth::kept::Key;

/// Returns the digest of a requester and the user whom it wants to be in a mode, and of the action
/// if there is one. Each part has its length, so no two questions have the same parts.
pub(super) fn of(
    mode: Mode,
    wanted: &UserInfo,
    requester: &UserInfo,
    action: Option<&Attributes<'_>>,
) -> Key {
    let mut parts = Parts(Sha256::new());
    parts.text(mode.name());
    parts.user(wanted);
    parts.user(requester);
    let Some(action) = action else {
        return parts.0.finalize().into();
    };
    parts.text(if action.is_resource_request {
        "resource"
    } else {
        "path"
    });
    for text in [
        action.verb,
        action.path,
        action.api_group,
        action.api_version,
        action.resource,
        action.subresource,
        action.namespace,
        action.name,
        action.field_selector,
        action.label_selector,
    ] {
        parts.text(text);
    }
    parts.0.finalize().into()
}

struct Parts(Sha256);

impl Parts {
    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text);
    }

    fn texts(&mut self, texts: &[String]) {
        self.number(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    fn user(&mut self, user: &UserInfo) {
        self.text(&user.name);
        self.text(&user.uid);
        self.texts(&user.groups);
        self.number(user.extra.len());
        for (key, values) in &user.extra {
            self.text(key);
            self.texts(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_users_are_not_confused_ac_78() {
        let user = |name: &str, uid: &str, groups: &[&str]| UserInfo {
            name: name.to_owned(),
            uid: uid.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..UserInfo::default()
        };
        let bob = user("bob", "", &[]);
        let action = Attributes::on_resource(&bob, "get", "", "pods");
        let named = Attributes {
            name: "a",
            ..action
        };
        let in_namespace = Attributes {
            namespace: "a",
            ..action
        };
        let keys = [
            of(Mode::UserInfo, &user("ab", "", &[]), &bob, None),
            of(Mode::UserInfo, &user("a", "b", &[]), &bob, None),
            of(Mode::UserInfo, &user("a", "", &["b"]), &bob, None),
            of(Mode::UserInfo, &user("a", "", &["b", "c"]), &bob, None),
            of(Mode::UserInfo, &user("a", "", &["bc"]), &bob, None),
            of(Mode::UserInfo, &bob, &user("ab", "", &[]), None),
            of(Mode::Legacy, &user("ab", "", &[]), &bob, None),
            of(Mode::UserInfo, &user("ab", "", &[]), &bob, Some(&action)),
            of(Mode::UserInfo, &user("ab", "", &[]), &bob, Some(&named)),
            of(
                Mode::UserInfo,
                &user("ab", "", &[]),
                &bob,
                Some(&in_namespace),
            ),
        ];
        let different: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }
}
