//! Looks at the machine: its system, LLVM, linker, compiler, and whether we may install. Decides nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::PREFIX_VARIABLE;
use super::plan::{Rights, System, VERSION, same_version};

/// Places where packages put LLVM 22, after the variable and the programs on the path.
const PREFIXES: &[&str] = &[
    "/usr/lib/llvm-22",
    "/usr/lib64/llvm22",
    "/usr/lib/llvm22",
    "/opt/homebrew/opt/llvm@22",
    "/usr/local/opt/llvm@22",
    "/home/linuxbrew/.linuxbrew/opt/llvm@22",
    "/usr/local",
    "/usr",
];

/// Describes the machine that we run on.
pub fn system() -> System {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| os_release_field(&release, name);
    let llvm = find_llvm();
    let lld = on_path("ld.lld-22").is_some()
        || llvm.as_deref().is_some_and(|prefix| beside(prefix).iter().any(|program| program.exists()))
        || on_path("ld.lld").is_some_and(|program| reports(&program, "--version", |text| text.contains("LLD 22.")));
    System {
        os: env::consts::OS.into(),
        name: field("PRETTY_NAME").unwrap_or_else(|| env::consts::OS.into()),
        families: [field("ID"), field("ID_LIKE")]
            .into_iter()
            .flatten()
            .flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect(),
        llvm,
        lld,
        cxx: on_path("c++").or_else(|| on_path("g++")).or_else(|| on_path("clang++")).is_some(),
        apt: on_path("apt-get").is_some(),
        rights: rights(),
    }
}

/// Where lld lies when it came with this LLVM; Homebrew keeps it in a folder of its own.
fn beside(prefix: &Path) -> [PathBuf; 2] {
    [prefix.join("bin/ld.lld"), prefix.with_file_name("lld@22").join("bin/ld.lld")]
}

fn find_llvm() -> Option<PathBuf> {
    let named = env::var_os(PREFIX_VARIABLE).map(PathBuf::from);
    let on_path = ["llvm-config-22", "llvm-config22", "llvm-config"].into_iter().filter_map(on_path);
    let known = PREFIXES.iter().map(PathBuf::from);
    named
        .into_iter()
        .chain(on_path.filter_map(|program| stated_prefix(&program)))
        .chain(known)
        .find(|prefix| llvm_config_in(prefix).is_some())
}

/// The program that llvm-sys would call in this prefix, if it is of the right version.
fn llvm_config_in(prefix: &Path) -> Option<PathBuf> {
    ["llvm-config", "llvm-config-22", "llvm-config22"]
        .into_iter()
        .map(|name| prefix.join("bin").join(name))
        .find(|program| reports(program, "--version", |text| same_version(text, VERSION)))
}

fn stated_prefix(llvm_config: &Path) -> Option<PathBuf> {
    let output = Command::new(llvm_config).arg("--prefix").output().ok()?;
    Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn reports(program: &Path, argument: &str, holds: impl Fn(&str) -> bool) -> bool {
    Command::new(program)
        .arg(argument)
        .output()
        .is_ok_and(|output| output.status.success() && holds(&String::from_utf8_lossy(&output.stdout)))
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn rights() -> Rights {
    let root =
        Command::new("id").arg("-u").output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "0");
    match (root, on_path("sudo")) {
        (true, _) => Rights::Root,
        (false, Some(_)) => Rights::Sudo,
        (false, None) => Rights::None,
    }
}

fn os_release_field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_read() {
        let text = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(os_release_field(text, "ID").as_deref(), Some("debian"));
        assert_eq!(os_release_field(text, "PRETTY_NAME").as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(os_release_field(text, "ID_LIKE"), None);
    }
}
