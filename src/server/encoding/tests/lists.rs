use actors::engine::{Key, Revision};
use actors::object::{Attributes, CachedObject, TypeMembers, WireParts};

use super::*;
use crate::server::gzip;
use crate::storage::ObjectList;
use crate::transport::PIECE_BYTES;

/// Strings that some form has to quote or escape.
const TRAPS: [&str; 6] = ["yes", "a: b\n- c\n", "\"\\{[,", "", "\u{1f600}\t", " 0644"];

fn page(items: &[Arc<CachedObject>]) -> ObjectList {
    ObjectList {
        revision: Revision(900),
        items: items.to_vec(),
        continue_token: Some("token".to_owned()),
        remaining_item_count: Some(3),
    }
}

fn objects(count: usize, bytes: usize) -> Vec<Arc<CachedObject>> {
    let text =
        |n: usize| TRAPS[n % TRAPS.len()].repeat(if n.is_multiple_of(7) { bytes } else { 1 });
    let object = |n: usize| cached(&format!("cm-{n:05}"), &text(n), n as u64 + 1);
    (0..count).map(object).collect()
}

fn encoding(media_type: &str, pretty: bool, conversion: Option<Conversion>) -> Encoding {
    Encoding {
        media_type: MediaTypeRef::named(media_type).expect("a media type"),
        pretty,
        conversion,
        ..Encoding::default()
    }
}

/// The forms of lists.
fn forms() -> Vec<Encoding> {
    let metadata = Some(Conversion::MetadataList(MetaVersion::V1));
    let table = Some(Conversion::Table(MetaVersion::V1));
    let mut forms = vec![
        encoding(PROTOBUF, false, None),
        encoding(PROTOBUF, false, metadata),
    ];
    for conversion in [None, metadata, table] {
        forms.push(encoding(JSON, false, conversion));
        forms.push(encoding(JSON, true, conversion));
        forms.push(encoding(YAML, false, conversion));
    }
    forms
}

/// Returns the body of a list. Checks that no piece holds more than it declares.
async fn listed(encoding: &Encoding, gzip: bool, items: &[Arc<CachedObject>]) -> Vec<u8> {
    let kept = Arc::default();
    let listed = list(encoding, gzip, &configmaps().into(), page(items), &kept).await;
    match listed.expect("a list") {
        ListBody::Whole(whole) => whole,
        ListBody::Pieces(pieces) => {
            let held = pieces.held();
            let pieces = pieces.collect().await;
            for piece in &pieces {
                assert!(piece.len() <= held, "{} of {held}", piece.len());
            }
            match gzip {
                true => gzip::tests::unpacked(&pieces.concat()),
                false => pieces.concat(),
            }
        }
    }
}

#[tokio::test]
async fn a_list_in_pieces_is_what_the_whole_document_is_api_60_api_64() {
    let short = objects(3, 1);
    let long = objects(3_000, 50);
    let mut with_large = objects(20, 10);
    with_large.insert(10, cached("large", &"x,\"".repeat(700_000), 5));
    let deep = format!("{}{}", "[".repeat(40_000), "]".repeat(40_000));
    let texts = vec![cached("brackets", &deep, 5)];
    for items in [&[][..], &short[..1], &short, &long, &with_large, &texts] {
        for encoding in forms() {
            let compact = Encoding {
                media_type: MediaTypeRef::default(),
                pretty: false,
                ..encoding
            };
            let mut json = listed(&compact, false, items).await;
            assert_eq!(json.pop(), Some(b'\n'));
            let expected = encoding.document(json);
            for gzip in [false, true] {
                let got = listed(&encoding, gzip, items).await;
                let is_equal = got == expected;
                assert!(
                    is_equal,
                    "{} objects as {encoding:?}, gzip {gzip}",
                    items.len()
                );
            }
        }
    }
}

/// Creates an object with this text after its metadata.
fn odd(rest: &[u8]) -> Arc<CachedObject> {
    let key = Key::new("/registry/configmaps/d/odd");
    let wire = WireParts {
        types: &Arc::new(TypeMembers(Box::from(
            br#"{"kind":"ConfigMap","apiVersion":"v1","#.as_slice(),
        ))),
        before: br#""metadata":{"#,
        revision_member: br#""resourceVersion":"7","#,
        after: &[br#""name":"odd"}"#, rest].concat(),
    };
    Arc::new(CachedObject::new(&key, Revision(7), wire, &Attributes::default()).expect("an object"))
}

#[tokio::test]
async fn an_object_that_is_not_of_its_type_or_no_json_is_a_500_before_the_head() {
    let wrong_type = odd(br#","data":[1,2]}"#);
    let no_json = odd(b",\"data\":{\"a\":\"\xff\"}}");
    let metadata = Some(Conversion::MetadataList(MetaVersion::V1));
    for (object, media_type, conversion, is_refused) in [
        (&wrong_type, PROTOBUF, None, true),
        (&no_json, PROTOBUF, None, true),
        (&no_json, YAML, None, true),
        (&wrong_type, YAML, None, false),
        (&wrong_type, PROTOBUF, metadata, false),
        (&no_json, YAML, metadata, false),
    ] {
        // The object also comes after the part of the list that is produced at once.
        for before in [0, 3_000] {
            let mut items = objects(before, 50);
            items.push(Arc::clone(object));
            for gzip in [false, true] {
                let encoding = encoding(media_type, false, conversion);
                let kept = Arc::default();
                let list = list(&encoding, gzip, &configmaps().into(), page(&items), &kept).await;
                let refused = list.err();
                let code = refused.as_ref().map(|status| status.code);
                assert_eq!(
                    code,
                    is_refused.then_some(500),
                    "{media_type} {before} {gzip}"
                );
                let names = |status: Box<Status>| status.message.contains("configmaps/d/odd");
                assert!(refused.is_none_or(names));
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_indentation_would_multiply_is_compact() {
    let deep = format!(r#","data":{}{}}}"#, "[".repeat(2_000), "]".repeat(2_000));
    let wide = format!(
        r#","data":{}{}{}}}"#,
        "[".repeat(90),
        vec!["0"; 100_000].join(","),
        "]".repeat(90)
    );
    // Indented JSON has no limit on depth.
    let deeper_than_yaml = format!(r#","data":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for (text, media_type, is_compact) in [
        (&deep, JSON, true),
        (&wide, JSON, true),
        (&wide, YAML, true),
        (&deeper_than_yaml, JSON, false),
        (&deeper_than_yaml, YAML, true),
    ] {
        let items = [odd(text.as_bytes())];
        let got = listed(&encoding(media_type, true, None), false, &items).await;
        let plain = listed(&encoding(JSON, false, None), false, &items).await;
        assert_eq!(got == plain, is_compact, "{} as {media_type}", text.len());
    }
}

/// A list holds all objects that are in no cache.
#[tokio::test]
async fn what_a_list_holds_counts_the_objects_that_it_alone_has() {
    let items = objects(3_000, 2_000);
    let bytes: usize = items.iter().map(|item| item.size()).sum();
    for encoding in forms() {
        let held = async |items: ObjectList| {
            let kept = Arc::default();
            let listed = list(&encoding, false, &configmaps().into(), items, &kept).await;
            match listed.expect("a list") {
                ListBody::Pieces(pieces) => Some(pieces.held()),
                ListBody::Whole(_) => None,
            }
        };
        let Some(shared) = held(page(&items)).await else {
            continue;
        };
        assert!(shared < 8 * PIECE_BYTES, "{shared} as {encoding:?}");
        let alone = ObjectList {
            items: objects(3_000, 2_000),
            ..page(&[])
        };
        let alone = held(alone).await.expect("it is as long");
        assert!(alone > bytes * 9 / 10, "{alone} as {encoding:?}");
    }
}
