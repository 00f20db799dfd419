//! Every `KILN_*` variable that code names is declared in the one file of knobs.

use super::Project;
use super::finding::Finding;
use crate::knobs;

/// Names that a build script passes to the compiler; nobody sets them.
const OF_BUILD_SCRIPTS: &[&str] = &["KILN_COMPILER"];

/// A finding for each variable that is not.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in project.sources.iter().filter(|source| source.path != knobs::FILE) {
        // The unit tests of these very commands name variables that do not exist.
        let examples = source.path.starts_with("conformance/x/");
        let declared = |name: &String| project.knobs.contains(name) || OF_BUILD_SCRIPTS.contains(&name.as_str());
        for (at, line) in source.numbered().filter(|(_, line)| !(examples && line.test)) {
            for name in knobs::names(&line.strings).into_iter().filter(|name| !declared(name)) {
                let message = format!("`{name}` is not declared in {}", knobs::FILE);
                findings.push(Finding::error(&source.path, at, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_knobs_are_found() {
        let text = "env::var(\"KILN_DEVICE\");\nenv::var(\"KILN_DEVICES\");\nlet KILN_X = 1; // KILN_Y\n";
        let mut project = Project::of(&[("backend/src/x.rs", text), (knobs::FILE, text)]);
        project.knobs = vec!["KILN_DEVICE".into()];
        let found = check(&project);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].path.as_str()), (2, "backend/src/x.rs"));
    }
}
