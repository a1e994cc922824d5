use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(document: &serde_json::Value) -> Value {
    json::parse(document.to_string().as_bytes(), json::OBJECT_DEPTH).expect("JSON")
}

fn encoded(bytes: &[u8]) -> String {
    padded(BASE64.encode(bytes))
}

fn secret(values: &[Vec<u8>]) -> serde_json::Value {
    let data: serde_json::Map<_, _> =
        values.iter().enumerate().map(|(at, value)| (format!("k{at}"), encoded(value).into())).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
}

/// A masker that knows the values of this document.
fn masker(document: &serde_json::Value) -> Masker {
    let mut masker = Masker::new([7; KEY_LENGTH]);
    masker.learn(&value(document)).expect("few values");
    masker
}

fn masked(masker: &mut Masker, document: &serde_json::Value) -> serde_json::Value {
    serde_json::from_str(&masker.mask(value(document)).to_string()).expect("JSON")
}

#[test]
fn value_is_replaced_in_its_secret_and_wherever_it_occurs() {
    let given = secret(&[b"hunter2-Password".to_vec()]);
    let mut masker = masker(&given);
    let of_secret = masked(&mut masker, &given);
    let placeholder = decoded(of_secret["data"]["k0"].as_str().expect("text")).expect("base64");
    let placeholder = String::from_utf8(placeholder).expect("text");
    assert_eq!(placeholder.len(), "hunter2-Password".len());
    let text = masked(
        &mut masker,
        &json!({
            "url": "mysql://root:hunter2-Password@db:3306", "header": encoded(b"hunter2-Password"),
            "hunter2-Password": true, "other": "hunter3",
        }),
    );
    let mut expected = json!({
        "url": format!("mysql://root:{placeholder}@db:3306"), "header": encoded(placeholder.as_bytes()),
        "other": "hunter3",
    });
    expected[&placeholder] = true.into();
    assert_eq!(text, expected);
}

#[test]
fn reader_sees_a_marker_that_is_no_part_of_a_name() {
    let given = secret(&[b"rabbitmq".to_vec(), b"hunter2-Password\nanother line of it".to_vec(), b"abc".to_vec()]);
    let mut masker = Masker::with_markers([7; KEY_LENGTH]);
    masker.learn(&value(&given)).expect("few values");
    let message = masker.mask_message("Role windlass-plugin-rabbitmq-cluster is missing");
    let (before, after) = message.split_once("‹secret ").expect("a marker");
    assert_eq!(before, "Role windlass-plugin-");
    let (tag, after) = after.split_once('›').expect("the end of the marker");
    assert_eq!((tag.len(), after), (6, "-cluster is missing"));
    let shown = masked(
        &mut masker,
        &json!({"a": "rabbitmq", "b": encoded(b"rabbitmq"), "c": "another line of it", "secret": given}),
    );
    assert_eq!(
        (&shown["a"], &shown["b"]),
        (&json!(format!("‹secret {tag}›")), &json!(format!("‹secret {tag}›="))),
        "equal values stay equal"
    );
    assert_eq!(shown["secret"]["data"]["k0"], shown["a"]);
    assert!(shown["c"].as_str().is_some_and(|text| text.starts_with("‹secret ") && text != shown["a"]), "{shown}");
    let cut = masker.mask_message("login as hunter2-Pass\u{2026} (trap)");
    assert!(cut.starts_with("login as ‹secret ") && cut.ends_with("›\u{2026} (trap)"), "{cut}");
    assert!(!shown.to_string().contains(&encoded(b"abc")), "a short value is replaced in its Secret");
}

#[test]
fn placeholder_has_the_alphabet_of_its_value() {
    let key = Key::new([1; KEY_LENGTH]);
    let text = String::from_utf8(key.placeholder("aZ9-\u{e4}\u{6f22}".as_bytes())).expect("text");
    let chars: Vec<_> = text.chars().collect();
    assert!(chars[0].is_ascii_lowercase() && chars[1].is_ascii_uppercase() && chars[2].is_ascii_digit(), "{text}");
    assert_eq!((chars[3], chars[4].len_utf8(), chars[5].len_utf8()), ('-', 2, 3));
    assert_ne!(Key::new([2; KEY_LENGTH]).placeholder(b"secret-value"), key.placeholder(b"secret-value"));
    assert_ne!(key.placeholder(b"--------"), b"--------", "a value of punctuation alone is replaced as well");
    assert_eq!(key.placeholder(&[0xff, 0xfe, b'a']).len(), 3);
}

#[test]
fn short_values_are_replaced_in_their_secret_and_in_its_last_applied_configuration() {
    let inner = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"pin": "1234"}}).to_string();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": inner});
    let given = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": annotations},
        "data": {"pin": encoded(b"1234")}});
    let shown = masked(&mut masker(&given), &given).to_string();
    assert!(!shown.contains("1234") && !shown.contains(&encoded(b"1234")), "{shown}");
}

#[test]
fn hash_of_a_desired_state_is_replaced_as_values_could_be_guessed_by_it() {
    let secret = secret(&[b"hunter2-Password".to_vec()]);
    let env = json!([{"name": "PASSWORD", "value": "hunter2-Password"}]);
    let annotations = json!({"windlass.dev/applied": "1:0123456789abcdef"});
    let pod = json!({"kind": "Pod", "metadata": {"name": "s", "annotations": annotations}, "env": env});
    let copy = json!({"metadata": {"name": "s", "annotations": {"copy": pod.to_string()}}});
    let mut masker = masker(&secret);
    let hash = |shown: &serde_json::Value| shown["metadata"]["annotations"]["windlass.dev/applied"].clone();
    let shown = masked(&mut masker, &pod);
    assert_eq!(shown["metadata"]["name"], "s");
    assert_ne!(hash(&shown), hash(&pod));
    assert_eq!(hash(&masked(&mut masker, &pod)), hash(&shown), "equal hashes stay equal");
    let shown = masked(&mut masker, &copy).to_string();
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn text_that_looks_like_a_secret_and_cannot_be_parsed_is_not_shown() {
    let text = r#"{"kind":"Secret","stringData":{"pin":"1234"},}"#;
    let words = "the Secret db was not found";
    let document = json!({"annotation": text, "message": words});
    let shown = masked(&mut Masker::new([7; KEY_LENGTH]), &document);
    assert_eq!(shown, json!({"annotation": hidden(text.len()), "message": words}));
}

#[test]
fn beginning_of_a_value_is_replaced_where_the_host_has_cut_a_message() {
    let mut masker = masker(&secret(&[b"hunter2-Password".to_vec(), "ends \u{2026} here".into()]));
    let shown = masker.mask_message("login as hunter2-Pass\u{2026} (trap)");
    assert!(shown.starts_with("login as ") && shown.ends_with("\u{2026} (trap)"), "{shown}");
    assert!(!shown.contains("hunt") && !shown.contains("Pass"), "{shown}");
    // The ellipsis of a value is not a cut.
    assert!(!masker.mask_message("it ends \u{2026} here").contains("here"));
    for message in ["say hun\u{2026}", "and hunter", "cut \u{2026} somewhere", "cut \u{2026}ord"] {
        assert_eq!(masker.mask_message(message), message);
    }
}

#[test]
fn end_and_middle_of_a_value_are_replaced_where_the_host_has_cut_a_message_in_its_middle() {
    let mut masker = masker(&secret(&[b"aaaaaaab-Password".to_vec()]));
    for (message, begin, end) in [
        ("env: aaaa\u{2026}Password\": too long", "env: ", "\": too long"),
        ("env: \u{2026}aaab-Password: too long", "env: \u{2026}", ": too long"),
        ("env: \u{2026}aab-Passw\u{2026}", "env: \u{2026}", "\u{2026}"),
    ] {
        let shown = masker.mask_message(message);
        assert!(shown.starts_with(begin) && shown.ends_with(end) && shown.len() == message.len(), "{shown}");
        assert!(!shown.contains("aaa") && !shown.contains("Pass"), "{shown}");
    }
    let many = masker.mask_message(&"\u{2026}Password".repeat(20));
    assert!(!many.contains("Pass") && many.ends_with("???"), "what follows many ellipses is hidden: {many}");
}

#[test]
fn long_value_is_replaced_as_a_whole_and_indented_line_by_line() {
    let line = |seed: char| seed.to_string().repeat(60);
    let long = format!("{}\n{}\n{}\n", line('a'), line('b'), line('c'));
    let mut masker = masker(&secret(&[long.clone().into_bytes()]));
    let indented = format!("  {}\n  {}\n", line('a'), line('c'));
    for text in [long.clone(), indented, format!("begin {} end", long.trim_end())] {
        let shown = masker.mask_text(&text);
        assert_eq!(shown.len(), text.len());
        assert!(['a', 'b', 'c'].iter().all(|seed| !shown.contains(&line(*seed))), "{shown}");
    }
}

#[test]
fn words_that_are_public_stay_outside_the_secret() {
    let given = secret(&[b"orders".to_vec(), b"metadata".to_vec()]);
    let mut masker = masker(&given);
    masker.allow("orders");
    let object = json!({"metadata": {"name": "orders"}});
    assert_eq!(masked(&mut masker, &object), object);
    assert_ne!(masked(&mut masker, &given)["data"], given["data"]);
}

#[test]
fn values_are_bounded() {
    let mut masker = Masker::new([0; KEY_LENGTH]);
    let many = (0..9).map(|at| vec![b'a' + at; 1024 * 1024]).collect::<Vec<_>>();
    assert_eq!(masker.learn(&value(&secret(&many))), Err(TooManyValues));
    let mut masker = Masker::new([0; KEY_LENGTH]);
    let many = (0..20_000).map(|at| format!("value-{at:020}").into_bytes()).collect::<Vec<_>>();
    assert_eq!(masker.learn(&value(&secret(&many))), Err(TooManyValues));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_value_survives_and_equal_values_stay_equal(
        values in prop::collection::vec("[a-zA-Z0-9!<>&\"$'{}\\\\ \n\t\u{1b}\u{e4}\u{6f22}-]{6,40}", 1..6),
        around in prop::collection::vec("[a-z0-9 :/]{0,8}", 2..4),
    ) {
        let bytes: Vec<_> = values.iter().map(|value| value.clone().into_bytes()).collect();
        let given = secret(&bytes);
        let mut masker = masker(&given);
        let texts: Vec<_> = values.iter().map(|value| around.join(value)).collect();
        let coded: Vec<_> = bytes.iter().map(|value| around.join(&encoded(value))).collect();
        let trimmed: Vec<_> = values.iter().map(|value| value.trim()).filter(|value| value.len() >= VALUE_MIN).collect();
        let trimmed_coded: Vec<_> = trimmed.iter().map(|value| encoded(value.as_bytes())).collect();
        let document = json!({
            "secret": given, "texts": texts, "coded": coded, "again": texts, "json": json!(texts).to_string(),
            "trimmed": trimmed, "trimmed_coded": trimmed_coded,
        });
        let shown = masked(&mut masker, &document);
        let all = strings(&shown).concat();
        for value in values.iter().map(String::as_str).chain(trimmed) {
            prop_assert!(!all.contains(value), "{value:?} in {shown}");
            prop_assert!(!all.contains(&escaped(value)), "escaped {value:?} in {shown}");
            prop_assert!(!all.contains(BASE64.encode(value).as_str()), "base64 of {value:?} in {shown}");
        }
        prop_assert_eq!(&shown["texts"], &shown["again"]);
        for (text, masked) in texts.iter().zip(shown["texts"].as_array().expect("texts")) {
            prop_assert_eq!(text.len(), masked.as_str().expect("a text").len());
        }
        for (value, text) in values.iter().zip(&texts) {
            let forms: [fn(&str) -> String; 3] =
                [|text| one_line(text).into_owned(), escaped_as_in_go, escaped_as_in_python];
            for form in forms {
                let message = masker.mask_message(&form(text));
                prop_assert!(!message.contains(&form(value)), "{value:?} in {message}");
            }
        }
    }

    #[test]
    fn no_beginning_of_a_value_survives_before_an_ellipsis(
        // The placeholder of letters and digits differs in the first six; punctuation would stay.
        values in prop::collection::vec("[a-zA-Z0-9]{8}[a-z0-9 \n\"\u{e4}-]{0,200}", 1..4),
        before in "[a-z :]{0,8}",
        length in 6usize..160,
    ) {
        let mut masker = masker(&secret(&values.iter().map(|value| value.clone().into_bytes()).collect::<Vec<_>>()));
        for value in &values {
            let (part, _) = value.split_at(value.floor_char_boundary(length));
            for part in [part, &*one_line(part)] {
                let shown = masker.mask_message(&format!("{before}{part}\u{2026} (trap)"));
                prop_assert!(!shown.contains(&part[..6]), "{part:?} in {shown:?}");
            }
        }
    }
}

/// All texts of a document, apart from each other.
fn strings(document: &serde_json::Value) -> Vec<String> {
    match document {
        serde_json::Value::String(text) => vec![format!("{text}\u{0}")],
        serde_json::Value::Array(items) => items.iter().flat_map(strings).collect(),
        serde_json::Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| [vec![format!("{name}\u{0}")], strings(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}
