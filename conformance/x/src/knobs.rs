//! `cargo x knobs`: the table of environment variables that Kiln reads, taken from the one file that declares them.

use std::fs;
use std::path::Path;

use crate::workspace::Workspace;
use crate::{Command, Outcome, no_arguments, test};

pub const COMMAND: Command =
    Command { name: "knobs", usage: "", about: "print every KILN_* variable and what it does", run };

/// Where the backend declares its knobs: a doc comment, then an entry with the name as a string.
pub const FILE: &str = "backend/src/knobs.rs";

/// Variables that are read where that file cannot see: by build scripts, and between commands and tests.
pub const OWN: &[(&str, &str)] = &[
    ("KILN_CBLAS_LIB", "at build time, with the feature `cblas`: the library to link; `openblas` if unset"),
    (test::REPORT_VARIABLE, "file to which tests append what they covered, set by `cargo x test`"),
];

/// A variable and its doc comment as one line.
#[derive(Debug, PartialEq)]
pub struct Knob {
    /// `KILN_…`
    pub name: String,
    /// What it does.
    pub about: String,
}

fn run(workspace: &Workspace, parser: lexopt::Parser) -> Outcome {
    no_arguments(parser)?;
    for knob in declared(&workspace.root)? {
        println!("{:<20} {}", knob.name, knob.about);
    }
    Ok(())
}

/// All knobs, in the order of their declaration.
pub fn declared(root: &Path) -> Result<Vec<Knob>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let own = OWN.iter().map(|(name, about)| Knob { name: (*name).into(), about: (*about).into() });
    Ok(parse(&text).into_iter().chain(own).collect())
}

/// Each doc comment counts for the first name in a string after it.
fn parse(text: &str) -> Vec<Knob> {
    let mut knobs: Vec<Knob> = Vec::new();
    let (mut about, mut after_doc) = (String::new(), false);
    for line in text.lines().map(str::trim).take_while(|line| !line.starts_with("#[cfg(test)]")) {
        if let Some(doc) = line.strip_prefix("///") {
            if after_doc {
                about.clear();
            }
            after_doc = false;
            about = format!("{about} {}", doc.trim()).trim().to_owned();
            continue;
        }
        after_doc = true;
        for name in names(line) {
            if !knobs.iter().any(|knob| knob.name == name) {
                knobs.push(Knob { name, about: std::mem::take(&mut about) });
            }
        }
    }
    knobs
}

/// The variables named in a piece of text: `KILN_` and what follows in capitals, digits and underscores.
pub fn names(text: &str) -> Vec<String> {
    const PREFIX: &str = "KILN_";
    let mut names = Vec::new();
    for (at, _) in text.match_indices(PREFIX) {
        let before = text[..at].chars().next_back();
        let rest = &text[at + PREFIX.len()..];
        let end =
            rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).unwrap_or(rest.len());
        if end > 0 && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            names.push(format!("{PREFIX}{}", &rest[..end]));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(name: &str, about: &str) -> Knob {
        Knob { name: name.into(), about: about.into() }
    }

    #[test]
    fn constants_are_read() {
        let text = "//! All knobs.\n/// Which machine:\n/// `cpu` or `interp`.\npub const DEVICE: &str = \"KILN_DEVICE\";\n\
                    /// Helps.\nfn other() {}\n/// Where objects are kept.\n#[allow(x)]\nconst C: K = K(\"KILN_CACHE_DIR\");\n";
        let want = [
            knob("KILN_DEVICE", "Which machine: `cpu` or `interp`."),
            knob("KILN_CACHE_DIR", "Where objects are kept."),
        ];
        assert_eq!(parse(text), want);
    }

    #[test]
    fn entries_over_several_lines_are_read() {
        let text = "knobs! {\n  /// Fuse or not.\n  FUSE: bool = true,\n    \"KILN_FUSE\";\n  /// Dump.\n  DUMP, \"KILN_DUMP\" }";
        assert_eq!(parse(text), [knob("KILN_FUSE", "Fuse or not."), knob("KILN_DUMP", "Dump.")]);
    }

    #[test]
    fn names_are_found_whole() {
        assert_eq!(names("set KILN_DEVICE=cpu, not MY_KILN_X or KILN_"), ["KILN_DEVICE"]);
    }
}
