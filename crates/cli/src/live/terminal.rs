//! The screen on a real terminal.
//!
//! In: [`State`] and the job's output. Out: the alternate screen of the terminal that standard output is, in raw mode. The terminal is as it was when this
//! is dropped, when the program panics, and when [`restore`] is called from anywhere. Only what changed is written, ten times a second at
//! most, and twice while the job is silent. Not here: reading keys. A terminal that does not read makes `draw` wait: it has no business on the thread that samples.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect, Size};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::screen::Look;
use super::{State, ansi, screen};

/// Between two drawings at least, while the job writes; and while only figures change, which nobody reads faster.
const APART: Duration = Duration::from_millis(100);
const FIGURES_APART: Duration = Duration::from_millis(500);
/// Enters the alternate screen; leaves it, with all that was set while in it.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\x1b[?25h\x1b[?1049l";
/// Around each drawing: terminals that know it show nothing half drawn, others do not mind.
const BEGIN: &[u8] = b"\x1b[?2026h\x1b[?25l";
const FINISH: &[u8] = b"\x1b[?2026l";

/// How the terminal was before. There is one terminal, and panics come from anywhere.
static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Gives the terminal back as it was. Harmless if it has been.
pub fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((mut terminal, modes)) = before {
        // Nothing can be done where the terminal is gone.
        let _ = terminal.write_all(LEAVE);
        let _ = tcsetattr(&terminal, OptionalActions::Now, &modes);
    }
}

/// The screen, while it is shown.
#[derive(Debug)]
pub struct Screen {
    terminal: File,
    look: Look,
    shown: Buffer,
    modes: Vec<u8>,
    has_output: bool,
    next: Instant,
}

impl Screen {
    /// Takes over the terminal that standard output is; an error if it is none.
    pub fn open(colour: bool) -> io::Result<Screen> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "standard output is no terminal"));
        }
        let terminal = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let modes = tcgetattr(&terminal)?;
        let mut raw = modes.clone();
        raw.make_raw();
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                earlier(panic);
            }));
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((terminal.try_clone()?, modes));
        let shown = Buffer::empty(Rect::ZERO);
        let look = Look { colour };
        let mut screen = Screen { terminal, look, shown, modes: Vec::new(), has_output: false, next: Instant::now() };
        tcsetattr(&screen.terminal, OptionalActions::Now, &raw)?;
        screen.terminal.write_all(ENTER)?;
        Ok(screen)
    }

    /// The terminal's size now.
    pub fn size(&self) -> Size {
        let size = terminal_size::terminal_size_of(&self.terminal);
        size.map_or(Size::new(80, 24), |(columns, rows)| Size::new(columns.0, rows.0))
    }

    /// Draws, if it is time, and gives whether it did. `has_output`: the job has written since the last call. Meant to be called ten
    /// times a second.
    pub fn draw(&mut self, state: &State, job: &vt100::Screen, has_output: bool) -> io::Result<bool> {
        let now = Instant::now();
        let area = Rect::from((Position::ORIGIN, self.size()));
        self.has_output |= has_output || area != self.shown.area;
        let wait = if self.has_output { Duration::ZERO } else { FIGURES_APART - APART };
        if now < self.next + wait {
            return Ok(false);
        }
        self.has_output = false;
        // From when it was due, not from now: a caller that comes ten times a second is never just too early.
        self.next = now.max(self.next + APART);
        let mut bytes = BEGIN.to_vec();
        if self.shown.area != area {
            self.shown = Buffer::empty(area);
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
        }
        let mut cells = Buffer::empty(area);
        let cursor = screen::draw(state, job, self.look, &mut cells);
        ansi::write(&mut bytes, self.shown.diff(&cells).into_iter())?;
        if let Some(cursor) = cursor {
            ansi::move_to(&mut bytes, cursor)?;
            bytes.extend_from_slice(b"\x1b[?25h");
        }
        let modes = input_modes(job);
        if modes != self.modes {
            bytes.extend_from_slice(&modes);
            self.modes = modes;
        }
        bytes.extend_from_slice(FINISH);
        self.terminal.write_all(&bytes)?;
        self.shown = cells;
        Ok(true)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// How the job wants its keys. Not passed on: the mouse, whose places would be those of the whole screen.
fn input_modes(job: &vt100::Screen) -> Vec<u8> {
    let set = |is_set: bool| if is_set { 'h' } else { 'l' };
    let keypad = if job.application_keypad() { '=' } else { '>' };
    let (cursor, paste) = (set(job.application_cursor()), set(job.bracketed_paste()));
    format!("\x1b[?1{cursor}\x1b{keypad}\x1b[?2004{paste}").into_bytes()
}
