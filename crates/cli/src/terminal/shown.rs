//! What a person sees on the terminal: the job's output as it is, or the live screen with the output below.
//!
//! In: the job's output, the state of the run, F9. Out: bytes on the terminal, drawn by a thread of its own: a terminal that does not read holds up the
//! output, as it always does, but not the watching. When the screen goes, what the job printed meanwhile is printed again, so that it stays in the
//! terminal's memory: the last of it, where it was very much.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ratatui_core::layout::Size;
use rustix::termios::Winsize;

use super::current_size;
use crate::live::{Screen, State, panel_size};

/// Output that is kept for after the screen.
const KEPT_BYTES: usize = 4 << 20;
/// Lines of the job's output that are kept above its part of the screen.
const LINES_ABOVE: usize = 200;
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);

/// The terminal, for whoever writes to it.
#[derive(Clone)]
pub struct Shown(Arc<Shared>);

struct Shared {
    view: Mutex<View>,
    is_over: AtomicBool,
    wants_screen: AtomicBool,
    colour: bool,
}

struct View {
    screen: Option<Screen>,
    job: vt100::Parser,
    state: State,
    kept: VecDeque<u8>,
    /// The job has written since it was last drawn.
    has_output: bool,
}

/// The thread that draws, until it is dropped.
pub struct Drawing {
    shown: Shown,
    thread: Option<JoinHandle<()>>,
}

impl Shown {
    /// Plain output, until somebody draws.
    pub fn new(wants_screen: bool, colour: bool) -> Shown {
        // With lines above it, so that a window that grows has something to show there.
        let job =
            vt100::Parser::new(NonZeroU16::MIN.saturating_add(23), NonZeroU16::MIN.saturating_add(79), LINES_ABOVE);
        let view = View { screen: None, job, state: State::default(), kept: VecDeque::new(), has_output: false };
        let view = Mutex::new(view);
        Shown(Arc::new(Shared { view, is_over: AtomicBool::new(false), wants_screen: wants_screen.into(), colour }))
    }

    /// Begins to draw; `note` stands where the output will be.
    pub fn draw(&self, note: &str) -> Drawing {
        self.view().job.process(note.as_bytes());
        let shown = self.clone();
        let thread = thread::spawn(move || {
            while !shown.0.is_over.load(Ordering::Relaxed) {
                shown.update();
                thread::sleep(INTERVAL);
            }
        });
        Drawing { shown: self.clone(), thread: Some(thread) }
    }

    /// From the screen to plain output, or back.
    pub fn toggle(&self) {
        self.0.wants_screen.fetch_xor(true, Ordering::Relaxed);
    }

    /// From the screen to plain output, now; gives whether there was one.
    pub fn leave(&self) -> bool {
        let had_screen = self.0.wants_screen.swap(false, Ordering::Relaxed);
        self.view().close();
        had_screen
    }

    /// Whether a screen is there, or will be in a moment.
    pub fn is_screen(&self) -> bool {
        self.0.wants_screen.load(Ordering::Relaxed)
    }

    /// Takes what is to be shown, if anybody looks.
    pub fn set_state(&self, state: &State) {
        // Not waited for: the thread that watches never hangs on a terminal.
        if self.is_screen()
            && let Ok(mut view) = self.0.view.try_lock()
        {
            view.state = state.clone();
        }
    }

    /// The size of the job's own terminal: ours, or that of its part of the screen.
    pub fn job_size(&self) -> Option<Winsize> {
        let whole = current_size()?;
        if !self.is_screen() {
            return Some(whole);
        }
        let (rows, columns) = panel_size(Size::new(whole.ws_col, whole.ws_row));
        Some(Winsize { ws_row: rows.get(), ws_col: columns.get(), ws_xpixel: 0, ws_ypixel: 0 })
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.0.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self) {
        let view = &mut *self.view();
        if !self.is_screen() {
            view.close();
            return;
        }
        if view.screen.is_none() {
            view.screen = Screen::open(self.0.colour).ok();
        }
        if let Some((rows, columns)) =
            self.job_size().and_then(|size| Some((size.ws_row.try_into().ok()?, size.ws_col.try_into().ok()?)))
        {
            view.job.screen_mut().set_size(rows, columns);
        }
        let has_output = std::mem::take(&mut view.has_output);
        let drawn = view.screen.as_mut().map(|screen| screen.draw(&view.state, view.job.screen(), has_output));
        if !matches!(drawn, Some(Ok(_))) {
            // No terminal that can be drawn on: from here on it is plain.
            self.0.wants_screen.store(false, Ordering::Relaxed);
            view.close();
        }
    }
}

impl View {
    /// Leaves the screen and prints what came meanwhile.
    fn close(&mut self) {
        drop(self.screen.take());
        if self.kept.is_empty() {
            return;
        }
        let kept: Vec<u8> = std::mem::take(&mut self.kept).into();
        let cut = if kept.len() < KEPT_BYTES {
            0
        } else {
            kept.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1)
        };
        let _ = io::stdout().write_all(&kept[cut..]).and_then(|()| io::stdout().flush());
    }
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut view = self.view();
        view.job.process(bytes);
        view.has_output = true;
        if !self.is_screen() && view.screen.is_none() {
            drop(view);
            io::stdout().write_all(bytes)?;
            return Ok(bytes.len());
        }
        view.kept.extend(bytes);
        let over = view.kept.len().saturating_sub(KEPT_BYTES);
        view.kept.drain(..over);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.shown.0.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shown.0.wants_screen.store(false, Ordering::Relaxed);
        self.shown.view().close();
    }
}
