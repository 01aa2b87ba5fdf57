//! The tags of images, on which the default pull policy depends (API-246).

use serde_json::Value;

use crate::defaults::{Members, set_default};

/// Sets the pull policy of an image unless it is set.
pub(super) fn set_pull_policy(members: &mut Members, image: &str, policy: &str) {
    let is_set = members.get(policy).and_then(Value::as_str);
    if is_set.is_some_and(|policy| !policy.is_empty()) {
        return;
    }
    let image = members.get(image).and_then(Value::as_str);
    let default = pull_policy(image.unwrap_or_default());
    set_default(members, policy, default);
}

/// Returns the default pull policy of an image.
fn pull_policy(image: &str) -> &'static str {
    match is_latest(image) {
        true => "Always",
        false => "IfNotPresent",
    }
}

const MAX_PATH: usize = 255;

/// Reports whether an image has the tag `latest`, or neither a tag nor a digest. Invalid image
/// names do not count.
fn is_latest(image: &str) -> bool {
    let (tagged, digest) = match image.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (image, None),
    };
    let (name, tag) = match tagged.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (tagged, None),
    };
    let is_latest = match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    };
    is_latest && digest.is_none_or(is_digest) && is_name(name, image)
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, sum)) = text.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    sum.len() == length && is_hex(sum)
}

/// Reports whether this is a valid image name: an optional registry and a path.
fn is_name(name: &str, image: &str) -> bool {
    if image.len() == 64 && is_hex(image) {
        // Such a name would be an image ID.
        return false;
    }
    let is_registry = |part: &str| {
        part.contains(['.', ':']) || part == "localhost" || part != part.to_lowercase()
    };
    let (registry, path) = match name.split_once('/') {
        Some((registry, path)) if is_registry(registry) => (registry, path),
        _ => ("docker.io", name),
    };
    let registry = match registry {
        "index.docker.io" => "docker.io",
        other => other,
    };
    let library = match registry == "docker.io" && !path.contains('/') {
        true => "library/".len(),
        false => 0,
    };
    library + path.len() <= MAX_PATH && is_host(registry) && path.split('/').all(is_path_component)
}

fn is_host(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else {
                return false;
            };
            let is_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
            if address.is_empty() || !address.bytes().all(is_address) {
                return false;
            }
            ("localhost", port)
        }
        None => registry.split_at(registry.find(':').unwrap_or(registry.len())),
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    is_port && host.split('.').all(is_label)
}

/// Reports whether a text is lower-case letters and digits, separated by a dot, one or two
/// underscores, or hyphens.
fn is_path_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_separator = |between: &str| {
        matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
    };
    text.bytes().next().is_some_and(is_word)
        && text.bytes().last().is_some_and(is_word)
        && separators.into_iter().all(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_may_change_are_pulled_always() {
        let latest = [
            "nginx",
            "nginx:latest",
            "localhost:5000/a/b",
            "Registry/a",
            "[::1]:5000/a",
            "a/b__c.d---e",
        ];
        for image in latest {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let pinned = [
            "nginx:1",
            "localhost:5000",
            "nginx:latest@sha256:00",
            digest.as_str(),
            "",
            "NGINX",
            " nginx",
            "a//b",
            "a___b",
            "-a",
        ];
        for image in pinned {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
