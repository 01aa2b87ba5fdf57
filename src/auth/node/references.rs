//! The relations of pods, volumes, attachments and slices, as they are read from their JSON
//! (AC-43). Pure.
//!
//! Only the members that matter are read, and names are borrowed from the text.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::graph::Graph;
use super::{Kind, Named};

/// A text of the JSON.
type Text<'t> = Cow<'t, str>;

/// A list, which may be `null`.
type List<T> = Option<Vec<T>>;

/// The members of a pod that relate it to other objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod<'t> {
    #[serde(borrow)]
    metadata: Metadata<'t>,
    #[serde(borrow)]
    spec: PodSpec<'t>,
    #[serde(borrow)]
    status: PodStatus<'t>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata<'t> {
    #[serde(borrow)]
    name: Text<'t>,
    #[serde(borrow)]
    namespace: Text<'t>,
    annotations: Option<Annotations>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec<'t> {
    #[serde(borrow)]
    node_name: Text<'t>,
    #[serde(borrow)]
    service_account_name: Text<'t>,
    #[serde(borrow)]
    image_pull_secrets: List<Reference<'t>>,
    #[serde(borrow)]
    containers: List<Container<'t>>,
    #[serde(borrow)]
    init_containers: List<Container<'t>>,
    #[serde(borrow)]
    ephemeral_containers: List<Container<'t>>,
    #[serde(borrow)]
    volumes: List<VolumeSource<'t>>,
    #[serde(borrow)]
    resource_claims: List<ResourceClaim<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus<'t> {
    #[serde(borrow)]
    resource_claim_statuses: List<ResourceClaim<'t>>,
    #[serde(borrow)]
    extended_resource_claim_status: Option<ResourceClaim<'t>>,
}

/// A resource claim of a pod: in its spec, or as its status names it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceClaim<'t> {
    #[serde(borrow)]
    name: Text<'t>,
    #[serde(borrow)]
    resource_claim_name: Option<Text<'t>>,
}

/// A reference to an object of a known kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference<'t> {
    #[serde(borrow)]
    namespace: Text<'t>,
    #[serde(borrow)]
    name: Text<'t>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container<'t> {
    #[serde(borrow)]
    env: List<Variable<'t>>,
    #[serde(borrow)]
    env_from: List<Variables<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variable<'t> {
    #[serde(borrow)]
    value_from: Option<VariableSource<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VariableSource<'t> {
    #[serde(borrow)]
    secret_key_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    config_map_key_ref: Option<Reference<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variables<'t> {
    #[serde(borrow)]
    secret_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    config_map_ref: Option<Reference<'t>>,
}

/// A volume of a pod, or the spec of a PersistentVolume. A driver has the same name in both.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSource<'t> {
    #[serde(borrow)]
    name: Text<'t>,
    #[serde(borrow)]
    claim_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    config_map: Option<Reference<'t>>,
    #[serde(borrow)]
    secret: Option<Driver<'t>>,
    #[serde(borrow)]
    persistent_volume_claim: Option<ClaimSource<'t>>,
    ephemeral: Option<IgnoredAny>,
    #[serde(borrow)]
    projected: Option<Projected<'t>>,
    #[serde(borrow)]
    azure_file: Option<Driver<'t>>,
    #[serde(borrow)]
    cephfs: Option<Driver<'t>>,
    #[serde(borrow)]
    cinder: Option<Driver<'t>>,
    #[serde(borrow)]
    csi: Option<Driver<'t>>,
    #[serde(borrow)]
    flex_volume: Option<Driver<'t>>,
    #[serde(borrow)]
    iscsi: Option<Driver<'t>>,
    #[serde(borrow)]
    rbd: Option<Driver<'t>>,
    #[serde(borrow, rename = "scaleIO")]
    scale_io: Option<Driver<'t>>,
    #[serde(borrow)]
    storageos: Option<Driver<'t>>,
}

/// The members of a driver that name secrets which a kubelet reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Driver<'t> {
    #[serde(borrow)]
    secret_name: Text<'t>,
    #[serde(borrow)]
    secret_namespace: Option<Text<'t>>,
    #[serde(borrow)]
    secret_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    node_publish_secret_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    node_stage_secret_ref: Option<Reference<'t>>,
    #[serde(borrow)]
    node_expand_secret_ref: Option<Reference<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource<'t> {
    #[serde(borrow)]
    claim_name: Text<'t>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Projected<'t> {
    #[serde(borrow)]
    sources: List<ProjectedSource<'t>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectedSource<'t> {
    #[serde(borrow)]
    secret: Option<Reference<'t>>,
    #[serde(borrow)]
    config_map: Option<Reference<'t>>,
}

/// The objects that a pod refers to, all in its namespace.
type Found<'f> = Vec<(Kind, Text<'f>)>;

impl<'t> VolumeSource<'t> {
    /// The drivers that take a secret, and whether the namespace of a volume's claim is used for a
    /// secret without one.
    fn drivers(&self) -> impl Iterator<Item = (&Driver<'t>, bool)> {
        let drivers = [
            (&self.secret, true),
            (&self.azure_file, true),
            (&self.cephfs, true),
            (&self.cinder, false),
            (&self.csi, false),
            (&self.flex_volume, true),
            (&self.iscsi, true),
            (&self.rbd, true),
            (&self.scale_io, true),
            (&self.storageos, false),
        ];
        let drivers = drivers.into_iter();
        drivers.filter_map(|(driver, defaults)| Some((driver.as_ref()?, defaults)))
    }

    /// Adds what a volume of a pod refers to.
    fn add_to<'f>(&'f self, pod: &str, found: &mut Found<'f>) {
        for (driver, _) in self.drivers() {
            found.push((Kind::Secret, (&*driver.secret_name).into()));
            for reference in driver.references() {
                found.push((Kind::Secret, (&*reference.name).into()));
            }
        }
        if let Some(map) = &self.config_map {
            found.push((Kind::ConfigMap, (&*map.name).into()));
        }
        let sources = self.projected.iter();
        for source in sources.flat_map(|one| one.sources.iter().flatten()) {
            add_both(&source.secret, &source.config_map, found);
        }
        match &self.persistent_volume_claim {
            Some(claim) => found.push((Kind::Claim, (&*claim.claim_name).into())),
            None if self.ephemeral.is_some() => {
                let claim = ephemeral_claim(pod, &self.name);
                found.push((Kind::Claim, claim.into()));
            }
            None => {}
        }
    }
}

/// Returns the name of the claim of an ephemeral volume of a pod.
pub fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

impl<'t> Driver<'t> {
    fn references(&self) -> impl Iterator<Item = &Reference<'t>> {
        [
            &self.secret_ref,
            &self.node_publish_secret_ref,
            &self.node_stage_secret_ref,
            &self.node_expand_secret_ref,
        ]
        .into_iter()
        .flatten()
    }
}

fn add_both<'f>(
    secret: &'f Option<Reference<'_>>,
    config_map: &'f Option<Reference<'_>>,
    found: &mut Found<'f>,
) {
    let mut add = |kind, reference: &'f Option<Reference<'_>>| {
        if let Some(reference) = reference {
            found.push((kind, (&*reference.name).into()));
        }
    };
    add(Kind::Secret, secret);
    add(Kind::ConfigMap, config_map);
}

impl Pod<'_> {
    /// Puts the relations of the pod into a graph.
    pub fn put(&self, graph: &mut Graph) {
        let Metadata {
            name, namespace, ..
        } = &self.metadata;
        let mut found = Found::new();
        let is_mirror = |one: &Annotations| one.mirror.is_some();
        if !self.metadata.annotations.as_ref().is_some_and(is_mirror) {
            self.find(&mut found);
        }
        let referred = found.iter().filter(|(_, name)| !name.is_empty());
        let referred = referred.map(|(kind, name)| Named {
            kind: *kind,
            namespace,
            name,
        });
        let pod = Named {
            kind: Kind::Pod,
            namespace,
            name,
        };
        graph.put(pod, &self.spec.node_name, referred);
    }

    /// Whether the pod refers to any object of this kind by name.
    pub fn refers_to(&self, kind: Kind) -> bool {
        let mut found = Found::new();
        self.find(&mut found);
        let mut found = found.iter();
        found.any(|(known, name)| *known == kind && !name.is_empty())
    }

    fn find<'f>(&'f self, found: &mut Found<'f>) {
        let spec = &self.spec;
        found.push((Kind::ServiceAccount, (&*spec.service_account_name).into()));
        for secret in spec.image_pull_secrets.iter().flatten() {
            found.push((Kind::Secret, (&*secret.name).into()));
        }
        let containers = [
            &spec.init_containers,
            &spec.containers,
            &spec.ephemeral_containers,
        ];
        for container in containers.into_iter().flatten().flatten() {
            for variables in container.env_from.iter().flatten() {
                add_both(&variables.secret_ref, &variables.config_map_ref, found);
            }
            let variables = container.env.iter().flatten();
            for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
                add_both(&source.secret_key_ref, &source.config_map_key_ref, found);
            }
        }
        for volume in spec.volumes.iter().flatten() {
            volume.add_to(&self.metadata.name, found);
        }
        self.find_resource_claims(found);
    }

    fn find_resource_claims<'f>(&'f self, found: &mut Found<'f>) {
        let mut add = |name: &'f Option<Text<'_>>| {
            if let Some(name) = name {
                found.push((Kind::ResourceClaim, (&**name).into()));
            }
        };
        let claims = self.spec.resource_claims.iter().flatten();
        let mut made = std::collections::HashSet::new();
        for claim in claims {
            add(&claim.resource_claim_name);
            if claim.resource_claim_name.is_none() {
                made.insert(&*claim.name);
            }
        }
        // A claim that was made from a template has its name in the status.
        for status in self.status.resource_claim_statuses.iter().flatten() {
            if made.contains(&*status.name) {
                add(&status.resource_claim_name);
            }
        }
        if let Some(extended) = &self.status.extended_resource_claim_status {
            add(&extended.resource_claim_name);
        }
    }
}

/// The members of a PersistentVolume that relate it to other objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume<'t> {
    #[serde(borrow)]
    metadata: Metadata<'t>,
    #[serde(borrow)]
    spec: VolumeSource<'t>,
}

impl Volume<'_> {
    /// Puts the relations of the volume into a graph.
    pub fn put(&self, graph: &mut Graph) {
        let name = &self.metadata.name;
        let volume = Named {
            kind: Kind::Volume,
            namespace: "",
            name,
        };
        let claim = self.spec.claim_ref.as_ref();
        let of_claim = claim.map_or("", |claim| &claim.namespace);
        let mut secrets = Vec::new();
        for (driver, defaults) in self.spec.drivers() {
            let or_default = |namespace| match namespace {
                "" if defaults => of_claim,
                namespace => namespace,
            };
            let own = driver.secret_namespace.as_deref().unwrap_or_default();
            secrets.push((or_default(own), &*driver.secret_name));
            for secret in driver.references() {
                secrets.push((or_default(&secret.namespace), &*secret.name));
            }
        }
        let secrets = secrets.into_iter().filter(|(_, name)| !name.is_empty());
        let secrets = secrets.map(|(namespace, name)| Named {
            kind: Kind::Secret,
            namespace,
            name,
        });
        let claim = claim.map(|claim| Named {
            kind: Kind::Claim,
            namespace: &claim.namespace,
            name: &claim.name,
        });
        graph.put_volume(volume, claim, secrets);
    }
}

/// The members of a VolumeAttachment or a ResourceSlice that relate it to its node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OfNode<'t> {
    #[serde(borrow)]
    metadata: Metadata<'t>,
    #[serde(borrow)]
    spec: OfNodeSpec<'t>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OfNodeSpec<'t> {
    #[serde(borrow)]
    node_name: Text<'t>,
}

impl OfNode<'_> {
    /// Puts the relation of the object to its node into a graph.
    pub fn put(&self, kind: Kind, graph: &mut Graph) {
        let name = &self.metadata.name;
        let object = Named {
            kind,
            namespace: "",
            name,
        };
        graph.put(object, &self.spec.node_name, []);
    }
}

/// Reads an object from its JSON, and puts its relations into a graph.
///
/// # Errors
/// The text is not that of such an object.
pub fn put(kind: Kind, json: &[u8], graph: &mut Graph) -> Result<(), serde_json::Error> {
    match kind {
        Kind::Pod => serde_json::from_slice::<Pod<'_>>(json)?.put(graph),
        Kind::Volume => serde_json::from_slice::<Volume<'_>>(json)?.put(graph),
        _ => serde_json::from_slice::<OfNode<'_>>(json)?.put(kind, graph),
    }
    Ok(())
}
