//! Decides how a machine gets LLVM, as a pure function of a description of that machine.

use std::path::PathBuf;

/// The LLVM version that Kiln is written against (major and minor).
pub const VERSION: &str = "22.1";

/// LLVM, its linker, and the libraries that LLVM's static archives need.
const APT_PACKAGES: &[&str] =
    &["llvm-22-dev", "lld-22", "libpolly-22-dev", "libzstd-dev", "zlib1g-dev", "libffi-dev", "libxml2-dev"];

/// LLVM is C++, and llvm-sys compiles a small C file.
const APT_COMPILER: &str = "g++";

/// What matters about a machine.
#[derive(Debug, Clone)]
pub struct System {
    /// Rust's name for the operating system: `linux`, `macos`, …
    pub os: String,
    /// The name that people know it by.
    pub name: String,
    /// `ID` and `ID_LIKE` of os-release.
    pub families: Vec<String>,
    /// Prefix of an LLVM of the right version.
    pub llvm: Option<PathBuf>,
    /// lld 22 is there.
    pub lld: bool,
    /// A C++ compiler is there.
    pub cxx: bool,
    /// `apt-get` is there.
    pub apt: bool,
    /// Whether we may install packages.
    pub rights: Rights,
}

/// By what right packages can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// We are root.
    Root,
    /// `sudo` is there, and may ask for a password.
    Sudo,
    /// Neither.
    None,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// All is there; the prefix of LLVM.
    Ready(PathBuf),
    /// Run these commands in this order; where one fails, say `otherwise`.
    Install {
        /// Programs with their arguments.
        steps: Vec<Vec<String>>,
        /// What a person can do instead.
        otherwise: String,
    },
    /// Only a person can help; what to tell them.
    Tell(String),
}

/// The way from this machine to one that can build Kiln.
pub fn decide(system: &System) -> Plan {
    if let Some(prefix) = &system.llvm
        && system.lld
        && system.cxx
    {
        return Plan::Ready(prefix.clone());
    }
    let family = |name: &str| system.families.iter().any(|family| family == name);
    let debian = system.os == "linux" && system.apt && (family("debian") || family("ubuntu"));
    let Some(prefix) = sudo_prefix(system.rights).filter(|_| debian) else {
        return Plan::Tell(instructions(system));
    };
    let packages = missing_packages(system);
    let call = |arguments: &[&str]| {
        let words = prefix.iter().chain(&["apt-get"]).chain(arguments);
        words.map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let install = [&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat();
    Plan::Install { steps: vec![call(&["update"]), call(&install)], otherwise: instructions(system) }
}

/// `sudo` with the variable that keeps apt from asking; `None` where installing is out of the question.
fn sudo_prefix(rights: Rights) -> Option<&'static [&'static str]> {
    match rights {
        Rights::Root => Some(&[]),
        Rights::Sudo => Some(&["sudo", "DEBIAN_FRONTEND=noninteractive"]),
        Rights::None => None,
    }
}

fn missing_packages(system: &System) -> Vec<&'static str> {
    let mut packages = match (&system.llvm, system.lld) {
        (None, _) => APT_PACKAGES.to_vec(),
        (Some(_), false) => vec!["lld-22"],
        (Some(_), true) => Vec::new(),
    };
    if !system.cxx {
        packages.push(APT_COMPILER);
    }
    packages
}

/// What a person has to install by hand on this system.
fn instructions(system: &System) -> String {
    let family = |names: &[&str]| system.families.iter().any(|family| names.contains(&family.as_str()));
    let how = if system.os == "macos" {
        "  brew install llvm@22 lld@22\n  \
         export LLVM_SYS_221_PREFIX=\"$(brew --prefix llvm@22)\"\n"
            .to_owned()
    } else if family(&["debian", "ubuntu"]) {
        format!(
            "  sudo apt-get update\n  sudo apt-get install {} {APT_COMPILER}\n\n\
             Where apt has no such packages, LLVM's own archive has them; run this first:\n\
             \n  wget https://apt.llvm.org/llvm.sh && chmod +x llvm.sh && sudo ./llvm.sh 22\n",
            APT_PACKAGES.join(" ")
        )
    } else if family(&["fedora", "rhel", "centos"]) {
        "  sudo dnf install llvm22-devel llvm22-static lld22 gcc-c++ libzstd-devel zlib-devel libffi-devel libxml2-devel\n  \
         export LLVM_SYS_221_PREFIX=/usr/lib64/llvm22\n\n\
         A release whose newest LLVM is 22 calls the packages llvm-devel, llvm-static and lld, and the prefix is /usr.\n"
            .to_owned()
    } else if family(&["arch"]) {
        "  sudo pacman -S --needed llvm lld gcc zstd zlib libffi libxml2\n  \
         export LLVM_SYS_221_PREFIX=/usr\n\n\
         Where pacman's llvm is newer than 22, take llvm22 and lld22; the prefix is then /usr/lib/llvm22.\n"
            .to_owned()
    } else {
        "  LLVM 22.1 with its headers and libraries, lld 22, and a C++ compiler, from your system's packages,\n  \
         or as a release archive from https://github.com/llvm/llvm-project/releases; then\n  \
         export LLVM_SYS_221_PREFIX=<the folder that holds bin/llvm-config>\n"
            .to_owned()
    };
    let missing = missing(system).join(", ");
    format!("{} lacks {missing}. Install them, then run the same command again:\n\n{how}", system.name)
}

fn missing(system: &System) -> Vec<&'static str> {
    [(system.llvm.is_some(), "LLVM 22.1"), (system.lld, "lld 22"), (system.cxx, "a C++ compiler")]
        .into_iter()
        .filter_map(|(present, what)| (!present).then_some(what))
        .collect()
}

/// Whether `reported` (`22.1.8`, `22.1.0rc1`) is a release of `version` (`22.1`).
pub fn same_version(reported: &str, version: &str) -> bool {
    reported.trim().strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(os: &str, families: &[&str], rights: Rights) -> System {
        System {
            os: os.into(),
            name: "Testix 1".into(),
            families: families.iter().map(|&family| family.into()).collect(),
            llvm: None,
            lld: false,
            cxx: false,
            apt: families.contains(&"debian"),
            rights,
        }
    }

    fn told(system: &System) -> String {
        match decide(system) {
            Plan::Tell(text) => text,
            other => panic!("wanted instructions, got {other:?}"),
        }
    }

    #[test]
    fn nothing_is_installed_where_all_is_there() {
        let mut system = system("linux", &["debian"], Rights::Root);
        (system.llvm, system.lld, system.cxx) = (Some("/opt/llvm".into()), true, true);
        assert_eq!(decide(&system), Plan::Ready("/opt/llvm".into()));
    }

    #[test]
    fn root_on_debian_installs() {
        let Plan::Install { steps, .. } = decide(&system("linux", &["debian"], Rights::Root)) else {
            panic!("wanted an installation");
        };
        assert_eq!(steps[0], ["apt-get", "update"]);
        assert_eq!(
            steps[1].join(" "),
            "apt-get install --yes --no-install-recommends llvm-22-dev lld-22 libpolly-22-dev libzstd-dev zlib1g-dev \
             libffi-dev libxml2-dev g++"
        );
    }

    #[test]
    fn sudo_on_ubuntu_installs_only_what_lacks() {
        let mut system = system("linux", &["ubuntu", "debian"], Rights::Sudo);
        (system.llvm, system.cxx) = (Some("/usr/lib/llvm-22".into()), true);
        let Plan::Install { steps, otherwise } = decide(&system) else { panic!("wanted an installation") };
        assert_eq!(
            steps[1].join(" "),
            "sudo DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends lld-22"
        );
        assert!(otherwise.starts_with("Testix 1 lacks lld 22. Install"), "{otherwise}");
    }

    #[test]
    fn without_rights_debian_users_are_told() {
        let text = told(&system("linux", &["debian"], Rights::None));
        assert!(text.contains("apt-get install llvm-22-dev lld-22") && text.contains("https://apt.llvm.org"), "{text}");
        assert!(text.starts_with("Testix 1 lacks LLVM 22.1, lld 22, a C++ compiler."), "{text}");
    }

    #[test]
    fn other_systems_are_told_in_their_own_words() {
        for (os, family, words) in [
            ("linux", "fedora", "sudo dnf install"),
            ("linux", "arch", "sudo pacman -S"),
            ("linux", "nixos", "release archive"),
            ("macos", "", "brew install llvm@22 lld@22"),
            ("windows", "", "release archive"),
        ] {
            let text = told(&system(os, &[family], Rights::Root));
            assert!(text.contains(words) && text.contains("LLVM_SYS_221_PREFIX"), "{os} {family}: {text}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_parts() {
        assert!(same_version("22.1.8\n", VERSION) && same_version("22.1", VERSION));
        assert!(!same_version("22.10.0", VERSION) && !same_version("21.1.8", VERSION));
    }
}
