//! The agents' socket, with real datagrams.
//!
//! In: datagrams from sockets of this test, and from Python if there is one. Checked: what comes out, that other users may not enter, that nothing is
//! left behind, and that a flood is read in bounded bites.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use brimful_monitor::agent::{Listener, Message, Phase, Ranks, Said, monotonic_ns};
use brimful_monitor::error::MonitorError;
use brimful_monitor::recording::Frame;

fn drained(listener: &Listener, began_ns: u64) -> Vec<Message> {
    let mut messages = Vec::new();
    listener.drain(began_ns, |message| messages.push(message));
    messages
}

#[test]
fn messages_come_through_a_private_folder_that_goes_away() {
    let listener = Listener::open().unwrap();
    let (path, folder) = (listener.path().to_path_buf(), listener.path().parent().unwrap().to_path_buf());
    assert!(path.as_os_str().len() < 108, "{}", path.display());
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let began_ns = monotonic_ns() - 5_000_000;
    assert_eq!(drained(&listener, began_ns), []);
    let agent = UnixDatagram::unbound().unwrap();
    let ns = began_ns + 2_000_000;
    for text in [
        "garbage".to_owned(),
        String::new(),
        "x".repeat(4097),
        format!(r#"{{"v":1,"pid":5,"ns":{ns},"kind":"step","step":1,"x":"{}"}}"#, "y".repeat(4096)),
        format!(r#"{{"v":1,"pid":5,"ns":{ns},"kind":"phase","name":"train","begins":true}}"#),
    ] {
        agent.send_to(text.as_bytes(), &path).unwrap();
    }
    let said = Said::Phase { phase: Phase::Train, begins: true };
    assert_eq!(drained(&listener, began_ns), [Message { pid: 5, at_ms: 2, said }]);
    drop(listener);
    assert!(!path.exists() && !folder.exists());
}

#[test]
fn two_runs_do_not_meet_and_a_taken_path_is_an_error() {
    let (one, two) = (Listener::open().unwrap(), Listener::open().unwrap());
    assert_ne!(one.path(), two.path());
    assert!(matches!(Listener::at(one.path()), Err(MonitorError::Socket { .. })));
    let long = Path::new("/tmp").join("x".repeat(200));
    let error = Listener::at(&long).unwrap_err().to_string();
    assert!(error.starts_with("steps and framework figures will be missing"), "{error}");
}

#[test]
fn a_flood_never_blocks_its_sender_and_is_given_out_in_bites() {
    let listener = Listener::open().unwrap();
    let agent = UnixDatagram::unbound().unwrap();
    agent.set_nonblocking(true).unwrap();
    agent.connect(listener.path()).unwrap();
    let mut sent = 0;
    for step in 1..=200_000 {
        let text = format!(r#"{{"v":1,"pid":5,"ns":0,"kind":"step","step":{step}}}"#);
        sent += usize::from(agent.send(text.as_bytes()).is_ok());
    }
    // What waits is bounded, by the kernel and by us.
    assert!(sent > 0 && sent < 200_000, "{sent}");
    let mut most = 0;
    let (mut ranks, mut steps) = (Ranks::default(), 0);
    for _ in 0..60 {
        let mut messages = Vec::new();
        listener.drain(0, |message| messages.push(message));
        most = most.max(messages.len());
        steps += messages.iter().filter(|message| matches!(ranks.take(message), Some(Frame::Step(_)))).count();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(most <= 1024 && steps > 0 && steps <= sent, "{most} {steps} {sent}");
}

#[test]
fn a_burst_of_many_ranks_is_not_lost_between_two_looks() {
    let listener = Listener::open().unwrap();
    // Twenty processes, each a step every 20 ms, for 200 ms: 200 messages without a look.
    for step in 1..=10 {
        for pid in 1..=20 {
            let agent = UnixDatagram::unbound().unwrap();
            let text = format!(r#"{{"v":1,"pid":{pid},"ns":0,"kind":"step","step":{step}}}"#);
            agent.send_to(text.as_bytes(), listener.path()).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(drained(&listener, 0).len(), 200);
}

#[test]
fn python_speaks_and_its_clock_is_ours() {
    let listener = Listener::open().unwrap();
    let began_ns = monotonic_ns();
    let code = "import json, os, socket, sys, time\n\
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
        m = {'v': 1, 'pid': os.getpid(), 'ns': time.monotonic_ns(), 'kind': 'step', 'step': 1, 'loss': float('nan')}\n\
        s.sendto(json.dumps(m).encode(), sys.argv[1])\n";
    let Ok(child) = Command::new("python3").args(["-c", code]).arg(listener.path()).spawn() else {
        // No Python here: the other tests remain.
        return;
    };
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    let elapsed_ms = (monotonic_ns() - began_ns) / 1_000_000;
    let messages = drained(&listener, began_ns);
    assert!(matches!(messages[..], [Message { pid: p, at_ms, .. }] if p == pid && at_ms <= elapsed_ms), "{messages:?}");
    assert!(matches!(messages[0].said, Said::Step { step: 1, loss: Some(loss), .. } if loss.is_nan()));
}

#[test]
fn what_a_killed_run_left_is_removed_and_what_another_uses_stays() {
    let folder = std::env::temp_dir().join(format!("brimful-{:016x}", u64::from(std::process::id()) << 20));
    std::fs::create_dir(&folder).unwrap();
    // Closed, but its file stays, as after a kill.
    drop(std::os::unix::net::UnixDatagram::bind(folder.join("agent")).unwrap());
    let other = Listener::open().unwrap();
    assert!(!folder.exists());
    let third = Listener::open().unwrap();
    assert!(other.path().exists() && third.path().exists());
}
