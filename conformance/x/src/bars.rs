//! A bar chart of ratios: a bar a name, from 1 to its ratio on a logarithmic axis, and a mark where it should be.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 900;
const BAR_HEIGHT: u32 = 22;
const AROUND_BARS: u32 = 100;

const REACHED: RGBColor = RGBColor(46, 125, 50);
const MISSED: RGBColor = RGBColor(239, 108, 0);
const MARK: RGBColor = RGBColor(33, 33, 33);

/// One bar.
pub struct Bar {
    pub name: String,
    pub ratio: f64,
    /// Where it should end at least.
    pub mark: f64,
    /// Its colour.
    pub reached: bool,
}

/// A chart.
pub struct Chart<'a> {
    pub caption: &'a str,
    /// What the axis says.
    pub axis: &'a str,
    /// Pixels left of the bars: the longest name.
    pub names: u32,
    pub bars: &'a [Bar],
}

impl Chart<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| format!("drawing the chart: {error}"))?;
        Ok(svg)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let rows = self.bars.len();
        let least = self.bars.iter().map(|bar| bar.ratio).fold(0.5, f64::min) * 0.8;
        let most = self.bars.iter().map(|bar| bar.ratio.max(bar.mark)).fold(2.0, f64::max) * 1.6;
        let height = AROUND_BARS + BAR_HEIGHT * rows.max(1) as u32;
        let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.caption, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(self.names)
            // Row 0 on top: the axis counts from below.
            .build_cartesian_2d((least..most).log_scale(), 0.0..rows.max(1) as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&|&value| tick(value))
            .x_desc(self.axis)
            .draw()?;
        let label = |right: bool| {
            let side = if right { HPos::Left } else { HPos::Right };
            TextStyle::from(("sans-serif", 13).into_font()).pos(Pos::new(side, VPos::Center))
        };
        for (at, bar) in self.bars.iter().enumerate() {
            let middle = (rows - at) as f64 - 0.5;
            let color = if bar.reached { REACHED } else { MISSED };
            let (low, high) = (middle - 0.35, middle + 0.35);
            chart.draw_series([Rectangle::new([(1.0, low), (bar.ratio, high)], color.filled())])?;
            let mark = [(bar.mark, middle - 0.48), (bar.mark, middle + 0.48)];
            chart.draw_series([PathElement::new(mark, MARK.stroke_width(2))])?;
            let end = bar.ratio.max(bar.mark).max(1.0) * 1.03;
            chart.draw_series([Text::new(shown(bar.ratio), (end, middle), label(true))])?;
            chart
                .plotting_area()
                .draw(&(EmptyElement::at((least, middle)) + Text::new(bar.name.clone(), (-8, 0), label(false))))?;
        }
        area.present()?;
        Ok(())
    }
}

fn shown(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { 1 };
    format!("{ratio:.decimals$}x")
}

/// The label of a place on a logarithmic axis: 1, 2 and 5 of each power of ten, as there is no room for all.
fn tick(value: f64) -> String {
    let power = 10f64.powf(value.log10().floor() + 1e-9);
    match (value / power).round() as u32 {
        1 | 2 | 5 | 10 => format!("{}x", (value * 1000.0).round() / 1000.0),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn labels_are_short() {
        let labels = [0.1, 0.2, 0.30000000000000004, 0.5, 1.0, 2.0, 7.0, 10.0, 50.0].map(tick);
        assert_eq!(labels, ["0.1x", "0.2x", "", "0.5x", "1x", "2x", "", "10x", "50x"]);
    }
}
