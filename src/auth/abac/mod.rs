//! Authorization by policies in a file (ABAC, AC-40 and AC-41).
//!
//! The file of `--authorization-policy-file` has a policy on each line and is read once, at the
//! start. A policy names a user, a group or both, and what they may do. A request is compared only
//! with the policies for its user and for the user's groups, however long the file is.

mod policy;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::ready;
use std::path::Path;

use futures_util::future::{BoxFuture, FutureExt};

use super::{Attributes, Authorization, Authorizer, NonResourceRule, ResourceRule, Rules};
use crate::api::user_info::UserInfo;
use crate::files::given;
use policy::Policy;

/// The most bytes of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The most bytes of a line, Go's bound.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The policy file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// The file cannot be read.
    #[error("open {file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        problem: String,
    },
    /// A line is not a policy.
    #[error("error reading policy file {file}, line {number}: {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The number of the line, from 1.
        number: usize,
        /// The line.
        line: String,
        /// The fault in it.
        problem: String,
    },
    /// A line is longer than the bound.
    #[error("error reading policy file {file}: bufio.Scanner: token too long")]
    LongLine {
        /// The file.
        file: String,
    },
}

/// The policies of a file.
#[derive(Debug, Default)]
pub struct Policies {
    policies: Vec<Policy>,
    /// The places of the policies that name a user, by that name.
    of_users: HashMap<String, Vec<usize>>,
    /// The places of the other policies, by their group.
    of_groups: HashMap<String, Vec<usize>>,
}

impl Policies {
    /// Reads the file of `--authorization-policy-file`. Logs a warning if it has lines without a
    /// version.
    ///
    /// # Errors
    /// [`PolicyFileError`]
    pub fn load(path: &Path) -> Result<Policies, PolicyFileError> {
        let file = path.display().to_string();
        let unreadable = |error: std::io::Error| PolicyFileError::Unreadable {
            file: file.clone(),
            problem: error.to_string(),
        };
        let given = given::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        given.check_writers().map_err(unreadable)?;
        Policies::parse(&file, &given.bytes)
    }

    /// Reads the lines of a file with this name.
    ///
    /// # Errors
    /// [`PolicyFileError`]
    pub fn parse(file: &str, text: &[u8]) -> Result<Policies, PolicyFileError> {
        let mut policies = Policies::default();
        for (place, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() >= LINE_BYTES_MAX {
                let file = file.to_owned();
                return Err(PolicyFileError::LongLine { file });
            }
            let content = line.trim_ascii();
            if content.is_empty() || content.starts_with(b"#") {
                continue;
            }
            let policy = Policy::parse(line).map_err(|problem| PolicyFileError::Line {
                file: file.to_owned(),
                number: place + 1,
                line: String::from_utf8_lossy(line).into_owned(),
                problem,
            })?;
            policies.add(policy);
        }
        Ok(policies)
    }

    fn add(&mut self, policy: Policy) {
        let place = self.policies.len();
        let (index, name) = match policy.names_a_user() {
            true => (&mut self.of_users, &policy.user),
            false => (&mut self.of_groups, &policy.group),
        };
        // A policy for nobody allows nothing.
        if !name.is_empty() {
            index.entry(name.clone()).or_default().push(place);
        }
        self.policies.push(policy);
    }

    /// The policies for a user, in no particular order.
    fn places<'p>(&'p self, user: &'p UserInfo) -> impl Iterator<Item = usize> + 'p {
        let of_user = self.of_users.get(&user.name).into_iter().flatten();
        let of_user = of_user.copied().filter(move |place| {
            // linear: the groups of one user.
            let group = self.policies.get(*place).map(|policy| &*policy.group);
            group.is_some_and(|group| group.is_empty() || user.is_in(group))
        });
        let of_groups = user.groups.iter();
        let of_groups = of_groups.filter_map(|group| self.of_groups.get(group));
        of_user.chain(of_groups.flatten().copied())
    }

    fn allow(&self, attributes: &Attributes<'_>) -> bool {
        let mut policies = self.places(attributes.user);
        policies.any(|place| {
            let policy = self.policies.get(place);
            policy.is_some_and(|policy| policy.allows(attributes))
        })
    }

    fn rules(&self, user: &UserInfo, namespace: &str) -> Rules {
        let mut places: Vec<usize> = self.places(user).collect();
        places.sort_unstable();
        // A user may be twice in a group.
        places.dedup();
        let mut rules = Rules::default();
        let policies = places.iter().filter_map(|place| self.policies.get(*place));
        for policy in policies.filter(|policy| policy.is_for_namespace(namespace)) {
            if !policy.resource.is_empty() {
                let resources = &[&*policy.resource];
                let rule = ResourceRule::new(policy.verbs(), &policy.api_group, resources);
                rules.of_resources.push(rule);
            }
            if !policy.path.is_empty() {
                let rule = NonResourceRule::new(policy.verbs(), &[&*policy.path]);
                rules.of_paths.push(rule);
            }
        }
        rules
    }
}

impl Authorizer for Policies {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        let answer = match self.allow(attributes) {
            true => Authorization::allow_if(true),
            false => Authorization::no_opinion("No policy matched."),
        };
        ready(answer).boxed()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        ready(self.rules(user, namespace)).boxed()
    }
}
