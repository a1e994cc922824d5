//! Extracts a trace from the host's log.

/// The first complete tree of a reconcile that called a plugin and then sent a write of this kind.
pub(super) fn of_a_write(log: &str, write: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let roots = lines.iter().enumerate().filter(|(_, line)| line.starts_with("reconcile "));
    roots.map(|(at, _)| tree(lines.get(at..).unwrap_or_default())).find_map(|tree| {
        // The host writes a tree in one piece, but this may read it while the host writes it.
        let whole = tree.iter().skip(1).any(|line| line.starts_with("└─ "));
        let spans: Vec<_> = tree.iter().map(|line| line.trim_start_matches(['│', '├', '└', '─', ' '])).collect();
        let has = |name: &str| spans.iter().any(|span| span.split(' ').next() == Some(name));
        (whole && has("plugin.call") && has(write)).then(|| tree.join("\n"))
    })
}

fn tree<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let below = |line: &&&str| ["├─ ", "└─ ", "│  ", "   "].iter().any(|head| line.starts_with(head));
    let (root, rest) = lines.split_at(1.min(lines.len()));
    root.iter().chain(rest.iter().take_while(below)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-01-01T00:00:00Z INFO windlass: started
reconcile 1ms name=quiet
├─ observe 1ms
├─ plugin.call 1ms
└─ report 1ms
reconcile 9ms name=hello
├─ observe 1ms
├─ plugin.call 2ms
│  └─ · INFO said something
├─ apply 5ms
│  └─ create 4ms kind=Pod
└─ report 1ms
2026-01-01T00:00:01Z INFO windlass::audit: create
reconcile 1ms name=cut
├─ plugin.call 1ms
├─ apply 5ms
│  └─ delete 4ms kind=Pod
";

    #[test]
    fn complete_trace_tree_with_the_write_is_extracted() {
        let tree = of_a_write(LOG, "create").expect("the log has a complete tree");
        assert!(tree.starts_with("reconcile 9ms") && tree.ends_with("└─ report 1ms"), "{tree}");
        assert_eq!(tree.lines().count(), 7);
    }

    #[test]
    fn incomplete_trace_tree_is_not_returned() {
        assert_eq!(of_a_write(LOG, "delete"), None);
    }
}
