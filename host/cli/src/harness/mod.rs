//! `windlass harness`: what the host makes of a call in a native test of a plugin, by the host's own code.
//!
//! The test harnesses of all SDKs ask it, so that a native test passes nothing that the host refuses.

mod schedule;
mod wire;

use std::io::{Read as _, stdin};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_core::contract::{Descriptor, Phase, Response, descriptor};
use windlass_core::object::Object;
use windlass_core::object::readiness::Readiness;
use windlass_core::plugin::schema::parents::{Checked, ParentSchema};
use windlass_core::reconcile::recording::RecordedResponse;
use windlass_core::value::line::json;

use self::schedule::Question;
use self::wire::{Answer, Call, WrittenReadiness};
use crate::offline::{Described, gvk_of, related_object};

/// Flags of `windlass harness`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Standard input is one JSON document about a call:
  descriptor  the plugin's descriptor, with the names of the contract in camelCase: name, version, description, parent (custom: the \
CustomResourceDefinition; or existing: apiVersion and kind), selector (labels, annotations), children and related (apiVersion, kind, update, \
optional), finalizes, orderedDeletion, readyMeans, clock, resyncMs, configSchema, metrics
  phase       sync (the default) or finalize
  parent      the parent
  children    the existing children
  related     the related objects, by the id of their requirement
  config      the Plugin's spec.config
  response    the response, as answers of golden cases have it; absent before the call

Standard output is one JSON document:
  refused     the sentence with which the host refuses the descriptor, the config or the response; absent if it does not
  invalid     what the schema of the CRD does not allow in the parent: the host does not call the plugin with it
  parent      the parent with the defaults of the schema, if it lacks any
  children    the readiness of each child (state, message), in the same order
  related     the readiness of the related objects

Or standard input is a question about a schedule, one of
  next        for its first time after one: schedule, timeZone, time (milliseconds since 1970)
  previous    for its last time at or before one

Then standard output has one of
  time        in milliseconds since 1970; null if there is none
  schedule    the sentence about what is wrong in the schedule
  timeZone    the sentence about what is wrong in the time zone

Exit codes:
  0  the document was answered
  2  wrong usage
  3  the document is malformed; the message says why")]
pub struct Args {}

/// Answers one document.
pub fn main(_args: &Args) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    stdin().read_to_string(&mut text).context("standard input")?;
    let answer = answered(&text)?;
    out!("{answer}");
    Ok(ExitCode::SUCCESS)
}

/// Answers a question about a schedule, or about a call.
fn answered(text: &str) -> anyhow::Result<String> {
    let question: Question = serde_json::from_str(text).context("standard input is no call")?;
    if let Some(told) = question.answer() {
        return Ok(written(&told)?);
    }
    let call = serde_json::from_str(text).context("standard input is no call")?;
    Ok(written(&answer(call)?)?)
}

/// An answer as JSON that is printed as it is: a parent may have characters that a terminal does not show.
fn written(answer: &impl Serialize) -> serde_json::Result<String> {
    Ok(json(&serde_json::to_string(answer)?).into_owned())
}

fn answer(call: Call) -> anyhow::Result<Answer> {
    let Call { descriptor, phase, parent, children, related, config, response } = call;
    let descriptor = Descriptor::from(descriptor);
    let schema = ParentSchema::of(&descriptor);
    let Checked { completed, problems } =
        schema.map(|schema| schema.check(parent.get().as_bytes())).unwrap_or_default();
    let completed = completed.map(String::from_utf8).transpose()?.map(RawValue::from_string).transpose()?;
    let is_invalid = phase == Phase::Sync && !problems.is_empty();
    let known = related.values().flatten().enumerate();
    let known: Vec<_> = known
        .map(|(at, object)| related_object(at, serde_json::from_str(object.get())?))
        .collect::<anyhow::Result<_>>()?;
    let of_related = related.iter().map(|(id, objects)| Ok((id.clone(), all_readiness(objects)?)));
    let answer = Answer {
        refused: None,
        invalid: is_invalid.then(|| problems.join("; ")),
        parent: completed,
        children: all_readiness(&children)?,
        related: of_related.collect::<anyhow::Result<_>>()?,
    };
    let refused =
        refusal(descriptor, &parent, &known, config.as_deref(), response.map(RecordedResponse::into_response))?;
    Ok(Answer { refused, ..answer })
}

fn all_readiness(objects: &[Box<RawValue>]) -> anyhow::Result<Vec<WrittenReadiness>> {
    objects.iter().map(|object| readiness(object)).collect()
}

fn readiness(object: &RawValue) -> anyhow::Result<WrittenReadiness> {
    let value: Value = serde_json::from_str(object.get())?;
    let is_deleting = value.pointer("/metadata/deletionTimestamp").is_some();
    Ok(Readiness::of_json(&gvk_of(&value), is_deleting, || object.get().as_bytes()).into())
}

/// The sentence with which the host refuses this. `known`: the related objects, which show whether their kinds are namespaced.
fn refusal(
    descriptor: Descriptor,
    parent: &RawValue,
    known: &[Arc<Object>],
    config: Option<&RawValue>,
    response: Option<Response>,
) -> anyhow::Result<Option<String>> {
    if let Err(problem) = descriptor::check(&descriptor) {
        return Ok(Some(problem));
    }
    let described = match Described::new(descriptor) {
        Ok(described) => described,
        Err(problem) => return Ok(Some(problem.to_string())),
    };
    if let Some(Err(problem)) = config.map(|config| described.check_config(Some(config.get().as_bytes()))) {
        return Ok(Some(problem.to_string()));
    }
    let Some(response) = response else { return Ok(None) };
    let parent = described.parent(serde_json::from_str(parent.get())?)?;
    if let Err(refusal) = described.check_requirements(&response.requirements, &parent.key, known) {
        return Ok(Some(refusal.to_string()));
    }
    let validated = described.validate(&response, &described.parent_ref(&parent));
    Ok(validated.err().map(|rejection| rejection.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The answer to this change of a call that the host accepts.
    fn answered(change: impl FnOnce(&mut Value)) -> Value {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "echoes.my-operator.dev"},
            "spec": {
                "group": "my-operator.dev", "scope": "Namespaced", "names": {"kind": "Echo", "plural": "echoes"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        let deployments = json!({"apiVersion": "apps/v1", "kind": "Deployment", "update": {"rolling": {"recreate": false, "until": "ready"}}});
        let mut call = json!({
            "descriptor": {
                "name": "echo", "version": "0.1.0", "parent": {"custom": definition},
                "children": [{"apiVersion": "v1", "kind": "ConfigMap"}, deployments],
                "related": [{"apiVersion": "v1", "kind": "Secret"}],
                "metrics": [{"name": "calls", "type": "counter"}],
            },
            "parent": {"apiVersion": "my-operator.dev/v1", "kind": "Echo", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}},
            "children": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2}, "status": {"observedGeneration": 1}},
            ],
            "response": {
                "children": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}],
                "options": [{"stage": 1}],
                "requirements": [{"id": "password", "apiVersion": "v1", "kind": "Secret", "name": "db"}],
                "status": {"phase": "Ready"},
            },
        });
        change(&mut call);
        let call = serde_json::from_str(&call.to_string()).expect("a call");
        let text = written(&answer(call).expect("an answer")).expect("JSON");
        assert!(text.chars().all(|char| (' '..='~').contains(&char)), "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        answered(change)["refused"].as_str().expect("refused").to_owned()
    }

    #[test]
    fn response_that_the_host_accepts_is_not_refused_and_the_readiness_of_children_is_told() {
        let why = "its controller has not seen its latest change yet";
        let children = json!([{"state": "ready"}, {"state": "progressing", "message": why}]);
        assert_eq!(answered(|_| {}), json!({"children": children}));
    }

    #[test]
    fn parent_that_does_not_fit_the_schema_is_invalid_and_a_parent_without_defaults_gets_them() {
        let definition = |call: &mut Value| {
            let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 9, "default": 1}, "id": {"type": "integer"}}});
            let schema = json!({"type": "object", "properties": {"spec": spec}});
            call["descriptor"]["parent"]["custom"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        };
        let too_many = |call: &mut Value| {
            definition(call);
            call["parent"]["spec"] = json!({"replicas": 12});
        };
        assert_eq!(answered(too_many)["invalid"], "spec.replicas: 12 is more than the maximum 9");
        let finalized = answered(|call| {
            too_many(call);
            call["phase"] = json!("finalize");
        });
        assert_eq!(finalized.get("invalid"), None, "a clean-up is called with any spec");
        let completed = answered(|call| {
            definition(call);
            call["parent"]["spec"] = json!({"id": 7, "replicas": null, "\u{202e}": 1});
        });
        assert_eq!(completed["parent"]["spec"], json!({"id": 7, "replicas": 1, "\u{202e}": 1}));
        assert_eq!(completed["parent"]["metadata"]["name"], "web");
    }

    #[test]
    fn listed_responses_are_refused_with_their_sentences() {
        let cases = include_str!("../../../conformance/refused.json");
        let cases: Vec<Value> = serde_json::from_str(cases).expect("cases");
        let of = |list: &Value, take: fn(&Value) -> Value| {
            list.as_array().into_iter().flatten().map(take).collect::<Value>()
        };
        for case in cases {
            let refused = refused(|call| {
                call["descriptor"]["children"] =
                    json!([{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "Secret"}]);
                call["descriptor"]["related"] = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
                call["response"] = json!({
                    "children": of(&case["children"], |child| child["object"].clone()),
                    "options": of(&case["children"], |child| child.get("options").cloned().unwrap_or_else(|| json!({}))),
                    "requirements": of(&case["requirements"], Value::clone),
                });
                if let Some(keep) = case.get("keep") {
                    call["response"]["keep"] = json!({"these": keep});
                }
            });
            assert_eq!(case["refused"], refused, "{}", case["description"]);
        }
    }

    #[test]
    fn response_is_refused_with_the_sentence_of_the_host() {
        let twice = refused(|call| {
            let child = call["response"]["children"][0].clone();
            call["response"]["children"] = json!([child, child]);
            call["response"]["options"] = json!([{}, {}]);
        });
        assert_eq!(twice, "ConfigMap shop/a is twice in the response");
        let undeclared = refused(|call| call["response"]["children"][0]["kind"] = json!("Pod"));
        assert!(undeclared.contains("Pod"), "{undeclared}");
        let required = refused(|call| call["response"]["requirements"][0]["kind"] = json!("Node"));
        assert!(required.contains("password") && required.contains("Node"), "{required}");
        let metric = refused(|call| call["descriptor"]["metrics"][0]["name"] = json!("no spaces"));
        assert!(metric.contains("no spaces"), "{metric}");
        assert!(!refused(|call| call["config"] = json!({"image": "a"})).is_empty(), "the plugin takes no config");
        let malformed = refused(|call| call["response"]["children"][0] = json!("no object"));
        assert!(malformed.contains("child 0 is not a Kubernetes object"), "{malformed}");
    }
}
