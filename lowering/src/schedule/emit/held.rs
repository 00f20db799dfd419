//! Reductions with the lanes along the reduced axes whose terms all fit the registers of a program: each is loaded and
//! computed once, whatever number of reductions and results wait for it.  The order of the sums is that of
//! [`along`](super::along).
//!
//! A row of several chunks is shared by as many warps, each of which sums a chunk: a lane then keeps few terms, more rows
//! are under way at one time, and the sums of the chunks meet once.

use cranelift_entity::SecondaryMap;

use super::super::expr::{Ex, Expr};
use super::super::grain::Grain;
use super::super::group::Body;
use super::super::simplify::{CHUNK, LANES};
use super::combine::{Carried, append};
use super::context::Emitter;
use super::point::Point;
use super::reduce::Visit;
use super::walk;
use crate::op::Pointwise;
use crate::tile::{Shape, Value};

/// All terms of a row, as tiles of [`LANES`].
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Number of tiles.
    pub tiles: u64,
    /// Where the terms end.
    pub end: End,
    /// Warps that share the row, each of which has a chunk, or one.
    pub warps: u32,
    /// How many of them, the last ones, have none of its terms.
    pub absent: u32,
}

/// Where the terms of a row end that is held as tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// They fill the tiles.
    Filled,
    /// Behind a multiple of so many tiles: as many are wanted all or not at all.
    Between(u64),
    /// Somewhere behind the first half of them.
    Within,
}

/// Which part of the chunks of several warps has to be terms, where one warp could hold them as well.
const USED: (u64, u64) = (4, 5);

/// Most warps each of which can have as many registers as a thread may have.
const FEW: u32 = 8;

/// Fewest tiles that are worth a question whether they are wanted.
const FEWEST: u64 = 2;

/// Most instructions that are written for a row, each for every tile.
const LONGEST: u64 = 4096;

/// In which stages expressions are needed.
struct Stages {
    first_and_last: SecondaryMap<Ex, Option<[u32; 2]>>,
}

impl Stages {
    fn of(body: &Body) -> Stages {
        let stage = |ex: Ex| body.exprs.list[ex].stage;
        let mut first_and_last: SecondaryMap<Ex, Option<[u32; 2]>> = SecondaryMap::new();
        let roots = body.folds.iter().map(|f| f.input).chain(body.stores.iter().map(|s| s.value));
        for root in roots {
            let now = stage(root);
            for ex in body.exprs.needed([root]) {
                let [first, last] = first_and_last[ex].unwrap_or([now, now]);
                first_and_last[ex] = Some([first.min(now), last.max(now)]);
            }
        }
        Stages { first_and_last }
    }

    fn several(&self, ex: Ex) -> bool {
        self.first_and_last[ex].is_some_and(|[first, last]| first != last)
    }
}

impl Held {
    /// How a row of `terms` is held, if a program can, and it is worth it: if terms are wanted more than once.
    pub fn of(body: &Body, terms: u64, grain: Grain) -> Option<Held> {
        // What is read for one stage alone need not wait in registers.
        let stages = Stages::of(body);
        let loads = body.exprs.list.iter().filter(|(ex, d)| matches!(d.expr, Expr::Load { .. }) && stages.several(*ex));
        let loads = (loads.count() as u64).max(1);
        let last = body.exprs.list.values().map(|d| d.stage).max().unwrap_or(0);
        if last == 0 {
            return None;
        }
        let fits = |held: &Held, most: u64| {
            let each = held.tiles / u64::from(held.warps);
            each * LANES * loads <= most && each * body.exprs.list.len() as u64 <= LONGEST
        };
        let single = Some(Held::by_one(terms)).filter(|held| fits(held, grain.held));
        let alone = body.domain.axes.iter().filter(|axis| axis.reduced).count() == 1;
        let shared = Held::by_several(terms, grain.held_warps).filter(|held| {
            let most = if held.warps > FEW { grain.held / 2 } else { grain.held };
            let chunks = u64::from(held.warps - held.absent) * CHUNK;
            alone && fits(held, most) && (single.is_none() || terms * USED.1 >= chunks * USED.0)
        });
        shared.or(single)
    }

    /// By one warp.
    fn by_one(terms: u64) -> Held {
        match terms.is_multiple_of(LANES) {
            true => Held { tiles: terms / LANES, end: End::Filled, warps: 1, absent: 0 },
            false => Held { tiles: terms.div_ceil(LANES).next_power_of_two(), end: End::Within, warps: 1, absent: 0 },
        }
    }

    /// By as many warps as there are chunks, where there are several, and no more than `most`.
    pub fn by_several(terms: u64, most: u32) -> Option<Held> {
        let chunks = u32::try_from(terms.div_ceil(CHUNK)).ok().filter(|&chunks| chunks > 1 && chunks <= most)?;
        let warps = chunks.next_power_of_two();
        let tiles = u64::from(warps) * CHUNK / LANES;
        let together = 1 << (terms / LANES).trailing_zeros();
        let end = match terms == tiles * LANES {
            true => End::Filled,
            false if terms.is_multiple_of(LANES) && together >= FEWEST => End::Between(together),
            false => return None,
        };
        Some(Held { tiles, end, warps, absent: warps - chunks })
    }
}

/// Most tiles that are loaded and computed as one.
const TOGETHER: u64 = 8;

/// What is known of some tiles of a row, one below the other.
pub struct Group {
    point: Point,
    /// Where the terms lie in the row.
    index: Value,
    /// Their extents, the number of tiles first.
    shape: Shape,
    /// For each warp, whether it has them, where that holds for all or none.
    own: Option<Value>,
}

/// Which terms of a group of tiles are terms of the row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// All that a warp has, or none.
    Together,
    /// Each one that comes before the row's end.
    Each,
}

impl Held {
    /// Numbers of tiles, each a power of two, that lie whole inside a chunk, inside the half of the row that may end
    /// early, between places where the row may end, and inside a run where there are several.
    fn groups(self, run_length: Option<u64>) -> Vec<u64> {
        let most = match self.end {
            End::Filled => TOGETHER,
            End::Between(tiles) => TOGETHER.min(tiles),
            End::Within => TOGETHER.min(self.tiles / 2).max(1),
        };
        let most = run_length.map_or(most, |terms| most.min(1 << (terms / LANES).trailing_zeros()));
        let mut rest = self.tiles / u64::from(self.warps);
        std::iter::from_fn(|| {
            let size = most.min((rest + 1).next_power_of_two() / 2);
            rest -= size;
            (size > 0).then_some(size)
        })
        .collect()
    }

    /// Extents and distances of the axes of `tiles` tiles, or of one: rows, the warps' chunks where there are several, and
    /// lanes.
    fn axes(self, tiles: Option<u64>) -> Vec<(u32, u64)> {
        let rows = tiles.map(|tiles| (tiles as u32, LANES));
        let chunks = (self.warps > 1).then_some((self.warps, CHUNK));
        rows.into_iter().chain(chunks).chain([(LANES as u32, 1)]).collect()
    }
}

impl Visit<'_> {
    /// Visits all tiles of the row, `groups` being what is known of them from earlier visits.
    pub(super) fn held(&self, e: &mut Emitter, point: &mut Point, held: Held, groups: &mut Vec<Group>) -> Vec<Value> {
        let shape = extents(&held.axes(None));
        self.hoist(e, point);
        if groups.is_empty() {
            let mut first = 0;
            for tiles in held.groups(self.terms.run_length) {
                let wanted = match held.end {
                    End::Within if first >= held.tiles / 2 => Wanted::Each,
                    End::Between(_) => Wanted::Together,
                    _ => Wanted::All,
                };
                let start = e.int((first * LANES) as i64);
                groups.push(self.group(e, point, (start, &held.axes(Some(tiles))), wanted));
                first += tiles;
            }
        }
        for Group { point: inner, .. } in groups.iter_mut() {
            inner.reduced.clone_from(&point.reduced);
            for (&ex, &value) in &point.known {
                inner.known.entry(ex).or_insert(value);
            }
        }
        let first = places(e, &held.axes(None));
        let neutral = self.initial(e, &shape, Some(first)).concat();
        let chunk = if self.is_exact() { held.tiles } else { CHUNK / LANES };
        let mut partials: Vec<Vec<Carried>> = Vec::new();
        let (mut sums, mut done) = (neutral.clone(), 0);
        let mut rest = groups.as_mut_slice();
        while let Some((group, later)) = rest.split_first_mut() {
            self.ask(e, &mut group.point);
            // What the next one takes, while this one is computed; where that is written, it would only take registers.
            if let Some(next) = later.first_mut().filter(|_| self.stores.is_empty()) {
                self.ask(e, &mut next.point);
            }
            sums = self.add_group(e, group, &sums);
            done += u64::from(group.shape[0]);
            rest = later;
            if held.warps == 1 && (done % chunk == 0 || done == held.tiles) {
                let sums = std::mem::replace(&mut sums, neutral.clone());
                partials.push(self.halve(e, &self.split(&sums)));
            }
        }
        if held.warps > 1 {
            let whole = self.meet(e, &self.split(&sums));
            return self.results(e, &whole);
        }
        let lanes = walk::lanes(e, LANES as u32, None);
        let whole = match &partials[..] {
            [one] => one.clone(),
            _ => {
                let sums = self.initial(e, &shape, None).concat();
                let joined = partials.iter().zip(0..).fold(sums, |sums: Vec<Value>, (partial, number)| {
                    let number = e.int(number);
                    self.joined_in_lane(e, (lanes, number), &self.split(&sums), partial, &shape)
                });
                self.halve(e, &self.split(&joined))
            }
        };
        self.results(e, &whole)
    }

    /// The sums of chunks side by side, halved, and then those of the row: what the tree has in more lanes than there are
    /// chunks changes nothing.
    fn meet(&self, e: &mut Emitter, chunks: &[Carried]) -> Vec<Carried> {
        let each = self.halve_along(e, 1, chunks);
        self.halve_along(e, 0, &each)
    }

    /// Asks for what the terms and results at a point take from memory.
    pub(super) fn ask(&self, e: &mut Emitter, point: &mut Point) {
        let terms = self.folds.iter().map(|&i| self.body.folds[i].input);
        let results = self.stores.iter().map(|&i| self.body.stores[i].value);
        let left = self.keeps.iter().map(|keep| keep.ex);
        e.ask(terms.chain(results).chain(left), point);
    }

    /// The sums in their lanes of one chunk, or of so many side by side, all tiles asked for together.
    pub(super) fn chunks(
        &self,
        e: &mut Emitter,
        point: &Point,
        (start, side_by_side): (Value, Option<u32>),
        masked: bool,
    ) -> Vec<Value> {
        let own: Vec<(u32, u64)> = side_by_side.map(|n| (n, CHUNK)).into_iter().chain([(LANES as u32, 1)]).collect();
        let lanes = places(e, &own);
        let first = e.op(Pointwise::Add, start, lanes);
        let sums = self.initial(e, &extents(&own), Some(first)).concat();
        let axes: Vec<(u32, u64)> = [((CHUNK / LANES) as u32, LANES)].into_iter().chain(own).collect();
        let wanted = if masked { Wanted::Each } else { Wanted::All };
        let mut group = self.group(e, point, (start, &axes), wanted);
        self.ask(e, &mut group.point);
        self.add_group(e, &mut group, &sums)
    }

    /// The point at tiles of these axes, the first term being number `start`.
    fn group(&self, e: &mut Emitter, point: &Point, (start, axes): (Value, &[(u32, u64)]), wanted: Wanted) -> Group {
        let lanes = places(e, axes);
        let index = e.op(Pointwise::Add, start, lanes);
        let shape = extents(axes);
        // Of warps side by side, what each one's first term says holds for all that it has of the group.
        let own = (wanted == Wanted::Together).then(|| {
            let [_, (warps, pitch), _] = axes else { panic!("bug in the schedule: a row that no warps share") };
            let first = places(e, &[(*warps, *pitch), (1, 1)]);
            let first = e.op(Pointwise::Add, start, first);
            e.op(Pointwise::Lt, first, self.terms.count)
        });
        let mask = match (wanted, own) {
            (Wanted::All, _) => None,
            (_, Some(own)) => {
                let own = e.b.expand_dims(own, 0);
                Some(e.b.broadcast(own, &shape))
            }
            _ => Some(e.op(Pointwise::Lt, index, self.terms.count)),
        };
        Group { point: self.at(e, point, (start, lanes), mask), index, shape, own }
    }

    /// Feeds the tiles of a group one after the other, and writes what is complete.
    fn add_group(&self, e: &mut Emitter, group: &mut Group, sums: &[Value]) -> Vec<Value> {
        // What a warp has none of, it adds and forgets: two sums instead of all terms.
        let mask = group.point.walked_mask.filter(|_| group.own.is_none());
        let operands = self.operands(e, &mut group.point, (group.index, &group.shape), mask);
        self.write(e, &mut group.point);
        let operands = operands.iter().map(|operand| operand.iter().map(|&x| rows(e, x)).collect::<Vec<_>>());
        let operands: Vec<Vec<Vec<Value>>> = operands.collect();
        let fed = (0..group.shape[0] as usize).fold(sums.to_vec(), |sums, row| {
            let kinds = self.folds.iter().map(|&i| self.body.folds[i].kind);
            let sums = self.split(&sums);
            let fed = kinds.zip(sums.iter().zip(&operands)).flat_map(|(kind, (sum, operand))| {
                let x: Carried = operand.iter().map(|rows| rows[row]).collect();
                append(&mut e.b, kind, sum, &x)
            });
            fed.collect()
        });
        let Some(own) = group.own else { return fed };
        let own = e.b.broadcast(own, &group.shape[1..]);
        fed.iter().zip(sums).map(|(&fed, &sum)| e.b.map(Pointwise::Select, &[own, fed, sum])).collect()
    }
}

/// Where terms lie in a row, in row-major order of axes of some extents and distances.
fn places(e: &mut Emitter, axes: &[(u32, u64)]) -> Value {
    let shape = extents(axes);
    let along = axes.iter().enumerate().map(|(at, &(n, pitch))| {
        let index = walk::lanes(e, n, None);
        let pitch = e.int(pitch as i64);
        let index = e.op(Pointwise::Mul, index, pitch);
        let others = (0..axes.len() as u8).filter(|&axis| axis as usize != at);
        let index = others.fold(index, |index, axis| e.b.expand_dims(index, axis));
        e.b.broadcast(index, &shape)
    });
    let along: Vec<Value> = along.collect();
    along.into_iter().reduce(|x, y| e.op(Pointwise::Add, x, y)).unwrap_or_else(|| e.int(0))
}

fn extents(axes: &[(u32, u64)]) -> Shape {
    axes.iter().map(|axis| axis.0).collect()
}

/// The rows of a tile whose number is a power of two, by halves.
fn rows(e: &mut Emitter, x: Value) -> Vec<Value> {
    let shape = e.b.ty(x).shape.clone();
    if shape[0] == 1 {
        return vec![e.b.reshape(x, &shape[1..])];
    }
    let halved: Shape = [2, shape[0] / 2].into_iter().chain(shape[1..].iter().copied()).collect();
    let apart = e.b.reshape(x, &halved);
    let turn: Vec<u8> = (1..halved.len() as u8).chain([0]).collect();
    let apart = e.b.trans(apart, &turn);
    let [upper, lower] = e.b.split(apart);
    [upper, lower].into_iter().flat_map(|half| rows(e, half)).collect()
}
