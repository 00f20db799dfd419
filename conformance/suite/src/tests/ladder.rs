//! Random graphs on every target.

use kiln_conformance::ladder::{Setting, assert_case};
use kiln_conformance::layouts::Lay;
use kiln_conformance::{report, threads};
use kiln_lowering::graph::arbitrary::{Wishes, case};

use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(graphs_mean_the_same_on_every_target),
    test!(small_graphs_mean_the_same_on_every_target),
    test!(layouts_of_inputs_do_not_matter),
];

/// Runs cases of consecutive seeds on all threads.
fn climb(name: &str, seeds: std::ops::Range<u64>, wishes: &Wishes, setting: impl Fn(u64) -> Setting + Sync) {
    let seeds: Vec<u64> = seeds.collect();
    threads::filter_map(&seeds, |&seed| {
        assert_case(case(seed, wishes), &setting(seed));
        None::<()>
    });
    report::programs(name, seeds.len());
}

fn graphs_mean_the_same_on_every_target() {
    climb("graphs", 0..60, &Wishes::default(), |_| Setting::default());
}

fn small_graphs_mean_the_same_on_every_target() {
    climb("small graphs", 10_000..10_150, &Wishes { nodes: 3, elements: 600, ..Wishes::default() }, |_| {
        Setting::default()
    });
}

fn layouts_of_inputs_do_not_matter() {
    let wishes = Wishes { nodes: 6, ..Wishes::default() };
    climb("graphs on laid out inputs", 20_000..20_050, &wishes, |seed| Setting {
        lay: Lay::ALL[seed as usize % Lay::ALL.len()],
        seed,
        ..Setting::default()
    });
}
