//! A page that needs nothing but a browser: one file with its style, its script and its data, which loads nothing and sends nothing.
//!
//! In: a title, sections of HTML, and [`Plots`]. Out: the text of the page. What comes from outside goes through [`escape`] where it is text,
//! and through `data` where it is for the script; the page's own policy forbids all but what is in it, so that even text that got through could
//! load nothing. Without a script the sections and their tables can be read all the same. Nothing here knows what a page is about.

mod escape;
mod plot;

use std::fmt::Write;

pub use escape::escape;
pub use plot::{Axis, Limit, Mark, MarkKind, Panel, Plots, Series, Unit};

const STYLE: &str = include_str!("style.css");
/// Plots first: it makes the functions that the rest calls.
const SCRIPT: &str = concat!(include_str!("plot.js"), include_str!("tables.js"));

/// Nothing is loaded from anywhere, no form is sent, no other page is shown inside; style and script are in the file.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// How a page's first sentence is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// Look twice.
    Warning,
    /// It went wrong, or will.
    Bad,
}

/// A page in the making.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    plots: Plots,
}

impl Page {
    /// A page without content.
    pub fn new(title: &str) -> Page {
        Page { title: title.to_owned(), body: String::new(), plots: Plots::default() }
    }

    /// The first sentence; its first words say how it is meant, not the colour alone.
    pub fn headline(&mut self, tone: Tone, word: &str, rest: &str) {
        let class = match tone {
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
        };
        let _ = writeln!(
            self.body,
            "<p class=\"kind\" dir=\"auto\">{}</p>\n<h1 class=\"{class}\"><strong>{}</strong> {}</h1>",
            escape(&self.title),
            escape(word),
            escape(rest)
        );
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p dir=\"auto\">{}</p>", escape(text));
    }

    /// HTML as it is: what it has from outside is escaped already.
    pub fn html(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// A heading.
    pub fn heading(&mut self, id: &str, text: &str) {
        let _ = writeln!(self.body, "<h2 id=\"{}\">{}</h2>", escape(id), escape(text));
    }

    /// A list, one sentence each.
    pub fn list<T: AsRef<str>>(&mut self, items: &[T]) {
        if items.is_empty() {
            return;
        }
        self.html("<ul>");
        items.iter().for_each(|item| self.html(&format!("<li dir=\"auto\">{}</li>", escape(item.as_ref()))));
        self.html("</ul>");
    }

    /// A table. Cells are HTML; the first row's are the heads. One that can be sorted sorts by `data-value` where a cell has it.
    pub fn table(&mut self, caption: &str, sorts: bool, rows: &[Vec<Cell>]) {
        let Some((heads, rows)) = rows.split_first() else { return };
        let (class, caption) = (if sorts { " class=\"sorts\"" } else { "" }, escape(caption));
        let _ = write!(
            self.body,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table{class}><caption>{caption}</caption><thead><tr>"
        );
        for head in heads {
            let class = if head.number { " class=\"number\"" } else { "" };
            let _ = write!(self.body, "<th scope=\"col\"{class}>{}</th>", head.html);
        }
        self.body.push_str("</tr></thead><tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            for cell in row {
                let class = if cell.number { " class=\"number\"" } else { "" };
                let value = cell.value.map_or(String::new(), |value| format!(" data-value=\"{value}\""));
                let _ = write!(self.body, "<td dir=\"auto\"{class}{value}>{}</td>", cell.html);
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// The plots, where they are to stand. A page has one set of them.
    pub fn plots(&mut self, plots: Plots) {
        plots.write(&mut self.body);
        self.plots = plots;
    }

    /// The page.
    pub fn finish(self) -> String {
        let data = escape::json(&serde_json::to_string(&self.plots).unwrap_or_default());
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    html: String,
    number: bool,
    value: Option<f64>,
}

impl Cell {
    /// Words.
    pub fn text(text: &str) -> Cell {
        Cell { html: escape(text), ..Cell::default() }
    }

    /// HTML as it is.
    pub fn html(html: String) -> Cell {
        Cell { html, ..Cell::default() }
    }

    /// A figure: what is read, and what is sorted by.
    pub fn number(text: &str, value: f64) -> Cell {
        Cell { html: escape(text), number: true, value: value.is_finite().then_some(value) }
    }

    /// The head of a column of figures.
    pub fn number_head(text: &str) -> Cell {
        Cell { html: escape(text), number: true, value: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WICKED: &str = "</script><script>alert(1)</script>\"'&\u{202e}\0";

    #[test]
    fn nothing_from_outside_becomes_a_part_of_the_page() {
        let mut page = Page::new(WICKED);
        page.headline(Tone::Bad, WICKED, WICKED);
        page.paragraph(WICKED);
        page.list(&[WICKED]);
        page.table(WICKED, true, &[vec![Cell::text(WICKED)], vec![Cell::text(WICKED)]]);
        let series = Series { name: WICKED.to_owned(), ..Series::default() };
        let panel = Panel { id: WICKED.to_owned(), title: WICKED.to_owned(), series: vec![series], ..Panel::default() };
        let mark = Mark { at: 0, kind: MarkKind::Finding, text: WICKED.to_owned() };
        page.plots(Plots { panels: vec![panel], marks: vec![mark], ..Plots::default() });
        let text = page.finish();
        assert_eq!((text.matches("<script").count(), text.matches("</script").count()), (2, 2));
        assert!(!text.contains("alert(1)<") && !text.contains('\u{202e}') && !text.contains('\0'));
    }

    #[test]
    fn the_script_is_small() {
        assert!(SCRIPT.len() < 25_000, "{}", SCRIPT.len());
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
