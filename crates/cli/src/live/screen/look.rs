//! How things look: few styles, in the sixteen colours that every terminal has and its user has chosen.
//!
//! No meaning is in the colour alone: what is near its limit also has a sign, and brightness differs. Without colours, attributes remain.

use ratatui_core::style::{Color, Modifier, Style};

/// With colours, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether colours may be used.
    pub colour: bool,
}

/// How bad a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Far from its limit.
    Calm,
    /// Near.
    Near,
    /// At it.
    Full,
}

impl Level {
    /// Of a share of the limit.
    pub fn of(share: f64) -> Level {
        match share {
            share if share >= 0.95 => Level::Full,
            share if share >= 0.85 => Level::Near,
            _ => Level::Calm,
        }
    }

    /// The same without colour.
    pub fn sign(self) -> &'static str {
        match self {
            Level::Calm => "",
            Level::Near => "!",
            Level::Full => "!!",
        }
    }
}

impl Look {
    fn fg(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// The title.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// What a figure or a plot is called.
    pub fn name(self) -> Style {
        Style::new().fg(Color::Reset).add_modifier(Modifier::BOLD)
    }

    /// A figure itself.
    pub fn figure(self, level: Level) -> Style {
        if level == Level::Calm { Style::new() } else { self.level(level) }
    }

    /// What only helps to read the rest.
    pub fn faint(self) -> Style {
        self.fg(Color::DarkGray).add_modifier(if self.colour { Modifier::empty() } else { Modifier::DIM })
    }

    /// What is filled.
    pub fn level(self, level: Level) -> Style {
        match level {
            Level::Calm => self.fg(Color::Cyan),
            Level::Near => self.fg(Color::Yellow),
            Level::Full => self.fg(Color::LightRed).add_modifier(Modifier::BOLD),
        }
    }

    /// What is foreseen, and what was found.
    pub fn news(self) -> Style {
        self.fg(Color::Yellow).add_modifier(Modifier::BOLD)
    }
}
