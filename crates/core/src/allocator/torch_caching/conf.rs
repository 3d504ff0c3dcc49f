//! The syntax of `PYTORCH_ALLOC_CONF` (and of the older `PYTORCH_CUDA_ALLOC_CONF`).
//!
//! In: text such as `expandable_segments:True,max_split_size_mb:128`. Out: [`Options`] or a [`ConfError`]. Nothing here
//! reads the environment; the device's size is not part of the text and keeps its default.

use std::str::FromStr;

use thiserror::Error;

use super::options::{MIN_LARGE_BYTES, Options, interval};
use crate::bytes::MIB;

/// Why a text is not a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfError {
    /// PyTorch knows no such option.
    #[error("unknown allocator option '{0}'")]
    UnknownOption(String),
    /// The shape `name:value,name:value` is broken.
    #[error("expected '{expected}' after '{after}'")]
    Syntax {
        /// What should have come.
        expected: char,
        /// The last thing that was read.
        after: String,
    },
    /// An option has no value.
    #[error("allocator option '{0}' has no value")]
    MissingValue(String),
    /// A value is outside what the option takes.
    #[error("allocator option '{option}' is '{value}', but must be {expected}")]
    BadValue {
        /// The option.
        option: String,
        /// What was written.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// Another allocator than the one simulated here.
    #[error("allocator backend '{0}' is not simulated, only 'native' is")]
    OtherBackend(String),
}

/// Options that change no size on the device. Source: the keys of c10/cuda/CUDAAllocatorConfig.h, which older versions
/// know in part.
const WITHOUT_EFFECT: &[&str] = &[
    "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "throw_on_cudamalloc_oom",
    "graph_capture_record_stream_reuse", "expandable_segments_reserve", "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb", "pinned_free_catch_all",
];

impl FromStr for Options {
    type Err = ConfError;

    /// Reads a configuration over the defaults. Spaces mean nothing; an empty text is the default.
    fn from_str(text: &str) -> Result<Options, ConfError> {
        let mut tokens = Tokens::new(text);
        let mut settings = Vec::new();
        while let Some(name) = tokens.next() {
            tokens.expect(':')?;
            let value = tokens.value(&name)?;
            settings.push((name, value));
            if !tokens.at_end() {
                tokens.expect(',')?;
            }
        }

        let mut options = Options::default();
        // The segment size comes first wherever it stands: other options are bounded by it.
        for (name, value) in settings.iter().filter(|(name, _)| name == "large_segment_size_mb") {
            options.large_segment_size_bytes = megabytes(name, value, "above 10", |bytes| bytes > MIN_LARGE_BYTES)?;
            options.max_non_split_rounding_bytes = options.large_segment_size_bytes;
        }
        for (name, value) in &settings {
            options.set(name, value)?;
        }
        Ok(options)
    }
}

impl Options {
    fn set(&mut self, name: &str, value: &Value) -> Result<(), ConfError> {
        const AT_LEAST_A_SEGMENT: &str = "a number of MiB not below that of a large segment (20)";
        let segment = self.large_segment_size_bytes;
        match name {
            "large_segment_size_mb" => {}
            "max_split_size_mb" => {
                self.max_split_size_bytes = megabytes(name, value, AT_LEAST_A_SEGMENT, |bytes| bytes >= segment)?;
            }
            "max_non_split_rounding_mb" => {
                self.max_non_split_rounding_bytes =
                    megabytes(name, value, AT_LEAST_A_SEGMENT, |bytes| bytes >= segment)?;
            }
            "garbage_collection_threshold" => {
                self.garbage_collection_threshold =
                    number(name, value, "between 0 and 1, both excluded", |share| share > 0.0 && share < 1.0)?;
            }
            "per_process_memory_fraction" => {
                let share = number(name, value, "between 0 and 1", |share| (0.0..=1.0).contains(&share))?;
                self.memory_fraction = Some(share);
            }
            "expandable_segments" => {
                self.expandable_segments = match value.single(name)? {
                    "True" => true,
                    "False" => false,
                    other => return Err(bad(name, other, "True or False")),
                };
            }
            "roundup_power2_divisions" => self.set_divisions(name, value)?,
            "backend" => match value.single(name)? {
                "native" => {}
                other => return Err(ConfError::OtherBackend(other.to_owned())),
            },
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(ConfError::UnknownOption(name.to_owned())),
        }
        Ok(())
    }

    fn set_divisions(&mut self, name: &str, value: &Value) -> Result<(), ConfError> {
        const POWER: &str = "powers of two";
        let divisions = |text: &str| match text.parse::<u64>() {
            Ok(count) if count == 0 || count.is_power_of_two() => Ok(count),
            _ => Err(bad(name, text, POWER)),
        };
        let table = &mut self.roundup_power2_divisions;
        let pairs = match value {
            Value::Single(text) => {
                table.fill(divisions(text)?);
                return Ok(());
            }
            Value::List(pairs) => pairs,
        };
        // Each pair names one interval. The first also covers everything below it, and `>` everything above the last;
        // what lies between two named intervals stays off.
        let mut last = None;
        for (bound, count) in pairs {
            let count = divisions(count)?;
            if bound == ">" {
                table[last.map_or(0, |index| index + 1)..].fill(count);
                continue;
            }
            let index = match bound.parse::<u64>() {
                Ok(mebibytes) if mebibytes.is_power_of_two() => interval(mebibytes),
                _ => return Err(bad(name, bound, POWER)),
            };
            if last.is_none() {
                table[..index].fill(count);
            }
            table[index] = count;
            last = Some(index);
        }
        Ok(())
    }
}

/// What stands after an option's colon.
enum Value {
    Single(String),
    List(Vec<(String, String)>),
}

impl Value {
    fn single(&self, name: &str) -> Result<&str, ConfError> {
        match self {
            Value::Single(text) => Ok(text),
            Value::List(_) => Err(bad(name, "[…]", "a single value")),
        }
    }
}

fn bad(option: &str, value: &str, expected: &'static str) -> ConfError {
    ConfError::BadValue { option: option.to_owned(), value: value.to_owned(), expected }
}

fn megabytes(name: &str, value: &Value, expected: &'static str, ok: impl Fn(u64) -> bool) -> Result<u64, ConfError> {
    let text = value.single(name)?;
    let bytes = text.parse::<u64>().ok().and_then(|count| count.checked_mul(MIB));
    bytes.filter(|&bytes| ok(bytes)).ok_or_else(|| bad(name, text, expected))
}

fn number(name: &str, value: &Value, expected: &'static str, ok: impl Fn(f64) -> bool) -> Result<f64, ConfError> {
    let text = value.single(name)?;
    text.parse().ok().filter(|&number| ok(number)).ok_or_else(|| bad(name, text, expected))
}

/// The text in words and marks, read from left to right.
struct Tokens {
    tokens: Vec<String>,
    read: usize,
}

impl Tokens {
    fn new(text: &str) -> Tokens {
        let mut tokens: Vec<String> = Vec::new();
        let mut in_word = false;
        for c in text.chars().filter(|c| !c.is_whitespace()) {
            let mark = matches!(c, ',' | ':' | '[' | ']');
            match tokens.last_mut() {
                Some(word) if in_word && !mark => word.push(c),
                _ => tokens.push(c.to_string()),
            }
            in_word = !mark;
        }
        Tokens { tokens, read: 0 }
    }

    fn at_end(&self) -> bool {
        self.read == self.tokens.len()
    }

    fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.read)?.clone();
        self.read += 1;
        Some(token)
    }

    /// Steps over a mark, where it is there.
    fn skip(&mut self, mark: char) -> bool {
        let found = self.tokens.get(self.read).is_some_and(|token| token.chars().eq([mark]));
        self.read += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Result<(), ConfError> {
        if self.skip(mark) {
            return Ok(());
        }
        let after = self.read.checked_sub(1).map(|last| self.tokens[last].clone()).unwrap_or_default();
        Err(ConfError::Syntax { expected: mark, after })
    }

    fn value(&mut self, name: &str) -> Result<Value, ConfError> {
        let missing = || ConfError::MissingValue(name.to_owned());
        if !self.skip('[') {
            let text = self.next().filter(|text| !matches!(text.as_str(), "," | ":" | "]"));
            return text.map(Value::Single).ok_or_else(missing);
        }
        let mut pairs = Vec::new();
        while !self.skip(']') {
            let bound = self.next().ok_or_else(missing)?;
            self.expect(':')?;
            pairs.push((bound, self.next().ok_or_else(missing)?));
            if !self.skip(',') {
                self.expect(']')?;
                break;
            }
        }
        Ok(Value::List(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_manual_are_read() {
        let text = "expandable_segments:True, max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]";
        let options: Options = text.parse().unwrap();
        assert!(options.expandable_segments);
        assert_eq!(options.max_split_size_bytes, 128 * MIB);
        let mut divisions = [1; 16];
        divisions[9] = 2;
        divisions[10..].fill(4);
        assert_eq!(options.roundup_power2_divisions, divisions);

        let options: Options = "roundup_power2_divisions:8,backend:native".parse().unwrap();
        assert_eq!(options.roundup_power2_divisions, [8; 16]);
        let options: Options =
            "max_non_split_rounding_mb:40,garbage_collection_threshold:0.8,large_segment_size_mb:32".parse().unwrap();
        assert_eq!((options.max_non_split_rounding_bytes, options.large_segment_size_bytes), (40 * MIB, 32 * MIB));
        assert_eq!(options.garbage_collection_threshold, 0.8);
        let options: Options = "large_segment_size_mb:12,pinned_use_background_threads:True".parse().unwrap();
        assert_eq!(options.max_non_split_rounding_bytes, 12 * MIB);
        assert_eq!("".parse::<Options>().unwrap(), Options::default());
        assert_eq!("expandable_segments:False,".parse::<Options>().unwrap(), Options::default());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Options>().unwrap_err();
        assert_eq!(error("max_split_mb:20"), ConfError::UnknownOption("max_split_mb".into()));
        assert_eq!(error("max_split_size_mb"), ConfError::Syntax { expected: ':', after: "max_split_size_mb".into() });
        assert_eq!(error("max_split_size_mb:"), ConfError::MissingValue("max_split_size_mb".into()));
        assert_eq!(error("backend:cudaMallocAsync"), ConfError::OtherBackend("cudaMallocAsync".into()));
        assert!(matches!(error("expandable_segments:True;max_split_size_mb:128"), ConfError::Syntax { .. }));
        for text in [
            "expandable_segments:true", "max_split_size_mb:19", "max_split_size_mb:many",
            "max_split_size_mb:99999999999999999999", "max_split_size_mb:[128:1]", "garbage_collection_threshold:1.0",
            "garbage_collection_threshold:nan", "per_process_memory_fraction:1.5", "large_segment_size_mb:10",
            "roundup_power2_divisions:3", "roundup_power2_divisions:[100:2]", "roundup_power2_divisions:[>:3]",
        ] {
            assert!(matches!(error(text), ConfError::BadValue { .. }), "{text}: {:?}", error(text));
        }
        for text in ["roundup_power2_divisions:[256:1", "roundup_power2_divisions:[256", "a:b c:d:e", ":", ",,"] {
            let _ = error(text).to_string();
        }
    }
}
