//! Charts as SVG text: lines over time, and spans between quantiles. Series differ in lightness and in dashes, so that a
//! grey print can be read.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const FONT: f64 = 13.0;
const INK: &str = "#222222";
const FAINT: &str = "#dddddd";

/// Colour and dashes of a series: dark, middle and light.
const STYLES: [(&str, &str); 3] = [("#0b3c5d", ""), ("#c8501e", "7 4"), ("#e0a526", "2 3")];

/// Pairs of numbers: places on both axes, or both ends of a span.
pub type Points = Vec<(f64, f64)>;

/// Lines over the same axes, one panel below the other.
#[derive(Debug)]
pub struct Lines<'a> {
    /// What is shown, for those who do not see it.
    pub title: &'a str,
    /// Name and unit of the horizontal axis.
    pub x_label: &'a str,
    /// Name and unit of the vertical axis.
    pub y_label: &'a str,
    /// Ends of the axes, which begin at zero, and the distances of their marks.
    pub x: (f64, f64),
    /// The same for the vertical axis.
    pub y: (f64, f64),
    /// Shaded from and to.
    pub shaded: (f64, f64),
    /// What the shade means.
    pub shaded_label: &'a str,
    /// Names of the series of each panel.
    pub names: [&'a str; 3],
    /// Titles and series of points.
    pub panels: Vec<(&'a str, [Points; 3])>,
}

/// Spans from one quantile to another, on a logarithmic axis from `from` to `to`, both powers of ten.
#[derive(Debug)]
pub struct Spans<'a> {
    /// What is shown, for those who do not see it.
    pub title: &'a str,
    /// Powers of ten at which axes begin and end.
    pub powers: (i32, i32),
    /// One beside the other: name and unit of its axis, and the spans of each group's rows.
    pub panels: [(&'a str, Vec<Points>); 2],
    /// Names of groups.
    pub groups: Vec<&'a str>,
    /// Names of the rows of every group.
    pub rows: [&'a str; 3],
    /// What the ends of spans are.
    pub ends: [&'a str; 2],
}

/// An SVG in the making.
struct Canvas(String);

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    fn new(height: f64, title: &str) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"{FONT}\" fill=\"{INK}\">\n\
             <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ))
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        self.add(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        self.add(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{color}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn curve(&mut self, points: impl Iterator<Item = (f64, f64)>, style: usize) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        let (color, dashes) = STYLES[style];
        self.add(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

impl Lines<'_> {
    /// The chart.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 60.0;
        const RIGHT: f64 = 20.0;
        const TOP: f64 = 64.0;
        const PANEL: f64 = 170.0;
        const GAP: f64 = 60.0;
        let panels = self.panels.len() as f64;
        let height = TOP + panels * (PANEL + GAP);
        let mut canvas = Canvas::new(height, self.title);
        let x = |value: f64| LEFT + value / self.x.0 * (WIDTH - LEFT - RIGHT);
        for (style, name) in self.names.into_iter().enumerate() {
            let at = LEFT + 150.0 * style as f64;
            canvas.curve([(at, 16.0), (at + 34.0, 16.0)].into_iter(), style);
            canvas.text((at + 41.0, 20.5), Anchor::Start, name);
        }
        let at = LEFT + 450.0;
        canvas.add(format_args!("<rect x=\"{at}\" y=\"8\" width=\"34\" height=\"16\" fill=\"#eeeeee\"/>"));
        canvas.text((at + 41.0, 20.5), Anchor::Start, self.shaded_label);
        for (number, (title, series)) in self.panels.iter().enumerate() {
            let top = TOP + number as f64 * (PANEL + GAP);
            let y = |value: f64| top + PANEL - value / self.y.0 * PANEL;
            let (from, to) = (x(self.shaded.0), x(self.shaded.1));
            canvas.add(format_args!(
                "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{PANEL}\" fill=\"#eeeeee\"/>",
                to - from
            ));
            canvas.text((LEFT, top - 10.0), Anchor::Start, title);
            for value in marks(self.y) {
                canvas.line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), FAINT);
                canvas.text((LEFT - 7.0, y(value) + 4.5), Anchor::End, &format!("{value}"));
            }
            for value in marks(self.x) {
                canvas.line((x(value), top + PANEL), (x(value), top + PANEL + 4.0), INK);
                canvas.text((x(value), top + PANEL + 18.0), Anchor::Middle, &format!("{value}"));
            }
            canvas.line((LEFT, top + PANEL), (WIDTH - RIGHT, top + PANEL), INK);
            canvas.upright((16.0, top + PANEL / 2.0), self.y_label);
            for (style, points) in series.iter().enumerate() {
                canvas.curve(points.iter().map(|&(at, value)| (x(at), y(value))), style);
            }
        }
        canvas.text(((LEFT + WIDTH - RIGHT) / 2.0, height - 12.0), Anchor::Middle, self.x_label);
        canvas.finish()
    }
}

/// From zero to the end of an axis.
fn marks((end, distance): (f64, f64)) -> impl Iterator<Item = f64> {
    (0..=(end / distance).round() as u32).map(move |mark| f64::from(mark) * distance)
}

impl Spans<'_> {
    /// The chart.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 190.0;
        const TOP: f64 = 44.0;
        const ROW: f64 = 22.0;
        const GAP: f64 = 14.0;
        const BETWEEN: f64 = 48.0;
        let panel = (WIDTH - LEFT - BETWEEN - 20.0) / 2.0;
        let group = ROW * self.rows.len() as f64 + GAP;
        let bottom = TOP + group * self.groups.len() as f64;
        let mut canvas = Canvas::new(bottom + 46.0, self.title);
        self.legend(&mut canvas, LEFT);
        for (number, name) in self.groups.iter().enumerate() {
            let top = TOP + number as f64 * group;
            canvas.line((8.0, top), (WIDTH - 8.0, top), FAINT);
            canvas.text((8.0, top + GAP / 2.0 + ROW * 0.7), Anchor::Start, name);
            // A group has its first rows: the last may be missing.
            let rows = self.panels[0].1[number].len();
            for (row, name) in self.rows.into_iter().take(rows).enumerate() {
                let y = top + GAP / 2.0 + ROW * (row as f64 + 0.7);
                canvas.text((LEFT - 10.0, y), Anchor::End, name);
            }
        }
        for (number, (label, groups)) in self.panels.iter().enumerate() {
            let left = LEFT + number as f64 * (panel + BETWEEN);
            let (low, high) = self.powers;
            let x = |value: f64| {
                let part = (value.log10() - f64::from(low)) / f64::from(high - low);
                left + part.clamp(0.0, 1.0) * panel
            };
            for power in low..=high {
                let value = 10_f64.powi(power);
                canvas.line((x(value), TOP), (x(value), bottom), FAINT);
                canvas.text((x(value), bottom + 17.0), Anchor::Middle, &format!("{value}"));
            }
            canvas.line((left, bottom), (left + panel, bottom), INK);
            canvas.text((left + panel / 2.0, bottom + 37.0), Anchor::Middle, label);
            for (at, rows) in groups.iter().enumerate() {
                for (row, &(from, to)) in rows.iter().enumerate() {
                    let y = TOP + at as f64 * group + GAP / 2.0 + ROW * (row as f64 + 0.5);
                    span(&mut canvas, (x(from), x(to)), y, row);
                }
            }
        }
        canvas.finish()
    }

    fn legend(&self, canvas: &mut Canvas, left: f64) {
        span(canvas, (left, left + 50.0), 18.0, 0);
        canvas.text((left - 10.0, 22.5), Anchor::End, self.ends[0]);
        canvas.text((left + 60.0, 22.5), Anchor::Start, self.ends[1]);
    }
}

/// A hollow dot, a line, a full dot.
fn span(canvas: &mut Canvas, (from, to): (f64, f64), y: f64, style: usize) {
    let (color, _) = STYLES[style];
    canvas.add(format_args!(
        "<path d=\"M{from:.1} {y:.1}L{to:.1} {y:.1}\" stroke=\"{color}\" stroke-width=\"3\"/>"
    ));
    canvas.add(format_args!("<circle cx=\"{to:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{color}\"/>"));
    canvas.add(format_args!(
        "<circle cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"#ffffff\" stroke=\"{color}\" stroke-width=\"2\"/>"
    ));
}
