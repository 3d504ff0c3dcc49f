//! What the plots of a page show, and the elements that they are drawn into.
//!
//! In: series of points, limits and marks. Out: JSON for the script, and HTML with room for each plot, the keys of its series and a table of its
//! extremes, so that nothing moves when the script starts and a reader without it has figures too. Points are sent as whole multiples of a
//! unit's grain and as differences: a tenth of what they would take as they are.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use super::escape;
use crate::bytes::human;

/// All plots of a page; they share one axis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plots {
    /// What runs from left to right.
    pub axis: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// In all panels.
    pub marks: Vec<Mark>,
}

/// What runs from left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Axis {
    /// Milliseconds since a job began.
    Time {
        /// The date of the beginning, in milliseconds since 1970; 0 if it is not known.
        began_unix_ms: u64,
        /// The end.
        end: u64,
    },
    /// Events of a step.
    Events {
        /// How many.
        end: u64,
    },
    /// Nothing.
    #[default]
    None,
}

/// One plot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Panel {
    /// For links.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Of all series.
    pub unit: Unit,
    /// Whether series stand on each other; then all have the same places.
    pub stacked: bool,
    /// The lines, or the layers from the ground up.
    pub series: Vec<Series>,
    /// Straight lines across.
    pub limits: Vec<Limit>,
    /// With what stands under the pointer: for each point of the first series a place in `names`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<u32>,
    /// See `labels`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes; sent in KiB.
    Bytes,
    /// Bytes per second; sent in KiB.
    BytesPerSecond,
    /// Percent; sent in tenths.
    Percent,
    /// A count that may be a fraction, such as cores; sent in thousandths.
    #[default]
    Count,
    /// Degrees Celsius.
    Celsius,
    /// Watts; sent in tenths.
    Watt,
    /// A number without a unit, such as a loss; sent as it is.
    Number,
}

impl Unit {
    /// What whole numbers are multiples of; none where numbers are sent as they are.
    fn grain(self) -> Option<f64> {
        match self {
            Unit::Bytes | Unit::BytesPerSecond => Some(1024.0),
            Unit::Percent | Unit::Watt => Some(0.1),
            Unit::Count => Some(0.001),
            Unit::Celsius => Some(1.0),
            Unit::Number => None,
        }
    }

    /// A figure as a person reads it.
    pub fn human(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => value.to_string(),
            Unit::Bytes => human(value.max(0.0) as u64),
            Unit::BytesPerSecond => format!("{}/s", human(value.max(0.0) as u64)),
            Unit::Percent => format!("{value:.1} %"),
            Unit::Celsius => format!("{value:.0} °C"),
            Unit::Watt => format!("{value:.0} W"),
            Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
            Unit::Count => format!("{value:.2}"),
            Unit::Number => number(value),
        }
    }
}

/// Four digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e6).contains(&size) => {
            let digits = (3.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.digits$}")
        }
        _ => format!("{value:.3e}"),
    }
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Whether it is drawn before anybody asks.
    pub shown: bool,
    /// Whether it is a limit: drawn as one, and not part of the scale where it is far above the rest.
    pub limit: bool,
    /// From left to right: where, and how much.
    pub points: Vec<(u64, f64)>,
    /// Of the unit's figures, which decides how points are sent.
    pub unit: Unit,
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Sent<'a> {
            name: &'a str,
            shown: bool,
            limit: bool,
            grain: Option<f64>,
            x: Vec<i64>,
            y: Vec<serde_json::Number>,
        }
        let mut last = 0;
        let x = self.points.iter().map(|point| {
            let at = i64::try_from(point.0).unwrap_or(i64::MAX);
            at.wrapping_sub(std::mem::replace(&mut last, at))
        });
        let x = x.collect();
        let mut last = 0;
        let y = self.points.iter().map(|point| match self.unit.grain() {
            Some(grain) => {
                let multiple = (point.1 / grain).round() as i64;
                serde_json::Number::from(multiple.wrapping_sub(std::mem::replace(&mut last, multiple)))
            }
            // Six digits are more than a plot shows; what is no number is not in the series.
            None => serde_json::Number::from_f64(rounded(point.1)).unwrap_or_else(|| 0.into()),
        });
        let y = y.collect();
        let sent = Sent { name: &self.name, shown: self.shown, limit: self.limit, grain: self.unit.grain(), x, y };
        sent.serialize(serializer)
    }
}

fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A straight line across a plot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Limit {
    /// What it is.
    pub name: String,
    /// Where.
    pub value: f64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Where on the axis.
    pub at: u64,
    /// What sort.
    pub kind: MarkKind,
    /// In words.
    pub text: String,
}

/// What sort of thing happened; each is drawn in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A judgement.
    Finding,
    /// The highest point.
    Peak,
    /// A part of the job begins or ends.
    Phase,
    /// An epoch begins.
    Epoch,
    /// The end.
    End,
}

impl Plots {
    pub(super) fn write(&self, html: &mut String) {
        if self.panels.is_empty() {
            return;
        }
        html.push_str(
            "<div id=\"plots\">\n<div class=\"bar idle\"><p class=\"at\"><output id=\"at\"></output><output id=\"what\"></output></p>\
             <p class=\"buttons\"><button type=\"button\" id=\"in\">Zoom in</button><button type=\"button\" id=\"out\">Zoom out</button>\
             <button type=\"button\" id=\"all\">Show all</button></p>\
             <p class=\"help\">Point or touch to read, drag to zoom. Keys: \u{2190} \u{2192} move, Home End, + \u{2212} zoom, 0 all, Page \
             Up and Down go from event to event.</p></div>\n",
        );
        for (index, panel) in self.panels.iter().enumerate() {
            panel.write(index, html);
        }
        html.push_str("</div>\n");
    }
}

impl Panel {
    fn write(&self, index: usize, html: &mut String) {
        let (id, title) = (escape(&self.id), escape(&self.title));
        let class = if index == 0 { "plot first" } else { "plot" };
        let _ = writeln!(
            html,
            "<figure id=\"plot-{id}\"><figcaption>{title}</figcaption>\n<div class=\"{class}\" data-panel=\"{index}\" tabindex=\"0\" \
             role=\"slider\" aria-label=\"{title}: moment\" aria-valuemin=\"0\" aria-valuemax=\"0\" aria-valuenow=\"0\"><canvas \
             aria-hidden=\"true\"></canvas></div>\n<div class=\"keys\">"
        );
        // A stack is read from the top down.
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        if self.stacked {
            order.reverse();
        }
        for place in order {
            let series = &self.series[place];
            let _ = writeln!(
                html,
                "<button type=\"button\" class=\"key{}\" data-series=\"{place}\" aria-pressed=\"{}\"><i></i><span>{}</span><b></b></button>",
                if series.limit { " line" } else { "" },
                series.shown,
                escape(&series.name)
            );
        }
        for limit in &self.limits {
            let name = escape(&limit.name);
            let _ = writeln!(
                html,
                "<span class=\"key limit\"><i></i><span>{name}</span><b>{}</b></span>",
                escape(&self.unit.human(limit.value))
            );
        }
        html.push_str(
            "</div>\n<details><summary>As a table</summary><div class=\"wide\"><table><thead><tr><th scope=\"col\">",
        );
        html.push_str(
            "Figure</th><th scope=\"col\" class=\"number\">First</th><th scope=\"col\" class=\"number\">Least</th>",
        );
        html.push_str("<th scope=\"col\" class=\"number\">Most</th><th scope=\"col\" class=\"number\">Last</th></tr></thead><tbody>\n");
        for series in &self.series {
            let values = || series.points.iter().map(|point| point.1);
            let said = [values().next(), values().reduce(f64::min), values().reduce(f64::max), values().next_back()];
            let _ = write!(html, "<tr><th scope=\"row\" dir=\"auto\">{}</th>", escape(&series.name));
            for value in said {
                let text = value.map_or(String::new(), |value| self.unit.human(value));
                let _ = write!(html, "<td class=\"number\">{}</td>", escape(&text));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div></details></figure>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sent_as_differences_of_whole_multiples() {
        let points = vec![(100, 1024.0), (300, 10_240.0), (400, 0.0)];
        let series = Series { name: "a".to_owned(), unit: Unit::Bytes, points, ..Series::default() };
        let sent = serde_json::to_value(&series).unwrap();
        assert_eq!(sent["x"], serde_json::json!([100, 200, 100]));
        assert_eq!((&sent["y"], &sent["grain"]), (&serde_json::json!([1, 9, -10]), &serde_json::json!(1024.0)));
        let wild = Series { unit: Unit::Bytes, points: vec![(u64::MAX, f64::MAX), (0, f64::MIN)], ..Series::default() };
        assert!(serde_json::to_string(&wild).is_ok());
    }

    #[test]
    fn figures_are_read_by_people() {
        assert_eq!(Unit::Number.human(0.123_456), "0.1235");
        assert_eq!(Unit::Number.human(1234.56), "1235");
        assert_eq!(Unit::Number.human(1.2e-9), "1.200e-9");
        assert_eq!(Unit::Count.human(1.5), "1.50");
        assert_eq!(Unit::BytesPerSecond.human(2048.0), "2.00 KiB/s");
    }
}
