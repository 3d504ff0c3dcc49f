//! `brimful run` in a real terminal, as a person has it: the screen, its keys, and a shell around it.
#![cfg(target_os = "linux")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking;
use support::command;
use tempfile::TempDir;

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
/// A machine may be slow; what has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with something in it.
struct Terminal {
    keys: File,
    child: Child,
    /// What is to be seen, and all that was ever written.
    shown: Arc<Mutex<(vt100::Parser, String)>>,
    folder: TempDir,
}

impl Terminal {
    fn start(command: impl FnOnce(&TempDir) -> Command) -> Terminal {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = blocking::open().unwrap();
        ours.resize(Size::new(ROWS, COLUMNS)).unwrap();
        let mut command = heeds_keys(&command(&folder));
        command.env("TERM", "xterm-256color").env("BRIMFUL_PYTHON", "/nowhere/python");
        command.env("XDG_STATE_HOME", folder.path());
        let child = blocking::Command::from(command).spawn(theirs).unwrap();
        let keys = File::from(OwnedFd::from(ours));
        let (size, mut output) = ((ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap()), keys.try_clone().unwrap());
        let shown = Arc::new(Mutex::new((vt100::Parser::new(size.0, size.1, 0), String::new())));
        let writes = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece) {
                let mut shown = writes.lock().unwrap();
                shown.0.process(&piece[..count]);
                shown.1.push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        });
        Terminal { keys, child, shown, folder }
    }

    /// `brimful run OPTIONS -- sh -c SCRIPT`.
    fn run(options: &[&str], script: &str) -> Terminal {
        Terminal::start(|_| command(&[&["run"], options, &["--", "sh", "-c", script]].concat()))
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        self.shown.lock().unwrap().0.screen().contents()
    }

    fn written(&self) -> String {
        self.shown.lock().unwrap().1.clone()
    }

    fn waits(&self, what: &str, is_so: impl Fn(&Terminal) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what} does not come:\n{}", self.screen());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn waits_for(&self, text: &str) {
        self.waits(text, |terminal| terminal.screen().contains(text));
    }
}

/// The same, with Ctrl-C as a terminal's programs have it: a shell ignores it for what it starts in the background, these tests as well.
fn heeds_keys(command: &Command) -> Command {
    let mut heeding = Command::new("env");
    heeding.args(["--default-signal=INT,QUIT", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => heeding.env(name, value),
            None => heeding.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        heeding.current_dir(folder);
    }
    heeding
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_screen_is_there_while_the_job_runs_and_its_output_stays() {
    let mut terminal = Terminal::run(&[], "echo hello from the job; read answer; echo got $answer; exit 3");
    // What is used against what there is, and the job's own output below.
    terminal.waits("the screen", |terminal| {
        let screen = terminal.screen();
        // The job's words are in the title, too.
        let (memory, cpu, output) = (screen.find("memory"), screen.find("CPU"), screen.rfind("hello from the job"));
        memory.is_some() && memory < cpu && cpu < output
    });
    assert!(terminal.shown.lock().unwrap().0.screen().alternate_screen());
    // F9: away, with the output as it would be without us, and there again.
    terminal.press("\x1b[20~");
    terminal.waits("plain output", |terminal| !terminal.shown.lock().unwrap().0.screen().alternate_screen());
    terminal.waits_for("hello from the job");
    assert!(!terminal.screen().contains("CPU"), "{}", terminal.screen());
    terminal.press("\x1b[20~");
    terminal.waits("the screen", |terminal| terminal.shown.lock().unwrap().0.screen().alternate_screen());
    // Keys are the job's.
    terminal.press("yes\r");
    terminal.waits_for("the job ended with exit code 3");
    let screen = terminal.screen();
    assert!(screen.contains("hello from the job") && screen.contains("got yes"), "{screen}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(3));
}

#[test]
fn ctrl_c_ends_the_job_and_is_told() {
    let mut terminal =
        Terminal::run(&["--plain"], "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done");
    terminal.waits_for("ready");
    terminal.press("\x03");
    terminal.waits_for("exit code 5");
    assert_eq!(terminal.written().matches("caught").count(), 1, "{}", terminal.written());
}

/// A shell with a prompt, as a person has it.
fn shell() -> Option<Terminal> {
    let has_bash = Command::new("bash").args(["-c", "exit 0"]).status().is_ok_and(|status| status.success());
    has_bash.then(|| {
        Terminal::start(|folder| {
            let mut shell = Command::new("bash");
            shell.args(["--norc", "--noprofile", "-i"]).current_dir(folder.path()).env("PS1", "prompt> ");
            shell.env("BRIMFUL", env!("CARGO_BIN_EXE_brimful"));
            shell
        })
    })
}

const COUNTS: &str = "n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n > n; sleep 0.05; done; echo it is over";

impl Terminal {
    /// How far the job has counted.
    fn count(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.path().join("n")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn goes_on(&self) {
        let then = self.count();
        self.waits("the job", |terminal| terminal.count() > then + 3);
    }

    /// The job counts no more.
    fn stands_still(&self) {
        // On a busy machine what was written before comes late.
        self.waits("it stands still", |terminal| {
            let then = terminal.count();
            thread::sleep(Duration::from_millis(500));
            terminal.count() == then
        });
    }
}

/// Ctrl-Z before our terminal leaves it to the job's would stop us alone, and the job would run on.
#[test]
fn keys_are_the_jobs_from_its_first_moment() {
    let Some(mut terminal) = shell() else { return };
    terminal.waits_for("prompt>");
    terminal.press("export OUTER=$(tty)\r");
    for run in 1..=10 {
        terminal.press("$BRIMFUL run --plain -- sh -c 'stty -a < $OUTER > modes'\r");
        terminal.waits("its end", |terminal| terminal.written().matches("recorded in").count() == run);
        let modes = std::fs::read_to_string(terminal.folder.path().join("modes")).unwrap();
        assert!(modes.contains("-isig") && modes.contains("-echo "), "{modes}");
    }
}

#[test]
fn ctrl_z_stops_the_job_and_the_shell_lets_it_go_on() {
    for options in ["", "--plain"] {
        let Some(mut terminal) = shell() else { return };
        terminal.waits_for("prompt>");
        terminal.press(&format!("$BRIMFUL run {options} -- sh -c '{COUNTS}'\r"));
        terminal.goes_on();
        terminal.press("\x1a");
        terminal.waits_for("Stopped");
        assert!(!terminal.shown.lock().unwrap().0.screen().alternate_screen());
        terminal.stands_still();
        // The shell has the terminal as it was: what is typed is seen, and Ctrl-C is a signal.
        terminal.press("echo still $((40 + 2))\r");
        terminal.waits_for("still 42");
        terminal.press("fg\r");
        terminal.goes_on();
        // Again, and on in the background.
        terminal.press("\x1a");
        terminal.waits("it stops again", |terminal| terminal.written().matches("Stopped").count() >= 2);
        terminal.stands_still();
        terminal.press("bg\r");
        terminal.goes_on();
        terminal.press("echo and $((50 + 3))\r");
        terminal.waits_for("and 53");
        terminal.press("fg\r");
        terminal.goes_on();
        std::fs::write(terminal.folder.path().join("stop"), "").unwrap();
        terminal.waits_for("it is over");
        terminal.waits_for("recorded in");
        terminal.press("echo code $?\r");
        terminal.waits_for("code 0");
    }
}

#[test]
fn a_job_in_the_background_ends_by_itself() {
    let Some(mut terminal) = shell() else { return };
    terminal.waits_for("prompt>");
    terminal.press(&format!("$BRIMFUL run --plain -- sh -c '{COUNTS}'\r"));
    terminal.goes_on();
    terminal.press("\x1a");
    terminal.waits_for("Stopped");
    terminal.press("bg\r");
    terminal.goes_on();
    std::fs::write(terminal.folder.path().join("stop"), "").unwrap();
    terminal.waits_for("recorded in");
    terminal.press("wait; echo code $?\r");
    terminal.waits_for("code 0");
    assert_eq!(terminal.written().matches("Stopped").count(), 1, "{}", terminal.written());
}
