//! The CRD of a plugin that uses every feature of the SDK, and the conversion of requests and responses.

#![allow(clippy::indexing_slicing, clippy::needless_pass_by_value, clippy::too_many_lines, clippy::unwrap_used)]

mod children;
mod phase;

use std::time::Duration;

use expect_test::expect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    ConditionStatus, CustomResource, Descriptor, Event, Failure, Parent, PhaseStatus, Quantity, Reconciler, Request,
    Requirement, Response, Unread, UpdateStrategy, checks, json,
    kinds::{ConfigMap, Deployment, Pod, Secret},
    raw,
    testing::{self, Value},
};

/// A site.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code)]
struct SiteSpec {
    /// Its host name.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9.-]+$"))]
    host: String,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    replicas: u8,
    tls: Option<Tls>,
}

fn one() -> u8 {
    1
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Tls {
    secret_name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
struct SiteStatus {
    ready_replicas: u32,
    certificate: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Config {
    #[serde(default)]
    prefix: String,
}

#[derive(Debug)]
struct Site;

impl Reconciler for Site {
    type Spec = SiteSpec;
    type Status = SiteStatus;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("example.com", "v1", "Site")
            .short_name("si")
            .category("all")
            .column("Host", "string", ".spec.host")
            .rule("size(self.metadata.name) <= 40", "metadata.name may have at most 40 characters");
        Descriptor::new("site", "1.2.3", kind)
            .description("Sites")
            .child_with::<Deployment>(UpdateStrategy::rolling(["Available"]))
            .related::<Secret>()
            .config::<Config>()
            .finalizes()
            .resync(Duration::from_secs(30))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let config: Config = request.config()?;
        if request.is_finalizing() {
            return Ok(Response::new().event(Event::normal("Gone", "all is cleaned up")).finalized());
        }
        let mut response = Response::new();
        let mut certificate = None;
        if let Some(tls) = &request.spec.tls {
            let requirement = Requirement::named::<Secret>("tls", &tls.secret_name);
            response = response.require(requirement.clone());
            let Some(mut secrets) = request.related::<Secret>("tls") else {
                return Ok(response);
            };
            let Some(secret) = secrets.next() else {
                let message = format!("Secret {} is missing", tls.secret_name);
                return Ok(Response::wait(message, Duration::from_secs(5)).require(requirement));
            };
            certificate = Some(secret.name().to_owned());
        }
        let before = request.status();
        Ok(response
            .child(
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": format!("{}{}", config.prefix, request.name()) } }),
            )
            .condition("Served", certificate.is_some(), "Tls", request.namespace())
            .status(SiteStatus { ready_replicas: before.map_or(0, |before| before.ready_replicas + 1), certificate })
            .requeue(Duration::from_millis(1500)))
    }
}

fn site(spec: Value) -> testing::Call<Site> {
    testing::request(
        json!({ "metadata": { "name": "blog", "namespace": "web" }, "spec": spec, "status": { "readyReplicas": 3 } }),
    )
}

#[test]
fn crd_is_generated_from_the_types() {
    expect![[r#"
        {
          "apiVersion": "apiextensions.k8s.io/v1",
          "kind": "CustomResourceDefinition",
          "metadata": {
            "name": "sites.example.com"
          },
          "spec": {
            "group": "example.com",
            "names": {
              "categories": [
                "all"
              ],
              "kind": "Site",
              "listKind": "SiteList",
              "plural": "sites",
              "shortNames": [
                "si"
              ],
              "singular": "site"
            },
            "scope": "Namespaced",
            "versions": [
              {
                "additionalPrinterColumns": [
                  {
                    "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
                    "name": "Ready",
                    "type": "string"
                  },
                  {
                    "jsonPath": ".spec.host",
                    "name": "Host",
                    "type": "string"
                  },
                  {
                    "jsonPath": ".metadata.creationTimestamp",
                    "name": "Age",
                    "type": "date"
                  }
                ],
                "name": "v1",
                "schema": {
                  "openAPIV3Schema": {
                    "properties": {
                      "spec": {
                        "description": "A site.",
                        "properties": {
                          "host": {
                            "description": "Its host name.",
                            "maxLength": 253,
                            "minLength": 1,
                            "pattern": "^[a-z0-9.-]+$",
                            "type": "string"
                          },
                          "replicas": {
                            "default": 1,
                            "format": "int32",
                            "maximum": 9,
                            "minimum": 1,
                            "type": "integer"
                          },
                          "tls": {
                            "nullable": true,
                            "properties": {
                              "secretName": {
                                "type": "string"
                              }
                            },
                            "required": [
                              "secretName"
                            ],
                            "type": "object"
                          }
                        },
                        "required": [
                          "host"
                        ],
                        "type": "object"
                      },
                      "status": {
                        "properties": {
                          "certificate": {
                            "nullable": true,
                            "type": "string"
                          },
                          "conditions": {
                            "items": {
                              "properties": {
                                "lastTransitionTime": {
                                  "format": "date-time",
                                  "type": "string"
                                },
                                "message": {
                                  "maxLength": 32768,
                                  "type": "string"
                                },
                                "observedGeneration": {
                                  "format": "int64",
                                  "minimum": 0,
                                  "type": "integer"
                                },
                                "reason": {
                                  "maxLength": 1024,
                                  "minLength": 1,
                                  "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                                  "type": "string"
                                },
                                "status": {
                                  "enum": [
                                    "True",
                                    "False",
                                    "Unknown"
                                  ],
                                  "type": "string"
                                },
                                "type": {
                                  "maxLength": 316,
                                  "type": "string"
                                }
                              },
                              "required": [
                                "lastTransitionTime",
                                "message",
                                "reason",
                                "status",
                                "type"
                              ],
                              "type": "object"
                            },
                            "type": "array",
                            "x-kubernetes-list-map-keys": [
                              "type"
                            ],
                            "x-kubernetes-list-type": "map"
                          },
                          "observedGeneration": {
                            "format": "int64",
                            "minimum": 0,
                            "type": "integer"
                          },
                          "readyReplicas": {
                            "format": "int64",
                            "maximum": 4294967295,
                            "minimum": 0,
                            "type": "integer"
                          }
                        },
                        "type": "object"
                      }
                    },
                    "required": [
                      "spec"
                    ],
                    "type": "object",
                    "x-kubernetes-validations": [
                      {
                        "message": "metadata.name may have at most 40 characters",
                        "rule": "size(self.metadata.name) <= 40"
                      }
                    ]
                  }
                },
                "served": true,
                "storage": true,
                "subresources": {
                  "status": {}
                }
              }
            ]
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&testing::crd::<Site>()).unwrap());
}

#[test]
fn the_descriptor_has_everything_that_was_set() {
    let descriptor = testing::descriptor::<Site>();
    expect![[r#"
        (
            "site",
            "1.2.3",
            [
                ChildRule {
                    kind: Kind {
                        api-version: "apps/v1",
                        name: "Deployment",
                    },
                    update: UpdateStrategy::Rolling(
                        Rolling {
                            recreate: false,
                            conditions: [
                                "Available",
                            ],
                        },
                    ),
                    optional: false,
                },
            ],
            [
                RelatedRule {
                    kind: Kind {
                        api-version: "v1",
                        name: "Secret",
                    },
                    optional: false,
                },
            ],
            true,
            Some(
                30000,
            ),
        )"#]]
    .assert_eq(&format!(
        "{:#?}",
        (
            descriptor.name,
            descriptor.version,
            descriptor.children,
            descriptor.related,
            descriptor.finalizes,
            descriptor.resync
        )
    ));
    assert_eq!(
        serde_json::from_slice::<Value>(&descriptor.config_schema.unwrap()).unwrap(),
        json!({ "type": "object", "properties": { "prefix": { "type": "string", "default": "" } } })
    );
}

#[test]
fn the_response_has_everything_that_was_set() {
    let response = site(json!({ "host": "blog.example.com" })).config(&json!({ "prefix": "a-" })).call().unwrap();
    assert_eq!(
        response.children,
        [json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a-blog" } })]
    );
    assert_eq!(response.requeue, Some(Duration::from_millis(1500)));
    let condition = json!({ "type": "Served", "status": "False", "reason": "Tls", "message": "web" });
    assert_eq!(
        response.status,
        Some(json!({ "readyReplicas": 4, "conditions": [condition] })),
        "a field that is None is left out"
    );
}

#[test]
fn a_requirement_is_returned_before_and_after_it_is_served() {
    let call = || site(json!({ "host": "blog.example.com", "tls": { "secretName": "cert" } }));
    let first = call().call().unwrap();
    assert_eq!((first.children.len(), first.requirements.len(), first.status), (0, 1, None));

    let missing = call().related("tls", []).call().unwrap();
    assert_eq!(missing.requirements, first.requirements);
    assert_eq!((missing.waiting.as_deref(), missing.keep), (Some("Secret cert is missing"), raw::Keep::All));
    assert_eq!((missing.requeue, missing.children.len()), (Some(Duration::from_secs(5)), 0));

    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cert" } });
    let served = call().related("tls", [secret]).call().unwrap();
    assert_eq!(served.requirements, first.requirements);
    assert_eq!(served.status.unwrap()["certificate"], "cert");
}

#[test]
fn response_to_a_finalize_call_can_be_finalized() {
    let response = site(json!({ "host": "h" })).finalize().call().unwrap();
    assert!(response.finalized);
    assert_eq!(response.events[0].reason, "Gone");
}

#[test]
fn invalid_spec_fails_a_clean_up_only_if_it_reads_the_spec() {
    struct ByName;
    impl Reconciler for ByName {
        type Spec = SiteSpec;
        type Status = SiteStatus;
        fn descriptor() -> Descriptor {
            Site::descriptor()
        }
        fn reconcile(_: Request<Self>) -> Result<Response<Self>, Failure> {
            Ok(Response::new())
        }
        fn finalize(request: Request<Self, Unread>) -> Result<Response<Self>, Failure> {
            Ok(Response::new().event(Event::normal("Gone", request.name())).finalized())
        }
    }
    let parent = || json!({ "metadata": { "name": "blog" }, "spec": { "host": 7 } });
    let response = testing::request::<ByName>(parent()).finalize().call().unwrap();
    assert_eq!((response.finalized, &*response.events[0].message), (true, "blog"));
    let by_the_host = Failure::invalid_field("spec.host", "must be of type string, and is the number 7");
    assert_eq!(testing::request::<ByName>(parent()).call(), Err(by_the_host));
    let by_its_type = Failure::invalid_field("spec.host", "invalid type: integer `7`, expected a string");
    assert_eq!(testing::request::<Site>(parent()).finalize().call(), Err(by_its_type));
}

#[test]
fn error_for_an_invalid_field_contains_its_path() {
    let failure = |spec| site(spec).call().unwrap_err();
    assert_eq!(failure(json!({})), Failure::invalid_field("spec.host", "required, and missing"));
    assert_eq!(
        failure(json!({ "host": "h", "tls": { "secretName": 7 } })),
        Failure::invalid_field("spec.tls.secretName", "must be of type string, and is the number 7")
    );
}

#[test]
#[should_panic(expected = "spec.config.prefix: must be of type string, and is an array")]
fn config_that_the_host_refuses_fails_the_test() {
    let _ = site(json!({ "host": "h" })).config(&json!({ "prefix": [] })).call();
}

#[test]
fn a_spec_is_applied_when_the_host_has_observed_it_and_is_not_stalled() {
    struct Applied;
    impl Reconciler for Applied {
        type Spec = Value;
        type Status = Value;
        fn descriptor() -> Descriptor {
            Descriptor::new("applied", "1.0.0", Parent::existing::<ConfigMap>())
        }
        fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
            Ok(Response::new().status(json!({ "applied": request.is_spec_applied() })))
        }
    }
    let applied = |status: Value| {
        let parent = json!({ "metadata": { "generation": 2 }, "status": status });
        testing::request::<Applied>(parent).call().unwrap().status.unwrap()["applied"] == true
    };
    let stalled = |status, reason| {
        let stalled = json!({ "type": "Stalled", "status": status, "reason": reason });
        json!({ "observedGeneration": 2, "conditions": [stalled] })
    };
    assert!(applied(json!({ "observedGeneration": 2 })));
    assert!(applied(stalled("False", "InvalidSpec")));
    assert!(!applied(stalled("True", "InvalidSpec")));
    assert!(applied(stalled("True", "ChildFailed")), "a failed child has been applied");
    assert!(!applied(json!({ "observedGeneration": 1 })));
    assert!(!applied(Value::Null));
}

#[test]
fn rfc1035_name_becomes_a_validation_rule_of_the_crd() {
    let crd = CustomResource::namespaced::<Site>("example.com", "v1", "Site").rfc1035_name(40).crd();
    let rules = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    assert_eq!(
        rules,
        &json!([{
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40",
            "message": "name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most 40 characters",
        }])
    );
}

#[test]
fn validation_rules_of_a_schema_come_from_the_checks() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = [checks::positive_rule("size")]))]
    #[expect(dead_code)]
    struct Volume {
        size: Quantity,
        #[schemars(regex(pattern = checks::DNS_SUBDOMAIN))]
        name: String,
    }
    struct Volumes;
    impl Reconciler for Volumes {
        type Spec = Volume;
        type Status = ();
        fn descriptor() -> Descriptor {
            Descriptor::new("volumes", "1.0.0", CustomResource::namespaced::<Self>("example.com", "v1", "Volume"))
        }
        fn reconcile(_: Request<Self>) -> Result<Response<Self>, Failure> {
            Ok(Response::new())
        }
    }
    let crd = testing::crd::<Volumes>();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(
        spec["x-kubernetes-validations"],
        json!([{
            "rule": "quantity(string(self.size)).isGreaterThan(quantity('0'))",
            "message": "size must be more than 0",
            "fieldPath": ".size",
        }])
    );
    assert_eq!(spec["properties"]["name"]["pattern"], checks::DNS_SUBDOMAIN);
}
