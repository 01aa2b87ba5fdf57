//! Semantic versions.

use std::cmp::Ordering;

use crate::text::quoting::go_quote;

/// A version. Its build metadata does not count.
#[derive(Clone, Debug)]
pub struct Semver {
    pub(in super::super) numbers: [u64; 3],
    pre: Vec<Part>,
}

/// A part of a pre-release version. Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Semver {
    /// Returns the order of two versions. A pre-release comes before its release.
    pub(in super::super) fn compared(&self, other: &Semver) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        })
    }

    pub(in super::super) fn read(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "Major", "major")?;
        let minor = number(minor, "Minor", "minor")?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "Patch", "patch")?;
        let pre = pre.into_iter().flat_map(|pre| pre.split('.'));
        let pre = pre.map(pre_part).collect::<Result<Vec<Part>, String>>()?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_allowed) {
                let part = go_quote(part);
                return Err(format!(
                    "Invalid character(s) found in build meta data {part}"
                ));
            }
        }
        Ok(Semver {
            numbers: [major, minor, patch],
            pre,
        })
    }

    /// Reads a version that may begin with `v`, lack numbers or have leading zeros.
    pub(in super::super) fn read_tolerantly(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let rest = part.trim_start_matches('0');
            let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
            *part = if is_number {
                rest.to_owned()
            } else {
                format!("0{rest}")
            };
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Semver::read(&parts.join("."))
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, title: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = go_quote(text);
        return Err(format!(
            "Invalid character(s) found in {name} number {text}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        let text = go_quote(text);
        return Err(format!(
            "{title} number must not contain leading zeroes {text}"
        ));
    }
    parsed(text)
}

fn parsed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {}: {why}", go_quote(text))
    })
}

fn pre_part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = go_quote(text);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text}"
            ));
        }
        return parsed(text).map(Part::Number);
    }
    match text.bytes().all(is_allowed) {
        true => Ok(Part::Text(text.to_owned())),
        false => Err(format!(
            "Invalid character(s) found in prerelease {}",
            go_quote(text)
        )),
    }
}
