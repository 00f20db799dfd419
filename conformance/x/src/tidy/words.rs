//! Words that have no place in the project's text: paths of somebody's machine, and the way the text came to be.

use super::Project;
use super::finding::Finding;
use super::source::has_word;

/// Paths of a machine. Put together here, so that this file does not find itself.
const PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("C:\\", "Users")];

/// A place where packages of any user may lie.
const KNOWN_PATHS: &[&str] = &[concat!("/ho", "me/linuxbrew/")];

const WORDS: &[&str] = &[concat!("sess", "ion"), concat!("sess", "ions")];

/// A finding for each place in comments, strings and plain text; names in code are free.
pub fn check(project: &Project) -> Vec<Finding> {
    let in_sources = project.sources.iter().flat_map(|source| {
        source.numbered().map(|(at, line)| (source.path.as_str(), at, format!("{} {}", line.comment, line.strings)))
    });
    let plain = project.manifests.iter().chain(&project.texts);
    let in_texts = plain
        .filter(|(path, _)| !path.ends_with(".lock"))
        .flat_map(|(path, text)| text.lines().enumerate().map(|(at, line)| (path.as_str(), at + 1, line.to_owned())));
    in_sources
        .chain(in_texts)
        .filter_map(|(path, at, text)| {
            Some(Finding::error(path, at, format!("`{}` has no place here", unwanted(&text)?)))
        })
        .collect()
}

fn unwanted(text: &str) -> Option<&'static str> {
    let known = KNOWN_PATHS.iter().any(|path| text.contains(path));
    let path = PATHS.iter().find(|path| !known && text.contains(**path));
    let lower = text.to_lowercase();
    path.or_else(|| WORDS.iter().find(|word| has_word(&lower, word))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_text_and_not_in_names() {
        let text = format!("// {}x\nlet {} = 1;\nf(\"a new {}\");\n", PATHS[0], WORDS[0], WORDS[0].to_uppercase());
        let mut project = Project::of(&[("a.rs", text.as_str())]);
        project.texts.push(("README.md".into(), format!("fine\nin {}src\n", PATHS[1])));
        let found: Vec<_> = check(&project).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(found, [("a.rs".into(), 1), ("a.rs".into(), 3), ("README.md".into(), 2)]);
    }
}
