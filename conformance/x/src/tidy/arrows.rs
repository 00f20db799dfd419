//! Which crate may depend on which: lowering ← kernels ← backend ← examples ← conformance, never back.

use super::Project;
use super::finding::Finding;

/// Crates by level, the lowest first: a crate may depend on lower levels only.
const LEVELS: &[&[&str]] = &[
    &["kiln-lowering"],
    &["kiln-kernels"],
    &["burn-kiln"],
    &["burn-flex", "kiln"],
    &["chain", "digits", "gpt", "minilm"],
    &["kiln-conformance", "kiln-bench", "kiln-x"],
    &["kiln-suite", "kiln-ulp"],
];

/// Through the patch these stand above Kiln: what burn-kiln depends on may not include them.
const ABOVE_THE_BACKEND: &[&str] = &["burn", "burn-tensor", "burn-dispatch", "burn-core", "burn-nn"];

/// A finding for each dependency that points back, or a member that the table lacks.
pub fn check(project: &Project) -> Vec<Finding> {
    project.manifests.iter().flat_map(|(path, text)| check_manifest(path, text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let Some(package) = package_name(text) else {
        return Vec::new();
    };
    let Some(level) = level_of(package) else {
        return vec![Finding::error(path, 1, format!("`{package}` has no level in tidy/arrows.rs"))];
    };
    let mut findings = Vec::new();
    for dependency in dependencies(text) {
        let back = level_of(dependency.name).is_some_and(|its| its >= level);
        // Tests stand above what they test, and may use all of Burn.
        let above = level <= 2 && !dependency.of_tests && ABOVE_THE_BACKEND.contains(&dependency.name);
        if back || above {
            let message = format!("`{package}` must not depend on `{}`: arrows never point back", dependency.name);
            findings.push(Finding::error(path, dependency.line, message));
        }
    }
    findings
}

fn level_of(package: &str) -> Option<usize> {
    LEVELS.iter().position(|level| level.contains(&package))
}

fn package_name(manifest: &str) -> Option<&str> {
    let (_, rest) = manifest.split_once("[package]")?;
    let value = rest.lines().find_map(|line| line.trim().strip_prefix("name")?.trim_start().strip_prefix('='))?;
    Some(value.trim().trim_matches('"'))
}

struct Dependency<'a> {
    name: &'a str,
    line: usize,
    of_tests: bool,
}

/// Keys of the dependency tables, those for one target included, and tables of one dependency each.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let (mut inside, mut of_tests) = (false, false);
    for (at, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            of_tests = header.contains("dev-dependencies");
            inside = header.ends_with("dependencies") && !header.starts_with("workspace");
            if let Some((_, name)) = header.rsplit_once("dependencies.").filter(|_| !header.starts_with("workspace")) {
                found.push(Dependency { name, line: at + 1, of_tests });
            }
        } else if inside && !line.starts_with('#') {
            let end = line.find(['=', '.', ' ']).unwrap_or(line.len());
            if end > 0 && line.contains('=') {
                found.push(Dependency { name: line[..end].trim_matches('"'), line: at + 1, of_tests });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check_manifest("Cargo.toml", text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn arrows_point_down() {
        let kernels = "[package]\nname = \"kiln-kernels\"\n[dependencies]\nkiln-lowering.workspace = true\n\
                       burn-kiln = { path = \"../backend\" }\nindexmap = \"2\"\n[dev-dependencies]\nkiln-conformance.workspace = true\n";
        assert_eq!(lines(kernels), [5, 8]);
    }

    #[test]
    fn burn_stands_above_the_backend() {
        let backend = "[package]\nname = \"burn-kiln\"\n[dependencies]\nburn-backend.workspace = true\nburn-tensor.workspace = true\n\
                       [dev-dependencies]\nburn-tensor.workspace = true\n[dependencies.burn]\nversion = \"1\"\n";
        assert_eq!(lines(backend), [5, 8]);
    }

    #[test]
    fn members_have_a_level() {
        assert_eq!(lines("[package]\nname = \"stray\"\n"), [1]);
        assert_eq!(
            lines("[workspace]\nmembers = []\n[workspace.dependencies]\nburn-kiln = { path = \"backend\" }\n"),
            Vec::<usize>::new()
        );
    }
}
