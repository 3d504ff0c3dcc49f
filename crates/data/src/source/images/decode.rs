//! One picture, from its file to bytes of the wanted size.
//!
//! In: a path. Out: `height × width × channels` bytes, or why the picture cannot be read. Memory is kept from picture to picture and
//! never grows beyond what [`decoder_bytes`] says: larger pictures are refused before they are decoded.
//! Pictures are turned as their EXIF says (`upright`). Transparency is left away; grey is `0.299 R + 0.587 G + 0.114 B`; sizes change
//! as in Pillow (`BILINEAR`, which takes all pixels into account).

use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::size::{Packing, Size, size_of};
use super::upright::Turn;
use crate::source::npy::files;

/// What all pictures become, and what they may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    /// Whether other sizes are changed to this one; otherwise they are refused.
    pub(super) resize: bool,
    /// The most pixels of a picture.
    pub(super) most_pixels: u64,
    /// The most bytes of a file.
    pub(super) most_file_bytes: u64,
}

impl Target {
    pub(super) fn bytes(&self) -> usize {
        self.width * self.height * self.channels
    }
}

/// What a decoder holds at most: the file, the picture as it was (four bytes a pixel for PNG), the coefficients of a progressive JPEG
/// (two bytes for each of three colours, with a margin for sizes that are no multiple of 16; in their place, once they are decoded, the
/// picture that is turned), the picture between the two directions of resizing, the picture as it becomes.
pub(super) fn decoder_bytes(target: &Target) -> u64 {
    let picture = target.most_pixels.saturating_mul(4 + 6 + 2);
    let between = if target.resize { target.most_pixels.saturating_mul(3) } else { 0 };
    let rest = (target.bytes() as u64).saturating_mul(2).saturating_add(1 << 20);
    target.most_file_bytes.saturating_add(picture).saturating_add(between).saturating_add(rest)
}

/// One thread's decoder.
pub(super) struct Decoder {
    target: Target,
    file: Vec<u8>,
    picture: Vec<u8>,
    coloured: Vec<u8>,
    resizer: Resizer,
}

impl Decoder {
    pub(super) fn new(target: Target) -> Decoder {
        let (file, picture, coloured) = (Vec::new(), Vec::new(), Vec::new());
        Decoder { target, file, picture, coloured, resizer: Resizer::new() }
    }

    /// Reads a picture into exactly the bytes of the target.
    pub(super) fn read(&mut self, path: &Path, into: &mut [u8]) -> Result<(), String> {
        let target = self.target;
        let (file, found) = files::open(path).map_err(|error| error.to_string())?;
        let size = size_of(&file, found.len())?;
        let (width, height) = size.upright();
        let same = (width, height) == (target.width, target.height);
        if !same && !target.resize {
            return Err(format!(
                "it has {width} × {height} pixels, but the first picture has {} × {}: give a size for all (image_size)",
                target.width, target.height
            ));
        }
        if size.pixels() > target.most_pixels || found.len() > target.most_file_bytes {
            return Err(format!(
                "it has {width} × {height} pixels in {} bytes, more than the pictures that were looked at when the folder was \
                 opened ({} pixels, {} bytes)",
                found.len(),
                target.most_pixels,
                target.most_file_bytes
            ));
        }
        sized(&mut self.file, found.len() as usize);
        file.read_exact_at(&mut self.file, 0).map_err(|error| error.to_string())?;
        match size.packing {
            Packing::Jpeg => self.jpeg(size)?,
            Packing::Png => self.png(size)?,
        }
        if size.turn != Turn::NONE {
            sized(&mut self.coloured, self.picture.len());
            size.turn.turn(&self.picture, size.width, size.height, target.channels, &mut self.coloured);
            std::mem::swap(&mut self.picture, &mut self.coloured);
        }
        if same {
            into.copy_from_slice(&self.picture);
            return Ok(());
        }
        let size = (width, height);
        if target.channels == 1 { self.resize::<U8>(size, into) } else { self.resize::<U8x3>(size, into) }
    }

    /// Of the kinds of pixels that there are, only those that a picture here may have are compiled.
    fn resize<P: PixelTrait>(&mut self, (width, height): (usize, usize), into: &mut [u8]) -> Result<(), String> {
        let from = TypedImageRef::<P>::from_buffer(width as u32, height as u32, &self.picture);
        let to = TypedImage::<P>::from_buffer(self.target.width as u32, self.target.height as u32, into);
        let (from, mut to) = (from.map_err(|error| error.to_string())?, to.map_err(|error| error.to_string())?);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
        self.resizer.resize_typed(&from, &mut to, &options).map_err(|error| error.to_string())
    }

    fn jpeg(&mut self, size: Size) -> Result<(), String> {
        let grey = self.target.channels == 1;
        // What has no brightness of its own is decoded to colours first.
        let has = if grey { jpeg_decoder(&self.file, size, ColorSpace::Luma)?.input_colorspace() } else { None };
        if matches!(has, Some(ColorSpace::YCbCr | ColorSpace::Luma)) {
            sized(&mut self.picture, size.width * size.height);
            return decode_jpeg(&self.file, size, ColorSpace::Luma, &mut self.picture);
        }
        let colours = if grey { &mut self.coloured } else { &mut self.picture };
        sized(colours, size.width * size.height * 3);
        decode_jpeg(&self.file, size, ColorSpace::RGB, colours)?;
        if grey {
            sized(&mut self.picture, size.width * size.height);
            recolour(&self.coloured, 3, &mut self.picture, 1);
        }
        Ok(())
    }

    fn png(&mut self, size: Size) -> Result<(), String> {
        let damaged = |error: png::DecodingError| format!("the PNG cannot be decoded: {error}");
        let limits = png::Limits { bytes: self.target.most_pixels as usize * 4 + (512 << 10) };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(&self.file[..]), limits);
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let mut reader = decoder.read_info().map_err(damaged)?;
        let bytes = reader.output_buffer_size().ok_or("the PNG is too large")?;
        let pixels = size.width * size.height;
        if bytes > pixels * 4 {
            return Err("the PNG contradicts itself about its size".to_owned());
        }
        sized(&mut self.coloured, bytes);
        let frame = reader.next_frame(&mut self.coloured).map_err(damaged)?;
        let samples = frame.color_type.samples();
        let from = &self.coloured[..frame.buffer_size()];
        if (frame.width as usize, frame.height as usize) != (size.width, size.height) || from.len() != pixels * samples
        {
            return Err("the PNG contradicts itself about its size".to_owned());
        }
        sized(&mut self.picture, pixels * self.target.channels);
        recolour(from, samples, &mut self.picture, self.target.channels);
        Ok(())
    }
}

/// Makes memory exactly so large. Where it has to grow, what it was is given back before, and it takes no more than is needed: memory
/// that grows by itself takes up to twice as much.
fn sized(memory: &mut Vec<u8>, bytes: usize) {
    if memory.capacity() < bytes {
        *memory = Vec::new();
        memory.reserve_exact(bytes);
    }
    memory.resize(bytes, 0);
}

/// A decoder that has read the headers.
fn jpeg_decoder(file: &[u8], size: Size, colours: ColorSpace) -> Result<JpegDecoder<ZCursor<&[u8]>>, String> {
    let options = DecoderOptions::default()
        .set_max_width(size.width)
        .set_max_height(size.height)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(colours);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(|error| format!("the JPEG cannot be decoded: {error}"))?;
    Ok(decoder)
}

fn decode_jpeg(file: &[u8], size: Size, colours: ColorSpace, into: &mut [u8]) -> Result<(), String> {
    let mut decoder = jpeg_decoder(file, size, colours)?;
    if decoder.dimensions() != Some((size.width, size.height)) || decoder.output_buffer_size() != Some(into.len()) {
        return Err("the JPEG contradicts itself about its size".to_owned());
    }
    decoder.decode_into(into).map_err(|error| format!("the JPEG cannot be decoded: {error}"))
}

/// Pixels of 1 (grey), 2 (grey, alpha), 3 (colours) or 4 bytes as pixels of 1 or 3.
fn recolour(from: &[u8], samples: usize, into: &mut [u8], channels: usize) {
    let pairs = from.chunks_exact(samples).zip(into.chunks_exact_mut(channels));
    match (samples, channels) {
        (1 | 2, _) => pairs.for_each(|(from, into)| into.fill(from[0])),
        (_, 1) => pairs.for_each(|(from, into)| {
            let grey = |part: usize, weight: u32| u32::from(from[part]) * weight;
            into[0] = ((grey(0, 19595) + grey(1, 38470) + grey(2, 7471) + 0x8000) >> 16) as u8;
        }),
        _ => pairs.for_each(|(from, into)| into.copy_from_slice(&from[..3])),
    }
}
