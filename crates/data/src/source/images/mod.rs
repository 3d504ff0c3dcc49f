//! Folders of pictures (JPEG, PNG).
//!
//! In: folders, or files. Out: a column `image` (`uint8`, `[height, width, channels]`) and, where pictures lie in folders by class, a
//! column `label`: the place of the folder's name among the sorted names. Pictures stand upright, as their EXIF says
//! (`notes` tell how many are turned). A picture that cannot be read is a bad row. Opening looks at the names and sizes of all files, and
//! at the first bytes of some thousand pictures: what a reader needs follows from these.

mod decode;
mod index;
mod size;
mod upright;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use brimful_core::bytes::human;

use self::decode::{Decoder, Target, decoder_bytes};
use self::index::Index;
use self::upright::Turn;
use super::npy::files;
use super::{Access, BadRow, BadRows, Format, OpenOptions, ReadReport, Reader, Source};
use crate::DataError;
use crate::layout::{Column, DType, Kind, Layout, Rows, convert};

/// Pictures.
pub const FORMAT: Format = Format { name: "images", extensions: &["jpg", "jpeg", "png"], open };

/// Pictures whose first bytes are looked at.
const LOOKED_AT: usize = 4096;
/// Where not all were looked at, pictures up to this size are decoded in any case.
const USUAL_PIXELS: u64 = 1 << 20;
/// Pictures in one unit; few, since those of one class lie together.
const UNIT_BYTES: u64 = 256 << 10;
/// With more units their order would itself take memory.
const MOST_UNITS: u64 = 1 << 16;
/// The larger side of a picture that is asked for.
const MOST_SIDE: usize = 1 << 14;

struct Pictures {
    index: Index,
    target: Target,
    columns: Vec<Column>,
    unit_rows: u64,
    /// The largest picture, for words.
    largest: String,
    /// How many were looked at, and how many of these are turned.
    looked_at: usize,
    turned: usize,
}

struct ImageSource(Arc<Pictures>);

fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let channels = options.image_channels.unwrap_or(3);
    if channels != 1 && channels != 3 {
        return Err(DataError::Request(format!("pictures have 1 or 3 channels, not {channels}")));
    }
    let sides = |(height, width): (usize, usize)| (1..=MOST_SIDE).contains(&height) && (1..=MOST_SIDE).contains(&width);
    if !options.image_size.is_none_or(sides) {
        return Err(DataError::Request(format!("the sides of a picture must be from 1 to {MOST_SIDE} pixels")));
    }
    let mut index = Index::new(paths, &options.stop)?;
    let sample = index.sample(LOOKED_AT);
    let all = sample.len() == index.len();
    let (looked_at, mut turned) = (sample.len(), 0);
    let (mut first, mut largest, mut wrong) = (None, None, None);
    let mut path = PathBuf::new();
    for file in sample {
        options.stop.check()?;
        index.path(file, &mut path);
        let size = files::open(&path).map_err(|error| error.to_string());
        match size.and_then(|(file, found)| size::size_of(&file, found.len())) {
            Ok(size) => {
                first.get_or_insert(size);
                turned += usize::from(size.turn != Turn::NONE);
                if largest.as_ref().is_none_or(|(most, _)| size.pixels() > *most) {
                    largest = Some((
                        size.pixels(),
                        format!("{} × {} in {}", size.upright().0, size.upright().1, path.display()),
                    ));
                }
            }
            Err(reason) => wrong = wrong.or(Some((path.clone(), reason))),
        }
    }
    let (Some(first), Some((mut most_pixels, largest))) = (first, largest) else {
        let (path, reason) = wrong.expect("there is a picture");
        return Err(DataError::corrupt(&path, "", format!("{reason}; no picture could be read")));
    };
    if !all {
        most_pixels = most_pixels.max(USUAL_PIXELS);
    }
    let (width, height) = first.upright();
    let (height, width) = options.image_size.unwrap_or((height, width));
    let resize = options.image_size.is_some();
    if !resize {
        most_pixels = first.pixels();
    }
    let most_file_bytes = index.largest_file_bytes;
    let target = Target { width, height, channels, resize, most_pixels, most_file_bytes };
    let shape = vec![height, width, channels];
    let mut columns = vec![Column { name: "image".to_owned(), kind: Kind::Number(DType::U8), shape }];
    if !index.classes.is_empty() {
        columns.push(Column { name: "label".to_owned(), kind: Kind::Number(DType::I64), shape: Vec::new() });
    }
    let unit_rows = (UNIT_BYTES / target.bytes() as u64).max(1).max((index.len() as u64).div_ceil(MOST_UNITS));
    Ok(Arc::new(ImageSource(Arc::new(Pictures { index, target, columns, unit_rows, largest, looked_at, turned }))))
}

impl Source for ImageSource {
    fn format(&self) -> &'static str {
        "images"
    }

    fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    fn notes(&self) -> Vec<String> {
        let Pictures { looked_at, turned, .. } = &*self.0;
        let note = || {
            let of = if *looked_at == self.0.index.len() { "" } else { " that were looked at" };
            format!("{turned} of the {looked_at} pictures{of} are turned upright, as their EXIF says")
        };
        (*turned > 0).then(note).into_iter().collect()
    }

    fn units(&self) -> usize {
        self.rows().div_ceil(self.0.unit_rows) as usize
    }

    fn unit_rows(&self, unit: usize) -> u64 {
        (self.rows() - unit as u64 * self.0.unit_rows).min(self.0.unit_rows)
    }

    fn rows(&self) -> u64 {
        self.0.index.len() as u64
    }

    fn access(&self) -> Access {
        Access::Rows
    }

    fn classes(&self) -> &[String] {
        &self.0.index.classes
    }

    fn file_bytes(&self) -> u64 {
        self.0.index.file_bytes
    }

    fn index_bytes(&self) -> u64 {
        self.0.index.bytes()
    }

    fn reader_bytes(&self, _: &Layout) -> (u64, String) {
        let why = format!(
            "decoding the largest picture ({}) from a file of at most {}",
            self.0.largest,
            human(self.0.target.most_file_bytes)
        );
        (decoder_bytes(&self.0.target), why)
    }

    fn fingerprint(&self) -> u64 {
        self.0.index.print.0
    }

    fn reader(&self, layout: &Arc<Layout>, bad_rows: BadRows) -> Result<Box<dyn Reader>, DataError> {
        let small = vec![0; self.0.target.bytes()];
        let decoder = Decoder::new(self.0.target);
        let (pictures, layout) = (self.0.clone(), layout.clone());
        Ok(Box::new(ImageReader { pictures, layout, bad_rows, decoder, small, path: PathBuf::new() }))
    }
}

struct ImageReader {
    pictures: Arc<Pictures>,
    layout: Arc<Layout>,
    bad_rows: BadRows,
    decoder: Decoder,
    small: Vec<u8>,
    path: PathBuf,
}

impl ImageReader {
    /// One picture to a place; whether it is there afterwards.
    fn put(
        &mut self,
        file: usize,
        to: usize,
        skip: bool,
        into: &mut Rows,
        report: &mut ReadReport,
    ) -> Result<bool, DataError> {
        let pictures = &self.pictures;
        let mut known = true;
        if self.layout.slots.iter().any(|slot| slot.column == 0) {
            pictures.index.path(file, &mut self.path);
            if let Err(reason) = self.decoder.read(&self.path, &mut self.small) {
                if self.bad_rows == BadRows::Fail {
                    return Err(DataError::corrupt(&self.path, "", reason));
                }
                report.add(BadRow { file: self.path.clone(), place: format!("row {file}"), reason });
                if skip {
                    return Ok(false);
                }
                known = false;
            }
        }
        for slot in &self.layout.slots {
            let field = &self.layout.fields[slot.field];
            let first = (to * field.elements() + slot.first) * field.dtype.bytes();
            let place = &mut into.field_mut(slot.field)[first..first + slot.elements * field.dtype.bytes()];
            match slot.column {
                0 if known => convert(&self.small, DType::U8, false, place, field.dtype),
                0 if field.dtype.is_float() => {
                    let width = field.dtype.bytes();
                    place.chunks_exact_mut(width).for_each(|number| {
                        convert(&f64::NAN.to_le_bytes(), DType::F64, false, number, field.dtype);
                    });
                }
                0 => place.fill(0),
                _ => {
                    let label = i64::from(pictures.index.class(file).unwrap_or(0));
                    convert(&label.to_le_bytes(), DType::I64, false, place, field.dtype);
                }
            }
        }
        Ok(true)
    }
}

impl Reader for ImageReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        let mut report = ReadReport::default();
        let first = unit as u64 * self.pictures.unit_rows;
        let mut to = 0;
        for row in rows {
            let skip = self.bad_rows == BadRows::Skip;
            to += usize::from(self.put((first + row) as usize, to, skip, into, &mut report)?);
        }
        into.set_len(to);
        Ok(report)
    }

    fn read_rows(&mut self, rows: &[(u64, u32)], into: &mut Rows) -> Result<ReadReport, DataError> {
        let mut report = ReadReport::default();
        for (row, to) in rows {
            self.put(*row as usize, *to as usize, false, into, &mut report)?;
        }
        into.set_len(rows.len());
        Ok(report)
    }
}
