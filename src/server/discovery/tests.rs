use http::header::ACCEPT;

use serde_json::{Value, json};

use super::*;
use crate::server::negotiation::{self, Offer};
use crate::server::testing::{run, stored};

fn discovery() -> Discovery {
    let mut catalog = None;
    run(async { catalog = Some(stored(false).await.registry.current()) });
    let settings = Settings {
        address: "127.0.0.1:6443".to_owned(),
        has_hashes: true,
        aggregation: None,
    };
    Discovery::new(catalog.unwrap(), Arc::new(settings), Arc::default())
}

fn form(accept: &'static str) -> Form {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    Form {
        encoding: negotiation::accept(&headers, None, Offer::Discovery).unwrap(),
        ..Form::default()
    }
}

fn document(answer: Answer) -> Value {
    let ResponseBody::Full(body) = answer.into_body() else {
        panic!("no body");
    };
    serde_json::from_slice(&body).unwrap()
}

fn entry<'d>(list: &'d Value, member: &str, name: &str) -> &'d Value {
    let found = list
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry[member] == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

const V2: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[test]
fn the_core_group_has_versions_and_no_api_version_api_22() {
    let answer = discovery().legacy_versions(&Form::default(), &HeaderMap::new());
    assert_eq!(
        document(answer),
        json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs":
                [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
        }),
    );
}

#[test]
fn groups_are_listed_without_the_core_group_and_without_kinds_api_23() {
    let list = document(discovery().groups(&Form::default(), &HeaderMap::new()));
    assert_eq!(list["kind"], "APIGroupList");
    let apps = entry(&list["groups"], "name", "apps");
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        apps,
        &json!({"name": "apps", "versions": [version], "preferredVersion": version}),
    );
    assert!(
        list["groups"]
            .as_array()
            .unwrap()
            .iter()
            .all(|group| group["name"] != "")
    );
}

#[test]
fn a_group_by_itself_has_kind_and_version_api_24() {
    let group = document(discovery().group("apps", &Form::default()).unwrap());
    assert_eq!(group["kind"], "APIGroup");
    assert_eq!(group["apiVersion"], "v1");
    assert!(
        discovery()
            .group("none.example.com", &Form::default())
            .is_none()
    );
    assert!(discovery().group("", &Form::default()).is_none());
}

#[test]
fn resources_are_sorted_and_complete_api_25_and_26() {
    let core = document(discovery().resources("", "v1", &Form::default()).unwrap());
    assert!(core.get("apiVersion").is_none());
    let names: Vec<&str> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    let configmaps = entry(&core["resources"], "name", "configmaps");
    assert_eq!(configmaps["storageVersionHash"], "qFsyl6wFWjQ=");
    assert_eq!(configmaps["shortNames"], json!(["cm"]));
    assert!(configmaps.get("categories").is_none());
    let status = entry(&core["resources"], "name", "namespaces/status");
    assert_eq!(
        status,
        &json!({
            "name": "namespaces/status", "singularName": "", "namespaced": false,
            "kind": "Namespace", "verbs": ["get", "patch", "update"],
        }),
    );
    let apps = document(
        discovery()
            .resources("apps", "v1", &Form::default())
            .unwrap(),
    );
    assert_eq!(
        (&apps["apiVersion"], &apps["groupVersion"]),
        (&json!("v1"), &json!("apps/v1"))
    );
    assert!(
        discovery()
            .resources("apps", "v9", &Form::default())
            .is_none()
    );
}

#[test]
fn aggregated_discovery_echoes_its_type_and_is_tagged_api_31_to_35() {
    let discovery = discovery();
    let answer = discovery.groups(&form(V2), &HeaderMap::new());
    let headers = answer.headers().clone();
    assert_eq!(headers.get(CONTENT_TYPE).unwrap(), AGGREGATED);
    assert_eq!(headers.get(VARY).unwrap(), "Accept");
    assert_eq!(headers.get(CACHE_CONTROL).unwrap(), "public");
    let tag = headers.get(ETAG).unwrap().to_str().unwrap();
    assert_eq!(tag.len(), 128 + 2);
    let list = document(answer);
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    let apps = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "apps");
    let version = &apps.unwrap()["versions"][0];
    assert_eq!(
        (&version["version"], &version["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    let deployments = entry(&version["resources"], "resource", "deployments");
    assert_eq!(
        deployments["responseKind"],
        json!({"group": "", "version": "", "kind": "Deployment"}),
    );
    assert_eq!(deployments["scope"], "Namespaced");
    entry(&deployments["subresources"], "subresource", "status");
    let core = document(discovery.legacy_versions(&form(V2), &HeaderMap::new()));
    assert_eq!(core["items"][0]["metadata"], json!({}));
}

#[test]
fn what_a_client_has_already_is_not_sent_again_api_33() {
    let discovery = discovery();
    let tag = discovery
        .groups(&form(V2), &HeaderMap::new())
        .headers()
        .get(ETAG)
        .unwrap()
        .clone();
    let mut headers = HeaderMap::new();
    headers.insert(IF_NONE_MATCH, tag.clone());
    let answer = discovery.groups(&form(V2), &headers);
    assert_eq!(answer.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(answer.headers().get(ETAG), Some(&tag));
    assert!(matches!(answer.body(), ResponseBody::Empty));
    let plain = discovery.groups(&form("application/json"), &headers);
    assert_eq!(
        plain.status(),
        StatusCode::OK,
        "the tag is that of the aggregated form"
    );
}

/// Some programs search the text, so members have the order of Go's structs (A15).
#[test]
fn members_have_the_order_of_gos_structs() {
    let text = |answer: Option<Answer>| match answer.unwrap().into_body() {
        ResponseBody::Full(body) => String::from_utf8(body.to_vec()).unwrap(),
        _ => panic!("no body"),
    };
    let (form, headers) = (Form::default(), HeaderMap::new());
    let discovery = discovery();
    let resources = text(discovery.resources("apps", "v1", &form));
    for part in [
        "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"apps/v1\",\"resources\":[",
        "{\"name\":\"deployments\",\"singularName\":\"deployment\",\"namespaced\":true,\
         \"kind\":\"Deployment\",\"verbs\":[",
        "],\"shortNames\":[\"deploy\"],\"categories\":[\"all\"],\"storageVersionHash\":\"",
    ] {
        assert!(resources.contains(part), "{part} is not in {resources}");
    }
    let group = text(discovery.group("apps", &form));
    assert!(
        group.starts_with("{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"apps\",\"versions\":[{\"groupVersion\":"),
        "{group}"
    );
    let aggregated = self::form(V2);
    let all = text(Some(discovery.groups(&aggregated, &headers)));
    for part in [
        "{\"resource\":\"deployments\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\
         \"kind\":\"Deployment\"},\"scope\":\"Namespaced\",\"singularResource\":\"deployment\",\"verbs\":[",
        "],\"freshness\":\"Current\"}",
    ] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
}
