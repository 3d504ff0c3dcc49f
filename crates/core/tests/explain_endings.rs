//! What tells a failure that ended a job from one that it outlived, and from words that report none.
//!
//! In: messages in their programs' own words around one that ran out or was killed. Checked: that it counts where nothing speaks against it, and that it
//! does not where the lines around it do.

use brimful_core::explain::{Code, Explanation, Resource, explain};

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

const FULL: &str = "CUDA out of memory. Tried to allocate 1.12 GiB (GPU 0; 11.91 GiB total capacity; 10.02 GiB already allocated; 744.00 MiB free; \
                    10.41 GiB reserved in total by PyTorch)\n";

#[test]
fn a_kill_that_has_a_sender_is_no_memory_failure() {
    let killed = "step 2210 loss 0.92\nsrun: error: c12: task 0: Killed\n";
    assert_eq!(cause(killed), Some(Code::KernelOomKill));
    for why in ["", " DUE TO JOB REQUEUE", " DUE TO NODE FAILURE"] {
        let cancelled = format!("slurmstepd: error: *** JOB 441 ON c12 CANCELLED AT 2026-03-18T10:02:44{why} ***\n");
        assert_eq!(cause(&format!("{cancelled}{killed}")), Some(Code::NotMemory), "{why}");
        // Slurm ends the other tasks of a step when one was killed: that one came first.
        assert_eq!(cause(&format!("{killed}{cancelled}")), Some(Code::KernelOomKill), "{why}");
    }
    let runner = "The runner has received a shutdown signal. This can happen when the runner service is stopped.\n";
    assert_eq!(cause(&format!("{runner}Process completed with exit code 137.\n")), None);
    assert_eq!(cause("Process completed with exit code 137.\n"), Some(Code::KernelOomKill));
    let gone = "[1]+  Killed                  nohup python train.py > log.txt\n";
    assert_eq!(cause(gone), Some(Code::KernelOomKill));
    assert_eq!(cause(&format!("ida@box:~$ kill -9 30117\n{gone}")), Some(Code::NotMemory));
    assert_eq!(
        cause(&format!("ida@box:~$ kill -9 30117\nida@box:~$ python train.py\n{gone}")),
        Some(Code::KernelOomKill)
    );
    assert_eq!(cause(&format!("If it hangs, kill -9 the process yourself.\n{gone}")), Some(Code::KernelOomKill));
    let compose = "train-1 exited with code 137\n";
    assert_eq!(cause(compose), Some(Code::KernelOomKill));
    assert_eq!(
        cause(&format!("Gracefully stopping... (press Ctrl+C again to force)\n{compose}")),
        Some(Code::NotMemory)
    );
}

#[test]
fn a_machine_that_was_taken_away_kills_too() {
    let pod = |event: &str| {
        format!(
            "    State:          Terminated\n      Reason:       Error\n      Exit Code:    137\nEvents:\n  {event}\n"
        )
    };
    assert_eq!(
        cause(&pod("Normal   Pulled     41m   kubelet            Container image already present")),
        Some(Code::KernelOomKill)
    );
    assert_eq!(
        cause(&pod("Warning  Preempted  2m    default-scheduler  Preempted by pod 4a1c on node node-7")),
        Some(Code::NotMemory)
    );
    // Started again, it may run out of memory.
    let again = format!("the worker was preempted, starting again\nRuntimeError: {FULL}");
    assert_eq!(said(&again).resource, Some(Resource::GpuMemory));
}

#[test]
fn docker_may_deny_that_its_limit_was_reached() {
    let inspected = |killed: bool| {
        format!("\"Status\": \"exited\",\n\"OOMKilled\": {killed},\n\"ExitCode\": 137,\n\"Error\": \"\",\n")
    };
    assert_eq!(cause(&inspected(true)), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause(&inspected(false)), None);
    assert_eq!(said("restartPolicy: OnFailure   # OOMKilled pods are restarted\n").resource, None);
}

#[test]
fn a_failure_that_was_caught_and_done_again_did_not_end_the_job() {
    let caught = format!("WARNING {FULL}WARNING OOM at batch_size=48, falling back to 24\nepoch 1/2 loss 0.412\n");
    assert_eq!(said(&caught).resource, None);
    assert!(said(&caught).not_failures.iter().any(|quote| quote.text.contains("Tried to allocate")));
    let logger = format!("RuntimeError: {FULL}logger: no network, falling back to files\n");
    assert_eq!(said(&logger).resource, Some(Resource::GpuMemory));
    // Advice is none.
    let advised = format!("RuntimeError: {FULL}Try reducing batch size, or use a larger device\n");
    assert_eq!(said(&advised).resource, Some(Resource::GpuMemory));
    // The same words again, and nothing after them.
    let twice = format!("{caught}RuntimeError: {FULL}");
    assert_eq!(said(&twice).resource, Some(Resource::GpuMemory));
    let gave_up = format!("{caught}ERROR giving up after 3 attempts\n");
    assert_eq!(said(&gave_up).resource, Some(Resource::GpuMemory));
}

#[test]
fn a_failure_before_the_end_of_the_job_did_not_end_it() {
    let skipped = format!("WARNING {FULL}WARNING skipping batch 912\nepoch 1 step 913 loss 0.4\n");
    assert_eq!(said(&skipped).resource, Some(Resource::GpuMemory));
    for end in [
        "Training finished. Best checkpoint saved to out/best.pt",
        "{'train_runtime': 812.3, 'train_samples_per_second': 41.2, 'epoch': 3.0}",
        "All 12 runs completed successfully.",
        "Study completed successfully.",
        "[I 2026-02-01] Trial 5 finished with value: 0.84 and parameters: {'bs': 64}.",
        "Done in 812.4s",
        "Process finished with exit code 0",
    ] {
        assert_eq!(said(&format!("{skipped}{end}\n")).resource, None, "{end}");
        assert_eq!(said(&format!("{end}\n{skipped}")).resource, Some(Resource::GpuMemory), "{end}");
    }
    // What started the job may say so of any end.
    let raised = format!(
        "Traceback (most recent call last):\n  File \"fit.py\", line 9, in step\n    loss.backward()\nRuntimeError: {FULL}"
    );
    assert_eq!(said(&format!("{raised}Training finished\n")).resource, Some(Resource::GpuMemory));
    let steps = "epoch 1 loss 0.4\n".repeat(8);
    assert_eq!(said(&format!("{raised}{steps}Training finished\n")).resource, None);
    let by_parent = format!(
        "{raised}{steps}subprocess.CalledProcessError: Command 'fit.py' returned non-zero exit status 1.\nTraining finished\n"
    );
    assert_eq!(said(&by_parent).resource, Some(Resource::GpuMemory));
    let uploaded = format!("{skipped}wandb: upload completed successfully\n");
    assert_eq!(said(&uploaded).resource, Some(Resource::GpuMemory));
}

#[test]
fn code_that_names_a_failure_reports_none() {
    let notebook = |error: &str| {
        format!(
            "---------------------------------------------------------------------------\n\
             KeyError                                  Traceback (most recent call last)\n\
             <ipython-input-7-1b2c> in run(x)\n     86     try:\n     87         return model(x)\n\
             ---> 88     except torch.cuda.OutOfMemoryError:\n     89         return parts(x)\n\n{error}\n"
        )
    };
    assert_eq!(said(&notebook("KeyError: 'lr'")).resource, None);
    assert_eq!(said(&notebook(&format!("OutOfMemoryError: {FULL}"))).resource, Some(Resource::GpuMemory));
    let help = "  --offload        keep weights on the host; avoids torch.cuda.OutOfMemoryError on small cards\nserve.py: error: unrecognized arguments: -b\n";
    assert_eq!(said(help).resource, None);
}

#[test]
fn what_is_mentioned_gives_way_to_the_error_at_the_end() {
    let report = "job-119  FAILED    CUDA out of memory (fixed in r201)\n";
    let ends = |error: &str| {
        format!(
            "{report}Traceback (most recent call last):\n  File \"r.py\", line 9, in load\n    return cfg['optimizer']['lr']\n{error}\n"
        )
    };
    assert_eq!(said(report).resource, Some(Resource::GpuMemory));
    assert_eq!(cause(&ends("KeyError: 'lr'")), Some(Code::NotMemory));
    // What waits for a process that died of it says so in errors of its own.
    assert_eq!(said(&ends("RuntimeError: worker 3 failed")).resource, Some(Resource::GpuMemory));
}

#[test]
fn whoever_runs_out_of_time_is_killed_too() {
    let job = "epoch 22/40 loss 0.44\nexit code 137\n";
    assert_eq!(cause(job), Some(Code::KernelOomKill));
    for why in [
        "ERROR: Job failed: execution took longer than 1h0m0s seconds",
        "The job running on runner box-3 has exceeded the maximum execution time of 360 minutes.",
        "Error: The operation was canceled.",
        "systemd[1]: train.service: State 'stop-sigterm' timed out. Killing.",
        "WARNING - process psutil.Process(pid=81) did not respond to SIGTERM. Trying SIGKILL",
        "WARN killing 'trainer' (811) with SIGKILL",
        "Training job stopped by the user: StopTrainingJob",
    ] {
        assert_eq!(cause(&format!("{why}\n{job}")), Some(Code::NotMemory), "{why}");
    }
    let shell = |command: &str| format!("run.sh: line 4: 20119 Killed                  {command}\n");
    assert_eq!(cause(&shell("python sim.py")), Some(Code::KernelOomKill));
    assert_eq!(cause(&shell("timeout -s KILL 3600 python sim.py")), None);
}

#[test]
fn a_table_of_the_loader_is_no_memory() {
    let loading = |what: &str| said(&format!("OSError: libgomp.so.1: cannot allocate memory{what}\n")).resource;
    assert_eq!(loading(" in static TLS block"), None);
    assert_eq!(loading(""), Some(Resource::HostMemory));
}

/// A traceback that ends in this line.
fn traced(prefix: &str, ending: &str) -> String {
    let lines = ["Traceback (most recent call last):", "  File \"t.py\", line 5, in <module>", "    f()", ending];
    lines.iter().map(|line| format!("{prefix}{line}\n")).collect()
}

#[test]
fn a_traceback_ends_in_an_exception_whatever_it_is_called() {
    for ending in
        ["AssertionError", "NotImplementedError", "mypkg.errors.TrainingFailed", "mypkg.errors.TrainingFailed: x"]
    {
        for prefix in ["", "[rank0]: "] {
            let said = said(&format!("loss: nan\n{}", traced(prefix, ending)));
            let cause = said.cause.expect("a cause");
            assert_eq!((said.resource, cause.code), (None, Code::NotMemory), "{ending}");
            assert!(cause.because[0].contains(ending.trim_end_matches(": x")), "{:?}", cause.because);
            assert_eq!(said.evidence.iter().map(|quote| quote.line).collect::<Vec<_>>(), [5], "{ending}");
        }
    }
    // The last of several counts; one that was cut off says nothing.
    let two = traced("", "KeyError")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + &traced("", "pkg.Failed");
    assert!(said(&two).cause.is_some_and(|cause| cause.because[0].contains("pkg.Failed")));
    assert_eq!(cause("Traceback (most recent call last):\n  File \"t.py\", line 5, in <module>\n    f()\n"), None);
    assert_eq!(cause("Traceback (most recent call last):\nsomething else\n"), None);
    assert_eq!(cause(&traced("", "and so on")), None);
    assert_eq!(cause(&(traced("", "pkg.Failed") + "Training finished\n")), None);
}

#[test]
fn an_exception_around_one_of_memory_is_of_memory() {
    let wrapped = format!(
        "{}\nThe above exception was the direct cause of the following exception:\n\n{}",
        traced("", &format!("torch.OutOfMemoryError: {}", FULL.trim_end())),
        traced("", "mypkg.errors.TrainingFailed: step 3")
    );
    assert_eq!(said(&wrapped).resource, Some(Resource::GpuMemory));
    assert_ne!(cause(&wrapped), Some(Code::NotMemory));
    // Nor is anything denied where a process was killed, or the exception's own words may be of memory.
    assert_eq!(cause(&(traced("", "mypkg.errors.WorkerLost: 3") + "exit code 137\n")), Some(Code::KernelOomKill));
    for ending in ["mypkg.errors.OutOfMemory", "mypkg.errors.Failed: could not allocate the pool", "MemoryError"] {
        assert_ne!(cause(&traced("", ending)), Some(Code::NotMemory), "{ending}");
    }
}
