//! Convolutions to test with, and what their kernels compute for each block of terms.

use crate::DType;
use crate::graph::{Graph, PadDim, WindowDim};
use crate::op::Pointwise;
use crate::passes;
use crate::schedule::Options;
use crate::schedule::attention::tests::{options, planned_with};
use crate::target::nvidia;
use crate::tile::{Op, Program, Type};

/// A convolution in two dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub batch: u64,
    /// Channels of the tensor, and of the result.
    pub channels: u64,
    pub rows: u64,
    pub extents: [u64; 2],
    pub kernel: [u64; 2],
    /// Zeros before and behind.
    pub pads: [(u64, u64); 2],
    pub steps: [u64; 2],
    pub dilations: [u64; 2],
}

/// 3×3 over squares, as many channels on both sides.
pub(crate) const SQUARE: Sizes = Sizes {
    batch: 64,
    channels: 128,
    rows: 128,
    extents: [56; 2],
    kernel: [3; 2],
    pads: [(1, 1); 2],
    steps: [1; 2],
    dilations: [1; 2],
};

/// As it is recorded: a product of the weights and the columns of windows, of bf16 or of what was widened from it.
pub(crate) fn convolution(sizes: &Sizes, wide: DType) -> Graph {
    let Sizes { batch, channels, rows, extents, kernel, pads, steps, dilations } = *sizes;
    let mut g = Graph::new();
    let x = g.input(DType::Bf16, &[batch, channels, extents[0], extents[1]]);
    let w = g.input(DType::Bf16, &[rows, channels, kernel[0], kernel[1]]);
    let (x, w) = (g.cast(x, wide), g.cast(w, wide));
    let [above, beside] = pads.map(|(low, high)| PadDim { low, high, interior: 0 });
    let padded = g.pad(x, &[PadDim::default(), PadDim::default(), above, beside], 0);
    let over = |at: usize| {
        let (size, step, dilation) = (kernel[at], steps[at], dilations[at]);
        let count = (extents[at] + pads[at].0 + pads[at].1 - (size - 1) * dilation - 1) / step + 1;
        WindowDim { axis: 2 + at as u8, count, size, step, dilation }
    };
    let over = [over(0), over(1)];
    let windows = g.window(padded, &over);
    let places = [over[0].count, over[1].count];
    let split = g.reshape(windows, &[batch, 1, channels, places[0], places[1], kernel[0], kernel[1]]);
    let turned = g.permute(split, &[1, 2, 5, 6, 0, 3, 4]);
    let terms = channels * kernel[0] * kernel[1];
    let columns = g.reshape(turned, &[terms, batch * places[0] * places[1]]);
    let weights = g.reshape(w, &[rows, terms]);
    let y = g.contract(weights, columns);
    let y = g.cast(y, DType::Bf16);
    g.outputs.push(y);
    g
}

/// Its product where warps multiply together.
fn product(sizes: &Sizes) -> Program {
    let options = Options { grain: options().grain.together(), ..options() };
    let plan = planned_with(&convolution(sizes, DType::Bf16), &options);
    let mut products = plan.programs.iter().filter(|program| program.name == "product");
    let found = products.next().unwrap_or_else(|| panic!("{plan}")).clone();
    assert!(products.next().is_none(), "{plan}");
    found
}

/// What the native program computes in its loop over the terms.
fn steps(program: &Program) -> Vec<(Op, Type)> {
    let mut native = program.clone();
    passes::run(&mut native, &mut |_, _| {});
    let body =
        native.insts.values().find_map(|data| if let Op::For { body, .. } = data.op { Some(body) } else { None });
    let insts = native.blocks[body.unwrap()].insts.iter().map(|&inst| &native.insts[inst]);
    insts.map(|data| (data.op.clone(), native.ty(data.results[0]).clone())).collect()
}

const STRIDED: Sizes =
    Sizes { extents: [57, 40], kernel: [3, 5], pads: [(1, 0), (2, 1)], steps: [2, 1], dilations: [1, 2], ..SQUARE };

/// Where channels have whole blocks, what a step computes of windows are numbers; of the columns it is one row, and of the
/// whole tile one addition.
#[test]
fn blocks_of_channels_lie_in_one_place_of_a_window() {
    for sizes in [SQUARE, STRIDED] {
        let program = product(&sizes);
        let steps = steps(&program);
        let rows = |wanted: &dyn Fn(&Op, &Type) -> bool| steps.iter().filter(|(op, ty)| wanted(op, ty)).count();
        let divides = |op: &Op, ty: &Type| {
            !ty.is_scalar() && matches!(op, Op::Map(Pointwise::Div | Pointwise::Mul | Pointwise::Rem | Pointwise::Shr))
        };
        assert_eq!(rows(&divides), 0, "{program}");
        for shape in [[64, 256], [128, 64]] {
            let whole = |op: &Op, ty: &Type| matches!(op, Op::Map(_)) && ty.shape[..] == shape;
            assert_eq!(rows(&whole), 1, "{shape:?}: {program}");
        }
    }
}

/// All numbers of channels that have whole blocks are one class, whatever the batch and the extents; others are not in it.
#[test]
fn whole_blocks_of_channels_are_a_class() {
    let own = product(&SQUARE);
    let same = Sizes { batch: 50, channels: 320, rows: 256, extents: [40; 2], ..SQUARE };
    assert_eq!(product(&same).to_string(), own.to_string());
    for channels in [96, 48] {
        assert_ne!(product(&Sizes { channels, ..SQUARE }).to_string(), own.to_string());
    }
}

/// What a thread copies it has computed itself: threads meet nowhere but at the gates of what is copied, and nothing is
/// divided in the loop.
#[test]
fn places_of_windows_stay_where_they_were_computed() {
    for sizes in [SQUARE, STRIDED, Sizes { channels: 96, ..SQUARE }, Sizes { channels: 16, ..SQUARE }] {
        let spec = nvidia::spec("sm_90a", 86).unwrap();
        let text = nvidia::Compiler::new(&spec).compile(&product(&sizes), &mut |_, _| {}).unwrap().ptx;
        let count = |what: &str| text.matches(what).count();
        assert_eq!(["ld.shared", "st.shared", ".local"].map(count), [0; 3], "{text}");
        let step = &text[text.find("wgmma.mma_async").unwrap()..text.find("wgmma.wait_group.sync.aligned 0").unwrap()];
        assert_eq!(["bar.sync", "div."].map(|what| step.matches(what).count()), [0; 2], "{text}");
        // For each step windows by all threads, and weights as a box.
        let steps = count("cp.async.bulk.tensor.3d");
        assert_eq!((steps > 1, count("cp.async.cg")), (true, steps * (64 / 8) * 256 / 256), "{text}");
    }
}
