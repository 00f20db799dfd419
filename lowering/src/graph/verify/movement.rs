//! The rules of views.

use super::{Check, Rule};
use crate::graph::ir::{Dims, Movement, PadDim, SliceDim, WindowDim};
use crate::graph::number;

impl Check<'_> {
    pub(super) fn movement(&mut self, movement: &Movement) {
        let from = self.args[0].dims.clone();
        match movement {
            Movement::Permute(perm) => self.permute(perm, &from),
            Movement::Expand => {
                let to = &self.data.dims;
                if from.len() != to.len() || from.iter().zip(to).any(|(&a, &b)| a != b && a != 1) {
                    self.found.push(Rule::Expand { from, to: to.clone() });
                }
            }
            Movement::Reshape => {
                let len = |dims: &Dims| dims.iter().fold(1u64, |len, &n| len.saturating_mul(n));
                if len(&from) != len(&self.data.dims) {
                    self.found.push(Rule::Reshape { from, to: self.data.dims.clone() });
                }
            }
            Movement::Slice(ranges) => self.slice(ranges, &from),
            Movement::Pad { dims, fill } => {
                if fill & !number::mask(self.data.dtype) != 0 {
                    self.found.push(Rule::Constant { bits: *fill, dtype: self.data.dtype });
                }
                self.pad(dims, &from);
            }
            Movement::Window(windows) => self.window(windows, &from),
        }
    }

    fn entries(&mut self, got: usize, wanted: usize) -> bool {
        if got != wanted {
            self.found.push(Rule::Entries { wanted, got });
        }
        got == wanted
    }

    fn permute(&mut self, perm: &[u8], from: &Dims) {
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if sorted.len() != from.len() || sorted.iter().enumerate().any(|(i, &axis)| i != usize::from(axis)) {
            return self.found.push(Rule::Permutation { wanted: from.len(), got: perm.to_vec() });
        }
        self.result_dims(perm.iter().map(|&axis| from[usize::from(axis)]).collect());
    }

    fn slice(&mut self, ranges: &[SliceDim], from: &Dims) {
        if !self.entries(ranges.len(), from.len()) {
            return;
        }
        for (axis, (r, &extent)) in ranges.iter().zip(from).enumerate() {
            let last = i128::from(r.start) + i128::from(r.step) * (i128::from(r.len) - 1);
            let within = r.start < extent && (0..i128::from(extent)).contains(&last);
            if r.step == 0 || r.len > 0 && !within {
                let SliceDim { start, len, step } = *r;
                self.found.push(Rule::Slice { axis, start, len, step, extent });
            }
        }
        self.result_dims(ranges.iter().map(|r| r.len).collect());
    }

    fn pad(&mut self, pads: &[PadDim], from: &Dims) {
        if !self.entries(pads.len(), from.len()) {
            return;
        }
        let grown = pads.iter().zip(from).map(|(p, &n)| {
            let between = p.interior.saturating_mul(n.saturating_sub(1));
            n.saturating_add(between).saturating_add(p.low).saturating_add(p.high)
        });
        self.result_dims(grown.collect());
    }

    fn window(&mut self, windows: &[WindowDim], from: &Dims) {
        let mut dims = from.clone();
        for w in windows {
            if !self.axis(w.axis, from.len()) {
                return;
            }
            let extent = from[usize::from(w.axis)];
            let reach = |n: u64, step: u64| u128::from(n.saturating_sub(1)) * u128::from(step);
            let last = reach(w.count, w.step).saturating_add(reach(w.size, w.dilation));
            if w.count > 0 && w.size > 0 && last >= u128::from(extent) {
                self.found.push(Rule::Window { axis: w.axis, extent });
            }
            dims[usize::from(w.axis)] = w.count;
            dims.push(w.size);
        }
        let mut axes: Vec<u8> = windows.iter().map(|w| w.axis).collect();
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            self.found.push(Rule::AxisOrder { got: windows.iter().map(|w| w.axis).collect() });
        }
        self.result_dims(dims);
    }
}
