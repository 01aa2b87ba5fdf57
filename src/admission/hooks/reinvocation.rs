//! Which hooks run again in the second round of the first stage (HK-29). Pure.

use std::collections::{HashMap, HashSet};

use crate::api::object::Object;

/// The notes of all plugins that call hooks, by the names of the plugins.
#[derive(Debug, Default)]
pub struct Reinvocations(HashMap<&'static str, Reinvocation>);

impl Reinvocations {
    /// Returns the notes of a plugin.
    pub fn of(&mut self, plugin: &'static str) -> &mut Reinvocation {
        self.0.entry(plugin).or_default()
    }
}

/// The notes of one plugin about its hooks, which are known by unique names.
#[derive(Debug, Default)]
pub struct Reinvocation {
    /// The object as the plugin left it in the first round.
    left: Option<Object>,
    /// Hooks that may run again and have run since the last change.
    ran: HashSet<String>,
    /// Hooks that run in the second round.
    again: HashSet<String>,
}

impl Reinvocation {
    /// Notes that a hook with reinvocationPolicy IfNeeded has run.
    pub fn has_run(&mut self, hook: &str) {
        self.ran.insert(hook.to_owned());
    }

    /// Notes that a hook has changed the object, so all that ran before it must see the change.
    pub fn changed(&mut self) {
        self.again.extend(self.ran.drain());
    }

    /// Begins the second round with the object as it is now. If another plugin has changed it since
    /// this one ended, all of its hooks must see that.
    pub fn begin_again(&mut self, object: &Object) {
        if self.left.as_ref() != Some(object) {
            self.changed();
        }
    }

    /// Returns whether a hook runs in the second round.
    pub fn runs_again(&self, hook: &str) -> bool {
        self.again.contains(hook)
    }

    /// Ends the round with the object as it is now.
    pub fn leave(&mut self, object: &Object) {
        // Changes by others matter only to hooks that may run again.
        if !self.ran.is_empty() {
            self.left = Some(object.clone());
        }
    }
}
