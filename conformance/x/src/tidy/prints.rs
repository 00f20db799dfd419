//! Libraries neither print nor break off nor keep notes to themselves; tests may, and command lines may print.

use super::Project;
use super::finding::Finding;
use super::source::has_word;

/// Packages and files whose work is to print.
const MAY_PRINT: &[&str] = &[
    "conformance/x/",
    "conformance/src/",
    "conformance/suite/src/bin/",
    "conformance/ulp/src/main.rs",
    "examples/",
    "lowering/examples/",
    "backend/examples/",
    "benches/",
];

const NEVER: &[(&str, &str)] = &[
    ("todo!", "write it, or return an error that names what is missing"),
    ("unimplemented!", "return an error that names what is missing"),
    ("dbg!", "remove it"),
];

const PRINTS: &[&str] = &["println!", "print!"];

/// A finding for each such call.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        let may_print =
            MAY_PRINT.iter().any(|start| source.path.starts_with(start)) || source.path.ends_with("build.rs");
        for (at, line) in source.numbered().filter(|(_, line)| !line.test) {
            let code = &line.code;
            let mut found = |message: String| findings.push(Finding::error(&source.path, at, message));
            if code.contains(".unwrap()") || code.contains(".unwrap_err()") {
                found("`unwrap`: return the error, or `expect` with the reason why it can't be".into());
            }
            for (call, advice) in NEVER.iter().filter(|(call, _)| calls(code, call)) {
                found(format!("`{call}`: {advice}"));
            }
            if !may_print && PRINTS.iter().any(|call| calls(code, call)) {
                found("a library prints: return it, or trace it".into());
            }
        }
    }
    findings
}

fn calls(code: &str, call: &str) -> bool {
    has_word(code, call.trim_end_matches('!')) && code.contains(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Project::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    const TEXT: &str = "let a = b.unwrap();\nlet c = d.unwrap_or(1); // .unwrap()\nprintln!();\neprintln!();\ntodo!()\n\
                        #[cfg(test)]\nmod tests { fn t() { x.unwrap(); println!() } }\n";

    #[test]
    fn libraries_do_neither() {
        assert_eq!(lines("backend/src/x.rs", TEXT), [1, 3, 5]);
    }

    #[test]
    fn command_lines_may_print_and_tests_may_all() {
        assert_eq!(lines("examples/digits/src/x.rs", TEXT), [1, 5]);
        assert_eq!(lines("conformance/tests/x.rs", TEXT), Vec::<usize>::new());
    }
}
