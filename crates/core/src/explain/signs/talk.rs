//! Sentences that speak of a failure and report none: advice, explanations, wishes, what holds for any job.
//!
//! In: a line, and where a sign's words stand in it. Out: whether they were only spoken of. People who write about `OOMKilled` or `exit code 137` use the
//! words that programs use; what tells them apart is the sentence around. A program's own message is no such sentence, or has its figures; and whoever
//! says `I` or `my` had it, unless he asks or wishes.

use super::super::sign::Sign;
use super::super::sizes::{find, has_any, has_word_of};

/// A sentence with fewer words says too little of whom it speaks.
const FEWEST_WORDS: usize = 5;

/// Whether the words of a sign stand in a sentence that speaks of failures in general.
pub fn is_talk(sign: &Sign, text: &str) -> bool {
    if has_any(text, &["ried to allocate"]) {
        return false;
    }
    let at = |phrase: &&str| find(text, phrase).map(|start| (start, start + phrase.len()));
    sign.phrases.iter().filter_map(at).any(|(start, end)| {
        let (from, to) = sentence_around(text, start, end);
        if !is_prose(&text[from..to]) {
            return false;
        }
        // The words of the sign itself are a program's.
        let around = [format!(" {}", &text[from..start]), format!("{} ", &text[end..to])];
        let says = |words: &[&str]| around.iter().any(|part| has_any(part, words));
        let denied = [" no", " no `", " no \""].iter().any(|word| around[0].trim_end().ends_with(word));
        says(UNSURE) || denied || (!is_own(text) && (says(GENERAL) || is_name(sign, &around[0])))
    })
}

/// Words of those who ask, wish or suppose, be it of themselves, and of helpers who guess what somebody else had.
const UNSURE: &[&str] = &[
    " should have said ", " we should ", " would be nice", " would expect ", " what is ", " what does ", " what are ",
    " something was ", " if we ", " whether ", " look for ", " looking for ", " i think you ", " maybe you ",
    " perhaps you ", " you probably ", " you are probably ", " looks like you ", " sounds like you ",
    " log something like ", " print something like ", " say something like ", " report something like ",
];

/// Words of those who explain or advise.
const GENERAL: &[&str] = &[
    " if a ", " if an ", " if your ", " if you ", " if any ", " if there", " if one ", " when a ", " when an ",
    " when your ", " when any ", " when there is ", " whenever ", " in case ", " should ", " such as ", " for example",
    " for instance", " e.g. ", " errors like ", " error like ", " messages like ", " message like ", " to avoid ",
    " to prevent ", " in order to ", " so that ", " indicates ", " signifies ", " means ", " occurs when ",
    " happens when ", " occur when ", " happen when ", " typically ", " usually ", " generally ", " commonly ",
    " normally ", " can occur", " may occur", " might occur", " can happen", " may happen", " can lead to ",
    " may lead to ", " can cause ", " may cause ", " can trigger ", " could trigger ", " may trigger ", " you may ",
    " you might ", " you can ", " you will ", " you'll ", " you should ", " could get ", " may get ", " might get ",
    " can get ", " would get ", " instead of ", " rather than ", " stems from ", " stems fundamentally ",
];

/// Words of those who had it themselves.
const OWN: &[&str] = &["i", "i'm", "i've", "im", "my", "we", "we're", "our", "me", "us"];

/// Whether somebody speaks of what happened to him.
pub fn is_own(text: &str) -> bool {
    has_word_of(text, OWN)
}

/// What stands before the name of a state where something is in it: `the pod was OOMKilled`, `status: OOMKilled`.
const IN_STATE: &[&str] = &[
    "was", "is", "are", "were", "be", "been", "being", "got", "get", "gets", "getting", "becomes", "became", "keeps",
    "with", "status", "state", "reason", "terminated", "pod", "container", "job", "worker", "task", "process", "node",
    "and", "or",
];

/// Whether a sentence only uses the name of a state: `Kubernetes surfaces OOMKilled to its users`.
fn is_name(sign: &Sign, before: &str) -> bool {
    let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
    let word = before
        .split_whitespace()
        .next_back()
        .unwrap_or("")
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_ascii_lowercase();
    let in_state = [word.as_str(), word.trim_end_matches('s')].iter().any(|word| IN_STATE.contains(word));
    sign.id == "kubernetes.oom_killed" && !word.is_empty() && !in_state
}

/// Whether a whole line is a person's sentence.
pub fn is_sentence(line: &str) -> bool {
    is_prose(line.trim())
}

/// Where the sentence begins and ends that a part of a line stands in.
fn sentence_around(text: &str, start: usize, end: usize) -> (usize, usize) {
    const ENDS: [&str; 3] = [". ", "? ", "! "];
    let from = ENDS.iter().filter_map(|mark| text[..start].rfind(mark)).max().map_or(0, |at| at + 2);
    let to = ENDS.iter().filter_map(|mark| text[end..].find(mark)).min().map_or(text.len(), |at| end + at);
    (from, to)
}

/// Whether a line is a sentence of a person: enough words, nearly all of them plain, and nothing before them that a program puts there.
fn is_prose(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(|c: char| "#*->•· ".contains(c));
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let named = words.first().is_some_and(|first| first.ends_with(':') || first.starts_with(['[', '(', '{', '|']));
    let plain = words.iter().filter(|word| is_plain(word)).count();
    words.len() >= FEWEST_WORDS && !named && plain * 4 >= words.len() * 3
}

/// A word as people write it, with its marks.
fn is_plain(word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation() || "“”‘’–—…".contains(c));
    word.chars().all(|c| c.is_alphabetic() || "-'’/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;

    fn talk(id: &str, text: &str) -> bool {
        is_talk(all().find(|sign| sign.id == id).expect("a sign"), text)
    }

    #[test]
    fn what_holds_for_any_job_is_talk() {
        let pods = "kubernetes.oom_killed";
        assert!(talk(pods, "It would be good to show when a pod is OOMKilled, and not only that it is gone"));
        assert!(talk(pods, "The state OOMKilled indicates that a container used more than its limit"));
        assert!(talk(pods, "The page of a job shows `OOMKilled` in red, and its limit below"));
        assert!(!talk(pods, "The last state of the pod is `OOMKilled`, and it was started again"));
        assert!(talk(pods, "The first line should have said OOMKilled"));
        assert!(talk(pods, "The agent could then print something like `pod OOMKilled` where I look first"));
        assert!(!talk(pods, "When a batch of 32 is used my pod is OOMKilled after ten minutes"));
        assert!(!talk(pods, "pod/trainer-0   0/1   OOMKilled   3   12m"));
        assert!(!talk(pods, "The pod of the second trainer was OOMKilled at noon"));
        let killed = "process.exit_code";
        assert!(talk(killed, "Jobs that need more than they asked for usually end with exit code 137 on this cluster"));
        assert!(talk(killed, "What is the exit code 137 that our jobs have?"));
        assert!(!talk(killed, "trainer-0 exited with code 137"));
    }

    #[test]
    fn a_program_that_advises_reports_all_the_same() {
        let ram = "Your session crashed after using all available RAM. If you are interested in more, you may buy it.";
        assert!(!talk("colab.ram", ram));
        let shared = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).";
        assert!(!talk("torch.shared_memory", shared));
        let full = "This means that it does not fit: CUDA out of memory. Tried to allocate 2.00 GiB";
        assert!(!talk("torch.device_oom", full));
        let end = "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for";
        assert!(!talk("torch.oom_end", end));
    }
}
