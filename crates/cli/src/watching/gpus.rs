//! The machine's GPUs, for the time of a run.
//!
//! In: the time, the job's processes. Out: frames. The driver may take seconds to answer for the first time: a thread of its own waits for it, and until
//! then there is nothing to say.

use std::sync::mpsc::{Receiver, channel};
use std::thread;

use brimful_monitor::gpu::GpuReader;
use brimful_monitor::recording::Frame;

/// The reader, as soon as there is one.
pub struct Gpus {
    opening: Receiver<GpuReader>,
    reader: Option<GpuReader>,
}

impl Gpus {
    /// Asks the driver.
    pub fn open() -> Gpus {
        let (opened, opening) = channel();
        // Whoever asked may be gone by then.
        thread::spawn(move || drop(opened.send(GpuReader::open())));
        Gpus { opening, reader: None }
    }

    /// What is read of each.
    pub fn frames(&mut self, at_ms: u64, pids: impl FnOnce() -> Vec<u32>) -> Vec<Frame> {
        if self.reader.is_none() {
            self.reader = self.opening.try_recv().ok().filter(|reader| reader.reason().is_none());
        }
        let Some(reader) = &mut self.reader else { return Vec::new() };
        reader.sample(at_ms, &pids()).into_iter().map(Frame::Gpu).collect()
    }
}
