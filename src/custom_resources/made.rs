//! The served versions of a custom resource, made from its definition. Pure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use actors::object::CachedObject;

use super::conversion::Conversion;
use super::definition::{Definition, Version};
use super::form::{Form, Source};
use super::kind::{CustomKind, STATUS, ScaleFields};
use super::life::Closing;
use super::status::has_bad_bundle;
use crate::api::custom::{ScalePaths, selectable_fields};
use crate::api::resource::{
    ConversionStrategy, Declared, Deprecation, EndpointRules, FieldPath, FormerVersion,
    GenerationRule, Phase, ResourceDefinition, ResourceScope, Rules, Scaling, SelectableField,
    Subresource, UpdateCheck, Verb, WriteVersion,
};
use crate::api::schema::untyped;
use crate::kinds::definitions::autoscaling;
use crate::registry::compare_versions;
use crate::storage::StoredResource;
use crate::storage::codec::TypeName;

/// The number of the next resource that is made.
static EDITIONS: AtomicU64 = AtomicU64::new(1);

/// A custom resource that is made from a definition.
#[derive(Clone)]
pub struct Made {
    /// How it is stored, with all versions of its definition.
    pub resource: Arc<StoredResource>,
    /// The versions that clients can reach.
    pub served: Vec<Arc<ResourceDefinition>>,
    /// A number that differs if the texts in its cache differ.
    pub form: u64,
    /// The webhook that converts between its versions, if one does.
    pub conversion: Option<Arc<Conversion>>,
    pub(super) source: Arc<Source>,
    pub(super) identity: Identity,
}

/// The parts of a definition from which its resource follows (CRD-91).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Identity {
    pub uid: String,
    pub generation: i64,
    pub accepted: super::definition::Names,
    pub stored_versions: Vec<String>,
}

impl Identity {
    pub fn of(definition: &Definition) -> Identity {
        Identity {
            uid: definition.uid.clone(),
            generation: definition.generation,
            accepted: definition.accepted.clone(),
            stored_versions: definition.stored_versions.clone(),
        }
    }

    /// Returns whether both are about the same state of serving. The stored versions matter to the
    /// cache alone.
    pub fn is_same(&self, other: &Identity) -> bool {
        self.uid == other.uid
            && self.generation == other.generation
            && self.accepted == other.accepted
    }
}

/// Returns how far a definition's resource is served. Discovery shows it when nothing prevents that
/// it is established, so that clients who see it established find it there (CRD-103).
pub(super) fn phase_of(definition: &Definition) -> Phase {
    let is_established =
        |of: &Definition| of.is("Established") || of.is("NamesAccepted") && !has_bad_bundle(of);
    match definition {
        of if !is_established(of) => Phase::Unannounced,
        of if of.is_deleting || of.is("Terminating") => Phase::Terminating,
        _ => Phase::Announced,
    }
}

impl Made {
    /// Makes the resource of a definition. `is_hidden` says whether a built-in group hides it, so
    /// that no version is served (CRD-104). Returns `None` for a definition without a storage
    /// version or without names.
    pub(super) fn of(
        definition: &Definition,
        cached: Arc<CachedObject>,
        closing: &Closing,
        is_hidden: bool,
    ) -> Option<Made> {
        let names = &definition.accepted;
        let needed = [
            &names.plural,
            &names.singular,
            &names.kind,
            &names.list_kind,
        ];
        if needed.iter().any(|name| name.is_empty()) {
            return None;
        }
        let source = Source::new(cached);
        let maker = Maker::new(definition, &source, closing)?;
        let versions: Vec<_> = definition.spec.versions.iter().collect();
        let made: Vec<Arc<ResourceDefinition>> = versions
            .iter()
            .map(|version| Arc::new(maker.version(version)))
            .collect();
        let mut pairs = versions.iter().zip(&made);
        let (_, hub) = pairs.find(|(version, _)| version.is_storage)?;
        let served = versions.iter().zip(&made);
        let served: Vec<_> = served
            .filter(|(version, _)| version.is_served && !is_hidden)
            .map(|(_, made)| Arc::clone(made))
            .collect();
        let is_storage_served = served.iter().any(|version| version.is_version_of(hub));
        let resource = StoredResource {
            name: hub.qualified(),
            group: hub.group.clone(),
            plural: hub.plural.clone(),
            stored_as: TypeName::of(hub),
            hub: Arc::clone(hub),
            versions: made.clone(),
            shows_hash: is_storage_served,
        };
        Some(Made {
            resource: Arc::new(resource),
            served,
            form: maker.form_number(),
            conversion: definition
                .spec
                .webhook
                .as_ref()
                .map(|webhook| Arc::new(Conversion::of(&definition.name, webhook))),
            source,
            identity: Identity::of(definition),
        })
    }

    /// Returns the same resource in another phase.
    pub(super) fn in_phase(&self, phase: Phase) -> Made {
        let served = self.served.iter().map(|version| {
            Arc::new(ResourceDefinition {
                phase,
                ..ResourceDefinition::clone(version)
            })
        });
        Made {
            served: served.collect(),
            ..self.clone()
        }
    }

    /// Returns the phase of its versions, if any is served.
    pub(super) fn phase(&self) -> Option<Phase> {
        self.served.first().map(|version| version.phase)
    }
}

/// Makes the versions of one definition.
struct Maker<'d> {
    definition: &'d Definition,
    closing: Closing,
    storage: &'d Version,
    /// By the number of the schema and the fields of Scales.
    forms: HashMap<String, Arc<Form>>,
    hub: Arc<Form>,
    /// The fields for selectors of all versions.
    fields: Vec<SelectableField>,
    scales: Arc<ResourceDefinition>,
    edition: u64,
}

impl<'d> Maker<'d> {
    fn new(
        definition: &'d Definition,
        source: &Arc<Source>,
        closing: &Closing,
    ) -> Option<Maker<'d>> {
        let spec = &definition.spec;
        let storage = spec.storage()?;
        let mut forms: HashMap<String, Arc<Form>> = HashMap::new();
        let mut by_schema: HashMap<(u64, Option<&ScalePaths>), Arc<Form>> = HashMap::new();
        for version in &spec.versions {
            let key = (version.schema, version.scale.as_ref());
            let form = by_schema.entry(key).or_insert_with(|| {
                let scale = version.scale.clone();
                let form = Form::new(source, &version.name, spec.keeps_unknown, scale);
                Arc::new(form)
            });
            forms.insert(version.name.clone(), Arc::clone(form));
        }
        let mut fields: Vec<SelectableField> = Vec::new();
        for field in spec
            .versions
            .iter()
            .flat_map(|version| selectable_fields(&version.selectable))
        {
            // linear: each version has at most eight fields.
            if !fields.iter().any(|known| known.label == field.label) {
                fields.push(field);
            }
        }
        Some(Maker {
            definition,
            closing: closing.clone(),
            storage,
            hub: Arc::clone(forms.get(&storage.name)?),
            forms,
            fields,
            scales: Arc::new(autoscaling::scales()),
            edition: EDITIONS.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Returns a number that differs if the texts in the cache of the resource differ: it follows
    /// from the stored version, the fields for selectors, and the schemas of all versions in which
    /// objects may be stored.
    fn form_number(&self) -> u64 {
        let spec = &self.definition.spec;
        let mut number = DefaultHasher::new();
        self.definition.uid.hash(&mut number);
        self.definition.accepted.kind.hash(&mut number);
        (&self.storage.name, spec.is_namespaced, spec.keeps_unknown).hash(&mut number);
        spec.webhook.is_some().hash(&mut number);
        for field in &self.fields {
            field.label.hash(&mut number);
        }
        for version in &spec.versions {
            // linear: few versions.
            let may_store = self.definition.stored_versions.contains(&version.name);
            if version.is_storage || may_store {
                (&version.name, version.schema).hash(&mut number);
            }
        }
        number.finish()
    }

    fn version(&self, version: &Version) -> ResourceDefinition {
        let Definition { spec, accepted, .. } = self.definition;
        let named =
            ResourceDefinition::named(&spec.group, &version.name, &accepted.kind, &accepted.plural);
        let usual_list = format!("{}List", accepted.kind);
        ResourceDefinition {
            singular: accepted.singular.clone(),
            short_names: accepted.short_names.clone(),
            categories: accepted.categories.clone(),
            scope: match spec.is_namespaced {
                true => ResourceScope::Namespaced,
                false => ResourceScope::Cluster,
            },
            key_prefix: format!("{}/{}", spec.group, accepted.plural),
            subresources: self.subresources(version),
            deprecation: self.deprecation(version),
            other_list_kind: (accepted.list_kind != usual_list).then(|| accepted.list_kind.clone()),
            phase: phase_of(self.definition),
            edition: self.edition,
            behaviour: Arc::new(self.kind(version)),
            ..named
        }
    }

    fn subresources(&self, version: &Version) -> Vec<Subresource> {
        let part = |name: &str, kind| Subresource {
            name: name.to_owned(),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
            kind,
            has_tables: true,
        };
        let scale = version.scale.as_ref();
        let scale = scale.map(|_| part("scale", Some(Arc::clone(&self.scales))));
        let status = version.has_status.then(|| part(STATUS, None));
        scale.into_iter().chain(status).collect()
    }

    /// Returns the warning about a deprecated version: its own, or the usual one, which names the
    /// preferred version to use instead (CRD-90).
    fn deprecation(&self, version: &Version) -> Option<Deprecation> {
        let own = version.deprecation.as_ref()?;
        if !own.is_empty() {
            return Some(Deprecation::ByDefinition(own.clone()));
        }
        let Definition { spec, accepted, .. } = self.definition;
        let (group, kind) = (&spec.group, &accepted.kind);
        let better = spec.versions.iter().filter(|other| {
            let is_newer = compare_versions(&other.name, &version.name).is_lt();
            other.is_served && other.deprecation.is_none() && is_newer
        });
        let best = better.min_by(|one, other| compare_versions(&one.name, &other.name));
        let instead = best.map_or_else(String::new, |best| {
            format!("; use {group}/{} {kind}", best.name)
        });
        let name = &version.name;
        let warning = format!("{group}/{name} {kind} is deprecated{instead}");
        Some(Deprecation::ByDefinition(warning))
    }

    fn kind(&self, version: &Version) -> CustomKind {
        let spec = &self.definition.spec;
        let form = self.forms.get(&version.name).unwrap_or(&self.hub);
        let (former, former_forms) = match version.is_storage {
            true => self.former(),
            false => (Vec::new(), Vec::new()),
        };
        CustomKind {
            declared: Declared {
                rules: self.rules(version, form),
                object_type: untyped(),
                columns: Vec::new(),
                selectable_fields: Vec::new(),
            },
            closing: self.closing.clone(),
            form: Arc::clone(form),
            hub: Arc::clone(&self.hub),
            additional_columns: version.columns.clone(),
            columns: OnceLock::new(),
            selectable: self.selectable(version),
            offered: selectable_fields(&version.selectable)
                .into_iter()
                .map(|field| field.label)
                .collect(),
            is_converted: spec.webhook.is_some() && !version.is_storage,
            has_status: version.has_status,
            scale: version.scale.as_ref().map(|paths| self.scale(paths)),
            former,
            former_forms,
        }
    }

    /// Returns the versions that stored objects may have. A webhook converts those that are not
    /// stored today before they are decoded.
    fn former(&self) -> (Vec<FormerVersion>, Vec<Arc<Form>>) {
        let spec = &self.definition.spec;
        let versions = spec.versions.iter();
        let known = versions.filter(|version| version.is_storage || spec.webhook.is_none());
        let known = known.filter_map(|version| {
            let former = FormerVersion {
                api_version: format!("{}/{}", spec.group, version.name),
                object_type: untyped(),
                copied_member: None,
            };
            Some((former, Arc::clone(self.forms.get(&version.name)?)))
        });
        known.unzip()
    }

    fn rules(&self, version: &Version, form: &Arc<Form>) -> Rules {
        let Definition { spec, accepted, .. } = self.definition;
        let status = || match version.has_status {
            true => FieldPath::list(&[STATUS]),
            false => Vec::new(),
        };
        let endpoint = EndpointRules {
            checks: vec![UpdateCheck::Changes],
            ..EndpointRules::default()
        };
        let of_status = EndpointRules {
            records: Some(STATUS.into()),
            ..endpoint.clone()
        };
        let is_converted = spec.webhook.is_some() && !version.is_storage;
        Rules {
            write_version: WriteVersion::OfRequest,
            is_unstructured: true,
            unconvertible: is_converted.then(|| {
                let (group, stored, kind) = (&spec.group, &self.storage.name, &accepted.kind);
                format!(
                    "conversion webhook for {group}/{stored}, Kind={kind} failed: this server has \
                     no client for webhooks, because it serves no Services"
                )
            }),
            conversion: match () {
                () if spec.webhook.is_some() => ConversionStrategy::Unsupported,
                () if Arc::ptr_eq(form, &self.hub) => ConversionStrategy::TypeOnly,
                () => ConversionStrategy::OwnForm,
            },
            generation: GenerationRule::OnChangeBeside(match version.has_status {
                true => vec![STATUS.to_owned()],
                false => Vec::new(),
            }),
            unconditional_update: false,
            strict_finalizers: false,
            drops: status(),
            update: EndpointRules {
                keeps: status(),
                resets: status(),
                raises_generation: true,
                ..endpoint
            },
            subresources: vec![(STATUS.to_owned(), of_status)],
            selects_namespace: spec.is_namespaced,
            ..Rules::default()
        }
    }

    fn selectable(&self, version: &Version) -> Vec<SelectableField> {
        let own = selectable_fields(&version.selectable);
        let fields = self.fields.iter().map(|field| SelectableField {
            // linear: each version has at most eight fields.
            is_offered: own.iter().any(|offered| offered.label == field.label),
            ..field.clone()
        });
        fields.collect()
    }

    fn scale(&self, paths: &ScalePaths) -> ScaleFields {
        let path = |path: &str| {
            let names = ScalePaths::names(path).into_iter();
            FieldPath::new(names.map(str::to_owned).collect())
        };
        ScaleFields {
            scaling: Scaling {
                kind: Arc::clone(&self.scales),
                replicas: path(&paths.spec_replicas),
                current_replicas: path(&paths.status_replicas),
            },
            replicas: paths.spec_replicas.clone(),
            selector: paths.label_selector.as_deref().map(path),
        }
    }
}
