//! Prints previews: diffs to standard output, notes, errors and the summary to standard error.

use std::io::Write as _;
use std::process::ExitCode;

use anstream::AutoStream;
use windlass_core::object::child::ChildId;
use windlass_core::value::line::one_line;

use super::super::COMMAND_FAILED;
use super::super::output::failed;
use super::external::External;
use super::preview::{Pair, Preview, Verb};
use super::text::Texts;
use super::{Args, DIFFERENCES};

/// Prints previews as they come, and counts.
pub struct Report<'a> {
    args: &'a Args,
    external: Option<External>,
    totals: Totals,
}

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    parents: usize,
    differing: usize,
    blocked: usize,
    errors: usize,
}

impl<'a> Report<'a> {
    /// An empty report.
    pub fn new(args: &'a Args, external: Option<External>) -> Self {
        Self { args, external, totals: Totals::default() }
    }

    /// Prints a preview.
    ///
    /// # Errors
    /// If standard output is closed, or an object cannot be written.
    pub fn add(&mut self, preview: Preview) -> anyhow::Result<()> {
        let Preview { live, seen, .. } = preview;
        let parent = ChildId::of(&live).to_string();
        let (objects, notes, errors) = seen.into_parts(&live);
        self.totals.parents += 1;
        self.totals.errors += errors.len();
        for note in notes {
            err!("note: {parent}: {note}");
        }
        for error in errors {
            err!("error: {parent}: {error}");
        }
        for pair in objects {
            self.totals.blocked += usize::from(matches!(pair.verb, Verb::Blocked | Verb::BlockedRecreation));
            let title = title(&parent, &pair);
            if let Some(texts) = Texts::of(pair, self.args.show_secrets, self.args.status) {
                self.totals.differing += 1;
                self.show(&title, &texts)?;
            }
        }
        Ok(())
    }

    fn show(&self, title: &str, texts: &Texts) -> anyhow::Result<()> {
        if let Some(external) = &self.external {
            return external.add(texts);
        }
        let color = match self.args.color {
            clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
            clap::ColorChoice::Always => anstream::ColorChoice::Always,
            clap::ColorChoice::Never => anstream::ColorChoice::Never,
        };
        let mut out = AutoStream::new(std::io::stdout(), color);
        write!(out, "# {}\n{}", one_line(title), texts.unified()).map_err(failed)
    }

    /// Runs the external program, if there is one, and prints the summary, with what the host would report at the Plugin of the deletions of
    /// these parents together. Returns the exit code.
    ///
    /// # Errors
    /// If the external program fails.
    pub fn end(self, blocked_at_plugin: Option<String>) -> anyhow::Result<ExitCode> {
        let Self { external, totals, .. } = self;
        let is_external = external.is_some();
        let has_found = external.filter(|_| totals.differing > 0).map(External::run).transpose()?;
        if let Some(blocked) = blocked_at_plugin {
            err!("note: {blocked}");
        }
        err!("{}", totals.summary());
        // The external program may ignore differences, for example of white space.
        let differences = if is_external && has_found != Some(true) { 0 } else { totals.differing };
        Ok(match (totals.errors, differences) {
            (1.., _) => ExitCode::from(COMMAND_FAILED),
            (0, 1..) => ExitCode::from(DIFFERENCES),
            (0, 0) => ExitCode::SUCCESS,
        })
    }
}

impl Totals {
    /// As in `3 parents, 2 objects differ, 1 deletion blocked, 1 error`.
    fn summary(&self) -> String {
        let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let verb = if self.differing == 1 { "differs" } else { "differ" };
        let mut parts = vec![count(self.parents, "parent"), format!("{} {verb}", count(self.differing, "object"))];
        if self.blocked > 0 {
            parts.push(format!("{} blocked", count(self.blocked, "deletion")));
        }
        if self.errors > 0 {
            parts.push(count(self.errors, "error"));
        }
        parts.join(", ")
    }
}

/// The line above a diff.
fn title(parent: &str, pair: &Pair) -> String {
    let id = &pair.id;
    let blocked = "(blocked until a user allows it)";
    match pair.verb {
        Verb::Create => format!("{parent}: create {id}"),
        Verb::Adopt => format!("{parent}: adopt {id}"),
        Verb::Update => format!("{parent}: update {id}"),
        Verb::Recreate => format!("{parent}: recreate {id}"),
        Verb::BlockedRecreation => format!("{parent}: recreate {id} {blocked}"),
        Verb::Delete => format!("{parent}: delete {id}"),
        Verb::Blocked => format!("{parent}: delete {id} {blocked}"),
        Verb::Parent => format!("{parent}: the parent itself"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::value::ids::{Gvk, ObjectKey};

    use super::*;

    #[test]
    fn summary_counts_parents_differences_blocked_deletions_and_errors() {
        let totals = Totals { parents: 3, differing: 2, ..Totals::default() };
        assert_eq!(totals.summary(), "3 parents, 2 objects differ");
        let totals = Totals { parents: 1, differing: 1, blocked: 1, errors: 2 };
        assert_eq!(totals.summary(), "1 parent, 1 object differs, 1 deletion blocked, 2 errors");
    }

    #[test]
    fn title_names_parent_verb_and_child_and_marks_a_blocked_deletion() {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let id = ChildId { kind, key: ObjectKey::new(Some("shop"), "web-0") };
        let of = |verb| Pair { verb, id: id.clone(), before: None, after: None };
        assert_eq!(title("Echo shop/web", &of(Verb::Update)), "Echo shop/web: update Pod shop/web-0");
        let blocked = title("Echo shop/web", &of(Verb::Blocked));
        assert_eq!(blocked, "Echo shop/web: delete Pod shop/web-0 (blocked until a user allows it)");
    }
}
