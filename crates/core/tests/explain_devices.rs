//! Devices that are not CUDA's, pools that are not a device's, and what fills a device beside the job.
//!
//! In: messages in the form that programs give them, with figures and names of our own. Checked: what ran out, whose it was, and the figures.

#[path = "support/explained.rs"]
mod explained;

use brimful_core::bytes::{GIB, MIB};
use brimful_core::explain::{Code, Resource};
use explained::{cause, nothing, said};

#[test]
fn what_lies_beside_the_pool_of_a_mac_is_not_the_jobs() {
    let full = |own: &str, others: &str| {
        format!(
            "RuntimeError: MPS backend out of memory (MPS allocated: {own} GiB, other allocations: {others} GiB, max allowed: 20.40 GiB). \
             Tried to allocate 310.00 MiB on private pool.\n"
        )
    };
    assert_eq!(cause(&full("6.10", "14.20")), Some(Code::OtherProcess));
    assert_eq!(cause(&full("19.90", "0.40")), None);
    // It would not have fitted without them, either.
    assert_eq!(cause(&full("20.30", "6.00")), None);
    let numbers = said(&full("6.10", "14.20")).numbers;
    assert_eq!(numbers.requested_bytes, Some(310 * MIB));
}

#[test]
fn a_table_of_devices_shows_who_was_there_before() {
    let pasted = |used: &str, error: &str| {
        cause(&format!(
            "python train.py --device 0\n{error}\n\
             | 61%   71C    P2   204W / 350W |  {used}MiB / 24564MiB |     97%      Default |\n"
        ))
    };
    assert_eq!(pasted("23190", "RuntimeError: CUDA error: out of memory"), Some(Code::OtherProcess));
    assert_eq!(pasted("2319", "RuntimeError: CUDA error: out of memory"), None);
    // PyTorch's pool had begun: the table may show this job itself.
    assert_eq!(pasted("23190", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"), None);
}

#[test]
fn other_drivers_have_their_own_names_for_it() {
    let level_zero = "RuntimeError: zeMemAllocDevice failed: ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY\n";
    assert_eq!(said(level_zero).resource, Some(Resource::GpuMemory));
    let summary = |count: u32| {
        format!("|            CUDA OOMs: {count}            |        cudaMalloc retries: {count}         |\n")
    };
    assert_eq!(said(&summary(1)).resource, Some(Resource::GpuMemory));
    assert!(nothing(&summary(0)));
    assert!(nothing("srun: error: n17: task 3: Bus error (core dumped)\n"));
    let worker = "RuntimeError: DataLoader worker (pid 88) is killed by signal: Bus error. \n";
    assert_eq!(said(worker).resource, Some(Resource::SharedMemory));
}

#[test]
fn pinned_memory_is_the_hosts() {
    let pool = |name: &str| {
        format!(
            "W tensorflow/core/framework/op_kernel.cc:1192] Resource exhausted: OOM when allocating tensor with shape[640,500,250,4]\n\
             W tensorflow/core/common_runtime/bfc_allocator.cc:273] Allocator ({name}) ran out of memory trying to allocate 1.19GiB.\n"
        )
    };
    assert_eq!(said(&pool("cuda_host_bfc")).resource, Some(Resource::HostMemory));
    assert_eq!(said(&pool("GPU_0_bfc")).resource, Some(Resource::GpuMemory));
}

#[test]
fn weights_of_a_convolution_are_no_activations() {
    let oom = |shape: &str| {
        format!(
            "ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] and type float on /device:GPU:0 by allocator GPU_0_bfc [Op:Mul]\n"
        )
    };
    assert_eq!(cause(&oom("3,3,640,960")), None);
    assert_eq!(cause(&oom("24,64,112,112")), Some(Code::BatchTooLarge));
}

#[test]
fn heaps_and_messages_of_java_have_their_limits() {
    let heap = said("java -Xmx2g -jar rows.jar\njava.lang.OutOfMemoryError: Java heap space\n");
    assert_eq!((heap.resource, heap.numbers.capacity_bytes), (Some(Resource::HostMemory), Some(2 * GIB)));
    assert_eq!(heap.cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit));
    // The frames of whoever called it are not its own.
    assert!(heap.alternatives.is_empty() && heap.doing.is_none());
    let message = said("RESOURCE_EXHAUSTED: gRPC message exceeds maximum size 4194304: 6291456\n");
    assert_eq!(message.resource, Some(Resource::MessageSize));
    assert_eq!((message.numbers.requested_bytes, message.numbers.capacity_bytes), (Some(6 * MIB), Some(4 * MIB)));
    assert_eq!(cause("Exit Code: 137\n`OOMKilled=false`\n"), None);
}

#[test]
fn what_is_moved_and_larger_than_the_device_is_data() {
    let moved = |code: &str| {
        cause(&format!(
            "Traceback (most recent call last):\n  File \"rows.py\", line 21, in <module>\n    {code}\nRuntimeError: CUDA out of memory. Tried to \
             allocate 31.00 GiB (GPU 0; 10.76 GiB total capacity; 0 bytes already allocated; 10.20 GiB free; 0 bytes cached)\n"
        ))
    };
    assert_eq!(moved("self.rows = rows.view(parts, -1).t().contiguous().to(device)"), Some(Code::DataOnDevice));
    assert_eq!(moved("grid = torch.zeros(side, side, side, device=device)"), Some(Code::TensorTooLarge));
}

#[test]
fn predictions_that_are_put_together_are_an_evaluation() {
    let log = "Traceback (most recent call last):\n  File \"/venv/lib/python3.10/site-packages/transformers/trainer_pt_utils.py\", line 88, in \
               torch_pad_and_concatenate\n    result = tensor1.new_full(new_shape, padding_index)\nOutOfMemoryError: CUDA out of memory. Tried to \
               allocate 9.10 GiB (GPU 0; 31.75 GiB total capacity; 17.20 GiB already allocated; 8.80 GiB free; 20.10 GiB reserved in total by PyTorch)\n";
    assert_eq!(cause(log), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn what_prepares_images_is_no_model() {
    let log = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"paint.py\", line 40, in <module>\n    frames = stack()(frames)\n  File \"{file}\", line 61, in \
             __call__\n    img = t(img)\n  File \"utils.py\", line 17, in __call__\n    img = img.float().div(255)\nRuntimeError: [enforce fail at \
             CPUAllocator.cpp:64] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9663676416 bytes. Error code 12 (Cannot allocate memory)\n"
        )
    };
    assert_eq!(
        cause(&log("/venv/lib/python3.9/site-packages/torchvision/transforms/transforms.py")),
        Some(Code::DatasetInMemory)
    );
    assert_eq!(
        cause(&log("/venv/lib/python3.9/site-packages/torch/nn/modules/container.py")),
        Some(Code::BatchTooLarge)
    );
}
