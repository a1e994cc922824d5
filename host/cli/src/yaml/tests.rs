use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use windlass_core::value::line::is_unprintable;

use super::{document, documents, only};

fn read(text: &str) -> Value {
    only(text).unwrap_or_else(|error| panic!("{text:?}: {error:#}"))
}

/// Scalars as they are written, and their values in JSON.
const SCALARS: [(&str, &str); 70] = [
    ("0644", "420"),
    ("012", "10"),
    ("08", "8"),
    ("0o17", "15"),
    ("0x1F", "31"),
    ("0b101", "5"),
    ("-0b101", "-5"),
    ("1_000", "1000"),
    ("+1", "1"),
    ("-0", "0"),
    ("1e3", "1000"),
    ("1e+3", "1000"),
    ("1E-1", "0.1"),
    ("1.", "1"),
    (".5", "0.5"),
    ("+.5", "0.5"),
    ("1.0", "1"),
    ("1.50", "1.5"),
    ("18446744073709551615", "1.8446744073709552e19"),
    ("12345678901234567890123", "1.2345678901234568e22"),
    ("9223372036854775807", "9223372036854775807"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("yes", "true"),
    ("On", "true"),
    ("y", "true"),
    ("n", "false"),
    ("off", "false"),
    ("TRUE", "true"),
    ("tRUE", r#""tRUE""#),
    ("~", "null"),
    ("Null", "null"),
    ("nULL", r#""nULL""#),
    ("1:30", r#""1:30""#),
    ("190:20:30", r#""190:20:30""#),
    ("2024-01-01", r#""2024-01-01""#),
    ("2001-12-14t21:59:43.10-05:00", r#""2001-12-14t21:59:43.10-05:00""#),
    ("0x", r#""0x""#),
    ("0o8", r#""0o8""#),
    ("1e", r#""1e""#),
    ("e3", r#""e3""#),
    ("1.2.3", r#""1.2.3""#),
    (".", r#"".""#),
    ("+", r#""+""#),
    ("=", r#""=""#),
    ("1Gi", r#""1Gi""#),
    ("infinity", r#""infinity""#),
    ("NaN", r#""NaN""#),
    ("+inf", r#""+inf""#),
    ("-infinity", r#""-infinity""#),
    ("-nan", r#""-nan""#),
    ("\"0644\"", r#""0644""#),
    ("'yes'", r#""yes""#),
    ("|\n  0644", r#""0644\n""#),
    ("0b-101", "-5"),
    ("0b12", r#""0b12""#),
    ("1e999", r#""1e999""#),
    ("99999999999999999999", "1e20"),
    ("0xFFFFFFFFFFFFFFFFFF", r#""0xFFFFFFFFFFFFFFFFFF""#),
    ("1e21", "1e21"),
    ("-0.0", "0"),
    ("1_0.5", "10.5"),
    ("0x1p-2", r#""0x1p-2""#),
    ("_1", r#""_1""#),
    ("! 12", r#""12""#),
    ("!!float 1", "1"),
    ("!!timestamp 2024-01-01", r#""2024-01-01""#),
    ("!!str 0644", r#""0644""#),
    ("!!int \"012\"", "10"),
    ("!!binary aGk=", r#""hi""#),
    ("!secret 0644", r#""0644""#),
];

#[test]
fn plain_scalars_have_the_values_that_kubectl_reads() {
    for (text, value) in SCALARS {
        let value: Value = serde_json::from_str(value).expect("JSON");
        assert_eq!(read(&format!("a: {text}\n")), json!({"a": value}), "{text}");
    }
}

#[test]
fn value_that_json_does_not_have_is_an_error_with_its_place() {
    for (text, words) in [
        ("a: .inf", "line 1, column 4: .inf is a number that JSON does not have"),
        ("a: -.INF", "-.INF is a number"),
        ("a: .nan", ".nan is a number"),
        ("a: !!int x", "\"x\" cannot be read as !!int"),
        ("b: 1\n~: 1", "line 2, column 1: null cannot be the name of a field"),
        ("1.5: 1", "1.5 cannot be the name"),
        ("[a]: 1", "cannot be the name"),
        ("a: 1\n\"a\": 2", "line 2, column 1: the key \"a\" is there twice"),
        ("a: &x [*x]", "an alias within its own value"),
        ("a: *x", "line 1, column 4"),
        ("<<: 1", "merges mappings only"),
        ("a: [", "line"),
    ] {
        let error = format!("{:#}", only(text).expect_err(text));
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn keys_aliases_and_merges_are_those_of_kubectl() {
    assert_eq!(read("{1: a, 0x10: b, on: c, \"2\": d}"), json!({"1": "a", "16": "b", "true": "c", "2": "d"}));
    assert_eq!(read("a: &x {b: 1, c: 2}\nd: *x\ne: {<<: *x, c: 3}"), {
        json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3}})
    });
    let merged = "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}";
    assert_eq!(read(merged)["z"], json!({"a": 1, "b": 2}), "the first mapping comes first");
}

#[test]
fn documents_follow_each_other_in_yaml_and_in_json() {
    for text in ["a: 1\n---\nb: 2\n", "{\"a\": 1}{\"b\": 2}", "{\"a\": 1}\n{\"b\": 2.0}\n", "{a: 1}\n---\n{\"b\": 2}\n"]
    {
        assert_eq!(documents(text).expect(text), [json!({"a": 1}), json!({"b": 2})], "{text}");
    }
    assert_eq!(documents("").expect("nothing"), [] as [Value; 0]);
    assert!(only("a: 1\n---\nb: 2").is_err());
}

#[test]
fn key_that_is_there_twice_in_json_is_an_error_with_its_place() {
    for (text, words) in [
        (r#"{"a": 1, "a": 2}"#, "the key \"a\" is there twice at line 1 column 1"),
        ("[{\"b\": {}},\n{\"b\": 1, \"c\": {\"d\": 1, \"d\": 1}}]", "the key \"d\" is there twice at line 2"),
        (r#"{"a": 1}{"a": 1, "\u0061": 2}"#, "the key \"a\" is there twice at line 1"),
    ] {
        let error = format!("{:#}", documents(text).expect_err(text));
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn numbers_in_json_are_those_in_yaml() {
    for (number, value) in [
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615", json!(1.844_674_407_370_955_2e19)),
        ("1.0", json!(1)),
        ("-0", json!(0)),
        ("1.5", json!(1.5)),
        ("1e999", json!("1e999")),
    ] {
        assert_eq!(read(&format!("[{number}, null, true]")), json!([value, null, true]), "{number}");
        assert_eq!(read(&format!("- {number}")), json!([value]), "{number}");
    }
}

#[test]
fn aliases_of_a_large_text_and_large_anchors_are_refused() {
    let large = "x".repeat(1 << 20);
    let aliases = format!("a: &a {large}\nb:\n{}", "- *a\n".repeat(100));
    let anchors: Vec<_> = (0..100).map(|at| format!("&a{at} [")).collect();
    let anchors = format!("{}{large}{}", anchors.concat(), "]".repeat(100));
    for text in [aliases, anchors] {
        let error = format!("{:#}", only(&text).expect_err("too large"));
        assert!(error.contains("stand for more than 64 MiB; use them for smaller values"), "{error}");
    }
    let few = format!("a: &a {large}\nb:\n{}", "- *a\n".repeat(20));
    assert_eq!(read(&few)["b"][19], json!(large));
}

#[test]
fn few_lines_cannot_stand_for_billions_of_values() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for at in 1..10 {
        let before = vec![format!("*a{}", at - 1); 10].join(",");
        writeln!(text, "a{at}: &a{at} [{before}]").expect("a String");
    }
    assert!(format!("{:#}", only(&text).expect_err("too many")).contains("aliases stand for more than"));
}

/// A text that is likely to be read differently by some parser.
fn text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "#",
        ": ",
        ":",
        "- ",
        "---",
        "...",
        "'",
        "\"",
        "\\",
        "{",
        "[",
        "&a",
        "*a",
        "!",
        "|",
        ">",
        "%",
        "@",
        "`",
        "?",
        ",",
        "=",
        "<<",
        "~",
        "null",
        "yes",
        "n",
        "0",
        "0644",
        "1e3",
        "0x1",
        "1_0",
        ".inf",
        "2024-01-01",
        "1:30",
        "é",
        "\u{7f}",
        "\u{85}",
        "\u{9b}",
        "\u{a0}",
        "\u{1b}[2J",
        "\0",
        "\u{2028}",
        "\u{202e}",
        "\u{feff}",
        "\u{fffe}",
        "\u{e0041}",
        "😀",
        "word",
        "a long line of words that a writer could fold into several lines",
    ]);
    prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), (-1e6..1e6_f64).prop_map(|of| json!(of + 0.5))];
    let leaf = prop_oneof![3 => text().prop_map(Value::from), 1 => Just(Value::Null), 1 => any::<bool>().prop_map(Value::from), 1 => number];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

#[test]
fn written_value_is_read_back_equal_and_controls_no_terminal() {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&value(), |value| {
        let text = document(&value);
        let read = only(&text).map_err(|error| TestCaseError::fail(format!("{error:#}\n{text:?}")))?;
        prop_assert_eq!(&read, &value, "{:?}", text);
        prop_assert!(!text.contains(|c| is_unprintable(c) && c != '\n'), "{:?}", text);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_text_is_refused_or_has_a_value_that_survives_writing() {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let documents_of = (text(), text(), any::<bool>())
        .prop_map(|(a, b, nested)| if nested { format!("a:\n  - {a}\n  - ? {b}\n") } else { a + &b });
    let result = runner.run(&documents_of, |text| {
        for value in documents(&text).unwrap_or_default() {
            prop_assert_eq!(only(&document(&value)).ok(), Some(value), "{:?}", text);
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn ordinary_objects_are_written_in_block_style_with_quotes_where_a_parser_needs_them() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}},
        "data": {"script": "set -e\necho a\n", "mode": "0644", "flag": "yes", "words": "a b", "list": ["x", {"y": 1}]},
    });
    expect_test::expect![[r#"
        apiVersion: v1
        data:
          flag: "yes"
          list:
          - x
          - "y": 1
          mode: "0644"
          script: |
            set -e
            echo a
          words: a b
        kind: ConfigMap
        metadata:
          labels: {}
          name: a
    "#]]
    .assert_eq(&document(&object));
}
