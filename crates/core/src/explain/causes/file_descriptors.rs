//! Too many open files.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::FileDescriptors,
    name: "file_descriptors",
    title: "Too many open files",
    remedies: &["raise_nofile", "sharing_strategy", "fewer_workers"],
    page: include_str!("../../../../../docs/causes/file_descriptors.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let claim = said(case, Code::FileDescriptors, "the system refused to open another file");
    claim.filter(|_| case.of(Resource::FileDescriptors))
}
