//! Gives the compiler's sources a number, for the keys of the disk cache: an object made by another version of the
//! compiler must not be taken for one of this version.

use std::path::Path;

fn main() {
    let sources = Path::new("../lowering/src");
    let mut hash = 0xcbf2_9ce4_8422_2325;
    if sources.is_dir() {
        println!("cargo::rerun-if-changed=../lowering/src");
        fold(sources, &mut hash);
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    println!("cargo::rustc-env=KILN_COMPILER={hash:016x}");
    if std::env::var_os("CARGO_FEATURE_CBLAS").is_some() {
        println!("cargo::rerun-if-env-changed=KILN_CBLAS_LIB");
        let library = std::env::var("KILN_CBLAS_LIB").unwrap_or_else(|_| "openblas".into());
        println!("cargo::rustc-link-lib={library}");
    }
}

/// Adds every file below a folder, in the order of names (FNV-1a).
fn fold(folder: &Path, hash: &mut u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            fold(&path, hash);
        } else if let Ok(bytes) = std::fs::read(&path) {
            for byte in path.to_string_lossy().bytes().chain(bytes) {
                *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
}
