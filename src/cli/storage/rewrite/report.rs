//! The report at the end of a rewrite. It covers only the data that was checked.

use super::{GOES_ON, Outdated};
use crate::storage::rewrite::{Covered, RewriteProgress};

/// The verdict on values without keys.
const NOT_ENCRYPTED: &str = "every value is of the version of its kind that is stored. Nothing is \
                             encrypted, as --encryption-provider-config is not set, and no history \
                             was forgotten\n";

/// The verdict if only versions were looked at.
const ONLY_VERSIONS: &str = "every value that was looked at is of the version of its kind that is \
                             stored. Keys and history are as they were\n";

/// The text of the report. `outdated` has the definitions that list versions in which nothing is
/// stored any more.
pub(super) fn report(last: RewriteProgress, outdated: &[Outdated]) -> Result<String, String> {
    match last {
        RewriteProgress::Done {
            seen,
            rewritten,
            is_encrypted,
            only_versions,
            covered,
            compacted_revision,
            reclaimed_bytes,
            ..
        } => {
            let resources: u64 = covered.iter().map(|one| one.resources).sum();
            let mut text =
                format!("looked at {seen} values of {resources} resources, rewrote {rewritten}\n");
            if let Some(revision) = compacted_revision {
                text += &format!(
                    "forgot history up to revision {revision}, gave back {reclaimed_bytes} bytes\n"
                );
            }
            text += &match (only_versions, is_encrypted) {
                (true, _) => ONLY_VERSIONS.to_owned(),
                (false, true) => verdict(&covered),
                (false, false) => NOT_ENCRYPTED.to_owned(),
            };
            Ok(text + &shorter(&covered, outdated))
        }
        RewriteProgress::Failed { reason, unreadable } => {
            let values: String = unreadable
                .iter()
                .map(|text| format!("\n  {text}"))
                .collect();
            Err(reason + &values)
        }
        step => Err(format!("it ended with {step:?}; {GOES_ON}")),
    }
}

/// The versions that definitions need not list, and when.
fn shorter(covered: &[Covered], outdated: &[Outdated]) -> String {
    if outdated.is_empty() {
        return String::new();
    }
    let lines: String = outdated.iter().map(Outdated::line).collect();
    let mut condition = "this holds only if the storage versions had been the same for a minute \
                         when this began; if not, run this again"
        .to_owned();
    if covered.iter().any(|one| one.is_shared) {
        condition += ". Every server that writes to the etcd must have seen them by then";
    }
    format!("{lines}{condition}\n")
}

/// The keys that may be removed, and when.
fn verdict(covered: &[Covered]) -> String {
    let shared: Vec<&Covered> = covered.iter().filter(|one| one.is_shared).collect();
    if shared.is_empty() {
        return "nothing that is stored needs an old key any more: every key that does not write \
                may be taken out of the file\n"
            .to_owned();
    }
    let places: Vec<String> = shared
        .iter()
        .map(|one| format!("{} (revision {})", one.back_end, one.revision))
        .collect();
    let names: Vec<&str> = shared.iter().map(|one| one.back_end.as_str()).collect();
    format!(
        "no value that was looked at needs an old key any more. Others may write to {}: this holds \
         only if every daemon there had read the file with the new key first before this began; if \
         one had not, run this again once it has. The history of {} needs the old keys until its \
         servers have been compacted twice more: then every key that does not write may be taken \
         out of the file\n",
        places.join(", "),
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn covered(back_end: &str, is_shared: bool) -> Covered {
        Covered {
            back_end: back_end.to_owned(),
            resources: 3,
            revision: 77,
            is_shared,
        }
    }

    fn done(covered: Vec<Covered>) -> RewriteProgress {
        RewriteProgress::Done {
            seen: 10,
            rewritten: 4,
            is_encrypted: true,
            only_versions: false,
            stored_as: BTreeMap::new(),
            covered,
            compacted_revision: Some(77),
            reclaimed_bytes: 4096,
        }
    }

    #[test]
    fn only_what_others_do_not_write_to_lets_old_keys_go_at_once() {
        let text = report(done(vec![covered("base", false)]), &[]).unwrap();
        assert!(
            text.starts_with("looked at 10 values of 3 resources, rewrote 4\n"),
            "{text}"
        );
        assert!(
            text.contains("up to revision 77, gave back 4096 bytes\n"),
            "{text}"
        );
        assert!(
            text.contains("nothing that is stored needs an old key any more"),
            "{text}"
        );
        let both = vec![covered("base", false), covered("events", true)];
        let text = report(done(both), &[]).unwrap();
        assert!(text.contains("of 6 resources"), "{text}");
        assert!(!text.contains("nothing that is stored"), "{text}");
        for condition in [
            "write to events (revision 77): this holds only if every daemon",
            "The history of events needs the old keys until",
        ] {
            assert!(text.contains(condition), "{text}");
        }
    }

    #[test]
    fn what_was_not_done_is_told_with_what_stands_in_the_way() {
        let failed = RewriteProgress::Failed {
            reason: "2 values can't be read".to_owned(),
            unreadable: vec!["one".to_owned(), "two".to_owned()],
        };
        assert_eq!(
            report(failed, &[]).unwrap_err(),
            "2 values can't be read\n  one\n  two"
        );
        assert!(report(RewriteProgress::Purging { revision: 7 }, &[]).is_err());
    }
}
