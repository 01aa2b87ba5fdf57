//! The names that authorities may sign for (RFC 5280, 4.2.1.10, as Go interprets it). Pure.

use std::net::IpAddr;

use x509_parser::extensions::{GeneralName, NameConstraints};

use super::Refused;

/// The most comparisons of names with constraints in one search, as in Go.
pub(super) const COMPARISONS_MAX: usize = 250_000;

/// An alternative name, or a constraint on such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Dns(String),
    Email(String),
    Uri(String),
    /// An address, in a constraint with its mask.
    Ip(Vec<u8>),
    /// A kind that is not compared, such as a directory name.
    Other,
}

impl Name {
    pub(super) fn read(name: &GeneralName<'_>) -> Result<Name, Refused> {
        match name {
            GeneralName::DNSName(name) => Ok(Name::Dns((*name).to_owned())),
            GeneralName::RFC822Name(name) => Ok(Name::Email((*name).to_owned())),
            GeneralName::URI(name) => Ok(Name::Uri((*name).to_owned())),
            GeneralName::IPAddress(bytes) => Ok(Name::Ip(bytes.to_vec())),
            GeneralName::Invalid(..) => Err(Refused::Unreadable),
            _ => Ok(Name::Other),
        }
    }
}

/// The permitted and excluded names of the certificates below an authority.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    permitted: Vec<Name>,
    excluded: Vec<Name>,
}

impl Constraints {
    pub(super) fn read(constraints: &NameConstraints<'_>) -> Result<Constraints, Refused> {
        let read = |subtrees: &Option<Vec<_>>| {
            let subtrees = subtrees.iter().flatten();
            let names: Result<Vec<Name>, Refused> = subtrees
                .map(|tree: &x509_parser::extensions::GeneralSubtree<'_>| constraint(&tree.base))
                .collect();
            names
        };
        Ok(Constraints {
            permitted: read(&constraints.permitted_subtrees)?,
            excluded: read(&constraints.excluded_subtrees)?,
        })
    }

    /// Whether all constraints can be compared.
    pub(super) fn are_known(&self) -> bool {
        let mut all = self.permitted.iter().chain(&self.excluded);
        all.all(|name| *name != Name::Other)
    }

    /// Checks that a certificate with these names may be signed. Each comparison uses up some of
    /// the budget.
    pub(super) fn check(&self, names: &[Name], budget: &mut usize) -> Result<(), Refused> {
        for name in names {
            let mut is_permitted = true;
            for (constraints, are_excluded) in [(&self.excluded, true), (&self.permitted, false)] {
                *budget = budget
                    .checked_sub(constraints.len())
                    .ok_or(Refused::TooMuch)?;
                let mut fits = constraints.iter().filter_map(|one| fits(name, one));
                match are_excluded {
                    true if fits.any(|fit| fit != Fit::No) => return Err(Refused::Names),
                    true => {}
                    false => {
                        let fits: Vec<Fit> = fits.collect();
                        is_permitted = fits.is_empty() || fits.contains(&Fit::Yes);
                    }
                }
            }
            if !is_permitted {
                return Err(Refused::Names);
            }
        }
        Ok(())
    }
}

fn constraint(base: &GeneralName<'_>) -> Result<Name, Refused> {
    let name = Name::read(base)?;
    match &name {
        Name::Ip(bytes) if !matches!(bytes.len(), 8 | 32) => Err(Refused::Unreadable),
        _ => Ok(name),
    }
}

/// Whether a name is within a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// The name cannot be compared. It counts as not permitted, and as excluded.
    Unclear,
}

impl Fit {
    fn of(fits: Option<bool>) -> Fit {
        match fits {
            Some(true) => Fit::Yes,
            Some(false) => Fit::No,
            None => Fit::Unclear,
        }
    }
}

/// Compares a name with a constraint. Returns `None` if the two are of different kinds.
fn fits(name: &Name, constraint: &Name) -> Option<Fit> {
    Some(Fit::of(match (name, constraint) {
        (Name::Dns(name), Name::Dns(domain)) => match name.strip_prefix("*.") {
            // A wildcard stands for names inside and outside the constraint.
            Some(parent) if lies_in(parent, domain) == Some(true) => Some(true),
            Some(parent) => {
                lies_in(domain.trim_start_matches('.'), parent).filter(|is_below| !is_below)
            }
            None => lies_in(name, domain),
        },
        (Name::Email(name), Name::Email(constraint)) => mail(name, constraint),
        (Name::Uri(name), Name::Uri(domain)) => host(name).and_then(|host| lies_in(host, domain)),
        (Name::Ip(address), Name::Ip(constraint)) => {
            let (network, mask) = constraint.split_at(constraint.len() / 2);
            let mut bytes = address.iter().zip(network).zip(mask);
            let is_same_kind = address.len() == network.len();
            Some(is_same_kind && bytes.all(|((a, n), mask)| a & mask == n & mask))
        }
        _ => return None,
    }))
}

/// Whether a domain equals the constraint or is below it. After a leading dot, it must be below.
fn lies_in(domain: &str, constraint: &str) -> Option<bool> {
    if constraint.is_empty() {
        return Some(true);
    }
    let below = constraint.strip_prefix('.');
    let parent = below.unwrap_or(constraint);
    let labels = |name: &str| -> Option<Vec<String>> {
        let labels = name.rsplit('.').map(str::to_ascii_lowercase);
        let labels: Vec<String> = labels.collect();
        let is_good = |label: &String| !label.is_empty() && label.is_ascii();
        labels.iter().all(is_good).then_some(labels)
    };
    let (domain, parent) = (labels(domain)?, labels(parent)?);
    let is_longer = domain.len() > parent.len();
    Some(domain.starts_with(&parent) && (is_longer || below.is_none()))
}

fn mail(name: &str, constraint: &str) -> Option<bool> {
    let (local, domain) = name.rsplit_once('@')?;
    match constraint.rsplit_once('@') {
        Some((only, at)) => Some(local == only && domain.eq_ignore_ascii_case(at)),
        None => lies_in(domain, constraint),
    }
}

/// Returns the host of a URI, which must be a name.
fn host(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.starts_with('[') {
        return None;
    }
    let host = host.split(':').next()?;
    (!host.is_empty() && host.parse::<IpAddr>().is_err()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_lies_in_itself_and_in_those_above_it() {
        for (name, constraint, expected) in [
            ("a.example", "example", Some(true)),
            ("EXAMPLE", "example", Some(true)),
            ("example", ".example", Some(false)),
            ("a.example", ".example", Some(true)),
            ("anexample", "example", Some(false)),
            ("anything", "", Some(true)),
            ("a..example", "example", None),
        ] {
            assert_eq!(lies_in(name, constraint), expected, "{name} {constraint}");
        }
        for (uri, expected) in [
            ("spiffe://u@a.example:8/x", Some("a.example")),
            ("https://10.0.0.1/", None),
            ("https://[::1]/", None),
            ("mailto:a@b", None),
        ] {
            assert_eq!(host(uri), expected, "{uri}");
        }
    }

    #[test]
    fn names_are_permitted_unless_a_constraint_of_their_kind_says_otherwise() {
        let dns = |name: &str| Name::Dns(name.to_owned());
        let ip = |bytes: &[u8]| Name::Ip(bytes.to_vec());
        let constraints = Constraints {
            permitted: vec![dns("example"), ip(&[10, 0, 0, 0, 255, 0, 0, 0])],
            excluded: vec![dns("bad.example"), Name::Email("evil.example".to_owned())],
        };
        let may = |name: Name| constraints.check(&[name], &mut 100) == Ok(());
        for name in [
            dns("good.example"),
            dns("*.good.example"),
            ip(&[10, 1, 2, 3]),
            Name::Email("ada@example".to_owned()),
            Name::Uri("https://x".to_owned()),
            Name::Other,
        ] {
            assert!(may(name.clone()), "{name:?}");
        }
        for name in [
            dns("bad.example"),
            dns("x.bad.example"),
            dns("*.example"),
            dns("elsewhere"),
            dns("a..example"),
            ip(&[11, 1, 2, 3]),
            ip(&[10; 16]),
            Name::Email("ada@evil.example".to_owned()),
            Name::Email("ada".to_owned()),
        ] {
            assert!(!may(name.clone()), "{name:?}");
        }
        let many = vec![dns("good.example"); 34];
        assert_eq!(constraints.check(&many, &mut 100), Err(Refused::TooMuch));
    }
}
