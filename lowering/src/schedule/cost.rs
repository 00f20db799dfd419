//! How long a product and its tail take: by the vendor's library and a kernel behind it, or in blocks that finish their part
//! of the result themselves.  A model with a handful of rates; the machine that has them brings them along.

use super::grain::Blocks;

/// Elements of a result that a multiprocessor has under way at one time: one large block, two middle ones.
const AREA: u64 = 128 * 256;

/// What a machine does in a nanosecond, as far as it decides who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rates {
    /// Multiplications and additions of the library's products of 16-bit floats.
    pub library: u64,
    /// Those of products in blocks.
    pub blocks: u64,
    /// Bytes to and from memory.
    pub memory: u64,
    /// Additions of rows, each on an element of its own.
    pub rows: u64,
    /// Nanoseconds from the end of a kernel to where the next one is in full swing.
    pub launch: u64,
    /// Whether the library adds the vector itself that an [`Epilogue`](super::Epilogue) names.
    pub has_epilogues: bool,
}

impl Rates {
    /// Measured on an H200: 740 and 660 TFLOP/s of large products, 4.2 TB/s of kernels that copy, 3 µs between kernels, and
    /// a GELU of 33.5 million elements, some 40 additions each, in 53 µs.
    pub const TOGETHER: Rates =
        Rates { library: 740_000, blocks: 660_000, memory: 4_200, rows: 26_000, launch: 3_000, has_epilogues: true };
}

/// A product and its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Rows, columns and terms.
    pub sizes: [u64; 3],
    /// How many such products there are.
    pub members: u64,
    /// Bytes of an element of the factors, and of the product.
    pub bytes: [u64; 2],
    /// Whether the product itself is wanted, too.
    pub is_wanted: bool,
    /// Bytes that the tail reads, those of the product aside.
    pub reads: u64,
    /// Bytes that the tail writes.
    pub writes: u64,
    /// What the tail computes, in additions.
    pub additions: u64,
    /// Whether it is an [`Epilogue`](super::Epilogue).
    pub is_epilogue: bool,
}

impl Finished {
    fn results(&self) -> u64 {
        self.sizes[0] * self.sizes[1] * self.members
    }

    fn product_bytes(&self) -> u64 {
        self.results() * self.bytes[1]
    }

    fn factor_bytes(&self) -> u64 {
        let [m, n, k] = self.sizes;
        (m + n) * k * self.members * self.bytes[0]
    }

    /// How many blocks of so many rows and columns there are.
    fn blocks(&self, [rows, columns]: [u64; 2]) -> u64 {
        self.sizes[0].div_ceil(rows) * self.sizes[1].div_ceil(columns) * self.members
    }

    /// Nanoseconds that the multiplications take, in blocks of so many rows and columns: the last multiprocessors to
    /// finish have all others wait.
    fn multiplied(&self, rate: u64, [rows, columns]: [u64; 2], multiprocessors: u64) -> u64 {
        let k = self.sizes[2];
        let waves = (self.blocks([rows, columns]) * rows * columns).div_ceil(multiprocessors * AREA);
        waves * multiprocessors * AREA * 2 * k / rate
    }
}

impl Rates {
    /// Whether blocks save time.  Those that leave multiprocessors idle do not: of such products the library cuts the sums,
    /// too.
    pub fn prefer_blocks(&self, asked: &Finished, cut: Blocks, multiprocessors: u64) -> bool {
        let saves = self.in_blocks(asked, cut, multiprocessors) < self.by_library(asked, multiprocessors);
        asked.blocks([cut.rows, cut.columns].map(u64::from)) >= multiprocessors && saves
    }

    /// Nanoseconds of the library's product and of the kernel that is its tail, if it needs one.
    pub fn by_library(&self, asked: &Finished, multiprocessors: u64) -> u64 {
        let moved = (asked.factor_bytes() + asked.product_bytes()) / self.memory;
        let product = asked.multiplied(self.library, [128, 256], multiprocessors).max(moved);
        if asked.is_epilogue && self.has_epilogues && !asked.is_wanted {
            return product;
        }
        let moved = (asked.product_bytes() + asked.reads + asked.writes) / self.memory;
        product + self.launch + moved.max(asked.additions / self.rows)
    }

    /// Nanoseconds of one kernel that computes both.  What its blocks take beside their factors, and compute beside their
    /// product, they take and compute while nothing is multiplied; a result of 16 bits is in the rate.
    pub fn in_blocks(&self, asked: &Finished, cut: Blocks, multiprocessors: u64) -> u64 {
        let multiplied = asked.multiplied(self.blocks, [cut.rows, cut.columns].map(u64::from), multiprocessors);
        let product = multiplied.max(asked.factor_bytes() / self.memory);
        let written = asked.writes + if asked.is_wanted { asked.product_bytes() } else { 0 };
        let more = asked.reads + written.saturating_sub(2 * asked.results());
        product + more / self.memory + asked.additions / self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grain;
    use super::*;

    const H200: u64 = 132;

    /// Whether a linear layer of GPT-2 with so many rows saves time in blocks: `x · w + bias`, `vectors` of so many additions
    /// an element, and `whole` operands as large as the result.
    fn saves([m, k, n]: [u64; 3], additions: u64, whole: u64, rates: Rates) -> bool {
        let asked = Finished {
            sizes: [m, n, k],
            members: 1,
            bytes: [2, 2],
            is_wanted: false,
            reads: 2 * n + 2 * whole * m * n,
            writes: 2 * m * n,
            additions: additions * m * n,
            is_epilogue: additions == 1,
        };
        let grain = Grain::of_threads(64 * H200 as u32).together();
        let cut = grain.product([m, n], 1).unwrap();
        rates.prefer_blocks(&asked, cut, H200)
    }

    #[test]
    fn short_sums_are_worth_it_and_long_ones_are_not() {
        let rates = Rates { has_epilogues: false, ..Rates::TOGETHER };
        for (sizes, additions, whole, wanted) in [
            ([8192, 768, 2304], 1, 0, true),
            ([8192, 768, 768], 2, 1, true),
            ([8192, 3072, 768], 2, 1, false),
            ([8192, 8192, 8192], 1, 0, false),
            ([8192, 256, 4096], 2, 1, true),
            ([8192, 768, 3072], 40, 0, false),
            ([128, 768, 768], 2, 1, false),
        ] {
            assert_eq!(saves(sizes, additions, whole, rates), wanted, "{sizes:?} {additions} {whole}");
        }
    }

    /// Where the library adds the vector itself, it is faster.
    #[test]
    fn a_library_with_epilogues_keeps_them() {
        let rates = Rates::TOGETHER;
        assert!(!saves([8192, 768, 2304], 1, 0, rates));
        assert!(saves([8192, 768, 768], 2, 1, rates));
    }
}
