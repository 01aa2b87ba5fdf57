use std::io::Read;
use std::sync::Arc;

use actors::engine::Revision;
use serde_json::{Value, json};

use super::*;
use crate::api::status::{Denied, StatusReason};
use crate::kinds::definitions::core::configmaps;
use crate::server::encoding::tests::cached;
use crate::server::encoding::{Conversion, JSON, MetaVersion, PROTOBUF, YAML};
use crate::storage::ObjectList;

fn page(items: usize, bytes: usize) -> ObjectList {
    ObjectList {
        revision: Revision(900),
        items: (0..items)
            .map(|n| cached(&format!("cm-{n:05}"), &"x".repeat(bytes), n as u64 + 1))
            .collect(),
        continue_token: Some("token".to_owned()),
        remaining_item_count: Some(3),
    }
}

fn form(conversion: Option<Conversion>) -> Form {
    Form {
        encoding: Encoding {
            conversion,
            ..Encoding::default()
        },
        ..Form::default()
    }
}

async fn body(answer: Answer) -> (Vec<u8>, usize) {
    match answer.into_body() {
        ResponseBody::Full(bytes) => (bytes.to_vec(), 1),
        ResponseBody::Chunks(chunks) => {
            let chunks = chunks.collect().await;
            (chunks.concat(), chunks.len())
        }
        _ => (Vec::new(), 0),
    }
}

async fn listed(form: Form, list_of: ObjectList) -> (Value, usize) {
    let answer = list(&form, &configmaps().into(), list_of, &Arc::default())
        .await
        .expect("an answer");
    let (bytes, pieces) = body(answer).await;
    (serde_json::from_slice(&bytes).expect("a document"), pieces)
}

#[tokio::test]
async fn items_of_a_list_carry_neither_kind_nor_api_version_api_61() {
    let (list, _) = listed(form(None), page(2, 1)).await;
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(
        list["metadata"],
        json!({"resourceVersion": "900", "continue": "token", "remainingItemCount": 3}),
    );
    assert_eq!(
        list["items"][1],
        json!({"metadata": {"name": "cm-00001", "resourceVersion": "2"}, "data": {"k": "x"}}),
    );
}

#[tokio::test]
async fn an_empty_list_has_items_all_the_same_api_61_li_18() {
    let (plain, _) = listed(form(None), page(0, 0)).await;
    assert_eq!(plain["items"], json!([]));
    // As in kube-apiserver (API-61).
    let metadata = Some(Conversion::MetadataList(MetaVersion::V1));
    let (metadata, _) = listed(form(metadata), page(0, 0)).await;
    assert_eq!(metadata["items"], Value::Null);
    let (table, _) = listed(form(Some(Conversion::Table(MetaVersion::V1))), page(0, 0)).await;
    assert_eq!(table["rows"], json!([]));
}

#[tokio::test]
async fn a_short_list_is_one_body_with_its_length_and_a_newline_api_60() {
    let answer = list(
        &form(None),
        &configmaps().into(),
        page(3, 10),
        &Arc::default(),
    )
    .await
    .unwrap();
    let length = answer.headers().get(CONTENT_LENGTH).cloned();
    let (bytes, pieces) = body(answer).await;
    assert_eq!(pieces, 1);
    assert_eq!(length, Some(HeaderValue::from(bytes.len())));
    assert!(bytes.ends_with(b"]}\n"));
}

#[tokio::test]
async fn a_long_list_goes_out_in_pieces_and_is_complete_api_64() {
    for conversion in [
        None,
        Some(Conversion::MetadataList(MetaVersion::V1)),
        Some(Conversion::Table(MetaVersion::V1)),
    ] {
        let (list, pieces) = listed(form(conversion), page(3000, 1000)).await;
        assert!(pieces > 1, "{pieces}");
        let items = list
            .get("items")
            .or(list.get("rows"))
            .and_then(Value::as_array);
        assert_eq!(items.map(Vec::len), Some(3000));
    }
}

#[tokio::test]
async fn compressed_lists_are_the_plain_ones_whether_made_or_found_api_65() {
    let kept = Arc::default();
    let table = Conversion::Table(MetaVersion::V1);
    let mut forms = vec![form(Some(table))];
    for media_type in [JSON, PROTOBUF] {
        for conversion in [
            None,
            Some(Conversion::MetadataList(MetaVersion::V1)),
            Some(Conversion::MetadataList(MetaVersion::V1Beta1)),
        ] {
            let mut form = form(conversion);
            form.encoding.media_type = MediaTypeRef::named(media_type).expect("a media type");
            forms.push(form);
        }
    }
    let mut page = page(5_000, 200);
    for round in 0..3 {
        for form in &forms {
            let plain = list(form, &configmaps().into(), page.clone(), &kept).await;
            let (plain, _) = body(plain.unwrap()).await;
            let gzip = Form {
                gzip: true,
                ..*form
            };
            let packed = list(&gzip, &configmaps().into(), page.clone(), &kept)
                .await
                .unwrap();
            assert!(packed.headers().contains_key(CONTENT_ENCODING));
            let (packed, _) = body(packed).await;
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(packed.as_slice())
                .read_to_end(&mut unpacked)
                .unwrap();
            assert!(unpacked == plain, "round {round}, {form:?}");
        }
        page.items.remove(700 + round);
        page.revision = page.revision.next();
    }
}

#[tokio::test]
async fn lists_over_the_threshold_are_compressed_api_65() {
    let gzip = Form {
        gzip: true,
        ..Form::default()
    };
    for (items, compressed) in [(10, false), (131, true), (3000, true)] {
        let answer = list(
            &gzip,
            &configmaps().into(),
            page(items, 1000),
            &Arc::default(),
        )
        .await
        .unwrap();
        let is_marked = answer.headers().get(CONTENT_ENCODING).is_some();
        assert_eq!(is_marked, compressed, "{items}");
        assert_eq!(answer.headers().contains_key(VARY), compressed);
        let (bytes, _) = body(answer).await;
        let mut plain = Vec::new();
        if compressed {
            flate2::read::GzDecoder::new(bytes.as_slice())
                .read_to_end(&mut plain)
                .unwrap();
        } else {
            plain = bytes;
        }
        let list: Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(items));
    }
}

#[tokio::test]
async fn what_is_compressed_is_decided_to_the_byte_api_65() {
    let all = page(6_000, 50);
    let metadata = Some(Conversion::MetadataList(MetaVersion::V1));
    // Without the text that closes a list in JSON.
    for (media_type, conversion, closing) in [
        (JSON, None, 3),
        (JSON, metadata, 3),
        (PROTOBUF, None, 0),
        (PROTOBUF, metadata, 0),
    ] {
        let sent = async |items: usize, gzip| {
            let mut list_of = all.clone();
            list_of.items.truncate(items);
            let mut form = Form {
                gzip,
                ..form(conversion)
            };
            form.encoding.media_type = MediaTypeRef::named(media_type).expect("a media type");
            let answer = list(&form, &configmaps().into(), list_of, &Arc::default()).await;
            answer.expect("an answer")
        };
        // The longest list that is not compressed, and the shortest that is.
        let (mut plain, mut packed) = (1, all.items.len());
        while packed - plain > 1 {
            let items = plain.midpoint(packed);
            let length = body(sent(items, false).await).await.0.len() - closing;
            match length > gzip::THRESHOLD_BYTES {
                true => packed = items,
                false => plain = items,
            }
        }
        assert!(packed < all.items.len());
        for (items, expected) in [(plain, false), (packed, true)] {
            let answer = sent(items, true).await;
            let is_marked = answer.headers().contains_key(CONTENT_ENCODING);
            assert_eq!(is_marked, expected, "{items}");
        }
    }
}

#[tokio::test]
async fn indented_and_yaml_lists_are_the_same_documents_api_60() {
    let (plain, _) = listed(form(None), page(3, 10)).await;
    let mut pretty = form(None);
    pretty.encoding.pretty = true;
    let answer = list(&pretty, &configmaps().into(), page(3, 10), &Arc::default())
        .await
        .unwrap();
    let (bytes, _) = body(answer).await;
    assert!(bytes.starts_with(b"{\n  \"kind\""));
    assert!(bytes.ends_with(b"}"));
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), plain);
    let mut yaml = form(None);
    yaml.encoding.media_type = MediaTypeRef::named(YAML).expect("a media type");
    let answer = list(&yaml, &configmaps().into(), page(3, 10), &Arc::default())
        .await
        .unwrap();
    assert_eq!(
        answer.headers().get(CONTENT_TYPE).unwrap(),
        "application/yaml"
    );
    let (bytes, _) = body(answer).await;
    let read: Value = serde_saphyr::from_slice(&bytes).unwrap();
    assert_eq!(read, plain);
}

#[tokio::test]
async fn a_conversion_of_the_other_shape_is_refused_api_71() {
    let metadata = form(Some(Conversion::Metadata(MetaVersion::V1)));
    let refused = list(&metadata, &configmaps().into(), page(1, 1), &Arc::default())
        .await
        .expect_err("refused");
    assert_eq!(
        (refused.code, refused.reason),
        (406, StatusReason::NOT_ACCEPTABLE)
    );
    let metadata_list = form(Some(Conversion::MetadataList(MetaVersion::V1)));
    let refused = object(
        StatusCode::OK,
        &metadata_list,
        &configmaps().into(),
        &cached("a", "", 1),
    )
    .expect_err("refused");
    assert_eq!(
        (refused.code, refused.reason),
        (406, StatusReason::NOT_ACCEPTABLE)
    );
}

#[tokio::test]
async fn an_object_is_its_wire_form_and_a_newline_api_60() {
    let cached = cached("a", "1", 7);
    let answer = object(
        StatusCode::CREATED,
        &form(None),
        &configmaps().into(),
        &cached,
    )
    .unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    assert_eq!(
        answer.headers().get(CONTENT_TYPE).unwrap(),
        "application/json"
    );
    assert_eq!(body(answer).await.0, [&cached.wire()[..], b"\n"].concat());
}

#[tokio::test]
async fn an_object_as_a_table_has_the_version_of_the_object_api_68() {
    let table = form(Some(Conversion::Table(MetaVersion::V1)));
    let answer = object(
        StatusCode::OK,
        &table,
        &configmaps().into(),
        &cached("a", "1", 7),
    )
    .unwrap();
    let document: Value = serde_json::from_slice(&body(answer).await.0).unwrap();
    assert_eq!(document["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(document["rows"].as_array().map(Vec::len), Some(1));
}

#[test]
fn refusals_carry_the_headers_that_go_with_them_api_20_and_150() {
    let busy = refusal(&Status::too_many_requests("later", 3), &Form::default());
    assert_eq!(busy.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(busy.headers().get(RETRY_AFTER).unwrap(), "3");
    let forbidden = refusal(
        &Status::forbidden_request(&Denied::default()),
        &Form::default(),
    );
    assert_eq!(
        forbidden.headers().get(X_CONTENT_TYPE_OPTIONS).unwrap(),
        "nosniff"
    );
    assert!(!forbidden.headers().contains_key(RETRY_AFTER));
}
