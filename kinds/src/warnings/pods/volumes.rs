//! Warnings about volumes: deprecated types, and files that hide each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use api::field::Field;
use api::warnings::Warnings;

use super::super::storage::warn_of_claim;
use super::super::{quoted, warn};

/// Deprecated volume types, their names in warnings, and the warnings. An empty text marks the
/// place of ephemeral volumes, whose claims have their own warnings.
const OLD_TYPES: [(&str, &str, &str); 10] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    ("ephemeral", "ephemeral", ""),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// The limit of overlapping paths that are examined in a pod, because many may give the same
/// warning.
const MAX_OVERLAPS: usize = 1000;

pub(super) fn warn_of_volumes(volumes: &Field<'_>, warnings: &Warnings) {
    for volume in volumes.items() {
        for (name, shown, text) in OLD_TYPES {
            if text.is_empty() {
                let ephemeral = volume.member("ephemeral");
                let template = ephemeral.member("volumeClaimTemplate");
                warn_of_claim(&template.member("spec"), warnings);
            } else if volume.member(name).is_set() {
                warn(&volume.member(shown), text, warnings);
            }
        }
    }
    let mut left = MAX_OVERLAPS;
    for volume in volumes.items() {
        warn_of_files(&volume, &mut left, warnings);
    }
}

/// Warns of files of a volume at the same path, or below the path of another file.
fn warn_of_files(volume: &Field<'_>, left: &mut usize, warnings: &Warnings) {
    let name = quoted(volume.member("name").text());
    for (member, naming, kind) in [
        ("configMap", "name", "ConfigMap"),
        ("secret", "secretName", "Secret"),
        ("downwardAPI", "", "DownwardAPI"),
    ] {
        let source = volume.member(member);
        if source.member("items").is_empty() {
            continue;
        }
        let label = label(kind, &source.member(naming));
        let mut files = Files::of(format!("volume {name} ({label})"));
        for item in source.member("items").items() {
            files.add(item.member("path").text(), 0, left, warnings);
        }
    }
    let projected = volume.member("projected");
    if !projected.is_set() {
        return;
    }
    let mut files = Files::of(format!("volume {name} (Projected)"));
    for source in projected.member("sources").items() {
        let Some((paths, label)) = projection(&source) else {
            warnings.add(format!("{} has no sources provided", files.volume));
            continue;
        };
        let label = files.label(label);
        for path in paths {
            files.add(&path, label, left, warnings);
        }
    }
}

/// Returns the name of a source in warnings: `ConfigMap "a"`.
fn label(kind: &str, name: &Field<'_>) -> String {
    match kind {
        "DownwardAPI" | "ServiceAccountToken" => kind.to_owned(),
        _ => format!("{kind} {}", quoted(name.text())),
    }
}

/// Returns the paths of a projected source and its name in warnings. Trust bundles and pod
/// certificates, which are not served, do not count.
fn projection(source: &Field<'_>) -> Option<(Vec<String>, String)> {
    for (member, kind) in [
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ] {
        let source = source.member(member);
        if source.is_set() {
            let items = source.member("items");
            let paths = items
                .items()
                .map(|item| item.member("path").text().to_owned());
            return Some((paths.collect(), label(kind, &source.member("name"))));
        }
    }
    let token = source.member("serviceAccountToken");
    let path = token.member("path").text().to_owned();
    let kind = "ServiceAccountToken".to_owned();
    token.is_set().then(|| (vec![path], kind))
}

/// The files of a volume so far, by path, with the names of their sources.
struct Files {
    /// The name of the volume in warnings.
    volume: String,
    /// The names of sources in warnings. The first one is empty.
    labels: Vec<String>,
    places: HashMap<String, usize>,
    /// For each path, the positions of its first mention and of its label.
    by_path: BTreeMap<String, Vec<(usize, usize)>>,
    seen: HashSet<(String, usize)>,
    /// The lengths of paths. There are usually few, while a path may have many folders, so lookups
    /// of parent folders go through the lengths.
    lengths: BTreeSet<usize>,
}

impl Files {
    fn of(volume: String) -> Files {
        Files {
            volume,
            labels: vec![String::new()],
            places: HashMap::new(),
            by_path: BTreeMap::new(),
            seen: HashSet::new(),
            lengths: BTreeSet::new(),
        }
    }

    /// Returns the position of a label, and adds it if it is new.
    fn label(&mut self, label: String) -> usize {
        let next = self.labels.len();
        let place = *self.places.entry(label.clone()).or_insert(next);
        if place == next {
            self.labels.push(label);
        }
        place
    }

    /// Adds a file. Warns of each earlier file at the same path, below it or above it.
    fn add(&mut self, path: &str, label: usize, left: &mut usize, warnings: &Warnings) {
        let path = path.trim_end_matches('/');
        if *left > 0 {
            let found = self.overlaps(path, *left);
            *left -= found.len();
            for (_, other, of) in found {
                // Paths may be long, so texts are not built after the limit of warnings.
                if warnings.is_full() {
                    break;
                }
                let (file, other) = (self.shown(path, label), self.shown(other, of));
                let volume = &self.volume;
                warnings.add(format!("{volume}: overlapping paths: {file} with {other}"));
            }
        }
        if !path.is_empty() && self.seen.insert((path.to_owned(), label)) {
            let index = self.seen.len();
            let entries = self.by_path.entry(path.to_owned()).or_default();
            entries.push((index, label));
            self.lengths.insert(path.len());
        }
    }

    /// Returns the first files at a path, above it and below it, in the order of their mention.
    fn overlaps(&self, path: &str, most: usize) -> Vec<(usize, &str, usize)> {
        let mut found: Vec<(usize, &str, usize)> = Vec::new();
        let lengths = self.lengths.range(..=path.len()).copied();
        let is_folder = |end: &usize| matches!(path.as_bytes().get(*end), None | Some(b'/'));
        for end in lengths.filter(is_folder) {
            let above = path.get(..end).unwrap_or_default();
            if let Some((above, entries)) = self.by_path.get_key_value(above) {
                found.extend(entries.iter().map(|(at, of)| (*at, above.as_str(), *of)));
            }
        }
        let prefix = format!("{path}/");
        let below = self.by_path.range(prefix.clone()..);
        for (below, entries) in below.take_while(|(below, _)| below.starts_with(&prefix)) {
            if found.len() >= most {
                break;
            }
            found.extend(entries.iter().map(|(at, of)| (*at, below.as_str(), *of)));
        }
        found.sort_unstable();
        found.truncate(most);
        found
    }

    fn shown(&self, path: &str, label: usize) -> String {
        match self.labels.get(label).map(String::as_str) {
            None | Some("") => quoted(path).to_string(),
            Some(label) => format!("{} ({label})", quoted(path)),
        }
    }
}
