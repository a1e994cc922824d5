//! The results of a test run: as text for people, and as `JUnit` XML for CI.

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use strum::VariantArray as _;

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// The group of tests that it belongs to.
    pub suite: Suite,
    /// The check's or the case's name.
    pub name: String,
    /// What is tested, or how often.
    pub detail: String,
    /// Whether it passed.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A group of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Suite {
    /// Checks with generated parents.
    Properties,
    /// Golden cases, and saved cases of properties.
    Cases,
    /// What every plugin must do.
    Conformance,
}

/// Whether a test passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The property holds, or the response is the expected one.
    Passed,
    /// There is nothing to test, for example because no parent is a case of the property.
    Skipped,
    /// The reason, and the failing case for reproduction.
    Failed {
        /// One line.
        reason: String,
        /// The failing case as YAML, and how to run it again; empty if the case is in a file.
        case: String,
    },
}

/// The results as text.
pub fn text(results: &[TestResult]) -> String {
    let mut text = String::new();
    let width = results.iter().map(|result| result.name.chars().count()).max().unwrap_or_default();
    for TestResult { name, detail, outcome, .. } in results {
        let (word, rest) = match outcome {
            Outcome::Passed => ("ok  ", detail),
            Outcome::Skipped => ("skip", detail),
            Outcome::Failed { reason, .. } => ("FAIL", reason),
        };
        let _ = writeln!(text, "{word}  {name:width$}  {rest}");
    }
    for TestResult { name, outcome, .. } in results {
        if let Outcome::Failed { case, .. } = outcome
            && !case.is_empty()
        {
            let _ = write!(text, "\n{name}:\n{case}");
        }
    }
    text
}

/// The results as `JUnit` XML.
///
/// # Errors
/// If the document cannot be written.
pub fn xml(plugin: &str, results: &[TestResult]) -> anyhow::Result<String> {
    let mut report = Report::new(plugin);
    for of in Suite::VARIANTS {
        let suite_name: &str = of.into();
        let mut suite = TestSuite::new(suite_name);
        for TestResult { name, detail, outcome, .. } in results.iter().filter(|result| result.suite == *of) {
            let status = match outcome {
                Outcome::Passed => TestCaseStatus::success(),
                Outcome::Skipped => {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(detail.as_str());
                    status
                }
                Outcome::Failed { reason, case } => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(reason.as_str()).set_type(name.as_str()).set_description(case.as_str());
                    status
                }
            };
            let mut test_case = TestCase::new(name.as_str(), status);
            test_case.set_classname(format!("{plugin}.{suite_name}"));
            suite.add_test_case(test_case);
        }
        if suite.tests > 0 {
            report.add_test_suite(suite);
        }
    }
    Ok(report.to_string()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Vec<TestResult> {
        let failed = |reason: &str, case: &str| Outcome::Failed { reason: reason.to_owned(), case: case.to_owned() };
        [
            (Suite::Properties, "converges", failed("a < b & \u{1}c", "parent: \"]]>\"\n")),
            (Suite::Properties, "no-trap", Outcome::Passed),
            (Suite::Cases, "x", Outcome::Skipped),
            (Suite::Cases, "y", failed("unlike", "")),
        ]
        .into_iter()
        .map(|(suite, name, outcome)| TestResult { suite, name: name.to_owned(), detail: "detail".to_owned(), outcome })
        .collect()
    }

    #[test]
    fn junit_report_is_valid_xml_with_all_results() {
        let text = xml("echo", &results()).expect("a report");
        let report = Report::deserialize_from_str(&text).expect("valid XML");
        assert_eq!((report.tests, report.failures, report.test_suites.len()), (4, 2, 2), "{text}");
        assert!(text.contains("a &lt; b &amp; c") && !text.contains('\u{1}'), "{text}");
    }

    #[test]
    fn text_has_a_line_for_each_test_and_then_the_failing_cases() {
        expect_test::expect![[r#"
            FAIL  converges  a < b & c
            ok    no-trap    detail
            skip  x          detail
            FAIL  y          unlike

            converges:
            parent: "]]>"
        "#]]
        .assert_eq(&text(&results()).replace('\u{1}', ""));
    }
}
