//! A recording: what a job did, in a file that survives the job and brimful itself.
//!
//! In: [`Frame`]s, one after the other. Out: bytes that are only ever added to, and read back up to the first byte that is torn or
//! damaged. Layout, version 1: the header `BRIMFUL-RUN\n` and the version (two bytes, little end first); then frames, each
//!
//! ```text
//! kind (1 byte) | length (varint) | payload | CRC-32 (4 bytes, little end first)
//! ```
//!
//! The checksum is over kind, length and payload, and goes on from that of the frame before: a frame that was lost or moved is noticed.
//! Samples and step marks hold differences from the ones before, as varints; the rest is JSON or text. Kinds and figures that are not
//! known are skipped, so that an older brimful reads a newer file. Not kept: secrets (see `secrets`), the job's whole output.

pub mod frame;
pub mod secrets;
mod varint;
mod row;
mod payload;
pub mod writer;
pub mod reader;

pub use frame::{End, Finding, Frame, FrameworkMemory, Holder, Holders, Line, Start, StepMark};
pub use reader::{Good, Reader};
pub use writer::Writer;

/// How a recording begins.
pub const MAGIC: &[u8; 12] = b"BRIMFUL-RUN\n";
/// The version that is written, and the latest that is read.
const VERSION: u16 = 1;
/// No frame that is written has more: longer text is cut.
const MOST_PAYLOAD_BYTES: usize = 1 << 20;
