//! One manual page.
//!
//! In: a command as clap knows it. Out: roff. What stands under the options in the help becomes sections of the page:
//! paragraphs under "Examples:" and the like their own, the others the description. Indented lines stay as they are.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::version;

/// What the renderer puts before each of its parts: how an apostrophe is written. Once is enough.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The page of a command that has been built.
pub fn render(command: Command) -> anyhow::Result<String> {
    let mut command = with_values_in_words(command).subcommand_help_heading("COMMANDS");
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let has_commands = command.get_subcommands().any(|below| !below.is_hide_set());
    let parts = Parts::of(&command.get_after_help().map(ToString::to_string).unwrap_or_default());

    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.render_usage().to_string();
    let called = command.get_bin_name().unwrap_or_default().to_owned();
    let rest = usage.trim_start_matches("Usage: ").trim_start_matches(&called).to_owned();
    roff.text([bold(called), roman(rest)]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(format!("{}.", command.get_about().map(ToString::to_string).unwrap_or_default()))]);
    for paragraph in &parts.description {
        roff.control("PP", []);
        write_paragraph(paragraph, &mut roff);
    }
    let before_options = roff.render();

    let mut roff = Roff::new();
    for (heading, paragraph) in &parts.sections {
        roff.control("SH", [heading.as_str()]);
        write_paragraph(paragraph, &mut roff);
    }
    if name != "brimful" {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman("brimful(1)")]);
    }
    let last = roff.render();

    let page = Man::new(command);
    // No date: the same source gives the same page.
    let title = format!(".TH {} 1 \"\" \"brimful {}\" \"Brimful Manual\"\n", name.to_uppercase(), version::SHORT);
    let mut bytes = title.into_bytes();
    page.render_name_section(&mut bytes)?;
    bytes.extend(before_options.bytes());
    page.render_options_section(&mut bytes)?;
    if has_commands {
        page.render_subcommands_section(&mut bytes)?;
    }
    bytes.extend(last.bytes());
    Ok(PREAMBLE.to_owned() + &String::from_utf8(bytes)?.replace(PREAMBLE, ""))
}

/// The values that an option takes in its sentence, as in the help: a list of its own would fill screens.
fn with_values_in_words(command: Command) -> Command {
    command.mut_args(|argument| {
        let values = argument.get_possible_values();
        if values.is_empty() || argument.is_hide_possible_values_set() {
            return argument;
        }
        let names: Vec<&str> =
            values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        argument.hide_possible_values(true).help(format!("{help} [possible values: {}]", names.join(", ")))
    })
}

/// What the help has under the options.
#[derive(Debug, Default)]
struct Parts {
    description: Vec<String>,
    sections: Vec<(String, String)>,
}

impl Parts {
    fn of(text: &str) -> Parts {
        let mut parts = Parts::default();
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            let heading = match paragraph.split_once(':') {
                Some((heading @ ("Examples" | "Formats"), rest)) => Some((heading.to_uppercase(), rest)),
                Some(("Exit codes", rest)) => Some(("EXIT STATUS".to_owned(), rest)),
                _ => None,
            };
            match heading {
                // "Exit codes: its own; and" goes on on the same line.
                Some((heading, rest)) => {
                    parts.sections.push((heading, rest.trim_start_matches('\n').to_owned()));
                }
                None => parts.description.push(paragraph.to_owned()),
            }
        }
        parts
    }
}

/// Prose is filled; lines that are indented stay as they are.
fn write_paragraph(text: &str, roff: &mut Roff) {
    let mut kept = false;
    for line in text.lines() {
        let indented = line.starts_with("  ");
        match (kept, indented) {
            (false, true) => {
                // Two columns, as in the help.
                roff.control("RS", ["2n"]).control("nf", []);
            }
            (true, false) => {
                roff.control("fi", []).control("RE", []);
            }
            _ => (),
        }
        kept = indented;
        roff.text([roman(line.strip_prefix("  ").unwrap_or_else(|| line.trim_start()))]);
    }
    if kept {
        roff.control("fi", []).control("RE", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_parts() {
        let text = "Examples:\n  brimful run\n\nProse that\ngoes on.\n\nExit codes: its own; and\n  2  bad usage";
        let parts = Parts::of(text);
        assert_eq!(parts.description, ["Prose that\ngoes on."]);
        let sections: Vec<(&str, &str)> = parts.sections.iter().map(|(heading, text)| (&**heading, &**text)).collect();
        assert_eq!(sections, [("EXAMPLES", "  brimful run"), ("EXIT STATUS", " its own; and\n  2  bad usage")]);
    }

    #[test]
    fn indented_lines_stay_as_they_are() {
        let mut roff = Roff::new();
        write_paragraph(" its own; and\n  2  bad usage\n     or none\nEnd.", &mut roff);
        assert_eq!(roff.to_roff(), "its own; and\n.RS 2n\n.nf\n2  bad usage\n   or none\n.fi\n.RE\nEnd.\n");
    }
}
