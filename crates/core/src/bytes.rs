//! Byte quantities: sizes that depend on the batch, and sizes as people write and read them.
//!
//! In: numbers or text such as `15GiB`. Out: [`Size`], bytes, text. Nothing here knows what the bytes are for.

use std::fmt;

/// One binary kilobyte.
pub const KIB: u64 = 1 << 10;
/// One binary megabyte.
pub const MIB: u64 = 1 << 20;
/// One binary gigabyte.
pub const GIB: u64 = 1 << 30;

/// A number of bytes as a function of the batch: `fixed + per_sample × batch`.
///
/// Everything in a trace has this form, so that another batch size is a substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes that do not depend on the batch.
    pub fixed: u64,
    /// Bytes for each sample of the batch.
    pub per_sample: u64,
}

impl Size {
    /// No bytes at all.
    pub const ZERO: Size = Size::fixed(0);

    /// A size that does not depend on the batch.
    pub const fn fixed(bytes: u64) -> Size {
        Size { fixed: bytes, per_sample: 0 }
    }

    /// A size proportional to the batch.
    pub const fn per_sample(bytes: u64) -> Size {
        Size { fixed: 0, per_sample: bytes }
    }

    /// The bytes at one batch size. Saturates: an absurd shape gives an absurd size, never a wrapped one.
    pub fn at(self, batch: u64) -> u64 {
        self.fixed.saturating_add(self.per_sample.saturating_mul(batch))
    }
}

/// One binary terabyte.
pub const TIB: u64 = 1 << 40;

/// Bytes as a person reads them: `1.25 GiB`, `312 MiB`, `4 KiB`, `17 B`.
pub fn human(bytes: u64) -> String {
    let (unit, name) = match bytes {
        b if b >= TIB => (TIB, "TiB"),
        b if b >= GIB => (GIB, "GiB"),
        b if b >= MIB => (MIB, "MiB"),
        b if b >= KIB => (KIB, "KiB"),
        _ => return format!("{bytes} B"),
    };
    let value = bytes as f64 / unit as f64;
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {name}")
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASize(String);

impl fmt::Display for NotASize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a size: write a number and a unit, such as 15GiB, 512MiB or 8GB", self.0)
    }
}

impl std::error::Error for NotASize {}

/// Reads `15GiB`, `15 GB`, `512MiB`, `1.5g`, `1024`. Units with an `i`, and bare letters as in `15G`, are binary.
pub fn parse(text: &str) -> Result<u64, NotASize> {
    let error = || NotASize(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.parse().map_err(|_| error())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => KIB as f64,
        "m" | "mib" => MIB as f64,
        "g" | "gib" => GIB as f64,
        "t" | "tib" => TIB as f64,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(error()),
    };
    let bytes = number * factor;
    if bytes.is_finite() && bytes < 1e18 { Ok(bytes as u64) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back() {
        assert_eq!(parse("15GiB").unwrap(), 15 * GIB);
        assert_eq!(parse(" 1.5 g ").unwrap(), 3 * GIB / 2);
        assert_eq!(parse("8GB").unwrap(), 8_000_000_000);
        assert_eq!(parse("1024").unwrap(), 1024);
        for wrong in ["", "GiB", "15 apples", "-3GiB", "1e3", "9999999999TiB", "."] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn human_sizes_have_three_digits() {
        assert_eq!(human(17), "17 B");
        assert_eq!(human(4 * KIB), "4.00 KiB");
        assert_eq!(human(1340 * MIB), "1.31 GiB");
        assert_eq!(human(312 * MIB), "312 MiB");
    }

    #[test]
    fn an_absurd_size_saturates() {
        let size = Size { fixed: 10, per_sample: 3 };
        assert_eq!((size.at(0), size.at(2), size.at(400)), (10, 16, 1210));
        assert_eq!(Size::per_sample(u64::MAX).at(3), u64::MAX);
    }
}
