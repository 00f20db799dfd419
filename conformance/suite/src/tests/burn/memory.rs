//! Memory stays flat, on the device and in the process, however long inference goes on.

use burn_kiln::inspect;
use burn_tensor::{Device, activation};

use super::{tensor, values};
use crate::DEVICE;
use crate::child::{self, text};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[test!(ten_thousand_inference_steps_need_no_more_memory_than_a_thousand)];

const STEPS: usize = 10_000;

/// Steps after which every batch size has come, been compiled and been planned for.
const WARM: usize = 1_000;

/// How much more the process may hold at the end: what its allocator keeps varies by as much.
const SLACK: u64 = 4 << 20;

/// Memory of this process, where the system tells.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

/// A small network on batches of seven sizes; some results are read, some dropped unread.
pub fn inference(device: &Device) {
    let numbers = |n: usize| (0..n).map(|i| (i * 29 % 83) as f32 / 83.0 - 0.5).collect::<Vec<_>>();
    let weights = [tensor(&numbers(16 * 64), [16, 64], device), tensor(&numbers(64 * 4), [64, 4], device)];
    let mut before = None;
    for step in 0..STEPS {
        let rows = 1 + step % 7;
        let x = tensor(&numbers(rows * 16), [rows, 16], device) + step as f32 * 1e-4;
        let hidden = activation::gelu(x.matmul(weights[0].clone()));
        let y = activation::softmax(hidden.matmul(weights[1].clone()), 1);
        if step % 3 != 0 {
            let sum: f32 = values(y).iter().sum();
            assert!((sum - rows as f32).abs() < 1e-4, "{step}: {sum}");
        }
        if step == WARM {
            before = Some((inspect::counts(&DEVICE).memory.peak, resident()));
        }
    }
    let (peak, before) = before.expect("there are more steps than that");
    let now = inspect::counts(&DEVICE).memory.peak;
    assert!(now <= peak, "device memory: {peak} bytes after {WARM} steps, {now} after {STEPS}");
    if let (Some(before), Some(now)) = (before, resident()) {
        assert!(now <= before + SLACK, "memory of the process: {before} bytes after {WARM} steps, {now} after {STEPS}");
    }
}

fn ten_thousand_inference_steps_need_no_more_memory_than_a_thousand() {
    // In a process of its own, where no other test asks for memory.
    let output = child::run("inference", &[]);
    assert!(output.status.success(), "{}", text(&output));
}
