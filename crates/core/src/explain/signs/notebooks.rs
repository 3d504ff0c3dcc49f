//! What notebooks and hosted services say when their process dies: no exception comes from there.

use super::super::causes::Code;
use super::super::sign::{Resource, Sign, Weight};

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::ContainerOrSchedulerLimit),
        ..Sign::new(
            "colab.ram",
            &[
                "crashed after using all available RAM",
                "Your notebook tried to allocate more memory than is available",
                "tried to allocate more memory than is available. It has restarted",
            ],
            Weight::Failure,
        )
    },
    Sign {
        ..Sign::new(
            "jupyter.kernel_died",
            &[
                "The kernel appears to have died", "Kernel died", "kernel died unexpectedly", "DeadKernelError",
                "Kernel Restarting", "kernel restarting", "KernelRestarter: restarting kernel",
                "The Kernel crashed while executing code", "crashed for an unknown reason",
            ],
            Weight::Symptom,
        )
    },
    Sign {
        ..Sign::new(
            "actions.shutdown",
            &["The runner has received a shutdown signal", "lost communication with the server"],
            Weight::Symptom,
        )
    },
];
