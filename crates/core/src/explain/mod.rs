//! From a dead job's output to what ran out, why, and what to change.
//!
//!     bytes ─► scan ─► excerpt ─► signs (figures), traceback ─► phase ─► case ─► causes ─► answer ─► text, JSON
//!
//! In: the bytes of a log, a piece at a time. Out: an [`Explanation`]. Memory is bounded whatever the log's length, and no input takes more than
//! linear time: there are no patterns that backtrack, only phrases and the numbers beside them. Not looked at: the machine, the job's
//! files, and lines without any known phrase.

pub mod answer;
pub mod batch;
mod case;
pub mod causes;
mod clean;
mod excerpt;
mod growth;
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
use excerpt::Excerpt;
use growth::Followed;
use phase::{Phase, Place};
use scan::{Reader, Scanner};
use sign::{Sign, Weight};
use sizes::has_any;

/// Sightings of one sign that are kept: the first ones and the last ones.
const KEPT: usize = 6;
/// Characters of a line that are kept for quoting.
const QUOTED: usize = 700;
/// Lines with these are followed for figures that grow.
const FOLLOWED: [&str; 6] = ["memory", "RSS", "mem", "mem=", "MiB", "allocated"];

/// Reads a log.
pub struct Explainer {
    scanner: Scanner,
    seen: Seen,
}

/// What was seen so far.
struct Seen {
    /// For each phrase, the signs it may belong to.
    signs_of_phrase: Vec<Vec<&'static Sign>>,
    sightings: Vec<Sighting>,
    followed: Followed,
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
        let seen = Seen { signs_of_phrase, sightings: Vec::new(), followed: Followed::default() };
        Explainer { scanner: Scanner::new(&phrases), seen }
    }

    /// Takes more of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        self.scanner.push(bytes, &mut self.seen);
    }

    /// The log has ended.
    pub fn finish(mut self) -> Explanation {
        self.scanner.finish(&mut self.seen);
        Explanation::new(&Case::new(self.seen.sightings, self.seen.followed.grown()))
    }
}

/// Explains a whole log.
pub fn explain(log: &[u8]) -> Explanation {
    let mut explainer = Explainer::new();
    explainer.push(log);
    explainer.finish()
}

impl Reader for Seen {
    fn line(&mut self, phrases: &[usize], line: &Line) -> bool {
        if phrases.iter().any(|&phrase| self.signs_of_phrase[phrase].is_empty()) {
            self.followed.push(line.number, &line.text);
        }
        !self.signs(phrases, &line.text).is_empty()
    }

    fn excerpt(&mut self, phrases: &[usize], excerpt: &Excerpt) {
        for sign in self.signs(phrases, &excerpt.line.text) {
            self.keep(sign, excerpt);
        }
    }
}

impl Seen {
    /// The signs that a line is.
    fn signs(&self, phrases: &[usize], text: &str) -> Vec<&'static Sign> {
        let mut found: Vec<&'static Sign> = Vec::new();
        for &sign in phrases.iter().flat_map(|&phrase| &self.signs_of_phrase[phrase]) {
            let known = found.iter().any(|known| known.id == sign.id);
            if !known
                && (sign.also.is_empty() || has_any(text, sign.also))
                && !has_any(text, sign.unless)
                && (sign.check)(text)
            {
                found.push(sign);
            }
        }
        found
    }

    /// Keeps a sighting, unless there are enough of its kind: then the newest takes the place of the one before it.
    fn keep(&mut self, sign: &'static Sign, excerpt: &Excerpt) {
        let same: Vec<usize> =
            (0..self.sightings.len()).filter(|&index| self.sightings[index].sign.id == sign.id).collect();
        let sighting = sighting(sign, excerpt);
        if let Some(&last) = same.last() {
            let previous = &mut self.sightings[last];
            // The same line twice (a log and its traceback, ranks that say the same) adds only what it has more.
            if previous.text == sighting.text && sign.weight != Weight::Context {
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

fn sighting(sign: &'static Sign, excerpt: &Excerpt) -> Sighting {
    let mut numbers = Numbers::default();
    (sign.read)(&excerpt.line.text, &mut numbers);
    if sign.weight != Weight::Warning {
        // Wrapped by a terminal: at a blank, or in the middle of a word.
        (sign.read)(&excerpt.joined(" "), &mut numbers);
        if numbers.requested_bytes.is_none() {
            (sign.read)(&excerpt.joined(""), &mut numbers);
        }
    }
    let speaks = matches!(sign.weight, Weight::Failure | Weight::Symptom | Weight::Denial);
    let (mut frames, mut place) = (Vec::new(), None);
    if speaks {
        let on_host = sign.resource == Some(Resource::HostMemory);
        let before = excerpt.before_by_speaker();
        frames = traceback::frames(&before);
        place = phase::place(&frames, on_host);
        if place.is_none() {
            // Printed before its traceback.
            let below = traceback::frames(&excerpt.after_by_speaker());
            place = phase::place(&below, on_host);
            if place.is_some() {
                frames = below;
            }
        }
        place = place.or_else(|| phase::told(&before));
        // Where the operation itself is named, it says more than the frames around it.
        if let Some(op) = numbers.op.as_deref().filter(|op| has_any(op, &["gradient_tape", "gradients/", "_grad/"])) {
            place = Some(Place { phase: Phase::Backward, shown_by: op.chars().take(160).collect(), training: true });
        }
        progress::read(excerpt, &mut numbers);
    }
    numbers.rank = numbers.rank.or_else(|| excerpt.speaker().and_then(clean::rank));
    let text: String = excerpt.line.text.trim().chars().take(QUOTED).collect();
    Sighting { sign, line: excerpt.line.number, text, numbers, frames, place }
}
