//! Settings for the storage of resources, with the texts of kube-apiserver's flags.

use std::fmt;
use std::str::FromStr;

/// `true` or `false`, in any spelling of Kubernetes' flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Switch, String> {
        match text {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(Switch(true)),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(Switch(false)),
            _ => Err("neither true nor false".to_owned()),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A resource, or all resources of a group: `apps/deployments`, `/events` in the core group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// Its group; empty for the core group.
    pub group: String,
    /// Its plural.
    pub resource: String,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.group, self.resource)
    }
}

/// A resource with its own servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersOverride {
    /// The resource, or `*` for all of a group.
    pub resource: GroupResource,
    /// The URLs of its servers.
    pub servers: Vec<String>,
}

/// `group/resource#url;url`, separated by commas (SF-2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServersOverrides(pub Vec<ServersOverride>);

/// The format, for error messages.
const OVERRIDE_FORMAT: &str =
    "group/resource#url;url is expected, with nothing before the slash for the core group";

impl FromStr for ServersOverrides {
    type Err = String;

    fn from_str(text: &str) -> Result<ServersOverrides, String> {
        let entries = entries(text).map(|entry| {
            servers_override(entry).ok_or_else(|| format!("{OVERRIDE_FORMAT}, not {entry}"))
        });
        Ok(ServersOverrides(entries.collect::<Result<_, _>>()?))
    }
}

fn servers_override(entry: &str) -> Option<ServersOverride> {
    let (resource, servers) = split_once_only(entry, '#')?;
    let (group, resource) = split_once_only(resource, '/')?;
    let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
    let is_complete = !resource.is_empty() && servers.iter().all(|server| !server.is_empty());
    is_complete.then(|| ServersOverride {
        resource: GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        },
        servers,
    })
}

impl fmt::Display for ServersOverrides {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |one: &ServersOverride| format!("{}#{}", one.resource, one.servers.join(";"));
        formatter.write_str(&joined(&self.0, text))
    }
}

/// `resource[.group]#size`, separated by commas (SF-8): whether resources have a watch cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchCacheSizes(pub Vec<(String, u64)>);

impl FromStr for WatchCacheSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<WatchCacheSizes, String> {
        let sizes = entries(text).map(|entry| {
            let (resource, size) = split_once_only(entry, '#')
                .filter(|(resource, _)| !resource.is_empty())
                .ok_or_else(|| {
                    format!("invalid value, resource[.group]#size is expected: {entry}")
                })?;
            let size = size.parse::<i64>();
            let size = size.map_err(|_| format!("invalid size of a watch cache: {entry}"))?;
            let size = u64::try_from(size)
                .map_err(|_| format!("the size of a watch cache cannot be negative: {entry}"))?;
            Ok::<_, String>((resource.to_owned(), size))
        });
        Ok(WatchCacheSizes(sizes.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for WatchCacheSizes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, |(resource, size)| {
            format!("{resource}#{size}")
        }))
    }
}

/// A number that is accepted and ignored, with a warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnusedSize(pub Option<i64>);

impl FromStr for UnusedSize {
    type Err = String;

    fn from_str(text: &str) -> Result<UnusedSize, String> {
        if text.is_empty() {
            return Ok(UnusedSize(None));
        }
        let size = text.parse().map_err(|_| "not a number".to_owned())?;
        Ok(UnusedSize(Some(size)))
    }
}

impl fmt::Display for UnusedSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |size| size.fmt(formatter))
    }
}

/// The storage version of a group or a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageVersion {
    /// The group; empty for the core group.
    pub group: String,
    /// The resource, or all of the group when there is none.
    pub resource: Option<String>,
    /// Another group that stores the resource in the same place.
    pub stored_group: Option<String>,
    /// The version.
    pub version: String,
}

/// `group=version`, `group/resource=version` or `group=othergroup/version`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageVersions(pub Vec<StorageVersion>);

/// The name that the core group may have where an empty name is hard to read.
const CORE: &str = "core";

impl FromStr for StorageVersions {
    type Err = String;

    fn from_str(text: &str) -> Result<StorageVersions, String> {
        let versions = entries(text).map(|entry| {
            storage_version(entry).ok_or_else(|| {
                format!(
                    "group=version, group/resource=version or group=othergroup/version is \
                     expected, with core for the core group, not {entry}"
                )
            })
        });
        Ok(StorageVersions(versions.collect::<Result<_, _>>()?))
    }
}

fn storage_version(entry: &str) -> Option<StorageVersion> {
    let group = |text: &str| match text {
        CORE => String::new(),
        text => text.to_owned(),
    };
    let (what, version) = split_once_only(entry, '=')?;
    let (of, resource) = match what.split_once('/') {
        Some((_, resource)) if resource.is_empty() || resource.contains('/') => return None,
        Some((group, resource)) => (group, Some(resource.to_owned())),
        None => (what, None),
    };
    let (stored_group, version) = match version.split_once('/') {
        Some((stored_group, version)) => (Some(group(stored_group)), version),
        None => (None, version),
    };
    let is_complete = !version.is_empty() && !version.contains('/');
    is_complete.then(|| StorageVersion {
        group: group(of),
        resource,
        stored_group,
        version: version.to_owned(),
    })
}

impl fmt::Display for StorageVersions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |group: &str| match group {
            "" => CORE.to_owned(),
            group => group.to_owned(),
        };
        formatter.write_str(&joined(&self.0, |one| {
            let resource = one.resource.as_ref().map(|r| format!("/{r}"));
            let stored_group = one.stored_group.as_ref().map(|g| format!("{}/", name(g)));
            format!(
                "{}{}={}{}",
                name(&one.group),
                resource.unwrap_or_default(),
                stored_group.unwrap_or_default(),
                one.version
            )
        }))
    }
}

/// The stored form of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageMediaType {
    /// Compact JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
    /// The protobuf of Kubernetes.
    Protobuf,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

impl FromStr for StorageMediaType {
    type Err = String;

    /// Unparsable and unsupported types have different messages (SF-46).
    fn from_str(text: &str) -> Result<StorageMediaType, String> {
        let essence = text.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "" | JSON => Ok(StorageMediaType::Json),
            YAML => Ok(StorageMediaType::Yaml),
            PROTOBUF => Ok(StorageMediaType::Protobuf),
            other if !is_media_type(other) => Err("not a media type such as type/subtype".into()),
            _ => Err(format!(
                "objects can't be stored in this form; supported are {JSON}, {PROTOBUF}, \
                 {YAML}"
            )),
        }
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !part.is_empty() && part.bytes().all(is_letter)
    };
    split_once_only(text, '/').is_some_and(|(kind, form)| is_token(kind) && is_token(form))
}

impl fmt::Display for StorageMediaType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StorageMediaType::Json => JSON,
            StorageMediaType::Yaml => YAML,
            StorageMediaType::Protobuf => PROTOBUF,
        })
    }
}

/// The entries between commas.
pub(super) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

pub(super) fn joined<T>(entries: &[T], text: impl Fn(&T) -> String) -> String {
    entries.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Both sides of a character that must occur exactly once.
fn split_once_only(text: &str, at: char) -> Option<(&str, &str)> {
    let (before, after) = text.split_once(at)?;
    (!after.contains(at)).then_some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_name_a_resource_and_its_servers_sf_2_sf_30() {
        let text = "/events#http://a:2379;http://b:2379,apps/*#https://c:2379";
        let overrides: ServersOverrides = text.parse().unwrap();
        assert_eq!(overrides.to_string(), text);
        assert_eq!(overrides.0[0].resource.to_string(), "/events");
        assert_eq!(overrides.0[0].servers, ["http://a:2379", "http://b:2379"]);
        assert_eq!(overrides.0[1].resource.group, "apps");
        for bad in [
            "/events",
            "events#http://a",
            "a/b/c#http://a",
            "/events#http://a#http://b",
            "/events#",
            "/events#http://a;",
            "/#http://a",
        ] {
            let refusal = bad.parse::<ServersOverrides>().unwrap_err();
            assert!(refusal.contains("group/resource#url;url"), "{refusal}");
            assert!(refusal.ends_with(bad), "{refusal}");
        }
    }

    #[test]
    fn three_things_can_be_wrong_with_a_size_sf_8_sf_31() {
        let sizes: WatchCacheSizes = "events#0, deployments.apps#100".parse().unwrap();
        assert_eq!(sizes.to_string(), "events#0,deployments.apps#100");
        for (text, words) in [
            ("pods", "invalid value"),
            ("pods#1#2", "invalid value"),
            ("#1", "invalid value"),
            ("pods#many", "invalid size"),
            ("pods#-1", "cannot be negative"),
        ] {
            let refusal = format!("events#0,{text}").parse::<WatchCacheSizes>();
            let refusal = refusal.unwrap_err();
            assert!(refusal.contains(words), "{refusal}");
            assert!(refusal.ends_with(text), "{refusal}");
        }
    }

    #[test]
    fn versions_are_of_groups_or_resources_and_may_be_in_another_group_sf_43() {
        let text = "apps=v1,autoscaling/horizontalpodautoscalers=v2,\
                    core/events=events.k8s.io/v1,extensions=apps/v1";
        let versions: StorageVersions = text.parse().unwrap();
        assert_eq!(versions.to_string(), text);
        let events = &versions.0[2];
        assert_eq!((events.group.as_str(), events.version.as_str()), ("", "v1"));
        assert_eq!(events.stored_group.as_deref(), Some("events.k8s.io"));
        let core: StorageVersions = "=v1".parse().unwrap();
        assert_eq!(core.to_string(), "core=v1");
        for bad in [
            "apps",
            "apps=",
            "apps/=v1",
            "apps=v1=v2",
            "a/b/c=v1",
            "a=b/c/d",
        ] {
            let refusal = bad.parse::<StorageVersions>().unwrap_err();
            assert!(refusal.ends_with(bad), "{refusal}");
        }
    }

    #[test]
    fn a_media_type_is_unparsable_or_unsupported_sf_6_sf_46() {
        let parsed = |text: &str| text.parse::<StorageMediaType>();
        assert_eq!(parsed("application/json"), Ok(StorageMediaType::Json));
        assert_eq!(parsed(""), Ok(StorageMediaType::Json));
        let with_parameter = parsed("Application/YAML; charset=utf-8");
        assert_eq!(with_parameter, Ok(StorageMediaType::Yaml));
        for nonsense in ["json", "a/b/c", "/json", "application/", "a b/c"] {
            let refusal = parsed(nonsense).unwrap_err();
            assert!(refusal.starts_with("not a media type"), "{refusal}");
        }
        let refusal = parsed("application/cbor").unwrap_err();
        assert!(
            refusal.ends_with(
                "application/json, application/vnd.kubernetes.protobuf, application/yaml"
            ),
            "{refusal}"
        );
        let protobuf = parsed("application/vnd.kubernetes.protobuf");
        assert_eq!(protobuf, Ok(StorageMediaType::Protobuf));
    }
}
