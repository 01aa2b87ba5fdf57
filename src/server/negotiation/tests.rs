use super::*;
use http::HeaderValue;

fn headers(accept: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        ACCEPT,
        HeaderValue::from_str(accept).expect("a header value"),
    );
    headers
}

fn chosen(text: &str, offer: Offer) -> Option<Encoding> {
    accept(&headers(text), None, offer).ok()
}

fn plain(name: &str) -> Encoding {
    Encoding {
        media_type: MediaTypeRef::named(name).expect("a media type"),
        ..Encoding::default()
    }
}

#[test]
fn no_accept_header_is_json_api_54() {
    let accepted = accept(&HeaderMap::new(), None, Offer::Objects);
    assert_eq!(accepted, Ok(plain(JSON)));
    assert_eq!(chosen("", Offer::Objects), Some(plain(JSON)));
}

#[test]
fn wildcards_qualities_and_unknown_parameters_api_54() {
    for (text, expected) in [
        ("*/*", Some(JSON)),
        ("application/*", None),
        ("text/html, application/json", Some(JSON)),
        ("application/xml;q=1.0, application/json;q=0.1", Some(JSON)),
        ("application/json;q=0.1, application/yaml;q=0.9", Some(YAML)),
        ("application/json, application/yaml", Some(JSON)),
        ("application/json;charset=utf-8", Some(JSON)),
        ("application/json;stream=watch", Some(JSON)),
        ("application/json;stream=other", None),
        (PROTOBUF, Some(PROTOBUF)),
        (
            "application/vnd.kubernetes.protobuf,application/json",
            Some(PROTOBUF),
        ),
        // API-67.
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some(JSON),
        ),
        ("text/plain", None),
        ("image/png;q=0.9", None),
    ] {
        let format = chosen(text, Offer::Objects).map(|accepted| accepted.media_type.name());
        assert_eq!(format, expected, "{text}");
    }
}

#[test]
fn a_wildcard_of_a_type_is_enough_where_no_list_is_before_it_api_54_api_55() {
    let any = |offer| chosen("application/*", offer);
    assert_eq!(any(Offer::Discovery), None);
    for offer in [Offer::Groups, Offer::Unlisted] {
        assert_eq!(any(offer), Some(plain(JSON)));
        let refused = accept(&headers("text/plain"), None, offer);
        assert!(refused.is_err_and(|refused| !refused.is_unknown));
    }
    let both = chosen("application/*, application/yaml", Offer::Plain);
    // Fewer wildcards come first.
    assert_eq!(both, Some(plain(YAML)));
    for (text, expected) in [
        ("application/json;as=Table;g=meta.k8s.io;v=v1;q=0.1", true),
        ("application/yaml, */*", true),
        ("application/yaml", false),
        ("application/*", false),
    ] {
        assert_eq!(takes_json(&headers(text)), expected, "{text}");
    }
    assert!(takes_json(&HeaderMap::new()));
}

#[test]
fn an_unknown_conversion_makes_the_next_clause_count_api_54() {
    let text = "application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/yaml";
    assert_eq!(chosen(text, Offer::Objects), Some(plain(YAML)));
}

#[test]
fn kubectl_gets_its_tables_api_66() {
    let text = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let conversion = |offer| chosen(text, offer).and_then(|accepted| accepted.conversion);
    assert_eq!(
        conversion(Offer::Objects),
        Some(Conversion::Table(MetaVersion::V1))
    );
    assert_eq!(
        conversion(Offer::Watch),
        Some(Conversion::Table(MetaVersion::V1))
    );
    assert_eq!(conversion(Offer::Plain), None);
    let protobuf_first = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;\
                          g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;\
                          g=meta.k8s.io;v=v1";
    assert_eq!(
        chosen(protobuf_first, Offer::Objects).and_then(|accepted| accepted.conversion),
        Some(Conversion::Metadata(MetaVersion::V1)),
    );
}

#[test]
fn yaml_is_not_for_watches_and_the_list_names_streams_api_55() {
    let refused = accept(&headers("application/yaml"), None, Offer::Watch);
    assert_eq!(
        refused,
        Err(NotAcceptable {
            offered: vec![
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ],
            is_unknown: false,
        })
    );
}

#[test]
fn the_best_media_type_counts_even_if_it_has_no_streams_api_55() {
    let streams = [
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    let media_types = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ];
    let form = "g=meta.k8s.io;v=v1";
    for (text, offered) in [
        ("application/yaml,application/json", &streams[..]),
        (
            "application/json;q=0.1,application/yaml;q=0.9",
            &streams[..],
        ),
        ("application/json;q=0,application/yaml", &streams[..]),
        (
            &format!("application/yaml;as=Table;{form},application/json"),
            &streams[..],
        ),
        (
            &format!("application/json;as=Foo;{form},application/yaml"),
            &streams[..],
        ),
        // No clause matches.
        (&format!("application/json;as=Foo;{form}"), &media_types[..]),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v2",
            &media_types[..],
        ),
        ("application/json;sv=v2", &media_types[..]),
    ] {
        let refused = accept(&headers(text), None, Offer::Watch);
        let refused = refused.map_err(|refused| refused.offered);
        assert_eq!(refused, Err(offered.to_vec()), "{text}");
    }
    for text in [
        "application/json,application/yaml",
        &format!("application/yaml;as=Foo;{form},application/json"),
    ] {
        let chosen = accept(&headers(text), None, Offer::Watch).unwrap();
        assert_eq!(chosen.media_type.name(), "application/json", "{text}");
    }
}

#[test]
fn what_no_endpoint_has_is_refused_by_the_route_api_55() {
    let refused = accept(&headers("image/png, text/html;q=0.5"), None, Offer::Lists);
    let offered = vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    let is_unknown = true;
    assert_eq!(
        refused,
        Err(NotAcceptable {
            offered,
            is_unknown
        })
    );
}

#[test]
fn aggregated_discovery_is_v2_alone_api_31() {
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let conversion =
        |text: &str| chosen(text, Offer::Discovery).map(|accepted| accepted.conversion);
    assert_eq!(conversion(v2), Some(Some(Conversion::AggregatedDiscovery)));
    assert_eq!(conversion(&format!("{v2};profile=nopeer")), conversion(v2));
    assert_eq!(conversion(beta), None);
    assert_eq!(conversion(&format!("{beta},application/json")), Some(None));
    assert_eq!(conversion(&format!("{beta},{v2}")), conversion(v2));
}

#[test]
fn people_get_indented_json_unless_they_say_otherwise_api_60() {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static("curl/8.5.0"));
    let pretty = |asked| accept(&headers, asked, Offer::Plain).map(|a| a.pretty);
    assert_eq!(pretty(None), Ok(true));
    assert_eq!(pretty(Some(false)), Ok(false));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json;pretty=1"),
    );
    let both = accept(&headers, Some(false), Offer::Plain);
    assert_eq!(both.map(|a| a.pretty), Ok(true));
    for (query, asked) in [
        ("", None),
        ("pretty", None),
        ("pretty=", None),
        ("pretty=true", Some(true)),
        ("pretty=T", Some(true)),
        ("pretty=1", Some(true)),
        ("pretty=false", Some(false)),
        ("pretty=yes", Some(false)),
        ("pretty=foo", Some(false)),
    ] {
        assert_eq!(asked_pretty(&Query::parse(query)), asked, "{query}");
    }
    assert_eq!(
        chosen("application/json;pretty=1", Offer::Plain).map(|a| a.pretty),
        Some(true)
    );
    assert_eq!(
        chosen("application/json", Offer::Plain).map(|a| a.pretty),
        Some(false)
    );
}

#[test]
fn bodies_are_json_or_yaml_and_parameters_are_ignored_api_56() {
    for (text, expected) in [
        ("application/json", Some(BodyForm::Text(BodyFormat::Json))),
        (
            "application/json; charset=utf-8",
            Some(BodyForm::Text(BodyFormat::Json)),
        ),
        ("Application/YAML", Some(BodyForm::Text(BodyFormat::Yaml))),
        (
            "application/vnd.kubernetes.protobuf",
            Some(BodyForm::Protobuf),
        ),
        ("text/plain", None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(text));
        assert_eq!(body_form(&headers), expected, "{text}");
    }
    assert_eq!(
        body_form(&HeaderMap::new()),
        Some(BodyForm::Text(BodyFormat::Json))
    );
}
