use std::sync::Arc;

use crate::api::options::{ListOptions, VersionMatchText};
use crate::api::selector::Selection;
use crate::api::status::StatusReason;
use crate::kinds::definitions::core::configmaps;
use crate::registry::NamespacedName;
use crate::registry::tests::fixture::{Fixture, refusal};

async fn listed(
    fixture: &Fixture,
    namespace: Option<&str>,
    fields: &str,
    options: &ListOptions,
) -> Vec<String> {
    let selection = Selection::parse("", fields, &configmaps()).expect("a selector");
    let list = fixture
        .store("configmaps")
        .list(namespace, options, Arc::new(selection))
        .await;
    let items = list.expect("a list").items;
    items
        .iter()
        .map(|i| format!("{}/{}", i.attributes().namespace(), i.attributes().name()))
        .collect()
}

async fn with_configmaps() -> Fixture {
    let fixture = Fixture::new().await;
    fixture
        .create("namespaces", None, r#"{"metadata":{"name":"e"}}"#)
        .await
        .expect("created");
    for (namespace, name) in [("d", "b"), ("d", "a"), ("e", "a")] {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        fixture
            .create("configmaps", Some(namespace), &body)
            .await
            .expect("created");
    }
    fixture
}

/// RG-2, LI-37: selectors narrow the scope and are still evaluated.
#[tokio::test]
async fn lists_are_narrowed_by_exact_selectors() {
    let fixture = with_configmaps().await;
    let options = ListOptions::default();
    let list = |namespace, fields| listed(&fixture, namespace, fields, &options);
    assert_eq!(list(None, "").await, ["d/a", "d/b", "e/a"]);
    assert_eq!(list(Some("d"), "").await, ["d/a", "d/b"]);
    assert_eq!(list(Some("d"), "metadata.name=a").await, ["d/a"]);
    assert_eq!(list(None, "metadata.name=a").await, ["d/a", "e/a"]);
    assert_eq!(
        list(None, "metadata.namespace=e,metadata.name=a").await,
        ["e/a"]
    );
    assert!(list(Some("d"), "metadata.namespace=e").await.is_empty());
    assert!(list(Some("none"), "").await.is_empty());
}

/// LI-40, LI-44, RG-2: later pages have the scope of the first page.
#[tokio::test]
async fn lists_are_given_in_pages() {
    let fixture = with_configmaps().await;
    let store = fixture.store("configmaps");
    let mut options = ListOptions {
        limit: 2,
        ..ListOptions::default()
    };
    let everything = Arc::new(Selection::default());
    let page = store
        .list(None, &options, everything.clone())
        .await
        .expect("a page");
    assert_eq!((page.items.len(), page.remaining_item_count), (2, Some(1)));
    options.continue_token = page.continue_token;
    let page = store
        .list(None, &options, everything)
        .await
        .expect("a page");
    assert_eq!((page.items.len(), page.continue_token), (1, None));
}

/// ST-17, API-121, API-122: the error for an invalid version depends on the verb.
#[tokio::test]
async fn versions_are_checked_per_verb() {
    let fixture = with_configmaps().await;
    let store = fixture.store("configmaps");
    let got = store
        .get(NamespacedName::in_namespace("d", "a"), "abc")
        .await;
    assert_eq!(refusal(got).0, 500);
    let got = store
        .get(NamespacedName::in_namespace("d", "a"), "999999")
        .await
        .expect_err("in the future");
    assert_eq!((got.code, got.reason), (504, StatusReason::TIMEOUT));
    let options = ListOptions {
        resource_version: "abc".to_owned(),
        ..ListOptions::default()
    };
    let answer = store
        .list(None, &options, Arc::new(Selection::default()))
        .await;
    assert_eq!(refusal(answer).0, 400);
    // LI-2: a version is refused together with a token, and the token is checked first.
    for (token, message) in [
        (
            "!",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
            "specifying resource version is not allowed when using continue",
        ),
    ] {
        let options = ListOptions {
            continue_token: Some(token.to_owned()),
            ..options.clone()
        };
        let everything = Arc::new(Selection::default());
        let answer = store.list(None, &options, everything).await;
        assert_eq!(
            refusal(answer),
            (400, StatusReason::BAD_REQUEST, message.to_owned())
        );
    }
    let options = ListOptions {
        resource_version: "2".to_owned(),
        version_match: Some(VersionMatchText::Exact),
        ..ListOptions::default()
    };
    assert!(listed(&fixture, None, "", &options).await.is_empty());
}

/// RG-1, API-117.
#[tokio::test]
async fn names_that_can_not_be_are_bad_requests_or_not_found() {
    let fixture = with_configmaps().await;
    let text = "configmaps \"Upper_Case\" not found".to_owned();
    let answer = refusal(fixture.get("configmaps", Some("d"), "Upper_Case").await);
    assert_eq!(answer, (404, StatusReason::NOT_FOUND, text));
    assert_eq!(
        refusal(fixture.get("configmaps", Some("d"), "..").await).0,
        400
    );
    assert_eq!(refusal(fixture.get("configmaps", None, "a").await).0, 400);
}
