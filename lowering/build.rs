//! Links LLVM 22.1: its shared library, or with the feature `static-llvm` its archives.  llvm-sys could do it, but its
//! choice between the two is not additive, and where LLVM is missing it cannot say how to get it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that this crate is written against.
const VERSION: &str = "22.1";

/// Names the folder that holds `bin/llvm-config`; llvm-sys reads the same variable.
const PREFIX: &str = "LLVM_SYS_221_PREFIX";

/// What systems call the program.
const NAMES: &[&str] = &["llvm-config-22", "llvm-config22", "llvm-config-22-64", "llvm-config"];

/// Where systems keep versions that are not on the path.
const PREFIXES: &[&str] = &[
    "/usr/lib/llvm-22",
    "/usr/lib/llvm22",
    "/usr/lib64/llvm22",
    "/opt/homebrew/opt/llvm@22",
    "/usr/local/opt/llvm@22",
    "/home/linuxbrew/.linuxbrew/opt/llvm@22",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={PREFIX}");
    let Some(config) =
        candidates().into_iter().find(|c| ask(c, &["--version"]).is_some_and(|v| v.starts_with(VERSION)))
    else {
        fail(&missing());
    };
    println!("cargo:rustc-link-search=native={}", asked(&config, &["--libdir"]));
    let wanted = env::var_os("CARGO_FEATURE_STATIC_LLVM").is_some();
    let mode = if wanted { "--link-static" } else { "--link-shared" };
    let kind = if wanted { "static" } else { "dylib" };
    for name in asked(&config, &[mode, "--libnames"]).split_whitespace() {
        println!("cargo:rustc-link-lib={kind}={}", bare(name));
    }
    if wanted {
        for flag in asked(&config, &[mode, "--system-libs"]).split_whitespace() {
            // `-lz`, or the path of a library.
            link(flag.strip_prefix("-l").unwrap_or_else(|| bare(flag.rsplit('/').next().unwrap_or(flag))));
        }
        link(if cfg!(target_vendor = "apple") { "c++" } else { "stdc++" });
        // The bindings ask for it, as LLVM's interpreter does, whatever `llvm-config` says.
        if let Some(path) = archive("ffi") {
            drop(keep(&path));
        }
    }
}

/// Libraries that the binary may not find where it runs.  Those of the C library are the system's own, and what LLVM only
/// mentions (Z3, XML) the linker leaves out.
const ARCHIVES: &[&str] = &["z", "zstd", "stdc++"];

/// Links a library that LLVM needs: its archive where the C compiler knows one.
fn link(name: &str) {
    match archive(name).filter(|_| ARCHIVES.contains(&name)) {
        Some(path) if keep(&path).is_ok() => println!("cargo:rustc-link-lib=static={name}"),
        _ => println!("cargo:rustc-link-lib={name}"),
    }
}

/// Where the C compiler finds the archive of a library; what is not found comes back as it was.
fn archive(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    (path.is_absolute() && path.exists()).then_some(path)
}

/// Puts an archive into a folder of our own, where the linker looks first and sees no shared library beside it: other
/// crates ask for some of these by name alone.
fn keep(archive: &Path) -> std::io::Result<()> {
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::copy(archive, folder.join(archive.file_name().unwrap_or_default()))?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    Ok(())
}

/// Programs to try, in order.  A prefix that is given is the only place looked at.
fn candidates() -> Vec<PathBuf> {
    if let Some(prefix) = env::var_os(PREFIX) {
        return vec![PathBuf::from(prefix).join("bin/llvm-config")];
    }
    let by_name = NAMES.iter().map(PathBuf::from);
    by_name.chain(PREFIXES.iter().map(|prefix| PathBuf::from(prefix).join("bin/llvm-config"))).collect()
}

/// What `llvm-config` answers, if it runs.
fn ask(config: &PathBuf, arguments: &[&str]) -> Option<String> {
    let output = Command::new(config).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn asked(config: &PathBuf, arguments: &[&str]) -> String {
    ask(config, arguments).unwrap_or_else(|| {
        let call = arguments.join(" ");
        let hint = "Linking LLVM statically also needs its archives; on Debian they come with libpolly-22-dev.";
        fail(&format!("`{} {call}` failed. {hint}", config.display()))
    })
}

/// `libLLVM-22.so` and `libLLVMCore.a` as the linker's `-l` takes them.
fn bare(file: &str) -> &str {
    let name = file.strip_prefix("lib").unwrap_or(file);
    let end = [".so", ".a", ".dylib"].iter().filter_map(|suffix| name.find(suffix)).min();
    &name[..end.unwrap_or(name.len())]
}

fn missing() -> String {
    let looked = match env::var(PREFIX) {
        Ok(prefix) => format!("{PREFIX} is {prefix}, which holds no bin/llvm-config of that version"),
        Err(_) => format!("no llvm-config of that version on the path or in the usual places, and {PREFIX} is not set"),
    };
    format!(
        "Kiln needs LLVM {VERSION} to build: {looked}.\n\
         In a checkout of Kiln, `cargo x setup` installs it or prints what to install.\n\
         Debian, Ubuntu: apt-get install llvm-22-dev lld-22 libzstd-dev zlib1g-dev libffi-dev libxml2-dev (older releases: \
         https://apt.llvm.org)\n\
         Fedora: dnf install llvm22-devel lld22    Arch: pacman -S llvm lld    macOS: brew install llvm@22 lld@22\n\
         For an LLVM elsewhere: {PREFIX}=/its/prefix"
    )
}

/// Ends the build.  Each line is an `error` of its own, which cargo shows without the noise of a panic.
fn fail(text: &str) -> ! {
    for line in text.lines() {
        println!("cargo::error={line}");
    }
    std::process::exit(1)
}
