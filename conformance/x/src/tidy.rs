//! `cargo x tidy`: the rules of style that a machine can check. One file a rule or a family of them, this list, and a
//! reader of Rust that knows just enough to tell code from comments, strings and tests.

mod arrows;
mod finding;
mod knobs;
mod length;
mod opening;
mod prints;
mod source;
mod unsafety;
mod words;

use std::fs;
use std::path::Path;

use crate::workspace::Workspace;
use crate::{Command, Outcome, no_arguments};
use finding::{Finding, Severity};
use source::Source;

pub const COMMAND: Command =
    Command { name: "tidy", usage: "", about: "check the rules of style that a machine can check", run };

/// What a rule may look at.
struct Project {
    /// All Rust files, by path.
    sources: Vec<Source>,
    /// All manifests: path from the root, text.
    manifests: Vec<(String, String)>,
    /// All other text files: path from the root, text.
    texts: Vec<(String, String)>,
    /// Names of declared knobs.
    knobs: Vec<String>,
}

type Rule = fn(&Project) -> Vec<Finding>;

const RULES: &[Rule] = &[
    opening::check,
    length::check,
    prints::check,
    unsafety::check_places,
    unsafety::check_reasons,
    knobs::check,
    words::check,
    arrows::check,
];

/// Folders that are not the project's own text.
const SKIPPED_FOLDERS: &[&str] = &[".git", "target"];

const TEXT_ENDINGS: &[&str] = &["md", "toml", "yml", "yaml", "sh", "lock", "json"];

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    let mut project = Project { sources: Vec::new(), manifests: Vec::new(), texts: Vec::new(), knobs: Vec::new() };
    read_folder(&workspace.root, "", &mut project)?;
    source::mark_test_files(&mut project.sources);
    // A missing file of knobs shows as one finding for each knob used.
    project.knobs = crate::knobs::declared(&workspace.root)
        .map(|knobs| knobs.into_iter().map(|knob| knob.name).collect())
        .unwrap_or_default();

    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&project)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    println!("tidy: {} Rust files, {errors} errors, {warnings} warnings", project.sources.len());
    if errors > 0 { Err(format!("{errors} errors")) } else { Ok(()) }
}

fn read_folder(root: &Path, folder: &str, project: &mut Project) -> Result<(), String> {
    let explain = |error: std::io::Error| format!("{folder}: {error}");
    let mut entries: Vec<_> =
        fs::read_dir(root.join(folder)).and_then(Iterator::collect::<Result<_, _>>).map_err(explain)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(explain)?;
        if kind.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                read_folder(root, &path, project)?;
            }
            continue;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let script = folder == ".ci";
        if !(ending == "rs" || script || TEXT_ENDINGS.contains(&ending)) {
            continue;
        }
        let text = fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
        match (name.as_str(), ending) {
            (_, "rs") => project.sources.push(Source::read(path, &text)),
            ("Cargo.toml", _) => project.manifests.push((path, text)),
            _ => project.texts.push((path, text)),
        }
    }
    Ok(())
}

#[cfg(test)]
impl Project {
    /// A project of Rust files alone.
    fn of(files: &[(&str, &str)]) -> Self {
        let sources = files.iter().map(|(path, text)| Source::read((*path).into(), text)).collect();
        Self { sources, manifests: Vec::new(), texts: Vec::new(), knobs: Vec::new() }
    }
}
