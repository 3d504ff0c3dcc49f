//! From a dead job's output to what ran out, why, and what to change.
//!
//! ```text
//! bytes ─► decode ─► pasted ─► scan ─► excerpt ─► signs (figures), traceback ─► phase ─► case ─► causes ─► answer ─► text, JSON
//! ```
//!
//! In: the bytes of a log, a piece at a time. Out: an [`Explanation`]. Memory is bounded whatever the log's length, and no input takes more than
//! linear time: there are no patterns that backtrack, only phrases and the numbers beside them. Not looked at: the machine, the job's
//! files, and lines without any known phrase.

pub mod accelerator;
pub mod answer;
pub mod batch;
mod case;
pub mod causes;
mod clean;
pub mod decode;
mod ended;
mod excerpt;
mod growth;
mod missing;
mod outlived;
mod pasted;
mod phase;
mod progress;
pub mod remedies;
mod scan;
mod shapes;
mod sign;
mod signs;
mod sizes;
pub mod text;
mod traceback;

pub use answer::Explanation;
pub use causes::{Code, Confidence};
pub use sign::{Numbers, Resource};

use case::{Case, Sighting};
use clean::Line;
use decode::Decoder;
use excerpt::Excerpt;
use growth::Followed;
use phase::{Phase, Place};
use scan::{Needs, Reader, Scanner};
use sign::{Sign, Weight};
use sizes::has_any;
use traceback::Frame;

/// Sightings of one sign that are kept: the first ones and the last ones.
const KEPT: usize = 6;
/// Characters of a line that are kept for quoting.
const QUOTED: usize = 700;
/// Lines with these are followed for figures that grow.
const FOLLOWED: [&str; 9] = ["it/s", "s/it", "memory", "RSS", "mem", "mem=", "MiB", "GiB", "allocated"];

/// Functions of Keras 2 that evaluate and predict, as TensorFlow calls them once they are compiled.
const KERAS_EVALUATES: [&str; 2] = ["__inference_predict_function_", "__inference_test_function_"];

/// Reads a log.
pub struct Explainer {
    decoder: Decoder,
    scanner: Scanner,
    seen: Seen,
}

/// What was seen so far.
struct Seen {
    /// For each phrase, the signs it may belong to.
    signs_of_phrase: Vec<Vec<&'static Sign>>,
    sightings: Vec<Sighting>,
    followed: Followed,
    /// What the last traceback ended in.
    ended: Option<Sighting>,
}

impl Default for Explainer {
    fn default() -> Explainer {
        Explainer::new()
    }
}

impl Explainer {
    /// An explainer of one log.
    pub fn new() -> Explainer {
        let mut phrases: Vec<&'static str> = Vec::new();
        let mut signs_of_phrase: Vec<Vec<&'static Sign>> = Vec::new();
        for sign in signs::all() {
            for &phrase in sign.phrases {
                match phrases.iter().position(|known| known.eq_ignore_ascii_case(phrase)) {
                    Some(at) => signs_of_phrase[at].push(sign),
                    None => {
                        phrases.push(phrase);
                        signs_of_phrase.push(vec![sign]);
                    }
                }
            }
        }
        for phrase in FOLLOWED {
            if !phrases.iter().any(|known| known.eq_ignore_ascii_case(phrase)) {
                phrases.push(phrase);
                signs_of_phrase.push(Vec::new());
            }
        }
        let seen = Seen { signs_of_phrase, sightings: Vec::new(), followed: Followed::default(), ended: None };
        Explainer { decoder: Decoder::default(), scanner: Scanner::new(&phrases), seen }
    }

    /// Takes more of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes, |text| self.scanner.push(text, &mut self.seen));
    }

    /// The log has ended.
    pub fn finish(mut self) -> Explanation {
        let no_text = self.decoder.finish(|text| self.scanner.push(text, &mut self.seen));
        self.scanner.finish(&mut self.seen);
        let said = Explanation::new(&self.seen.case());
        match no_text {
            // Words of a program's own texts; a job that writes both may still have said how it ended.
            Some(found) if !said.found() => Explanation {
                no_text,
                missing: vec![missing::text(found)],
                ..Explanation::new(&Case::new(Vec::new(), None))
            },
            Some(found) => Explanation { no_text: no_text.filter(|_| found.certain), ..said },
            None => said,
        }
    }
}

/// Explains a whole log.
pub fn explain(log: &[u8]) -> Explanation {
    let mut explainer = Explainer::new();
    explainer.push(log);
    explainer.finish()
}

impl Reader for Seen {
    fn line(&mut self, phrases: &[usize], line: &Line) -> Needs {
        let signs = self.signs(phrases, &line.text);
        // The sizes of failed requests are no figures of what is in use.
        let fails = signs.iter().any(|sign| sign.weight >= Weight::Symptom);
        if !fails && phrases.iter().any(|&phrase| self.signs_of_phrase[phrase].is_empty()) {
            self.followed.push(line.number, &line.text);
        }
        let needs = signs.into_iter().map(|sign| match sign.weight {
            Weight::Warning => Needs::Alone,
            Weight::Context => Needs::Below,
            Weight::Symptom | Weight::Denial | Weight::Failure => Needs::Around,
        });
        needs.max().unwrap_or(Needs::Nothing)
    }

    fn excerpt(&mut self, phrases: &[usize], excerpt: &Excerpt) {
        let mut around = Around::default();
        for sign in self.signs(phrases, &excerpt.line.text) {
            if ended::is_head(sign) {
                self.ended = ended::ending(excerpt).or_else(|| self.ended.take());
                continue;
            }
            let sample = sign.weight == Weight::Failure && signs::quoted::is_sample(excerpt);
            if sample || signs::system::is_lock(sign, &excerpt.before) {
                continue;
            }
            let above = excerpt.before.last().map(|line| line.text.as_str());
            let sign = signs::anybody::continued(sign, above, &excerpt.line.text);
            let sign = match sign.id {
                "anybody.host" => signs::anybody::told_of_device(sign, excerpt, &around.place(excerpt, false).0),
                _ => sign,
            };
            let sighting = sighting(sign, excerpt, &mut around);
            let told = sign.id == signs::anybody::ANYBODYS_OOM;
            if !told || signs::anybody::on_device(excerpt, &sighting.frames) {
                self.keep(sighting);
            }
        }
    }
}

impl Seen {
    /// All of it, once the log has ended.
    fn case(mut self) -> Case {
        let growth = self.followed.grown();
        if let Some(ended) = self.ended.filter(|ended| growth.is_none() && ended::counts(ended, &self.sightings)) {
            self.sightings.push(ended);
        }
        Case::new(self.sightings, growth)
    }

    /// The signs that a line is.
    fn signs(&self, phrases: &[usize], text: &str) -> Vec<&'static Sign> {
        let mut found: Vec<&'static Sign> = Vec::new();
        for &sign in phrases.iter().flat_map(|&phrase| &self.signs_of_phrase[phrase]) {
            let known = found.iter().any(|known| known.id == sign.id);
            if !known
                && (sign.also.is_empty() || has_any(text, sign.also))
                && !has_any(text, sign.unless)
                && (sign.check)(text)
                && !(sign.weight == Weight::Failure && signs::quoted::is_quoted(text) && !is_title(sign, text))
                && !(sign.weight == Weight::Symptom && signs::quoted::is_never_said(text))
                && !(matches!(sign.weight, Weight::Failure | Weight::Symptom) && signs::talk::is_talk(sign, text))
            {
                found.push(sign);
            }
        }
        found
    }

    /// Keeps a sighting, unless there are enough of its kind: then the newest takes the place of the one before it.
    fn keep(&mut self, sighting: Sighting) {
        let sign = sighting.sign;
        let same: Vec<usize> =
            (0..self.sightings.len()).filter(|&index| self.sightings[index].sign.id == sign.id).collect();
        if let Some(&last) = same.last() {
            let previous = &mut self.sightings[last];
            // The same line twice (a log and its traceback, ranks that say the same) adds only what it has more.
            let counted = sign.weight == Weight::Context || sign.id == "job.retried";
            if previous.text == sighting.text && !counted {
                previous.last_line = sighting.line;
                previous.numbers.fill(&sighting.numbers);
                if previous.place.is_none() {
                    previous.place = sighting.place;
                    previous.frames = sighting.frames;
                }
                return;
            }
            if sign.id == "tensorflow.free_chunk" {
                previous.numbers.largest_free_bytes =
                    previous.numbers.largest_free_bytes.max(sighting.numbers.largest_free_bytes);
                return;
            }
        }
        if same.len() >= 2 * KEPT {
            self.sightings.remove(same[KEPT]);
        }
        self.sightings.push(sighting);
    }
}

/// Whether a line that has the form of a comment may be a report's title: where three letters are all that it says, a device is asked for, too.
fn is_title(sign: &Sign, text: &str) -> bool {
    sign.id == signs::anybody::ANYBODYS_OOM && text.starts_with("# ") && !signs::quoted::is_change(text)
}

/// What stands around a line, read once for all its signs.
#[derive(Default)]
struct Around {
    /// Its frames and the place they show: on a device, and on the host.
    places: [Option<(Vec<Frame>, Option<Place>)>; 2],
    joined: Option<[String; 2]>,
}

impl Around {
    fn place(&mut self, excerpt: &Excerpt, on_host: bool) -> (Vec<Frame>, Option<Place>) {
        self.places[usize::from(on_host)].get_or_insert_with(|| placed(excerpt, on_host)).clone()
    }

    /// The message as it was before a terminal wrapped it, at a blank or in the middle of a word.
    fn joined(&mut self, excerpt: &Excerpt) -> &[String; 2] {
        self.joined.get_or_insert_with(|| [excerpt.joined(" "), excerpt.joined("")])
    }
}

/// The frames around a line and where they say that the job was.
fn placed(excerpt: &Excerpt, on_host: bool) -> (Vec<Frame>, Option<Place>) {
    let before = excerpt.before_by_speaker();
    let frames = traceback::frames(&before);
    // What is written in C++ says itself what it could not make; the frames around it are of whoever called it.
    if has_any(&excerpt.line.text, &["ggml_", "llama_"]) {
        let mut after = vec![excerpt.line.text.as_str()];
        after.extend(excerpt.after_by_speaker());
        let place = phase::told_below(&after);
        let of_cache = after.iter().any(|line| line.contains("buffer for kv cache"));
        if place.is_some() || of_cache {
            return (frames, place);
        }
    }
    if let Some(place) = phase::node(&excerpt.line.text) {
        return (frames, Some(place));
    }
    if let Some(place) = phase::place(&frames, on_host) {
        return (frames, Some(place));
    }
    // Printed before its traceback.
    let below = traceback::frames(&excerpt.after_by_speaker());
    if let Some(place) = phase::place(&below, on_host) {
        return (below, Some(place));
    }
    let told = phase::told(&before).or_else(|| {
        let mut after = vec![excerpt.line.text.as_str()];
        after.extend(excerpt.after_by_speaker());
        // A bar that moves on is drawn below what it was interrupted by, whoever says it.
        let below = excerpt.after.iter().take(4).map(|line| line.text.as_str());
        let drawn: Vec<&str> = below.filter(|line| line.contains('%')).collect();
        // Workers of one job fail side by side, doing the same.
        let anybody: Vec<&str> = excerpt.after.iter().map(|line| line.text.as_str()).collect();
        phase::told_below(&after)
            .or_else(|| phase::told(&drawn))
            .or_else(|| phase::told_below(&anybody))
            .or_else(|| phase::during(&excerpt.line.text))
    });
    (if frames.is_empty() { below } else { frames }, told)
}

fn sighting(sign: &'static Sign, excerpt: &Excerpt, around: &mut Around) -> Sighting {
    let mut numbers = Numbers::default();
    (sign.read)(&excerpt.line.text, &mut numbers);
    if sign.weight != Weight::Warning {
        let [spaced, glued] = around.joined(excerpt);
        (sign.read)(spaced, &mut numbers);
        if numbers.requested_bytes.is_none() || numbers.capacity_bytes.is_none() {
            (sign.read)(glued, &mut numbers);
        }
    }
    let (mut frames, mut place) = (Vec::new(), None);
    if sign.weight >= Weight::Symptom {
        (frames, place) = around.place(excerpt, sign.resource == Some(Resource::HostMemory));
        // Where the operation itself is named, it says more than the frames around it.
        if let Some(op) = numbers.op.as_deref().filter(|op| has_any(op, &["gradient_tape", "gradients/", "_grad/"])) {
            place = Some(Place { phase: Phase::Backward, shown_by: op.chars().take(160).collect(), training: true });
        }
        // Keras compiles a function for each of these, and TensorFlow names it.
        let [spaced, _] = around.joined(excerpt);
        if let Some(function) = KERAS_EVALUATES.iter().find(|function| spaced.contains(**function)) {
            place = Some(Place { phase: Phase::Evaluate, shown_by: (*function).to_owned(), training: false });
        }
        progress::read(excerpt, &mut numbers);
    }
    numbers.rank = numbers.rank.or_else(|| excerpt.speaker().and_then(clean::rank));
    let text: String = excerpt.line.text.trim().chars().take(QUOTED).collect();
    Sighting { sign, line: excerpt.line.number, last_line: excerpt.line.number, text, numbers, frames, place }
}
