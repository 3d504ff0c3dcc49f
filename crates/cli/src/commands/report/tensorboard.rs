//! A recorded job as an event file of TensorBoard: scalars over time and over steps.
//!
//! In: what was gathered. Out: TFRecords, each a length, its checksum, an `Event` message, its checksum. The few fields of `Event` that scalars need
//! are written by hand: `wall_time` (1, double), `step` (2, int64), `file_version` (3, string), `summary` (5) with values (1) of tag (1) and
//! simple_value (2, float). Steps of `train/` are training steps, those of the rest milliseconds since the job began. Long recordings are
//! thinned, extremes kept; TensorBoard itself draws a thousand points of each.

use std::io::{self, Write};

use brimful_monitor::recording::Frame;

use super::gather::Gathered;
use super::open::Recording;
use super::series::{Line, Plot};

/// Points in a file: some 5 MB.
const MOST_POINTS: usize = 100_000;

/// The name of the file in a folder: TensorBoard looks for its middle part.
pub fn file_name(recording: &Recording<'_>) -> String {
    let began = recording.find_map(|frame| match frame {
        Frame::Start(start) => Some(start.started_unix_ms / 1000),
        _ => None,
    });
    format!("events.out.tfevents.{}.brimful", began.unwrap_or(0))
}

/// Writes the events, in the order of time.
pub fn write(gathered: &Gathered, out: &mut dyn Write) -> io::Result<()> {
    let began_s = gathered.summary.started_unix_ms as f64 / 1000.0;
    let mut version = Vec::new();
    double(&mut version, 1, began_s);
    message(&mut version, 3, b"brain.Event:2");
    record(&version, out)?;
    let most = gathered.points_each(MOST_POINTS);
    let mut points: Vec<(u64, usize, f64)> = Vec::new();
    for (place, line) in gathered.lines.iter().enumerate() {
        points.extend(line.thin.points(most).into_iter().map(|(at_ms, value)| (at_ms, place, value)));
    }
    points.sort_by_key(|(at_ms, place, _)| (*at_ms, *place));
    let tags: Vec<String> = gathered.lines.iter().map(tag).collect();
    for (at_ms, place, value) in points {
        let of_training = matches!(gathered.lines[place].plot, Plot::Loss | Plot::StepRate | Plot::Waiting);
        let step = if of_training { step_at(&gathered.steps, at_ms) } else { at_ms };
        let mut scalar = Vec::new();
        message(&mut scalar, 1, tags[place].as_bytes());
        varint(&mut scalar, (2 << 3) | 5);
        scalar.extend((value as f32).to_le_bytes());
        let mut summary = Vec::new();
        message(&mut summary, 1, &scalar);
        let mut event = Vec::new();
        double(&mut event, 1, began_s + at_ms as f64 / 1000.0);
        varint(&mut event, 2 << 3);
        varint(&mut event, step & (u64::MAX >> 1));
        message(&mut event, 5, &summary);
        record(&event, out)?;
    }
    Ok(())
}

/// `memory/rss`, `gpu0/used`, `train/loss`.
fn tag(line: &Line) -> String {
    match line.plot {
        Plot::Loss | Plot::StepRate => format!("train/{}", line.id),
        Plot::Waiting => "train/waiting_percent".to_owned(),
        _ => format!("{}/{}", line.plot.id(), line.id),
    }
}

/// The step that had ended last at a moment.
fn step_at(steps: &[(u64, u64)], at_ms: u64) -> u64 {
    let behind = steps.partition_point(|(ended_ms, _)| *ended_ms <= at_ms);
    behind.checked_sub(1).map_or(0, |place| steps[place].1)
}

fn record(payload: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = (payload.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(crc32c(&length)).to_le_bytes())?;
    out.write_all(payload)?;
    out.write_all(&masked(crc32c(payload)).to_le_bytes())
}

/// So that the checksum of bytes that hold checksums is not weak.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit with a table: files are small.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |checksum: u32, byte| (checksum >> 8) ^ TABLE[usize::from(checksum as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn double(bytes: &mut Vec<u8>, field: u64, value: f64) {
    varint(bytes, (field << 3) | 1);
    bytes.extend(value.to_le_bytes());
}

/// A field of bytes: text, or another message.
fn message(bytes: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(bytes, (field << 3) | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4, and the usual check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn the_step_of_a_moment_is_the_last_that_ended() {
        let steps = [(100, 1), (200, 2), (900, 7)];
        assert_eq!([0, 100, 199, 5000].map(|at_ms| step_at(&steps, at_ms)), [0, 1, 1, 7]);
    }
}
