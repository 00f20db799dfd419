//! How a machine wants work to be cut up.  Changes what runs beside what, and no bit of any result.

/// Sizes of programs and tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grain {
    /// Number of programs wanted per launch, where the work allows it.
    pub programs: u32,
    /// Fewest points that are worth a program of their own.
    pub worth: u64,
    /// Elements of a tile whose lanes follow one axis, by the bytes of its widest element type: at least, at most, and
    /// the bytes in between.
    tile: (u32, u32, u32),
    /// What sizes and strides are told apart by dividing: the elements of the widest access, if it has to be aligned.
    pub aligned: u32,
    /// Whether the library multiplies narrow numbers many times as fast as wide ones, and programs sum the terms of a
    /// product with a vector faster than it does.
    pub sums_products: bool,
    /// Elements of a row, of all its operands together, that a program can hold in registers.
    pub held: u64,
    /// Bytes of a row of a tile that is reduced along its columns; none where its extents depend on the columns alone.
    across: Option<u32>,
    /// Such tiles that are read before the first of them is added to the sums.
    pub ahead: u32,
    /// Elements along either side of a tile that is read along one axis and written along another, by the bytes of a
    /// point's operands: at least, at most, and the bytes along a side in between.
    side: (u32, u32, u32),
    /// Elements along either side of the blocks of such tiles that a program takes.
    pub block: u64,
    /// Whether every such block is a program of its own: programs start in order, so that those that run at one time touch
    /// memory close together.
    pub block_each: bool,
    /// Programs that share a row at least, where it has as many tiles.
    pub pieces: u32,
    /// Whether attention is one kernel: tiles are multiplied by instructions of their own.
    pub attends: bool,
    /// Whether a product's tail runs on the threads that compute the product, each on its part.
    pub finishes: bool,
}

impl Grain {
    /// For lanes that are the elements of vectors.  Starting a program costs a processor as much as some thousand
    /// elements; four vectors hide the latency of one operation.
    pub const fn of_vectors(programs: u32) -> Grain {
        Grain {
            programs,
            worth: 8192,
            tile: (64, 64, 256),
            aligned: 1,
            sums_products: false,
            held: 0,
            across: None,
            ahead: 1,
            side: (16, 16, 64),
            block: 64,
            block_each: false,
            pieces: 1,
            attends: false,
            finishes: true,
        }
    }

    /// For lanes that are threads.  Programs cost next to nothing, and it takes many to have enough loads under way;
    /// each lane moves some 32 bytes of a tile, and may keep some hundred elements.  Where a tile has two axes, a line of the
    /// cache, 128 bytes, should be wanted as a whole.
    pub const fn of_threads(programs: u32) -> Grain {
        Grain {
            programs,
            worth: 1,
            tile: (128, 256, 1024),
            aligned: 16,
            sums_products: true,
            held: 4096,
            across: Some(64),
            ahead: 2,
            side: (32, 64, 128),
            block: 64,
            block_each: true,
            pieces: 1,
            attends: true,
            finishes: false,
        }
    }

    /// The cut of what follows a product that threads compute in bands of columns: two programs a thread, of the eight
    /// that are wanted for it, side by side in each row, so that they lie inside the bands.
    pub fn in_bands(self) -> Grain {
        match self.finishes {
            true => Grain { programs: 4, pieces: self.programs.div_ceil(4), ..self },
            false => self,
        }
    }

    /// The same cut for another number of programs.
    pub fn with_programs(self, programs: u32) -> Grain {
        Grain { programs, ..self }
    }

    /// Elements of a tile whose lanes follow one axis, its widest elements having that many bytes.
    pub fn tile(&self, bytes: usize) -> u32 {
        let (least, most, total) = self.tile;
        (total / bytes.max(1) as u32).clamp(least, most)
    }

    /// Elements along either side of a tile that is read along one axis and written along another, a point's operands
    /// having that many bytes together.
    pub fn side(&self, bytes: usize) -> u32 {
        let (least, most, total) = self.side;
        (1 << (total / bytes.max(1) as u32).max(1).ilog2()).clamp(least, most)
    }

    /// Rows and columns of a tile that is reduced along its columns, a point's operands having that many bytes: of at most
    /// `rows` rows, and for all `sums` of 1024 elements, for a lane of 32 adds to as many sums as its registers hold beside
    /// what it reads.
    pub fn across(&self, bytes: usize, rows: u32, sums: usize) -> Option<[u32; 2]> {
        let columns = (self.across? / bytes.max(1) as u32).clamp(16, 1024);
        let columns = 1 << columns.ilog2();
        let height = 1024 / columns / sums.next_power_of_two() as u32;
        (height > 1).then_some([height.min(rows), columns])
    }
}
