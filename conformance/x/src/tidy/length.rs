//! One idea a file: near 400 lines there are two.

use super::Project;
use super::finding::Finding;

const WARN_ABOVE: usize = 400;
const FAIL_ABOVE: usize = 500;

/// A finding for each file that is too long.
pub fn check(project: &Project) -> Vec<Finding> {
    let judge = |path: &str, lines: usize| {
        if lines > FAIL_ABOVE {
            let message = format!("{lines} lines, {FAIL_ABOVE} allowed: split it by its ideas");
            Some(Finding::error(path, lines, message))
        } else if lines > WARN_ABOVE {
            Some(Finding::warning(path, lines, format!("{lines} lines: look for the second idea")))
        } else {
            None
        }
    };
    // The text after the last newline is a line only if it isn't empty.
    let count = |source: &super::Source| {
        let open = source.lines.last().is_some_and(|line| line.code.is_empty() && line.comment.is_empty());
        source.lines.len() - usize::from(open)
    };
    project.sources.iter().filter_map(|source| judge(&source.path, count(source))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::Severity;

    #[test]
    fn long_files_are_found() {
        let text = |lines: usize| "x\n".repeat(lines);
        let project = Project::of(&[("a.rs", &text(400)), ("b.rs", &text(401)), ("c.rs", &text(501))]);
        let found: Vec<_> = check(&project).into_iter().map(|finding| (finding.path, finding.severity)).collect();
        assert_eq!(found, [("b.rs".into(), Severity::Warning), ("c.rs".into(), Severity::Error)]);
    }
}
