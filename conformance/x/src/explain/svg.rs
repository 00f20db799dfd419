//! Writes SVG: shapes and text with the attributes that pictures here need. Knows no steps.

use std::fmt::Write;

/// A picture being written; what comes later lies on top.
pub struct Svg {
    body: String,
}

/// How text is set.
#[derive(Clone, Copy)]
pub struct Font {
    pub size: f64,
    pub weight: u32,
    pub color: &'static str,
    /// `start`, `middle` or `end`.
    pub anchor: &'static str,
}

impl Font {
    pub const fn new(size: f64, weight: u32, color: &'static str) -> Font {
        Font { size, weight, color, anchor: "start" }
    }

    pub const fn end(self) -> Font {
        Font { anchor: "end", ..self }
    }

    pub const fn middle(self) -> Font {
        Font { anchor: "middle", ..self }
    }
}

impl Svg {
    pub fn new() -> Svg {
        Svg { body: String::new() }
    }

    /// A rounded rectangle; without a border if `stroke` is empty.
    pub fn rect(&mut self, [x, y, w, h]: [f64; 4], radius: f64, fill: &str, stroke: &str) {
        let border = if stroke.is_empty() { String::new() } else { format!(" stroke=\"{stroke}\"") };
        let [x, y, w, h, r] = [x, y, w, h, radius].map(number);
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{r}\" fill=\"{fill}\"{border}/>"
        );
    }

    pub fn circle(&mut self, x: f64, y: f64, radius: f64, fill: &str) {
        let [x, y, r] = [x, y, radius].map(number);
        let _ = writeln!(self.body, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{fill}\"/>");
    }

    pub fn text(&mut self, x: f64, y: f64, font: Font, text: &str) {
        let [x, y, size] = [x, y, font.size].map(number);
        let anchor = if font.anchor == "start" { String::new() } else { format!(" text-anchor=\"{}\"", font.anchor) };
        let weight = if font.weight == 400 { String::new() } else { format!(" font-weight=\"{}\"", font.weight) };
        let (color, text) = (font.color, escaped(text));
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{weight}{anchor} fill=\"{color}\">{text}</text>"
        );
    }

    /// A line through points, its corners rounded, ending in an arrow if asked.
    pub fn line(&mut self, points: &[(f64, f64)], color: &str, width: f64, arrow: bool) {
        let mut path = String::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            let inner = i > 0 && i + 1 < points.len();
            if !inner {
                let _ = write!(path, "{}{} {} ", if i == 0 { "M" } else { "L" }, number(x), number(y));
                continue;
            }
            let (before, after) = (toward((x, y), points[i - 1]), toward((x, y), points[i + 1]));
            let [bx, by, x, y, ax, ay] = [before.0, before.1, x, y, after.0, after.1].map(number);
            let _ = write!(path, "L{bx} {by} Q{x} {y} {ax} {ay} ");
        }
        let (path, width) = (path.trim_end(), number(width));
        let _ = writeln!(self.body, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"/>");
        if let (true, [.., from, to]) = (arrow, points) {
            self.head(*from, *to, color);
        }
    }

    pub fn dashed(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        let [a, b, c, d] = [from.0, from.1, to.0, to.1].map(number);
        let _ = writeln!(self.body, "<path d=\"M{a} {b} L{c} {d}\" stroke=\"{color}\" stroke-dasharray=\"5 5\"/>");
    }

    /// An arrow's head that ends in `to`.
    fn head(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        let (dx, dy) = (dx / length, dy / length);
        let wing = |side: f64| (to.0 - 7.0 * dx - side * 4.0 * dy, to.1 - 7.0 * dy + side * 4.0 * dx);
        let points = [to, wing(1.0), wing(-1.0)].map(|(x, y)| format!("{},{}", number(x), number(y))).join(" ");
        let _ = writeln!(self.body, "<polygon points=\"{points}\" fill=\"{color}\"/>");
    }

    /// The finished picture.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        let ([w, h], title) = ([width, height].map(number), escaped(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif\">\n\
             <title>{title}</title>\n{}</svg>\n",
            self.body
        )
    }
}

/// The corner's neighbour on a line, from which it is rounded.
fn toward(corner: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (to.0 - corner.0, to.1 - corner.1);
    let length = dx.hypot(dy).max(1e-9);
    let radius = 8f64.min(length / 2.0);
    (corner.0 + dx / length * radius, corner.1 + dy / length * radius)
}

/// How wide a text will be, roughly: letters of sans-serif fonts differ little in sum.
pub fn width(text: &str, size: f64) -> f64 {
    let units = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | '[' | ']' | '(' | ')' | '\'' => 0.31,
        'm' | 'w' | 'M' | 'W' => 0.84,
        'A'..='Z' => 0.68,
        _ => 0.56,
    });
    units.sum::<f64>() * size
}

fn number(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_are_rounded_and_text_is_escaped() {
        let mut svg = Svg::new();
        svg.line(&[(0.0, 0.0), (20.0, 0.0), (20.0, 30.0)], "#000", 1.5, true);
        svg.text(1.25, 2.0, Font::new(11.0, 600, "#111").end(), "a < b & c");
        let text = svg.finish(40.0, 40.0, "t");
        assert!(text.contains("d=\"M0 0 L12 0 Q20 0 20 8 L20 30\""), "{text}");
        assert!(text.contains("<polygon points=\"20,30 16,23 24,23\""), "{text}");
        assert!(text.contains("x=\"1.2\" y=\"2\" font-size=\"11\" font-weight=\"600\" text-anchor=\"end\""), "{text}");
        assert!(text.contains(">a &lt; b &amp; c</text>"), "{text}");
    }
}
