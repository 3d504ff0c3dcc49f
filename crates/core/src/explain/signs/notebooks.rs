//! What notebooks and hosted services say when their process dies: no exception comes from there.

use super::super::causes::Code;
use super::super::sign::{Resource, Sign, Weight};
use super::super::sizes::has;

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
        // Jupyter's own log, as Colab shows it: `WARNING:root:kernel 4222e7b2-… restarted`.
        check: |text| !has(text, "WARNING:root:kernel ") || has(text, " restarted"),
        ..Sign::new(
            "jupyter.kernel_died",
            &[
                "WARNING:root:kernel ", "The kernel appears to have died", "Kernel died", "kernel died unexpectedly",
                "DeadKernelError", "Kernel Restarting", "kernel restarting", "KernelRestarter: restarting kernel",
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
