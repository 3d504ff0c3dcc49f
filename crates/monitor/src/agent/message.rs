//! One message of the agent.
//!
//! In: bytes. Out: [`Message`], or none for whatever is not one: other versions, unknown kinds, fields of the wrong type. Fields that are not
//! known are skipped. Names are cut and lose control characters, since they are shown in terminals.

use serde::Deserialize;
use serde_json::Value;

/// The version that is understood.
const VERSION: u64 = 1;
/// Longer messages are none.
pub const MOST_BYTES: usize = 4096;
/// Longer names are cut.
const MOST_NAME_CHARS: usize = 64;

/// What one process says.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The process.
    pub pid: u32,
    /// When, since the run began.
    pub at_ms: u64,
    /// What.
    pub said: Said,
}

/// What can be said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A framework was imported.
    Framework {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
    /// A training step ended.
    Step {
        /// Which, counted from 1 in this process, over epochs.
        step: u64,
        /// Its epoch.
        epoch: Option<u64>,
        /// Its loss, which may be infinite or no number.
        loss: Option<f64>,
        /// The sum so far of the time between steps.
        waited_us: Option<u64>,
    },
    /// The process begins or ends to do something.
    Phase {
        /// What.
        phase: Phase,
        /// Whether it begins.
        begins: bool,
    },
    /// What a framework's allocator holds on one device.
    Memory {
        /// The framework.
        framework: String,
        /// The device, as the framework calls it.
        device: String,
        /// Held by tensors.
        allocated_bytes: Option<u64>,
        /// Taken from the device.
        reserved_bytes: Option<u64>,
        /// The most that tensors held.
        peak_allocated_bytes: Option<u64>,
        /// What the allocator may take at most.
        limit_bytes: Option<u64>,
    },
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Trains.
    Train,
    /// Evaluates.
    Evaluate,
    /// Predicts.
    Predict,
    /// Saves a checkpoint.
    Save,
}

impl Phase {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Train => "train",
            Phase::Evaluate => "evaluate",
            Phase::Predict => "predict",
            Phase::Save => "save",
        }
    }

    fn of(name: &str) -> Option<Phase> {
        [Phase::Train, Phase::Evaluate, Phase::Predict, Phase::Save].into_iter().find(|phase| phase.name() == name)
    }
}

/// The fields of all kinds.
#[derive(Deserialize)]
struct Fields {
    v: u64,
    pid: u32,
    ns: u64,
    kind: String,
    name: Option<String>,
    version: Option<String>,
    step: Option<u64>,
    epoch: Option<u64>,
    loss: Option<Value>,
    waited_us: Option<u64>,
    begins: Option<bool>,
    framework: Option<String>,
    device: Option<String>,
    allocated: Option<u64>,
    reserved: Option<u64>,
    peak: Option<u64>,
    limit: Option<u64>,
}

impl Message {
    /// Reads a datagram. `began_ns` is the monotonic time at which the run began, `now_ns` that of now: nobody speaks from the future.
    pub fn parse(bytes: &[u8], began_ns: u64, now_ns: u64) -> Option<Message> {
        if bytes.len() > MOST_BYTES {
            return None;
        }
        let fields: Fields = serde_json::from_slice(bytes).ok().or_else(|| with_quoted_numbers(bytes))?;
        let at_ms = fields.ns.min(now_ns).saturating_sub(began_ns) / 1_000_000;
        let pid = fields.pid;
        (fields.v == VERSION).then(|| said(fields)).flatten().map(|said| Message { pid, at_ms, said })
    }
}

fn said(fields: Fields) -> Option<Said> {
    match fields.kind.as_str() {
        "framework" => {
            Some(Said::Framework { name: clean(&fields.name?), version: clean(&fields.version.unwrap_or_default()) })
        }
        "step" => Some(Said::Step {
            step: fields.step?,
            epoch: fields.epoch,
            loss: fields.loss.as_ref().and_then(number),
            waited_us: fields.waited_us,
        }),
        "phase" => Some(Said::Phase { phase: Phase::of(&fields.name?)?, begins: fields.begins? }),
        "memory" => Some(Said::Memory {
            framework: clean(&fields.framework?),
            device: clean(&fields.device?),
            allocated_bytes: fields.allocated,
            reserved_bytes: fields.reserved,
            peak_allocated_bytes: fields.peak,
            limit_bytes: fields.limit,
        }),
        _ => None,
    }
}

/// Python writes a loss that is no number as `NaN` or `Infinity`, which is not JSON: the same with quotes.
fn with_quoted_numbers(bytes: &[u8]) -> Option<Fields> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains("NaN") || text.contains("Infinity"))?;
    let quoted = text.replace("-Infinity", "\"-inf\"").replace("Infinity", "\"inf\"").replace("NaN", "\"nan\"");
    serde_json::from_str(&quoted).ok()
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn clean(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MOST_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Option<Said> {
        Message::parse(text.as_bytes(), 0, u64::MAX).map(|message| message.said)
    }

    #[test]
    fn all_kinds_are_read_and_unknown_fields_skipped() {
        let text =
            r#"{"v":1,"pid":7,"ns":5000000000,"kind":"step","step":3,"epoch":0,"loss":0.5,"waited_us":9,"new":[{}]}"#;
        let message = Message::parse(text.as_bytes(), 2_000_000_000, 9_000_000_000).unwrap();
        assert_eq!((message.pid, message.at_ms), (7, 3000));
        assert_eq!(message.said, Said::Step { step: 3, epoch: Some(0), loss: Some(0.5), waited_us: Some(9) });
        let framework = said(r#"{"v":1,"pid":7,"ns":1,"kind":"framework","name":"torch","version":"2.11\u001b[31m"}"#);
        assert_eq!(framework, Some(Said::Framework { name: "torch".into(), version: "2.11[31m".into() }));
        let phase = said(r#"{"v":1,"pid":7,"ns":1,"kind":"phase","name":"evaluate","begins":false}"#);
        assert_eq!(phase, Some(Said::Phase { phase: Phase::Evaluate, begins: false }));
        let memory = said(
            r#"{"v":1,"pid":7,"ns":1,"kind":"memory","framework":"torch","device":"cuda:0","allocated":5,"reserved":null}"#,
        );
        assert!(matches!(memory, Some(Said::Memory { allocated_bytes: Some(5), reserved_bytes: None, .. })));
    }

    #[test]
    fn a_loss_that_is_no_number_is_kept() {
        let loss = |text: &str| match said(&format!(r#"{{"v":1,"pid":7,"ns":1,"kind":"step","step":3,"loss":{text}}}"#))
        {
            Some(Said::Step { loss, .. }) => loss,
            other => panic!("{other:?}"),
        };
        assert!(loss("NaN").unwrap().is_nan());
        assert_eq!((loss("-Infinity"), loss("Infinity")), (Some(f64::NEG_INFINITY), Some(f64::INFINITY)));
        assert_eq!((loss("null"), loss("[]")), (None, None));
    }

    #[test]
    fn what_is_not_a_message_is_none() {
        for text in [
            "",
            "{}",
            "[]",
            "null",
            "{\"v\":1",
            "NaN",
            r#"{"v":2,"pid":7,"ns":1,"kind":"step","step":3}"#,
            r#"{"v":1,"pid":7,"ns":1,"kind":"dance"}"#,
            r#"{"v":1,"pid":7,"ns":1,"kind":"step","step":-3}"#,
            r#"{"v":1,"pid":-7,"ns":1,"kind":"step","step":3}"#,
            r#"{"v":1,"pid":7,"ns":1,"kind":"phase","name":"lunch","begins":true}"#,
        ] {
            assert_eq!(said(text), None, "{text}");
        }
        let future =
            Message::parse(br#"{"v":1,"pid":7,"ns":18446744073709551615,"kind":"step","step":1}"#, 0, 8_000_000);
        assert_eq!(future.map(|message| message.at_ms), Some(8));
        assert_eq!(said(&"[".repeat(4000)), None);
        assert_eq!(
            said(&format!(r#"{{"v":1,"pid":7,"ns":1,"kind":"step","step":1,"x":"{}"}}"#, "x".repeat(5000))),
            None
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_harmless(bytes: Vec<u8>, began_ns: u64, now_ns: u64) {
            Message::parse(&bytes, began_ns, now_ns);
        }

        #[test]
        fn any_values_are_harmless(kind in "step|phase|memory|framework", name in "\\PC{0,8}", numbers: [i64; 5]) {
            let [pid, ns, step, waited, loss] = numbers;
            let text = format!(
                r#"{{"v":1,"pid":{pid},"ns":{ns},"kind":"{kind}","name":{name:?},"step":{step},"waited_us":{waited},"loss":{loss}}}"#
            );
            Message::parse(text.as_bytes(), ns.unsigned_abs(), u64::MAX);
        }
    }
}
