//! What a Zarr array says about itself (`.zarray` of version 2, `zarr.json` of version 3).
//!
//! In: JSON. Out: [`Meta`], or a sentence that names what is not read. Only arrays of numbers, by rows, in regular chunks.

use serde_json::Value;

use super::codec::Codec;
use crate::layout::{DType, convert};
use crate::source::npy::header::dtype as numpy_dtype;

/// An array.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) shape: Vec<u64>,
    /// The shape of what is unpacked at once.
    pub(super) chunk: Vec<u64>,
    pub(super) dtype: DType,
    pub(super) swapped: bool,
    /// One number, as it would be in memory: what chunks that are not there hold.
    pub(super) fill: [u8; 8],
    pub(super) codecs: Vec<Codec>,
    /// Between the numbers of a chunk in its name.
    pub(super) separator: char,
    /// Before them.
    pub(super) prefix: &'static str,
    /// Chunks that share a file, along each axis; none where each has its own.
    pub(super) shard: Option<Shard>,
}

/// How chunks lie in a file together.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) chunks: Vec<u64>,
    pub(super) index_at_end: bool,
    pub(super) index_checksum: bool,
}

/// The most axes that NumPy knows.
const MOST_AXES: usize = 64;

/// Version 2.
pub(super) fn version_2(json: &Value) -> Result<Meta, String> {
    if json["zarr_format"] != 2 {
        return Err(format!("its zarr_format is {}, not 2", json["zarr_format"]));
    }
    let Some(kind) = json["dtype"].as_str() else {
        return Err("records (a dtype with fields) are not read: write each field as an array of its own".to_owned());
    };
    let (dtype, swapped) = numpy_dtype(kind)?;
    if json["order"] != "C" {
        return Err("it is stored by columns (order F), which is not read: write it again with order='C'".to_owned());
    }
    if json["filters"].as_array().is_some_and(|filters| !filters.is_empty()) {
        return Err(rewrite(&format!("the filter '{}'", json["filters"][0]["id"].as_str().unwrap_or("?"))));
    }
    let codecs = match &json["compressor"] {
        Value::Null => Vec::new(),
        compressor => vec![codec(compressor["id"].as_str().unwrap_or("?"))?],
    };
    let separator = match json["dimension_separator"].as_str() {
        None | Some(".") => '.',
        Some("/") => '/',
        Some(other) => return Err(format!("the dimension_separator '{other}' is not known")),
    };
    let (shape, chunk) = (sizes(&json["shape"], "shape")?, sizes(&json["chunks"], "chunks")?);
    let fill = fill(&json["fill_value"], dtype)?;
    check(Meta { shape, chunk, dtype, swapped, fill, codecs, separator, prefix: "", shard: None })
}

/// Version 3.
pub(super) fn version_3(json: &Value) -> Result<Meta, String> {
    if json["zarr_format"] != 3 {
        return Err(format!("its zarr_format is {}, not 3", json["zarr_format"]));
    }
    let kind = json["data_type"].as_str().ok_or("its data_type is not a number's")?;
    let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == kind);
    let dtype = dtype.ok_or_else(|| format!("the data_type '{kind}' is not read: only plain numbers are"))?;
    if json["chunk_grid"]["name"] != "regular" {
        return Err(format!("the chunk grid {} is not read: only a regular one is", json["chunk_grid"]["name"]));
    }
    if json["storage_transformers"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err("storage transformers are not read".to_owned());
    }
    let keys = &json["chunk_key_encoding"];
    let (prefix, usual) = match keys["name"].as_str() {
        Some("default") => ("c", '/'),
        Some("v2") => ("", '.'),
        other => return Err(format!("the chunk_key_encoding {other:?} is not known")),
    };
    let separator = match keys["configuration"]["separator"].as_str() {
        None => usual,
        Some(".") => '.',
        Some("/") => '/',
        Some(other) => return Err(format!("the separator '{other}' is not known")),
    };
    let shape = sizes(&json["shape"], "shape")?;
    let mut chunk = sizes(&json["chunk_grid"]["configuration"]["chunk_shape"], "chunk_shape")?;
    let fill = fill(&json["fill_value"], dtype)?;
    let (mut swapped, codecs, sharding) = chain(&json["codecs"])?;
    let (mut codecs, mut shard) = (codecs, None);
    if let Some(sharding) = sharding {
        if !codecs.is_empty() {
            return Err("shards that are compressed as a whole are not read".to_owned());
        }
        let inner = sizes(&sharding["chunk_shape"], "chunk_shape of the shards")?;
        let fits = inner.len() == chunk.len() && inner.iter().zip(&chunk).all(|(one, all)| *one > 0 && all % one == 0);
        if !fits {
            return Err(format!("chunks of {inner:?} do not fit into shards of {chunk:?}"));
        }
        let (index_swapped, index_codecs, none) = chain(&sharding["index_codecs"])?;
        if index_swapped
            || none.is_some()
            || index_codecs.iter().any(|codec| *codec != Codec::Crc32c)
            || index_codecs.len() > 1
        {
            return Err("the index of its shards is packed in a way that is not read".to_owned());
        }
        let deeper;
        (swapped, codecs, deeper) = chain(&sharding["codecs"])?;
        if deeper.is_some() {
            return Err("shards within shards are not read".to_owned());
        }
        let chunks = chunk.iter().zip(&inner).map(|(all, one)| all / one).collect();
        let index_at_end = sharding["index_location"].as_str() != Some("start");
        shard = Some(Shard { chunks, index_at_end, index_checksum: !index_codecs.is_empty() });
        chunk = inner;
    }
    check(Meta { shape, chunk, dtype, swapped: swapped && dtype.bytes() > 1, fill, codecs, separator, prefix, shard })
}

/// Whether bytes are swapped, what packs them, and the configuration of shards.
fn chain(list: &Value) -> Result<(bool, Vec<Codec>, Option<&Value>), String> {
    let (mut swapped, mut codecs, mut sharding, mut bytes) = (false, Vec::new(), None, false);
    for step in list.as_array().ok_or("it names no codecs")? {
        let name = step["name"].as_str().or_else(|| step.as_str()).unwrap_or("?");
        let settings = &step["configuration"];
        match name {
            "bytes" | "endian" if !bytes => {
                bytes = true;
                swapped = settings["endian"] == "big";
            }
            "sharding_indexed" if !bytes => {
                bytes = true;
                sharding = Some(settings);
            }
            "crc32c" if bytes => codecs.push(Codec::Crc32c),
            "transpose" => {
                return Err("it is stored with its axes in another order (transpose), which is not read".to_owned());
            }
            name if bytes => codecs.push(codec(name)?),
            name => return Err(rewrite(&format!("the codec '{name}'"))),
        }
    }
    if codecs.iter().filter(|codec| **codec != Codec::Crc32c).count() > 1 {
        return Err("it is compressed twice, which is not read".to_owned());
    }
    Ok((swapped, codecs, sharding))
}

fn codec(name: &str) -> Result<Codec, String> {
    match name {
        "gzip" => Ok(Codec::Gzip),
        "zlib" | "numcodecs.zlib" => Ok(Codec::Zlib),
        "zstd" => Ok(Codec::Zstandard),
        "blosc" => Ok(Codec::Blosc),
        "lz4" | "numcodecs.lz4" => Ok(Codec::Lz4),
        name => Err(rewrite(&format!("the codec '{name}'"))),
    }
}

fn rewrite(what: &str) -> String {
    format!(
        "{what} is not read: write the array again with zstd (in Python: `zarr.create_array(new, data=old[:], \
         compressors=zarr.codecs.ZstdCodec())`)"
    )
}

fn sizes(value: &Value, what: &str) -> Result<Vec<u64>, String> {
    let sizes: Option<Vec<u64>> = value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
    sizes.ok_or_else(|| format!("its {what} is no list of whole numbers"))
}

fn fill(value: &Value, dtype: DType) -> Result<[u8; 8], String> {
    let wrong = || format!("the fill_value {value} is not a number of type {}", dtype.name());
    let float = match value {
        Value::Null => 0.0,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => match text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                // The bits of the number.
                Some(bits) => return Ok(bits.to_le_bytes()),
                None => return Err(wrong()),
            },
        },
        Value::Number(number) => {
            if let (Some(whole), DType::I64) = (number.as_i64(), dtype) {
                return Ok(whole.to_ne_bytes());
            }
            if let (Some(whole), DType::U64) = (number.as_u64(), dtype) {
                return Ok(whole.to_ne_bytes());
            }
            number.as_f64().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    let mut fill = [0; 8];
    convert(&float.to_le_bytes(), DType::F64, false, &mut fill[..dtype.bytes()], dtype);
    Ok(fill)
}

fn check(meta: Meta) -> Result<Meta, String> {
    if meta.shape.is_empty() {
        return Err("it is a single value without rows: give arrays with at least one axis (keys=)".to_owned());
    }
    if meta.chunk.len() != meta.shape.len() || meta.chunk.contains(&0) || meta.shape.len() > MOST_AXES {
        return Err(format!("chunks of {:?} do not fit the shape {:?}", meta.chunk, meta.shape));
    }
    let bytes = |sizes: &[u64]| {
        let one = meta.dtype.bytes() as u64;
        let bytes = sizes.iter().try_fold(one, |product, size| product.checked_mul(*size));
        bytes.filter(|bytes| *bytes <= i64::MAX as u64)
    };
    if bytes(&meta.shape).is_none() || bytes(&meta.chunk).is_none() {
        return Err(format!("the shape {:?} in chunks of {:?} is too large", meta.shape, meta.chunk));
    }
    if meta.shape[1..].contains(&0) {
        return Err(format!("a row of the shape {:?} holds no number", meta.shape));
    }
    Ok(meta)
}
