//! `unsafe` stays in a few named places, each use with its obligation.

use super::Project;
use super::finding::Finding;
use super::source::{Line, Source, has_word};

/// Where `unsafe` may stand (`*` is one part of a path, a last `**` any number), and why there.
const PLACES: &[(&str, &str)] = &[
    ("lowering/src/target/*/object.rs", "makes machine code and asks LLVM for it"),
    ("lowering/src/target/module.rs", "tells LLVM what its code generators leave out"),
    ("lowering/src/target/*/driver.rs", "calls what was compiled"),
    ("lowering/src/target/*/driver/**", "calls a device's driver"),
    ("lowering/src/llvm/address.rs", "asks LLVM for addresses"),
    ("lowering/src/target/host/pool.rs", "lends borrowed data to threads that outlive the call"),
    ("backend/src/run/**", "owns raw memory of devices"),
    ("backend/src/backend.rs", "Burn declares replays of graphs so"),
    ("backend/src/record/tests/graphs.rs", "replays graphs"),
    ("conformance/src/targets/host.rs", "launches kernels on buffers of its own"),
    ("conformance/src/targets/nvidia.rs", "likewise, in a GPU's memory"),
    ("conformance/suite/src/tests/burn/captures.rs", "replays graphs"),
    ("conformance/suite/src/bin/kiln-conformance/bench/launches.rs", "likewise"),
];

/// How far above its `unsafe` a reason may start within the same statement.
const STATEMENT_LINES: usize = 6;

/// A finding for each `unsafe` elsewhere.
pub fn check_places(project: &Project) -> Vec<Finding> {
    let elsewhere = |source: &&Source| !PLACES.iter().any(|(pattern, _)| matches(pattern, &source.path));
    let message = "`unsafe` is not allowed here: see the list of places in tidy/unsafety.rs";
    uses(project, elsewhere).map(|(source, at)| Finding::error(&source.path, at + 1, message)).collect()
}

/// A finding for each `unsafe` block or impl without a `// SAFETY:` line above.
pub fn check_reasons(project: &Project) -> Vec<Finding> {
    uses(project, |_| true)
        .filter(|(source, at)| needs_reason(&source.lines[*at].code) && !has_reason(&source.lines, *at))
        .map(|(source, at)| Finding::error(&source.path, at + 1, "wanted a `// SAFETY:` line above this `unsafe`"))
        .collect()
}

fn uses<'a>(project: &'a Project, wanted: impl Fn(&&Source) -> bool + 'a) -> impl Iterator<Item = (&'a Source, usize)> {
    let in_file = |source: &'a Source| {
        let lines = source.lines.iter().enumerate();
        lines.filter(|(_, line)| has_word(&line.code, "unsafe")).map(move |(at, _)| (source, at))
    };
    project.sources.iter().filter(wanted).flat_map(in_file)
}

/// Declarations (`unsafe fn`, `unsafe extern`, `fn` pointers) state their obligation in their docs instead.
fn needs_reason(code: &str) -> bool {
    code.match_indices("unsafe").any(|(at, word)| {
        let rest = code[at + word.len()..].trim_start();
        rest.starts_with('{') || rest.starts_with("impl")
    })
}

fn has_reason(lines: &[Line], at: usize) -> bool {
    let says = |line: &Line| line.comment.contains("SAFETY:");
    if says(&lines[at]) {
        return true;
    }
    let mut in_statement = STATEMENT_LINES;
    for line in lines[..at].iter().rev() {
        let code = line.code.trim();
        if says(line) {
            return true;
        }
        let only_comment = code.is_empty() && !line.comment.is_empty();
        if only_comment || code.starts_with("#[") {
            continue;
        }
        if code.is_empty() || code.ends_with([';', '{', '}']) || in_statement == 0 {
            return false;
        }
        in_statement -= 1;
    }
    false
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for wanted in pattern.split('/') {
        match (wanted, parts.next()) {
            ("**", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn places_are_matched() {
        let text = "//! X.\n// unsafe in a comment\nlet a = unsafe { b() };";
        for (path, wanted) in [
            ("lowering/src/target/host/object.rs", vec![]),
            ("lowering/src/target/host/pool.rs", vec![]),
            ("backend/src/run/memory/pool.rs", vec![]),
            ("lowering/src/target/object.rs", vec![3]),
            ("backend/src/record.rs", vec![3]),
        ] {
            assert_eq!(lines(check_places(&Project::of(&[(path, text)]))), wanted, "{path}");
        }
    }

    #[test]
    fn reasons_are_wanted_above() {
        let text = "// SAFETY: b holds.\nlet a = unsafe { b() };\nlet c = unsafe { d() };\n// SAFETY: e holds,\n// and so on.\n\
                    let f =\n    unsafe { e() };\nunsafe fn g() {}\nunsafe impl Send for H {}\n";
        assert_eq!(lines(check_reasons(&Project::of(&[("x.rs", text)]))), [3, 9]);
    }
}
