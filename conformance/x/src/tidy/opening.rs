//! Each Rust file opens with `//!`: what it is for, then what it refuses to know.

use super::Project;
use super::finding::Finding;

/// One finding for each file that opens otherwise.
pub fn check(project: &Project) -> Vec<Finding> {
    let opens = |path: &str| Finding::error(path, 1, "the file must open with a `//!` line that says what it is for");
    project
        .sources
        .iter()
        .filter(|source| {
            let first = source.lines.first().map_or("", |line| line.comment.as_str());
            first.strip_prefix("//!").is_none_or(|purpose| purpose.trim().is_empty())
        })
        .map(|source| opens(&source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_what_they_are_for() {
        let project = Project::of(&[
            ("a.rs", "//! Adds.\nfn a() {}"),
            ("b.rs", "fn b() {}"),
            ("c.rs", "//!\n"),
            ("d.rs", "// D."),
        ]);
        let paths: Vec<String> = check(&project).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["b.rs", "c.rs", "d.rs"]);
    }
}
