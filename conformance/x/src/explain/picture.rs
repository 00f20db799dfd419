//! A step as a picture: kernels from top to bottom, each with what fused into it, and the values that go through memory
//! between them as lines with the reason of the boundary. Places everything; [`super::svg`] writes it.

use super::record::{Edge, Kernel};
use super::step::{Step, bytes};
use super::svg::{Font, Svg, width};
use super::table;

const INK: &str = "#1f2937";
const FAINT: &str = "#6b7280";
const RULE: &str = "#e5e7eb";
const SAVED: &str = "#d1d5db";

/// Left edge of the kernels, their width, and the margin around everything.
const LEFT: f64 = 64.0;
const BOX: f64 = 560.0;
const MARGIN: f64 = 32.0;

/// Space between the kernels and the first lane, and between lanes.
const APPROACH: f64 = 58.0;
const LANE: f64 = 13.0;

/// Between kernels.
const GAP: f64 = 30.0;

const TITLE: Font = Font::new(13.0, 600, INK);
const SMALL: Font = Font::new(11.0, 400, FAINT);
const CHIP: Font = Font::new(11.0, 400, INK);

/// A kind of kernel: fill of its head, and colour of its mark.
fn colors(kernel: &Kernel) -> (&'static str, &'static str) {
    match kernel.title().split(' ').next().unwrap_or_default() {
        "product" => ("#eff6ff", "#2563eb"),
        "reduction" => ("#f0fdf4", "#16a34a"),
        "pointwise" => ("#fffbeb", "#d97706"),
        "copy" => ("#fef2f2", "#dc2626"),
        _ => ("#faf5ff", "#9333ea"),
    }
}

/// Colours of reasons, by their place in the legend.
const REASONS: &[&str] = &["#2563eb", "#0d9488", "#9333ea", "#db2777", "#ca8a04", "#dc2626", "#4b5563", "#65a30d"];

fn reason_color(number: usize) -> &'static str {
    REASONS[number % REASONS.len()]
}

/// A kernel's place.
struct Placed {
    /// Its number in the step.
    at: usize,
    top: f64,
    height: f64,
    /// Its words, by lines.
    lines: Vec<Vec<String>>,
}

/// A value on its way from one kernel to others further down.
struct Trunk<'a> {
    from: usize,
    /// Places of its readers, the edges, and which of the lines is this that reach the reader.
    to: Vec<(usize, &'a Edge, usize)>,
    /// Which of the lines it is that leave the kernel.
    leaves: usize,
    lane: usize,
}

/// The picture.
pub fn draw(step: &Step) -> String {
    let edges = step.shown_edges();
    let placed = place(step);
    let position = |at: usize| placed.iter().position(|p| p.at == at);
    let trunks = lanes(&edges, position, placed.len());
    let lane_count = trunks.iter().map(|t| t.lane + 1).max().unwrap_or(0);
    let right = LEFT + BOX + if lane_count > 0 { APPROACH + lane_count as f64 * LANE } else { 0.0 };
    let reasons = step.reasons();
    // The legend may be wider than the kernels and their lanes.
    let told = reasons.iter().map(|r| LEFT + 190.0 + width(r.says, 12.0)).fold(right, f64::max);
    let total = told + MARGIN;
    let legend = placed.last().map_or(150.0, |last| last.top + last.height) + 40.0;
    let height = legend + 34.0 + 24.0 * reasons.len() as f64 + MARGIN;

    let mut svg = Svg::new();
    svg.rect([0.0, 0.0, total, height], 12.0, "#ffffff", RULE);
    head(&mut svg, step, total);
    let number = |edge: &Edge| reasons.iter().position(|r| r.name == edge.reason).unwrap_or(0);
    cuts_and_blocks(&mut svg, step, &placed);
    for trunk in trunks.iter().rev() {
        draw_trunk(&mut svg, trunk, &placed, &number);
    }
    let most = step.kernels.iter().map(|k| k.alone.max(k.bytes())).max().unwrap_or(1);
    for (i, place) in placed.iter().enumerate() {
        kernel(&mut svg, place, &step.kernels[place.at], most);
        let above = i.checked_sub(1).map(|above| &placed[above]);
        let direct = edges.iter().filter(|e| e.to == place.at && above.is_some_and(|above| above.at == e.from));
        if let (Some(above), Some(edge)) = (above, direct.max_by_key(|e| e.value.bytes)) {
            adjacent(&mut svg, above, place, edge, number(edge));
        }
    }
    svg.text(LEFT, legend, TITLE, "Why two kernels are not one");
    for (i, reason) in reasons.iter().enumerate() {
        let y = legend + 26.0 + 24.0 * i as f64;
        mark(&mut svg, LEFT + 9.0, y - 4.0, i);
        let name = format!("{} ({}×)", reason.name, reason.times);
        svg.text(LEFT + 28.0, y, Font::new(12.0, 600, INK), &name);
        svg.text(LEFT + 190.0, y, Font::new(12.0, 400, FAINT), reason.says);
    }
    svg.finish(total, height, &table::head(step))
}

fn place(step: &Step) -> Vec<Placed> {
    let mut top = 150.0;
    let mut placed = Vec::new();
    for at in step.shown() {
        if step.cuts.contains(&at) {
            top += 22.0;
        }
        let lines = flow(&step.kernels[at].words());
        let height = 34.0 + 24.0 * lines.len() as f64 + 24.0;
        placed.push(Placed { at, top, height, lines });
        top += height + GAP;
    }
    placed
}

/// Words in lines as wide as a kernel.
fn flow(words: &[String]) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut x = f64::INFINITY;
    for word in words {
        let wide = width(word, 11.0) + 16.0;
        if x + wide > BOX - 24.0 {
            lines.push(Vec::new());
            x = 0.0;
        }
        x += wide + 6.0;
        if let Some(line) = lines.last_mut() {
            line.push(word.clone());
        }
    }
    lines
}

/// Values with readers that do not come next, each in the innermost lane that is free on its way.
fn lanes<'a>(edges: &'a [Edge], position: impl Fn(usize) -> Option<usize>, count: usize) -> Vec<Trunk<'a>> {
    let mut trunks: Vec<Trunk<'a>> = Vec::new();
    for edge in edges {
        let (Some(from), Some(to)) = (position(edge.from), position(edge.to)) else { continue };
        if to == from + 1 {
            continue;
        }
        match trunks.iter_mut().find(|t| t.from == from && t.to[0].1.value.name == edge.value.name) {
            Some(trunk) => trunk.to.push((to, edge, 0)),
            None => trunks.push(Trunk { from, to: vec![(to, edge, 0)], leaves: 0, lane: 0 }),
        }
    }
    let last = |t: &Trunk| t.to.iter().map(|to| to.0).max().unwrap_or(t.from);
    // Short ways lie inside.
    trunks.sort_by_key(|t| (last(t) - t.from, t.from));
    let mut taken: Vec<Vec<bool>> = Vec::new();
    for trunk in &mut trunks {
        let way = trunk.from..=last(trunk);
        let free = taken.iter().position(|lane| way.clone().all(|i| !lane[i]));
        let lane = free.unwrap_or_else(|| {
            taken.push(vec![false; count]);
            taken.len() - 1
        });
        way.for_each(|i| taken[lane][i] = true);
        trunk.lane = lane;
    }
    // Lines keep apart where they leave a kernel and where they reach one: the innermost first.
    trunks.sort_by_key(|t| (t.lane, t.from));
    let (mut leaving, mut arriving) = (vec![0; count], vec![0; count]);
    for trunk in &mut trunks {
        trunk.leaves = leaving[trunk.from];
        leaving[trunk.from] += 1;
        for (to, _, arrives) in &mut trunk.to {
            *arrives = arriving[*to];
            arriving[*to] += 1;
        }
    }
    trunks
}

fn title(step: &Step) -> String {
    match step.part {
        Some((first, last)) => format!("One step of {}: kernels {first} to {last}", step.example),
        None => format!("One step of {}", step.example),
    }
}

fn head(svg: &mut Svg, step: &Step, total: f64) {
    svg.text(LEFT, 46.0, Font::new(22.0, 700, INK), &title(step));
    let became =
        format!("{} recorded became {}", table::count(step.ops, "operation"), table::became(step).join(" and "));
    svg.text(LEFT, 68.0, Font::new(13.0, 400, FAINT), &became);
    let (moved, wide) = (step.bytes(), BOX.min(total - LEFT - MARGIN));
    let share = (moved as f64 / step.alone().max(1) as f64).min(1.0);
    svg.rect([LEFT, 84.0, wide, 10.0], 5.0, SAVED, "");
    svg.rect([LEFT, 84.0, wide * share, 10.0], 5.0, "#2563eb", "");
    let told = format!(
        "{} moved instead of {} (each row alone): {:.1}× less",
        bytes(moved),
        bytes(step.alone()),
        table::ratio(step)
    );
    svg.text(LEFT, 112.0, Font::new(12.0, 400, INK), &told);
    let time = format!("{:.2} ms in kernels", step.micros() / 1e3);
    svg.text(LEFT + wide, 112.0, Font::new(12.0, 400, INK).end(), &time);
}

fn kernel(svg: &mut Svg, place: &Placed, kernel: &Kernel, most: u64) {
    let (fill, mark) = colors(kernel);
    let (x, y) = (LEFT, place.top);
    svg.rect([x, y, BOX, place.height], 8.0, fill, mark);
    svg.text(x - 12.0, y + 21.0, Font::new(12.0, 600, FAINT).end(), &(place.at + 1).to_string());
    svg.text(x + 12.0, y + 21.0, TITLE, &kernel.title());
    if kernel.micros > 0.0 {
        svg.text(x + BOX - 12.0, y + 21.0, SMALL.end(), &format!("{:.0} µs", kernel.micros));
    }
    for (i, line) in place.lines.iter().enumerate() {
        let (mut x, y) = (x + 12.0, y + 32.0 + 24.0 * i as f64);
        for word in line {
            let wide = width(word, 11.0) + 16.0;
            svg.rect([x, y, wide, 19.0], 9.5, "#ffffff", RULE);
            svg.text(x + wide / 2.0, y + 13.5, CHIP.middle(), word);
            x += wide + 6.0;
        }
    }
    // Bytes: what rows alone would move, and over it what is moved.
    let y = y + place.height - 12.0;
    let scale = |n: u64| 120.0 * n as f64 / most.max(1) as f64;
    svg.rect([x + 12.0, y - 6.0, scale(kernel.alone).max(2.0), 6.0], 3.0, SAVED, "");
    svg.rect([x + 12.0, y - 6.0, scale(kernel.bytes()).max(2.0), 6.0], 3.0, mark, "");
    let moved = match kernel.alone > kernel.bytes() {
        true => format!("{} instead of {}", bytes(kernel.bytes()), bytes(kernel.alone)),
        false => bytes(kernel.bytes()),
    };
    svg.text(x + 142.0, y, SMALL, &moved);
    let writes: Vec<String> = kernel.writes.iter().take(2).map(|v| v.shape()).collect();
    let more = if kernel.writes.len() > 2 { format!(" and {} more", kernel.writes.len() - 2) } else { String::new() };
    svg.text(x + BOX - 12.0, y, SMALL.end(), &format!("{}{more}", writes.join(", ")));
}

/// A reason's number in its colour.
fn mark(svg: &mut Svg, x: f64, y: f64, number: usize) {
    svg.circle(x, y, 9.0, reason_color(number));
    svg.text(x, y + 3.8, Font::new(10.5, 700, "#ffffff").middle(), &(number + 1).to_string());
}

/// An arrow to the next kernel.
fn adjacent(svg: &mut Svg, above: &Placed, below: &Placed, edge: &Edge, reason: usize) {
    let x = LEFT + 40.0;
    let (from, to) = (above.top + above.height, below.top);
    svg.line(&[(x, from), (x, to)], FAINT, 1.5, true);
    mark(svg, x, (from + to) / 2.0 - 1.0, reason);
    let value = format!("{}  {}", edge.value.shape(), bytes(edge.value.bytes));
    svg.text(x + 18.0, (from + to) / 2.0 + 3.0, SMALL, &value);
}

/// A line from a kernel's right side down its lane to each reader's.
fn draw_trunk(svg: &mut Svg, trunk: &Trunk, placed: &[Placed], number: &impl Fn(&Edge) -> usize) {
    let (side, lane) = (LEFT + BOX, LEFT + BOX + APPROACH + trunk.lane as f64 * LANE);
    let from = &placed[trunk.from];
    let start = (side, from.top + from.height - 10.0 - apart(trunk.leaves, from));
    for &(to, edge, arrives) in &trunk.to {
        let end = (side, placed[to].top + 12.0 + apart(arrives, &placed[to]));
        let color = reason_color(number(edge));
        svg.line(&[start, (lane, start.1), (lane, end.1), end], color, 1.5, true);
        mark(svg, side + 22.0 + (arrives % 2) as f64 * 20.0, end.1, number(edge));
    }
}

/// How far from a kernel's edge its line of this number is.
fn apart(number: usize, place: &Placed) -> f64 {
    (number as f64 * 10.0) % (place.height - 24.0).max(10.0)
}

/// Where a plan ends, and brackets around blocks that repeat.
fn cuts_and_blocks(svg: &mut Svg, step: &Step, placed: &[Placed]) {
    for place in placed.iter().filter(|p| step.cuts.contains(&p.at)) {
        let y = place.top - 26.0;
        svg.dashed((LEFT, y), (LEFT + BOX, y), "#9ca3af");
        svg.text(LEFT + BOX - 4.0, y - 5.0, SMALL.end(), "the next plan");
    }
    for block in &step.blocks {
        let inside = |p: &&Placed| p.at >= block.start && p.at < block.start + block.len;
        let (Some(first), Some(last)) = (placed.iter().find(inside), placed.iter().rfind(inside)) else { continue };
        let (top, bottom, x) = (first.top - 6.0, last.top + last.height + 6.0, 34.0);
        svg.line(&[(x + 8.0, top), (x, top), (x, bottom), (x + 8.0, bottom)], "#9ca3af", 1.5, false);
        let y = (top + bottom) / 2.0;
        svg.rect([x - 19.0, y - 11.0, 38.0, 22.0], 11.0, "#374151", "");
        svg.text(x, y + 4.5, Font::new(12.0, 700, "#ffffff").middle(), &format!("×{}", block.times));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::Block;
    use super::super::record::Value;
    use super::super::step::tests::sample;
    use super::*;

    #[test]
    fn each_kernel_and_reason_is_in_the_picture() {
        let step = sample();
        let text = draw(&step);
        assert_eq!(text, draw(&step));
        for kernel in &step.kernels {
            assert!(text.contains(&format!(">{}<", kernel.title())), "{}", kernel.title());
        }
        for reason in step.reasons() {
            assert!(text.contains(reason.says), "{}", reason.name);
        }
        assert!(text.contains("the next plan") && text.contains("f32[64, 512]"));
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
    }

    #[test]
    fn lines_that_overlap_have_lanes_of_their_own() {
        let edge = |from, to, name: &str| Edge {
            from,
            to,
            value: Value { name: name.into(), ..Value::default() },
            ..Edge::default()
        };
        let edges = [edge(0, 3, "a"), edge(0, 2, "a"), edge(1, 4, "b"), edge(4, 6, "c"), edge(2, 3, "d")];
        let trunks = lanes(&edges, Some, 7);
        let mut found: Vec<(usize, usize, usize)> = trunks.iter().map(|t| (t.from, t.to.len(), t.lane)).collect();
        found.sort_unstable();
        // b and c meet at kernel 4, a and b between 1 and 3; a neighbour needs no lane.
        assert_eq!(found, [(0, 2, 0), (1, 1, 1), (4, 1, 0)]);
    }

    #[test]
    fn a_block_is_drawn_once() {
        let mut step = sample();
        let kernel = step.kernels[2].clone();
        step.kernels = vec![kernel; 9];
        step.edges.clear();
        step.blocks = vec![Block { start: 0, len: 3, times: 3 }];
        let text = draw(&step);
        assert_eq!((text.matches(">pointwise<").count(), text.matches(">×3<").count()), (3, 1));
    }
}
