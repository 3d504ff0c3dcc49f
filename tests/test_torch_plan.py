"""`brimful.plan` on real PyTorch models, without a GPU: what it says, what it leaves alone, and what it answers to mistakes."""

import json
import threading

import pytest

torch = pytest.importorskip("torch")

import brimful  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

MIB = 2**20


def mlp():
    return nn.Sequential(nn.Linear(1000, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 10))


def batch(size=64):
    return torch.randn(size, 1000), torch.randint(0, 10, (size,))


class Blocks(nn.Module):
    """Wide residual blocks, with or without recomputation."""

    def __init__(self, recompute=False):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.Dropout(0.1)) for _ in range(6))
        self.recompute = recompute

    def forward(self, x):
        for block in self.blocks:
            x = x + (torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.recompute else block(x))
        return x


def codes(plan):
    return {note["code"] for note in plan.notes}


def test_parts_add_up_and_the_floor_is_below():
    plan = brimful.plan(mlp(), batch(), loss=nn.CrossEntropyLoss(), device="t4")
    assert sum(plan.breakdown.values()) == plan.peak.device_bytes
    assert plan.peak.floor_bytes <= plan.peak.allocated_bytes <= plan.peak.reserved_bytes
    weights = sum(p.numel() * 4 for p in mlp().parameters())
    assert plan.breakdown["parameters"] == weights
    assert plan.breakdown["optimizer_state"] == 2 * weights


def test_nothing_of_the_users_is_touched():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.LazyLinear(4))
    x = torch.randn(4, 3, 16, 16)
    model(x)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objects = {name: id(value) for name, value in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state, random = json.dumps(optimizer.state_dict()), torch.get_rng_state()
    plan = brimful.plan(model, (x, torch.tensor([0, 1, 2, 3])), loss=nn.CrossEntropyLoss(), optimizer=optimizer, device="t4")
    assert plan.breakdown["optimizer_state"] > 0
    assert objects == {name: id(value) for name, value in model.named_parameters()}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert json.dumps(optimizer.state_dict()) == state and not optimizer.state and scheduler.last_epoch == 0
    assert torch.equal(random, torch.get_rng_state())
    # PyTorch itself works as before: its own kernels, its own autocast.
    assert model(x).isfinite().all()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    assert F.dropout(torch.ones(100), 0.5).shape == (100,)


def test_inputs_in_every_form_give_the_same_peak():
    x, y = batch()

    def own_loss(outputs, inputs):
        return F.cross_entropy(outputs, inputs[1])

    peaks = {
        brimful.plan(mlp(), inputs, loss=loss, device="t4").peak.allocated_bytes
        for inputs, loss in (
            ((x, y), nn.CrossEntropyLoss()),
            ((x, y), own_loss),
            ((x.to("meta"), y.to("meta")), own_loss),
            (((64, 1000), (64,)), nn.CrossEntropyLoss()),
            ((x, y), None),
        )
    }
    assert len(peaks) == 1
    with torch.device("meta"):
        empty = mlp()
    assert brimful.plan(empty, (x, y), device="t4").peak.allocated_bytes in peaks


def test_dicts_go_to_the_arguments_of_forward():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.out = nn.Embedding(100, 32), nn.Linear(32, 4)

        def forward(self, tokens, scale):
            return self.out(self.embedding(tokens).mean(1) * scale)

    inputs = {"tokens": (16, 20), "scale": torch.ones(16, 1), "labels": (16,)}
    plan = brimful.plan(Named(), inputs, loss=nn.CrossEntropyLoss(), device="t4")
    assert plan.breakdown["inputs"] == 16 * 20 * 8 + 16 * 4 + 16 * 8


def test_another_batch_is_a_substitution():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)))

        def forward(self, x):
            return self.layers(x)

    small = brimful.plan(Wide(), (4096, 512), device="t4")
    large = brimful.plan(Wide(), (4096, 512), batch=16384, device="t4")
    # Scratch of reductions does not grow with the batch: the rest is exact.
    assert small.at(16384).peak.allocated_bytes == pytest.approx(large.peak.allocated_bytes, rel=0.02)
    assert large.at(4096).peak.allocated_bytes == pytest.approx(small.peak.allocated_bytes, rel=0.02)


def test_a_proposed_batch_fits_when_it_is_planned_itself():
    plan = brimful.plan(Blocks(), (64, 128, 512), memory="2GiB")
    assert plan.max_batch is not None and plan.max_batch > 64
    assert brimful.plan(Blocks(), (plan.max_batch, 128, 512), memory="2GiB").fits
    assert not brimful.plan(Blocks(), (int(plan.max_batch * 1.1) + 1, 128, 512), memory="2GiB").fits


def test_recomputation_accumulation_precision_and_freezing_need_less():
    def peak(model=None, **options):
        return brimful.plan(model or Blocks(), (64, 128, 512), device="t4", **options).peak.allocated_bytes

    whole = peak()
    assert peak(Blocks(recompute=True)) < 0.6 * whole
    assert peak(accumulate=4) < 0.5 * whole
    assert peak(precision="mixed_bfloat16") < 0.8 * whole
    assert peak(precision="bfloat16") < 0.6 * whole
    assert peak(mode="inference") < 0.4 * whole
    assert peak(optimizer="sgd") < whole
    frozen = Blocks()
    for parameter in frozen.blocks[:5].parameters():
        parameter.requires_grad_(False)
    assert peak(frozen) < 0.4 * whole


def test_a_step_written_for_a_gpu_runs_as_it_stands():
    scaler = torch.amp.GradScaler("cuda")

    def step(model, optimizer, data):
        x, y = data
        x, y = x.cuda(), y.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            weight = torch.ones(10, device="cuda")
            loss = F.cross_entropy(model(x), y, weight=weight)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.synchronize()

    plan = brimful.plan(mlp(), batch(), step=step, device="t4")
    assert "partial_capture" not in codes(plan)
    assert plan.breakdown["optimizer_state"] > 0


def test_where_gradients_are_cleared_shows():
    def late(model, optimizer, data):
        F.cross_entropy(model(data[0]), data[1]).backward()
        optimizer.step()

    def early(model, optimizer, data):
        optimizer.zero_grad(set_to_none=True)
        late(model, optimizer, data)

    # A large batch, so that the peak is in forward and backward, with and without last step's gradients.
    kept, cleared = (
        brimful.plan(Blocks().to(torch.float32), ((256, 16, 512), (256, 512)), step=step, optimizer="sgd") for step in (late, early)
    )
    assert kept.peak.allocated_bytes > cleared.peak.allocated_bytes


def test_values_that_are_read_and_masks_are_noted():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.Linear(1000, 512), nn.Linear(512, 10)

        def forward(self, x):
            hidden = self.inner(x)
            if hidden.sum() > 0:
                hidden = hidden.relu()
            return self.out(hidden) + hidden[hidden > 0].mean()

    plan = brimful.plan(Branching(), batch(), device="t4")
    assert {"value_read", "selection_bounded"} <= codes(plan)
    assert any(__file__ in note["text"] for note in plan.notes if note["code"] == "value_read")


def test_what_cannot_be_captured_gives_the_part_before_it():
    class ThroughNumpy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(1000, 512)

        def forward(self, x):
            hidden = self.inner(x)
            return hidden + torch.from_numpy(hidden.detach().numpy())

    plan = brimful.plan(ThroughNumpy(), batch(), device="t4")
    [note] = [note for note in plan.notes if note["code"] == "partial_capture"]
    assert f"{__file__}:" in note["text"] and "step=" in note["text"]
    assert plan.peak.allocated_bytes > 1000 * 512 * 4


def test_recurrent_attention_and_packed_layers_run():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(16, 32, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)

        def forward(self, x):
            lengths = torch.full((x.shape[0],), x.shape[1])
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            return self.rnn(packed)[1]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

        def forward(self, x):
            return self.layer(x, src_key_padding_mask=torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device))

    for model, shape in ((Packed(), (8, 20, 16)), (Attention(), (8, 20, 64)), (nn.LSTMCell(16, 32), (8, 16))):
        assert "partial_capture" not in codes(brimful.plan(model, shape, device="t4"))


def test_a_model_that_cannot_be_copied_is_planned_all_the_same():
    class Locked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.lock, self.calls = nn.Linear(1000, 10), threading.Lock(), 0

        def forward(self, x):
            with self.lock:
                self.calls += 1
            return self.inner(x)

    model = Locked()
    plan = brimful.plan(model, batch(), device="t4")
    assert plan.breakdown["parameters"] == (1000 * 10 + 10) * 4 and "partial_capture" not in codes(plan)
    assert model.calls == 0 and all(parameter.grad is None for parameter in model.parameters())


def test_the_plan_shows_itself():
    plan = brimful.plan(mlp(), batch(), device="t4")
    assert "Sequential" in str(plan) and "What fills it" in str(plan)
    assert "Sequential" in repr(plan) and "<div" in plan._repr_html_()
    assert json.loads(plan.to_json())["schema"] == 1
    assert {"peak_bytes", "apply", "same_result"} <= set(plan.remedies[0]) if plan.remedies else True
    lines = {line["source"] for line in plan.report["lines"]}
    assert all(":" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"precision": "int4"}, "mixed_bfloat16"),
        ({"mode": "training"}, "inference"),
        ({"optimizer": "adamz"}, "adamw"),
        ({"optimizer": "lbfgs"}, "step="),
        ({"device": "t44"}, "t4"),
        ({"device": "cpu"}, "CUDA"),
        ({"batch": 0}, "at least one sample"),
        ({"accumulate": 65}, "1 to the batch"),
        ({"memory": "banana"}, "15GiB"),
        ({"alloc_conf": "expandable:1"}, "expandable"),
    ],
)
def test_mistakes_are_named(options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        brimful.plan(mlp(), batch(), **options)


def test_wrong_models_and_inputs_are_named():
    with pytest.raises(ValueError, match="example batch"):
        brimful.plan(mlp(), 5)
    with pytest.raises(RuntimeError, match="1000"):
        brimful.plan(mlp(), torch.randn(4, 7))
    with pytest.raises(TypeError, match="nn.Module"):
        brimful.plan(lambda x: x, torch.randn(4, 7))
    with pytest.raises(TypeError, match="TorchScript"):
        brimful.plan(torch.jit.trace(mlp().eval(), torch.randn(2, 1000)), torch.randn(2, 1000))
    frozen = mlp()
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="inference"):
        brimful.plan(frozen, batch())
