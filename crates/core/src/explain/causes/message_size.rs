//! A message is larger than its limit.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::MessageSize,
    name: "message_size",
    title: "A message is larger than its limit",
    remedies: &["raise_message_limit", "smaller_messages", "stream_data"],
    page: include_str!("../../../../../docs/causes/message_size.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let claim = said(case, Code::MessageSize, "one message is larger than what its protocol carries");
    claim.filter(|_| case.of(Resource::MessageSize))
}
