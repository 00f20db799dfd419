//! How a machine wants work to be cut up.  Changes what runs beside what, and no bit of any result but in which order a
//! product's terms are added.

use super::cost::Rates;
use super::emit::Held;

/// Widest rows of an attention of which sums and factors take few registers, and some.
const WIDTHS: [u32; 2] = [64, 128];

/// Threads of a warp, where they are few.
const LANES: u32 = 32;

/// Registers of a thread that a block may fill, of the 255 that there are: places and what is being computed take others.
const ROOM: u32 = 208;

/// Programs that are wanted for each multiprocessor.
const WARPS: u32 = 64;

/// Most warps that hold a row together, of 64 lanes each.
const HELD_WARPS: u32 = 16;

/// Elements of a tile that is turned that are worth a warp.
const WARP_SQUARE: u32 = 1024;

/// How an attention is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attend {
    /// Queries that a warp keeps, as many as an instruction multiplies or twice that.
    pub queries: u32,
    /// Warps of a program, which share the keys and values that it reads.
    pub warps: u32,
    /// Keys of a block.
    pub keys: u32,
    /// Blocks that are under way at one time.
    pub stages: u8,
}

impl Attend {
    /// Fewest queries of a warp, which an instruction multiplies at once.
    const LEAST: u32 = 16;

    /// Where warps multiply together, keys and values take no registers: blocks can be longer, and more warps share them.
    /// Two groups that take turns need a third block: neither waits for what the other still reads.  Measured on an H200.
    const TOGETHER: [Attend; 3] = [
        Attend { queries: Attend::LEAST, warps: 4, keys: 128, stages: 2 },
        Attend { queries: Attend::LEAST, warps: 8, keys: 128, stages: 3 },
        Attend { queries: Attend::LEAST, warps: 8, keys: 64, stages: 2 },
    ];

    /// Of the gradients of one whose widest rows are this wide.  Beside the sums a program keeps rows of two factors and two
    /// tiles as large as the scores' in registers.
    const fn of_slopes(width: u32) -> Attend {
        let keys = if width > WIDTHS[0] { 32 } else { 64 };
        Attend { queries: Attend::LEAST, warps: 4, keys, stages: 1 }
    }

    /// Where each warp multiplies by itself: of wide rows, sums take twice the registers.
    const fn by_warps(queries: u32) -> [Attend; 3] {
        let half = if queries / 2 > Attend::LEAST { queries / 2 } else { Attend::LEAST };
        let wide = Attend { queries: half, warps: 4, keys: 64, stages: 1 };
        [Attend { queries, ..wide }, wide, wide]
    }
}

/// How a product of 16-bit floats is cut where instructions multiply tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Rows of a block.
    pub rows: u32,
    /// Columns of a block.
    pub columns: u32,
    /// Terms that are loaded at a time.
    pub terms: u32,
    /// Warps of a program.
    pub warps: u32,
    /// How often terms are under way at one time.
    pub stages: u8,
}

impl Blocks {
    /// Registers of a thread that hold sums and the elements beside them of an operand of so many bytes each.
    fn registers(&self, bytes: u32) -> u32 {
        let elements = self.rows * self.columns / (self.warps * LANES);
        elements + elements * bytes / 4
    }

    /// Where warps multiply together, both factors lie in shared memory: what a multiprocessor has of it holds the stages of
    /// one large block, of two middle ones, of three small ones.
    const TOGETHER: [Blocks; 3] = [
        Blocks { rows: 128, columns: 256, terms: 64, warps: 8, stages: 4 },
        Blocks { rows: 128, columns: 128, terms: 64, warps: 8, stages: 3 },
        Blocks { rows: 64, columns: 64, terms: 64, warps: 4, stages: 4 },
    ];

    /// Where each warp multiplies by itself.
    const BY_WARPS: [Blocks; 3] = [Blocks { rows: 64, columns: 64, terms: 32, warps: 4, stages: 1 }; 3];
}

/// Tiles that are reduced along their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Columns {
    /// Rows of a tile.
    rows: u32,
    /// Columns of a tile that one warp holds.
    narrow: u32,
    /// Columns of a tile that several warps share, where there are as many, and how many warps: what is read of a row
    /// should fill a line of the cache, and a warp has registers for a part of such a tile.
    wide: u32,
    warps: u32,
}

/// Tiles whose lanes follow one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Line {
    /// Elements of a tile for each warp: at least, at most, and the bytes of the widest element type in between.
    least: u32,
    most: u32,
    bytes: u32,
    /// Warps that share a tile.
    warps: u32,
    /// How many times as many programs there are as are wanted, where a program costs next to nothing: those that start last
    /// are then a small part of all, and those that run at one time touch memory close together.
    waves: u32,
}

/// Sizes of programs and tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grain {
    /// Number of programs wanted per launch, where the work allows it.
    pub programs: u32,
    /// How many times as many there are at most, where programs visit rows; of those that visit points, `line` says it.
    pub waves: u32,
    /// Fewest points that are worth a program of their own.
    pub worth: u64,
    /// Tiles whose lanes follow one axis.
    line: Line,
    /// Those of so many points or more, if such are cut otherwise: they keep all multiprocessors busy in larger pieces, too.
    long_line: Option<(u64, Line)>,
    /// What sizes and strides are told apart by dividing: the elements of the widest access, if it has to be aligned.
    pub aligned: u32,
    /// Whether the library multiplies narrow numbers many times as fast as wide ones, and programs sum the terms of a
    /// product with a vector faster than it does.
    pub sums_products: bool,
    /// Elements of a row, of all its operands together, that a program of one warp can hold in registers; of several, each
    /// holds half as many.
    pub held: u64,
    /// Most warps that hold a row together, a chunk each.
    pub held_warps: u32,
    /// Whether one instruction finds the greater of two floats, NaNs and the signs of zeros included.
    pub compares_floats: bool,
    /// Whether all that a tile takes is asked for before anything is computed: a lane waits for what it uses first, and asks
    /// for nothing while it waits.
    pub asks_first: bool,
    /// Terms of any row that a program which has read them finds again in its registers or a cache of its own.
    near: u64,
    /// Bytes of a result from which on it is written past the caches: it would not stay there until it is read, and to
    /// write it there means to read first what it replaces.
    pub streams: u64,
    /// How the columns of a matrix are reduced, if that does not depend on the columns alone.
    across: Option<Columns>,
    /// Elements along either side of a tile that is read along one axis and written along another, by the bytes of a
    /// point's operands: at least, at most, and the bytes along a side in between.
    side: (u32, u32, u32),
    /// Warps that share such a tile at most, a warp for each [`WARP_SQUARE`] of it.
    side_warps: u32,
    /// Elements along either side of the blocks of such tiles that a program takes; none where each tile is a program of its
    /// own: they start in order, so that those that run at one time touch memory close together.
    pub block: Option<u64>,
    /// Bytes of the elements of the rows side by side whose terms are turned to be walked one by one.
    turned: u32,
    /// Terms from which on several programs share the prefixes of a row, where there are few rows.
    pub shared: u64,
    /// Programs that share a row at least, where it has as many tiles.
    pub pieces: u32,
    /// Warps that share a row of which each has some chunks, where it is summed along.
    pub row_warps: u32,
    /// How attentions are cut, by the width of their rows: up to [`WIDTHS`], and wider; none where tiles are not multiplied
    /// by instructions of their own, and an attention is no kernel.
    attentions: Option<[Attend; 3]>,
    /// How products of 16-bit floats are cut, the largest blocks first; none where tiles are not multiplied by instructions
    /// of their own, or may not be.
    products: Option<[Blocks; 3]>,
    /// What decides whether the library computes a product that is finished by others' rows, where that is known.
    pub rates: Option<Rates>,
    /// Bytes that stay in a cache which all programs share.
    pub cache: u64,
    /// Whether a product's tail runs on the threads that compute the product, each on its part.
    pub finishes: bool,
}

impl Line {
    fn tile(&self, bytes: usize) -> u32 {
        (self.bytes / bytes.max(1) as u32).clamp(self.least, self.most)
    }
}

impl Grain {
    /// For lanes that are the elements of vectors.  Starting a program costs a processor as much as some thousand
    /// elements; four vectors hide the latency of one operation.
    pub const fn of_vectors(programs: u32) -> Grain {
        Grain {
            programs,
            waves: 1,
            worth: 8192,
            line: Line { least: 64, most: 64, bytes: 256, warps: 1, waves: 1 },
            long_line: None,
            aligned: 1,
            sums_products: false,
            held: 0,
            held_warps: 1,
            compares_floats: false,
            asks_first: false,
            near: 256 << 10,
            streams: u64::MAX,
            across: None,
            side: (16, 16, 64),
            side_warps: 1,
            block: Some(64),
            turned: 64,
            shared: 16 << 10,
            pieces: 1,
            row_warps: 1,
            attentions: None,
            products: None,
            rates: None,
            cache: 0,
            finishes: true,
        }
    }

    /// For lanes that are threads.  Programs cost next to nothing, and it takes many to have enough loads under way;
    /// each lane moves some 32 bytes of a tile, and may keep some hundred elements.  Where a tile has two axes, a line of the
    /// cache, 128 bytes, should be wanted as a whole.
    pub const fn of_threads(programs: u32) -> Grain {
        Grain {
            programs,
            waves: 8,
            worth: 1,
            line: Line { least: 128, most: 256, bytes: 1024, warps: 1, waves: 8 },
            long_line: Some((4 << 20, Line { least: 128, most: 512, bytes: 2048, warps: 4, waves: 64 })),
            aligned: 16,
            sums_products: true,
            held: 4096,
            held_warps: HELD_WARPS,
            compares_floats: true,
            asks_first: true,
            near: 4096,
            streams: u64::MAX,
            across: Some(Columns { rows: 64, narrow: 16, wide: 64, warps: 4 }),
            side: (32, 128, 256),
            side_warps: 8,
            block: None,
            turned: 128,
            shared: 2 << 10,
            pieces: 1,
            row_warps: 4,
            attentions: Some(Attend::by_warps(32)),
            products: Some(Blocks::BY_WARPS),
            rates: None,
            cache: 16 << 20,
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

    /// The same cut where so many points or more are many.
    pub fn with_long_lines(self, from: u64) -> Grain {
        Grain { long_line: self.long_line.map(|(_, line)| (from, line)), ..self }
    }

    /// The same cut for another number of programs.
    pub fn with_programs(self, programs: u32) -> Grain {
        Grain { programs, ..self }
    }

    /// The same cut for a machine whose warps keep so many queries of an attention, at least 16, where rows are narrow.
    pub fn with_queries(self, queries: u32) -> Grain {
        Grain { attentions: Some(Attend::by_warps(queries)), ..self }
    }

    /// The same cut for a machine of which so many warps can hold a row together.
    pub fn with_held_warps(self, warps: u32) -> Grain {
        Grain { held_warps: warps, ..self }
    }

    /// The same cut for a machine with that much cache that all programs share: half of it is for what they read again.
    pub fn with_cache(self, bytes: u64) -> Grain {
        Grain { cache: bytes / 2, ..self }
    }

    /// The same cut for a machine whose warps multiply together.
    pub fn together(self) -> Grain {
        let (attentions, products) = (Some(Attend::TOGETHER), Some(Blocks::TOGETHER));
        Grain { attentions, products, rates: Some(Rates::TOGETHER), ..self }
    }

    /// The same cut where every product has its terms added one by one in ascending order.
    pub fn in_order(self) -> Grain {
        Grain { products: None, ..self }
    }

    /// Whether a program that has read a row of so many terms finds them again in its registers or a cache of its own.
    pub fn keeps(&self, terms: u64) -> bool {
        terms <= self.near || Held::by_several(terms, self.held_warps).is_some()
    }

    /// Multiprocessors of a machine whose lanes are threads.
    pub fn multiprocessors(&self) -> u64 {
        u64::from(self.programs / WARPS).max(1)
    }

    /// How a product of so many rows and columns is cut, of which there are so many: in the largest blocks that keep the
    /// machine busy, or the smallest.  Nothing where it does not fill one.
    pub fn product(&self, sizes: [u64; 2], members: u64) -> Option<Blocks> {
        self.finished_product(sizes, members, 0)
    }

    /// Likewise, of one that is finished with operands of so many bytes an element.
    pub fn finished_product(&self, sizes: [u64; 2], members: u64, bytes: u32) -> Option<Blocks> {
        let cuts = self.products?;
        let fits = |cut: &&Blocks| sizes.iter().zip([cut.rows, cut.columns]).all(|(&n, own)| n * 2 > own.into());
        let count = |cut: &Blocks| sizes[0].div_ceil(cut.rows.into()) * sizes[1].div_ceil(cut.columns.into()) * members;
        let enough = |cut: &&Blocks| count(cut) >= self.multiprocessors();
        let roomy = |cut: &&Blocks| cut.registers(bytes) <= ROOM;
        let fitting = || cuts.iter().filter(fits).filter(roomy);
        fitting().find(enough).or(fitting().next_back()).copied()
    }

    /// How an attention is cut whose widest rows have so many elements; nothing where it is no kernel.
    pub fn attention(&self, width: u32) -> Option<Attend> {
        let cuts = self.attentions?;
        Some(cuts[WIDTHS.iter().filter(|&&most| width > most).count()])
    }

    /// How its gradients are cut: what a warp keeps of the side along which programs go, and how long the blocks of the
    /// other side are.
    pub fn slopes(&self, width: u32) -> Option<Attend> {
        self.attentions.map(|cuts| Attend { stages: cuts[0].stages, ..Attend::of_slopes(width) })
    }

    /// The same cut for a machine that writes results of so many bytes past its caches.
    pub fn with_streams(self, streams: u64) -> Grain {
        Grain { streams, ..self }
    }

    /// Elements that a warp takes of a tile whose lanes follow one axis, its widest elements having that many bytes.
    pub fn tile(&self, bytes: usize) -> u32 {
        self.line.tile(bytes)
    }

    /// How so many points are visited along one axis, their widest elements having that many bytes: elements of a tile, the
    /// warps that share it, and the cut of the programs.
    pub fn points(&self, points: u64, bytes: usize) -> (u32, u32, Grain) {
        let line = self.long_line.filter(|(from, _)| points >= *from).map_or(self.line, |(_, long)| long);
        (line.tile(bytes) * line.warps, line.warps, Grain { waves: line.waves, ..*self })
    }

    /// Rows side by side whose terms are turned to be walked one by one, a term having that many bytes.
    pub fn turned(&self, bytes: usize) -> u32 {
        (self.turned / bytes.max(1) as u32).max(16)
    }

    /// Elements along either side of a tile that is read along one axis and written along another, a point's operands
    /// having that many bytes together, where the shorter axis has so many.
    pub fn side(&self, bytes: usize, shorter: u64) -> u32 {
        let (least, most, total) = self.side;
        let most = shorter.clamp(least.into(), most.into()) as u32;
        (1 << (total / bytes.max(1) as u32).max(1).ilog2()).clamp(least, most)
    }

    /// Warps that share such a tile.
    pub fn side_warps(&self, side: u32) -> u32 {
        (side * side / WARP_SQUARE).clamp(1, self.side_warps)
    }

    /// Rows, columns and warps of a tile of `columns` or more that is reduced to so many sums a column: the more there
    /// are, the fewer rows, so that they fit the registers beside what is read.
    pub fn across(&self, columns: u64, sums: usize) -> Option<([u32; 2], u32)> {
        let Columns { rows, narrow, wide, warps } = self.across?;
        let rows = rows / sums.next_power_of_two() as u32;
        let tile = if columns < wide.into() { ([rows, narrow], 1) } else { ([rows, wide], warps) };
        (rows > 1).then_some(tile)
    }
}
