#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Direction, of};

fn check<T: JsonSchema>(expected: Expect) {
    expected.assert_eq(&serde_json::to_string_pretty(&of::<T>(Direction::Read)).unwrap());
}

#[test]
fn integers_have_formats_that_the_api_server_knows() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code)]
    struct Numbers {
        port: u16,
        replicas: u32,
        size: u64,
        offset: i32,
        #[schemars(extend("exclusiveMinimum" = 0))]
        ratio: f64,
    }
    check::<Numbers>(expect![[r#"
        {
          "properties": {
            "offset": {
              "format": "int32",
              "type": "integer"
            },
            "port": {
              "format": "int32",
              "maximum": 65535,
              "minimum": 0,
              "type": "integer"
            },
            "ratio": {
              "exclusiveMinimum": true,
              "format": "double",
              "minimum": 0,
              "type": "number"
            },
            "replicas": {
              "format": "int64",
              "maximum": 4294967295,
              "minimum": 0,
              "type": "integer"
            },
            "size": {
              "format": "int64",
              "minimum": 0,
              "type": "integer"
            }
          },
          "required": [
            "port",
            "replicas",
            "size",
            "offset",
            "ratio"
          ],
          "type": "object"
        }"#]]);
}

#[test]
fn an_option_is_nullable_and_not_required() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code)]
    struct Optional {
        /// A number.
        number: Option<i64>,
        /// An object.
        object: Option<Inner>,
        /// A choice.
        choice: Option<Choice>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code)]
    struct Inner {
        name: String,
    }
    #[derive(Deserialize, JsonSchema)]
    enum Choice {
        One,
        Two,
    }
    check::<Optional>(expect![[r#"
        {
          "properties": {
            "choice": {
              "description": "A choice.",
              "enum": [
                "One",
                "Two"
              ],
              "nullable": true,
              "type": "string"
            },
            "number": {
              "description": "A number.",
              "format": "int64",
              "nullable": true,
              "type": "integer"
            },
            "object": {
              "description": "An object.",
              "nullable": true,
              "properties": {
                "name": {
                  "type": "string"
                }
              },
              "required": [
                "name"
              ],
              "type": "object"
            }
          },
          "type": "object"
        }"#]]);
}

#[test]
fn an_enum_with_documented_names_is_one_enum() {
    #[derive(Deserialize, JsonSchema)]
    enum Level {
        /// Little.
        Low,
        /// Much.
        High,
    }
    check::<Level>(expect![[r#"
        {
          "enum": [
            "Low",
            "High"
          ],
          "type": "string"
        }"#]]);
}

#[test]
fn an_enum_with_data_has_its_properties_on_the_object() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code)]
    enum Source {
        /// A file.
        File { path: String },
        /// Somewhere.
        Url(String),
    }
    check::<Source>(expect![[r#"
        {
          "oneOf": [
            {
              "required": [
                "file"
              ]
            },
            {
              "required": [
                "url"
              ]
            }
          ],
          "properties": {
            "file": {
              "properties": {
                "path": {
                  "type": "string"
                }
              },
              "required": [
                "path"
              ],
              "type": "object"
            },
            "url": {
              "type": "string"
            }
          },
          "type": "object"
        }"#]]);
}

#[test]
fn the_tag_of_a_tagged_enum_is_one_enum() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "type")]
    #[expect(dead_code)]
    enum Backup {
        Full { target: String },
        Partial { target: String, share: u8 },
    }
    check::<Backup>(expect![[r#"
        {
          "oneOf": [
            {
              "properties": {
                "type": {
                  "enum": [
                    "Full"
                  ]
                }
              },
              "required": [
                "type",
                "target"
              ]
            },
            {
              "properties": {
                "type": {
                  "enum": [
                    "Partial"
                  ]
                }
              },
              "required": [
                "type",
                "target",
                "share"
              ]
            }
          ],
          "properties": {
            "share": {
              "format": "int32",
              "maximum": 255,
              "minimum": 0,
              "type": "integer"
            },
            "target": {
              "type": "string"
            },
            "type": {
              "enum": [
                "Full",
                "Partial"
              ],
              "type": "string"
            }
          },
          "type": "object"
        }"#]]);
}

#[test]
fn maps_sets_and_free_form_values_have_kubernetes_extensions() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code)]
    struct Collections {
        labels: BTreeMap<String, String>,
        names: BTreeSet<String>,
        anything: Value,
        pair: (u8, String),
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    check::<Collections>(expect![[r#"
        {
          "properties": {
            "anything": {
              "x-kubernetes-preserve-unknown-fields": true
            },
            "labels": {
              "additionalProperties": {
                "type": "string"
              },
              "type": "object"
            },
            "names": {
              "items": {
                "type": "string"
              },
              "type": "array",
              "x-kubernetes-list-type": "set"
            },
            "pair": {
              "items": {
                "x-kubernetes-preserve-unknown-fields": true
              },
              "maxItems": 2,
              "minItems": 2,
              "type": "array"
            }
          },
          "required": [
            "labels",
            "names",
            "anything",
            "pair"
          ],
          "type": "object",
          "x-kubernetes-preserve-unknown-fields": true
        }"#]]);
}

#[test]
fn an_integer_or_string_is_int_or_string() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code)]
    enum Port {
        Number(u16),
        Name(String),
    }
    check::<Port>(expect![[r#"
        {
          "x-kubernetes-int-or-string": true
        }"#]]);
}

#[test]
fn a_recursive_type_is_unchecked_where_it_recurs() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code)]
    struct Tree {
        name: String,
        children: Vec<Tree>,
    }
    check::<Tree>(expect![[r#"
        {
          "properties": {
            "children": {
              "items": {
                "x-kubernetes-preserve-unknown-fields": true
              },
              "type": "array"
            },
            "name": {
              "type": "string"
            }
          },
          "required": [
            "name",
            "children"
          ],
          "type": "object"
        }"#]]);
}

#[test]
fn schema_keeps_defaults_and_kubernetes_extensions() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = [{ "rule": "self.min <= self.max" }]))]
    #[serde(default)]
    struct Range {
        min: u32,
        max: u32,
        note: Option<String>,
    }
    impl Default for Range {
        fn default() -> Self {
            Self { min: 1, max: 3, note: None }
        }
    }
    check::<Range>(expect![[r#"
        {
          "properties": {
            "max": {
              "default": 3,
              "format": "int64",
              "maximum": 4294967295,
              "minimum": 0,
              "type": "integer"
            },
            "min": {
              "default": 1,
              "format": "int64",
              "maximum": 4294967295,
              "minimum": 0,
              "type": "integer"
            },
            "note": {
              "nullable": true,
              "type": "string"
            }
          },
          "type": "object",
          "x-kubernetes-validations": [
            {
              "rule": "self.min <= self.max"
            }
          ]
        }"#]]);
}

#[test]
fn a_written_field_that_may_be_null_is_not_required_at_any_depth() {
    #[derive(Serialize, JsonSchema)]
    struct Inner {
        name: String,
        number: Option<i64>,
        any: Option<Value>,
    }
    #[derive(Serialize, JsonSchema)]
    struct Outer {
        one: Inner,
        many: Vec<Inner>,
    }
    let schema = of::<Outer>(Direction::Written);
    assert_eq!(schema["required"], serde_json::json!(["one", "many"]));
    for inner in [&schema["properties"]["one"], &schema["properties"]["many"]["items"]] {
        assert_eq!(inner["required"], serde_json::json!(["name"]), "{inner}");
    }
}
