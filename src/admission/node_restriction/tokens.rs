//! Tokens of service accounts, which a node requests for its pods (AC-57).

use serde_json::Value;

use super::{Checked, NodeRestriction, Request};
use crate::api::object::Object;
use crate::api::text::quoting::go_quote;
use crate::auth;
use crate::auth::node::references::ephemeral_claim;

/// The verb on audiences that no volume of the pod names.
const VERB: &str = "request-serviceaccounts-token-audience";

/// Volumes that were part of Kubernetes, and the CSI drivers that replace them.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl NodeRestriction {
    /// Checks a request for a token.
    pub(super) async fn check_token(&self, request: &Request<'_>) -> Checked {
        let Some(token) = request.object.filter(|_| request.creates()) else {
            return Ok(());
        };
        let bound = |name: &str| token.text(&["spec", "boundObjectRef", name]);
        let (name, uid) = (bound("name"), bound("uid"));
        if bound("apiVersion") != "v1" || bound("kind") != "Pod" || name.is_empty() {
            return request.refuse("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return request.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.pod(request, name).await?;
        if pod.uid() != uid {
            return request.refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            ));
        }
        if pod.text(&["spec", "nodeName"]) != request.node {
            let why = "node requested token bound to a pod scheduled on a different node";
            return request.refuse(why);
        }
        let audience = match token.items(&["spec", "audiences"]) {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return request.refuse("node may only request 0 or 1 audiences"),
        };
        self.check_audience(request, &pod, audience).await
    }

    async fn check_audience(&self, request: &Request<'_>, pod: &Object, audience: &str) -> Checked {
        let quoted = go_quote(audience);
        match self.is_of_volume(pod, audience).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => {
                return request.refuse(format!("error validating audience {quoted}: {why}"));
            }
        }
        let user = request.attributes.user;
        let asked = auth::Attributes {
            api_version: "v1",
            namespace: request.attributes.namespace.unwrap_or_default(),
            name: request.attributes.name,
            ..auth::Attributes::on_resource(user, VERB, "", audience)
        };
        let answer = self.authorizer.authorize(&asked).await;
        if answer.is_allowed() {
            return Ok(());
        }
        let (user, absent) = (&user.name, "not found in pod spec volume");
        request.refuse(match answer.error {
            Some(why) => format!(
                "audience {quoted} {absent}, error authorizing {user} to request tokens for this \
                 audience: {why}"
            ),
            None => format!(
                "audience {quoted} {absent}, {user} is not authorized to request tokens for this \
                 audience"
            ),
        })
    }

    /// Returns whether a volume of the pod has tokens for an audience.
    async fn is_of_volume(&self, pod: &Object, audience: &str) -> Result<bool, String> {
        let mut errors: Vec<String> = Vec::new();
        for volume in pod.items(&["spec", "volumes"]) {
            if projects(volume, audience) {
                return Ok(true);
            }
            let found = match self.driver_of(pod, volume).await {
                Ok(None) => continue,
                Ok(Some(driver)) => self.driver_has(&driver, audience).await,
                Err(why) => Err(why),
            };
            match found {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // linear: a pod has few volumes, and fewer different errors.
                Err(why) if errors.contains(&why) => {}
                Err(why) => errors.push(why),
            }
        }
        match errors.as_slice() {
            [] => Ok(false),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Returns the CSI driver of a volume of a pod, if it has one.
    async fn driver_of(&self, pod: &Object, volume: &Value) -> Result<Option<String>, String> {
        let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str);
        if volume.pointer("/ephemeral/volumeClaimTemplate").is_some() {
            let claim = ephemeral_claim(pod.name(), text("/name").unwrap_or_default());
            return self.driver_of_claim(pod.namespace(), &claim).await;
        }
        if let Some(claim) = text("/persistentVolumeClaim/claimName") {
            return self.driver_of_claim(pod.namespace(), claim).await;
        }
        let own = text("/csi/driver").map(str::to_owned);
        Ok(own.or_else(|| migrated(|name| volume.get(name).is_some())))
    }

    async fn driver_of_claim(
        &self,
        namespace: &str,
        claim: &str,
    ) -> Result<Option<String>, String> {
        let found = self.objects.claims.get(Some(namespace), claim).await;
        let found = found.map_err(|status| status.message)?;
        let absent = || format!("persistentvolumeclaim {} not found", go_quote(claim));
        let claim = found.ok_or_else(absent)?;
        let name = claim.text(&["spec", "volumeName"]);
        let volume = self.objects.volumes.get(None, name).await;
        let volume = volume.map_err(|status| status.message)?;
        let absent = || format!("persistentvolume {} not found", go_quote(name));
        let volume = volume.ok_or_else(absent)?;
        let own = volume.text(&["spec", "csi", "driver"]);
        if !own.is_empty() {
            return Ok(Some(own.to_owned()));
        }
        Ok(migrated(|name| volume.at(&["spec", name]).is_some()))
    }

    async fn driver_has(&self, driver: &str, audience: &str) -> Result<bool, String> {
        let found = self.objects.drivers.get(None, driver).await;
        let found = found.map_err(|status| status.message)?;
        let absent = || format!("csidriver.storage.k8s.io {} not found", go_quote(driver));
        let driver = found.ok_or_else(absent)?;
        let mut requests = driver.items(&["spec", "tokenRequests"]).iter();
        Ok(requests.any(|request| is_audience(request, audience)))
    }
}

/// The CSI driver that replaces the kind of volume that is set.
fn migrated(is_set: impl Fn(&str) -> bool) -> Option<String> {
    let mut known = MIGRATED.iter();
    let found = known.find(|(name, _)| is_set(name));
    found.map(|(_, driver)| (*driver).to_owned())
}

/// Whether a volume has a projected token for an audience.
fn projects(volume: &Value, audience: &str) -> bool {
    let sources = volume.pointer("/projected/sources");
    let mut sources = sources.and_then(Value::as_array).into_iter().flatten();
    // linear: each source is looked at once.
    sources.any(|source| {
        let token = source.get("serviceAccountToken");
        token.is_some_and(|token| is_audience(token, audience))
    })
}

fn is_audience(token: &Value, audience: &str) -> bool {
    let own = token.get("audience").and_then(Value::as_str);
    own.unwrap_or_default() == audience
}
