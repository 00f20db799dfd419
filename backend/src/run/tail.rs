//! Runs a product's tail on the threads that compute the product: a program runs once its part of the result is there,
//! while that is in its thread's cache.  Knows neither buffers nor how a product is divided.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kiln_lowering::schedule;
use kiln_lowering::target::host::{Kernel, Pool};

/// A part of a product's result: rows, those of all members of the batch counted together, and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Panel {
    pub(super) rows: Range<u64>,
    pub(super) cols: Range<u64>,
}

/// Programs of the tail: places along x and along y.
type Programs = (Range<u32>, Range<u32>);

/// A product's result, and how the programs of its tail divide it.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// Elements in a row, and in all of them.
    row: u64,
    total: u64,
    cut: schedule::Tail,
    grid: [u32; 3],
}

impl Division {
    /// The programs whose part of the result lies inside a panel.
    fn inside(&self, panel: &Panel) -> Programs {
        let (from, to) = (panel.rows.start * self.row, panel.rows.end * self.row);
        let xs = within(from..to, self.total, self.cut.span, self.grid[0]);
        let ys = within(panel.cols.clone(), self.row, self.cut.columns, self.grid[1]);
        (xs, ys)
    }

    /// Those that lie inside none of some panels.
    fn outside(&self, panels: impl Iterator<Item = Panel>) -> Vec<(u32, u32)> {
        let [nx, ny, _] = self.grid;
        let mut inside = vec![false; nx as usize * ny as usize];
        for panel in panels {
            let (xs, ys) = self.inside(&panel);
            for y in ys {
                let row = y as usize * nx as usize;
                inside[row + xs.start as usize..row + xs.end as usize].fill(true);
            }
        }
        let rest = inside.iter().enumerate().filter(|(_, inside)| !**inside);
        rest.map(|(at, _)| (at as u32 % nx, at as u32 / nx)).collect()
    }
}

/// The pieces of length `each` of `0..total` that lie inside a range of it; the last of the `count` pieces ends with it.
fn within(range: Range<u64>, total: u64, each: u64, count: u32) -> Range<u32> {
    let first = range.start.div_ceil(each).min(count.into()) as u32;
    let end = if range.end >= total { count } else { (range.end / each) as u32 };
    first..end.max(first)
}

/// A tail, about to run.
pub(super) struct Tail<'a> {
    kernel: &'a Kernel,
    params: &'a [u64],
    division: Division,
    status: AtomicU32,
}

impl<'a> Tail<'a> {
    /// That of a product, which its grid and parameters launch.
    ///
    /// # Safety
    ///
    /// As for [`Kernel::launch`], where for each program the part of the result that [`schedule::Tail`] says is there
    /// once [`Tail::advance`] is told so.
    pub(super) unsafe fn new(
        gemm: &schedule::Gemm,
        cut: schedule::Tail,
        (kernel, grid, params): (&'a Kernel, [u32; 3], &'a [u64]),
    ) -> Tail<'a> {
        let total = gemm.batch.iter().product::<u64>() * gemm.m * gemm.n;
        Tail { kernel, params, division: Division { row: gemm.n, total, cut, grid }, status: AtomicU32::new(0) }
    }

    /// Runs the programs that lie inside a panel, all of which is there; `done` are those along x that ran when the panel
    /// had fewer rows.
    pub(super) fn advance(&self, panel: &Panel, done: &mut u32) {
        let (xs, ys) = self.division.inside(panel);
        let xs = xs.start.max(*done)..xs.end;
        *done = xs.end.max(*done);
        if !xs.is_empty() {
            ys.for_each(|y| self.run(xs.clone(), y));
        }
    }

    /// Runs what lies inside none of the panels, which make up the whole result.
    pub(super) fn finish(&self, pool: &Pool, panels: impl Iterator<Item = Panel>) {
        let rest = self.division.outside(panels);
        let count = rest.len() as u32;
        pool.run([count, 1, 1], &|ids| {
            let chunk = &rest[ids[0] as usize..ids[1] as usize];
            for run in chunk.chunk_by(|a, b| a.1 == b.1 && a.0 + 1 == b.0) {
                self.run(run[0].0..run[0].0 + run.len() as u32, run[0].1);
            }
        });
    }

    fn run(&self, xs: Range<u32>, y: u32) {
        let [nx, ny, nz] = self.division.grid;
        let ids = [xs.start, xs.end, y, 0, nx, ny, nz];
        // SAFETY: the maker vouches for the parameters, and whoever calls for the part of the result that these programs
        // read; each program runs once.
        unsafe { self.kernel.run(&ids, self.params, &self.status) }
    }

    /// The code of a failed check, or 0.
    pub(super) fn status(&self) -> u32 {
        self.status.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(rows: u64, row: u64, (span, columns): (u64, u64)) -> Division {
        let total = rows * row;
        let grid = [total.div_ceil(span) as u32, row.div_ceil(columns) as u32, 1];
        Division { row, total, cut: schedule::Tail { span, columns }, grid }
    }

    /// Inside their panels, or after all of them: each program once, and none before its part of the result.
    #[test]
    fn each_program_lies_inside_one_panel_or_comes_last() {
        for (rows, row) in [(1, 1), (7, 5), (64, 48), (33, 100), (500, 3)] {
            for span in [1, row, 4 * row, 7 * row, 10, rows * row] {
                for columns in [row, 16, 33] {
                    if columns < row && span % row != 0 {
                        continue;
                    }
                    let division = division(rows, row, (span, columns.min(row)));
                    for (tall, wide) in [(rows, row), (16, row), (rows, 16), (5, row), (1, row)] {
                        let edges =
                            |n: u64, each: u64| (0..n.div_ceil(each)).map(move |i| i * each..n.min((i + 1) * each));
                        let panels = || {
                            edges(rows, tall).flat_map(move |rows| {
                                edges(row, wide).map(move |cols| Panel { rows: rows.clone(), cols })
                            })
                        };
                        let mut times = vec![0; (division.grid[0] * division.grid[1]) as usize];
                        let mut count = |x: u32, y: u32| times[(y * division.grid[0] + x) as usize] += 1;
                        for panel in panels() {
                            let (xs, ys) = division.inside(&panel);
                            for (x, y) in xs.flat_map(|x| ys.clone().map(move |y| (x, y))) {
                                let read = u64::from(x) * span..division.total.min(u64::from(x + 1) * span);
                                assert!(panel.rows.start * row <= read.start && read.end <= panel.rows.end * row);
                                let read = u64::from(y) * columns..row.min(u64::from(y + 1) * columns);
                                assert!(panel.cols.start <= read.start && read.end <= panel.cols.end);
                                count(x, y);
                            }
                        }
                        division.outside(panels()).into_iter().for_each(|(x, y)| count(x, y));
                        assert!(times.iter().all(|&n| n == 1), "{division:?} {tall} {wide} {times:?}");
                    }
                }
            }
        }
    }

    /// Programs that straddle two members of the batch run when the second one is there.
    #[test]
    fn a_panel_that_grows_runs_what_it_reaches() {
        let division = division(12, 10, (25, 10));
        let reached: Vec<Range<u32>> =
            (1..=12).map(|end| division.inside(&Panel { rows: 0..end, cols: 0..10 }).0).collect();
        assert_eq!(reached.iter().map(|xs| xs.end).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]);
    }
}
