//! An application outside the workspace swaps its backend by two lines in its Cargo.toml, as the README says: its
//! source, its other dependencies and its features stay what they were. It also learns the same, bit for bit, when
//! nothing is fused: the optimiser's state lives across many segments, each of which may take its memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// As a user of stock Burn would write it.
const MANIFEST: &str = r#"
[package]
name = "line-fit"
version = "0.1.0"
edition = "2024"

[dependencies]
burn = { version = "0.22.1", features = ["flex"] }

# A package in a folder below somebody's workspace has to say that it is not part of it.
[workspace]
"#;

/// The two lines, with the path filled in.
const SWAP: &str = "
[patch.crates-io]
burn-flex = { path = 'PATH' }
";

/// Fits y = 2x + 1 and says what it found; names no backend.
const PROGRAM: &str = r#"
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::LinearConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};

fn main() {
    let device = Device::default().autodiff();
    device.seed(7);
    let x: Vec<f32> = (0..32).map(|i| i as f32 / 16.0 - 1.0).collect();
    let x = Tensor::<1>::from_floats(x.as_slice(), &device).reshape([32, 1]);
    let y = x.clone() * 2.0 + 1.0;

    let mut model = LinearConfig::new(1, 1).init(&device);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = 0.0;
    for _ in 0..400 {
        let loss = MseLoss::new().forward(model.forward(x.clone()), y.clone(), Reduction::Mean);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.05, model, grads);
        losses += loss.into_scalar::<f32>();
    }

    let device = device.inner();
    let at = Tensor::<2>::from_floats([[0.0], [3.0]], &device);
    let told = model.valid().forward(at).into_data().try_to_vec::<f32>().unwrap();
    println!("f(0) = {:.2}, f(3) = {:.2}", told[0], told[1]);
    println!("losses {:08x}", losses.to_bits());
    device.sync().unwrap();
}
"#;

#[test]
fn two_lines_swap_the_backend() {
    let root = workspace();
    // Cargo names a folder for tests below its build folder, which the build here shares to reuse what is there.
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = scratch.parent().expect("the folder for tests is in the build folder");
    let app = scratch.join("line-fit");
    let stats = app.join("stats.json");
    fs::create_dir_all(app.join("src")).expect("the build folder is writable");
    let swap = SWAP.replace("PATH", &root.join("backend/burn-flex").display().to_string());
    write(&app.join("Cargo.toml"), &format!("{}{swap}", MANIFEST.trim_start()));
    write(&app.join("src/main.rs"), PROGRAM.trim_start());
    fs::copy(root.join("Cargo.lock"), app.join("Cargo.lock")).expect("the workspace has a lock file");
    drop(fs::remove_file(&stats));

    let build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet"])
        // The workspace's own settings, which decide whether its builds of other crates can be reused.
        .args(["--config", "profile.dev.debug='line-tables-only'"])
        .args(["--config", "profile.dev.package.'*'.opt-level=1"])
        .args(["--config", "profile.dev.package.'*'.debug=false"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(&app)
        .output()
        .expect("cargo starts");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));

    let program = target.join("debug/line-fit");
    let fused = told(Command::new(&program).env("KILN_NUMERICS", "strict").env("KILN_STATS", &stats));
    assert!(fused.starts_with("f(0) = 1.00, f(3) = 7.00\n"), "{fused}");
    let report = fs::read_to_string(&stats).expect("Kiln ran, and wrote down what it did");
    for what in ["ops", "launches"] {
        assert!(count(&report, what) > 0, "no {what} in {report}");
    }
    assert_eq!(fused, told(Command::new(&program).env("KILN_NUMERICS", "strict").env("KILN_FUSE", "off")));
}

/// What a program prints.
fn told(program: &mut Command) -> String {
    let output = program.output().expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn workspace() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&package).parent().expect("the package lies in the workspace").to_path_buf()
}

/// An unchanged file keeps its time, and cargo rebuilds nothing.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("the build folder is writable");
}

/// The number under a key of the last JSON line.
fn count(text: &str, key: &str) -> u64 {
    let line = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(line).expect("statistics are JSON");
    value[key].as_u64().unwrap_or(0)
}
