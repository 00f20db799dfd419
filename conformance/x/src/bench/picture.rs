//! The report as a bar chart: a bar a workload, from 1 (as fast as stock) to its ratio, and a mark at its floor.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::Report;
use super::row::{Row, Verdict};
use crate::stock::FLEX_VERSION;

const WIDTH: u32 = 900;
const BAR_HEIGHT: u32 = 22;
const AROUND_BARS: u32 = 100;
/// Left of the bars: the longest name.
const NAMES: u32 = 160;

const REACHED: RGBColor = RGBColor(46, 125, 50);
const MISSED: RGBColor = RGBColor(239, 108, 0);
const FLOOR: RGBColor = RGBColor(33, 33, 33);

/// The chart as SVG.
pub fn draw(report: &Report) -> Result<String, String> {
    let bars: Vec<(&Row, f64)> = report
        .rows
        .iter()
        .filter_map(|row| Some((row, row.measured.as_ref().ok()?.ratio())))
        .filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let mut svg = String::new();
    chart(&mut svg, report, &bars).map_err(|error| format!("drawing the chart: {error}"))?;
    Ok(svg)
}

fn chart(svg: &mut String, report: &Report, bars: &[(&Row, f64)]) -> Result<(), Box<dyn std::error::Error>> {
    let rows = bars.len();
    let least = bars.iter().map(|(_, ratio)| *ratio).fold(0.5, f64::min) * 0.8;
    let most = bars.iter().map(|(row, ratio)| ratio.max(row.workload.reach)).fold(2.0, f64::max) * 1.6;
    let height = AROUND_BARS + BAR_HEIGHT * rows.max(1) as u32;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let caption = format!("Times as fast as stock burn-flex {FLEX_VERSION}: {}", report.machine);
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(NAMES)
        // Row 0 on top: the axis counts from below.
        .build_cartesian_2d((least..most).log_scale(), 0.0..rows.max(1) as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| format!("{value}x"))
        .x_desc("ratio of medians (logarithmic); the mark is the floor")
        .draw()?;
    let label = |right: bool| {
        let side = if right { HPos::Left } else { HPos::Right };
        TextStyle::from(("sans-serif", 13).into_font()).pos(Pos::new(side, VPos::Center))
    };
    for (at, (row, ratio)) in bars.iter().enumerate() {
        let middle = (rows - at) as f64 - 0.5;
        let color = if row.verdict() == Verdict::Reached { REACHED } else { MISSED };
        let (low, high) = (middle - 0.35, middle + 0.35);
        chart.draw_series([Rectangle::new([(1.0, low), (*ratio, high)], color.filled())])?;
        let reach = row.workload.reach;
        chart
            .draw_series([PathElement::new([(reach, middle - 0.48), (reach, middle + 0.48)], FLOOR.stroke_width(2))])?;
        let end = ratio.max(reach).max(1.0) * 1.03;
        chart.draw_series([Text::new(shown(*ratio), (end, middle), label(true))])?;
        chart
            .plotting_area()
            .draw(&(EmptyElement::at((least, middle)) + Text::new(row.workload.name.clone(), (-8, 0), label(false))))?;
    }
    area.present()?;
    Ok(())
}

fn shown(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { 1 };
    format!("{ratio:.decimals$}x")
}

#[cfg(test)]
mod tests {
    use super::super::copy::Copy;
    use super::super::machine::Machine;
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn each_measured_row_has_a_bar_and_its_name() {
        let machine = Machine { processor: "a <processor>".into(), threads: 2, vectors: "" };
        let mut rows = vec![row("fast", 2.0, &[1.0], &[8.0]), row("slow", 2.0, &[2.0], &[1.0])];
        rows.push(row("dead", 2.0, &[1.0], &[1.0]));
        rows[2].measured = Err("it died".into());
        let copy = Copy { large: 10.0, small: 20.0 };
        let svg = draw(&Report { machine, copy, rounds: 1, seconds: 1.0, rows }).expect("a chart can be drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in ["fast", "slow", "8.00x", "0.50x", "a &lt;processor&gt;", "#2E7D32", "#EF6C00"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("dead"), "what has no ratio has no bar");
    }
}
