//! Batched matrix products with any strides.
//!
//! Each program computes a tile of `c` and walks `k` in blocks.  Programs are numbered so that neighbours share rows of
//! `a` and columns of `b` in the cache: groups of `group` tiles down, then across (Tillet, Kung and Cox: Triton, 2019).

use kiln_lowering::DType;
use kiln_lowering::op::Pointwise;
use kiln_lowering::tile::{Builder, Precision, Program, Value};
use smallvec::smallvec;

/// A point of the template's space: tile extents, all powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// Rows of a tile of `c`.
    pub block_m: u32,
    /// Columns of a tile of `c`.
    pub block_n: u32,
    /// Terms per step.
    pub block_k: u32,
    /// Tiles down before the next column of tiles.
    pub group: u32,
    /// How operands are rounded.
    pub precision: Precision,
}

/// Element types: of the operands and the result, and of index arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// Element type of `a`, `b` and `c`.  16-bit floats accumulate in f32.
    pub dtype: DType,
    /// i32 where all offsets fit, else i64.
    pub index: DType,
}

/// Sizes and strides of one product, in elements: the launch's scalars, in the order of the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of `a` and `c`.
    pub m: i64,
    /// Columns of `b` and `c`.
    pub n: i64,
    /// Columns of `a`, rows of `b`.
    pub k: i64,
    /// Offset, distance between matrices of the batch, between rows, between columns; of `a`, `b` and `c`.
    pub strides: [[i64; 4]; 3],
}

impl Default for Matmul {
    /// A tile that suits sixteen vector registers of eight f32.
    fn default() -> Matmul {
        Matmul { block_m: 4, block_n: 16, block_k: 8, group: 8, precision: Precision::Ieee }
    }
}

impl Sizes {
    /// The scalars in the order of the program's parameters, which follow the buffers `a`, `b` and `c`.
    pub fn scalars(&self) -> Vec<i64> {
        [self.m, self.n, self.k].into_iter().chain(self.strides.into_iter().flatten()).collect()
    }
}

impl Matmul {
    /// The configurations worth trying on a processor.
    pub fn space() -> Vec<Matmul> {
        let tiles = [(1, 64), (4, 16), (4, 32), (8, 16)];
        tiles.map(|(block_m, block_n)| Matmul { block_m, block_n, ..Matmul::default() }).to_vec()
    }

    /// Numbers of program instances for a product and a batch.
    pub fn grid(&self, sizes: &Sizes, batch: u32) -> [u32; 3] {
        let tiles = |n: i64, block: u32| (n as u64).div_ceil(u64::from(block)) as u32;
        [tiles(sizes.m, self.block_m) * tiles(sizes.n, self.block_n), batch, 1]
    }

    /// The tile program.
    pub fn program(&self, types: Operands) -> Program {
        let Operands { dtype, index } = types;
        let mut b = Builder::new(format!("matmul_{}x{}x{}", self.block_m, self.block_n, self.block_k));
        let [pa, pb, pc] = [false, false, true].map(|written| b.buffer(dtype, written));
        let [m, n, k] = [(); 3].map(|()| b.scalar(index, 1));
        let strides = [(); 3].map(|()| [(); 4].map(|()| b.scalar(index, 1)));

        let (row_tile, col_tile) = self.tile_of_program(&mut b, index, m, n);
        let batch = b.program_id(1);
        let batch = b.cast(batch, index);
        let bases = strides.map(|[offset, batch_stride, ..]| {
            let at = b.mul(batch, batch_stride);
            b.add(offset, at)
        });
        let rows = lanes(&mut b, index, row_tile, self.block_m, 1);
        let cols = lanes(&mut b, index, col_tile, self.block_n, 0);
        let row_mask = b.lt(rows, m);
        let col_mask = b.lt(cols, n);

        let wide = dtype.compute();
        let zero = b.constant(dtype, 0);
        let sum = b.constant(wide, 0);
        let sum = b.broadcast(sum, &[self.block_m, self.block_n]);
        let (low, step) = (b.int(index, 0), b.int(index, self.block_k.into()));
        let sums = b.for_loop((low, k, step), &[sum], |b, start, sums| {
            let terms = b.arange(self.block_k);
            let terms = b.cast(terms, index);
            let terms = b.add(start, terms);
            let (across, down) = (b.expand_dims(terms, 0), b.expand_dims(terms, 1));
            let place = |b: &mut Builder, which: usize, i: Value, j: Value| {
                let [_, _, row_stride, col_stride] = strides[which];
                let (i, j) = (b.mul(i, row_stride), b.mul(j, col_stride));
                let i = b.add(bases[which], i);
                b.add(i, j)
            };
            let across_mask = b.lt(across, k);
            let mask = b.map(Pointwise::And, &[row_mask, across_mask]);
            let at = place(b, 0, rows, across);
            let x = b.load_masked(pa, at, mask, zero);
            let down_mask = b.lt(down, k);
            let mask = b.map(Pointwise::And, &[down_mask, col_mask]);
            let at = place(b, 1, down, cols);
            let y = b.load_masked(pb, at, mask, zero);
            smallvec![b.dot(x, y, sums[0], self.precision)]
        });
        let value = b.cast(sums[0], dtype);
        let [_, _, row_stride, col_stride] = strides[2];
        let (i, j) = (b.mul(rows, row_stride), b.mul(cols, col_stride));
        let i = b.add(bases[2], i);
        let at = b.add(i, j);
        let mask = b.map(Pointwise::And, &[row_mask, col_mask]);
        b.store(pc, at, value, Some(mask));
        b.finish()
    }

    /// Which tile of `c` this program computes: row and column of tiles.
    fn tile_of_program(&self, b: &mut Builder, index: DType, m: Value, n: Value) -> (Value, Value) {
        let id = b.program_id(0);
        let id = b.cast(id, index);
        let tiles = |b: &mut Builder, n: Value, block: u32| {
            let (less, block) = (b.int(index, i64::from(block) - 1), b.int(index, block.into()));
            let n = b.add(n, less);
            b.map(Pointwise::Div, &[n, block])
        };
        let (down, across) = (tiles(b, m, self.block_m), tiles(b, n, self.block_n));
        let group = b.int(index, self.group.into());
        let in_group = b.mul(group, across);
        let number = b.map(Pointwise::Div, &[id, in_group]);
        let first = b.mul(number, group);
        // The last group may be lower.
        let left = b.map(Pointwise::Sub, &[down, first]);
        let height = b.map(Pointwise::Min, &[left, group]);
        let before = b.mul(number, in_group);
        let inside = b.map(Pointwise::Sub, &[id, before]);
        let col = b.map(Pointwise::Div, &[inside, height]);
        let above = b.mul(col, height);
        let row = b.map(Pointwise::Sub, &[inside, above]);
        (b.add(first, row), col)
    }
}

/// Indices of a tile's elements along one axis, with an axis of extent 1 at `axis`.
fn lanes(b: &mut Builder, index: DType, tile: Value, block: u32, axis: u8) -> Value {
    let size = b.int(index, block.into());
    let start = b.mul(tile, size);
    let lanes = b.arange(block);
    let lanes = b.cast(lanes, index);
    let lanes = b.add(start, lanes);
    b.expand_dims(lanes, axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_lowering::target::interp::{Arg, launch};

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    /// Every configuration gives the sums of one fused multiply-add per term in ascending order.
    #[test]
    fn products_of_odd_sizes_are_exact_in_every_configuration() {
        for (m, n, k, batch) in [(1, 1, 1, 1), (5, 7, 3, 2), (33, 17, 9, 1), (9, 65, 20, 3), (4, 4, 0, 1)] {
            let a: Vec<f32> = (0..batch * m * k).map(|i| (i % 13) as f32 - 6.5).collect();
            // `b` is stored transposed.
            let b: Vec<f32> = (0..batch * n * k).map(|i| 0.1 * (i % 7) as f32).collect();
            let sizes = Sizes { m, n, k, strides: [[0, m * k, k, 1], [0, n * k, 1, k], [0, m * n, n, 1]] };
            for config in Matmul::space() {
                let program = config.program(Operands { dtype: DType::F32, index: DType::I32 });
                assert_eq!(kiln_lowering::tile::verify(&program), vec![]);
                let (mut x, mut y) = (bytes(&a), bytes(&b));
                let mut out = bytes(&vec![f32::NAN; (batch * m * n) as usize]);
                let mut args = vec![Arg::Buffer(&mut x), Arg::Buffer(&mut y), Arg::Buffer(&mut out)];
                args.extend(sizes.scalars().into_iter().map(|s| Arg::Scalar(s as u32 as u64)));
                launch(&program, config.grid(&sizes, batch as u32), &mut args).unwrap();
                let got: Vec<f32> = out.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
                for (at, got) in got.iter().enumerate() {
                    let (z, i, j) = (at as i64 / (m * n), at as i64 / n % m, at as i64 % n);
                    let term = |sum: f32, t: i64| {
                        a[(z * m * k + i * k + t) as usize].mul_add(b[(z * n * k + j * k + t) as usize], sum)
                    };
                    assert_eq!(*got, (0..k).fold(0.0, term), "{config:?} {m}x{n}x{k} at {at}");
                }
            }
        }
    }
}
