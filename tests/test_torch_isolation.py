"""`brimful.plan` and what lies around the model: closures, losses with weights, wrapped optimizers, ambient settings. Nothing of it may change."""

import random

import pytest

torch = pytest.importorskip("torch")

import brimful  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def model():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def whole(plan):
    return not plan.partial


@pytest.mark.parametrize("size", [10, 100_000])
def test_what_a_closure_reaches_is_not_written_to(size):
    parameter, plain = nn.Parameter(torch.ones(size)), torch.ones(size)

    def step(net, optimizer, batch):
        net(batch).mean().backward()
        optimizer.step()
        parameter.data.mul_(0.5)
        with torch.no_grad():
            plain.copy_(torch.zeros(size))

    assert whole(brimful.plan(model(), (32, 64), step=step, device="t4"))
    assert (parameter == 1).all() and (plain == 1).all()


def test_an_average_of_the_weights_is_not_moved():
    averages = [torch.ones_like(parameter) for parameter in model().parameters()]

    def step(net, optimizer, batch):
        net(batch).mean().backward()
        optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(averages, net.parameters()):
                average.mul_(0.9).add_(parameter, alpha=0.1)

    assert whole(brimful.plan(model(), (32, 64), step=step, device="t4"))
    assert all((average == 1).all() for average in averages)


def test_losses_with_weights_are_copied():
    class Temperature(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.calls = nn.Parameter(torch.ones(10)), torch.zeros(1)

        def forward(self, outputs, target):
            self.calls.add_(1)
            return F.cross_entropy(outputs * self.scale, target)

    loss, outer = Temperature(), nn.Parameter(torch.randn(10, 10))
    assert whole(brimful.plan(model(), ((32, 64), (32,)), loss=loss, device="t4"))
    assert loss.scale.grad is None and loss.calls.item() == 0
    plan = brimful.plan(model(), (32, 64), loss=lambda outputs, inputs: (outputs @ outer).mean(), device="t4")
    assert whole(plan) and outer.grad is None
    weighted = nn.CrossEntropyLoss(weight=torch.ones(10))
    assert whole(brimful.plan(model(), ((32, 64), (32,)), loss=weighted, device="t4"))
    assert whole(brimful.plan(model(), ((32, 64), (32,)), loss=F.cross_entropy, device="t4"))


def test_an_optimizer_inside_another_is_copied_too():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, parameters, base):
            super().__init__(parameters, {})
            self.base = base(self.param_groups)
            self.param_groups = self.base.param_groups

        def step(self, closure=None):
            self.base.step()

    net = model()
    optimizer = Wrapper(net.parameters(), torch.optim.AdamW)
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    plan = brimful.plan(net, (32, 64), optimizer=optimizer, device="t4")
    assert not optimizer.base.state and not called
    assert plan.breakdown["optimizer_state"] == 2 * plan.breakdown["parameters"]


def test_random_numbers_are_given_back():
    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                if random.random() < 0.5:
                    x = layer(x)
            return x + self.layers[0](x)

    before = random.getstate()
    plan = brimful.plan(Skipping(), (32, 64), device="t4")
    assert random.getstate() == before and plan.max_batch


def test_scaled_gradients_know_other_batches():
    plan = brimful.plan(model(), (32, 64), precision="mixed_float16", device="t4")
    assert plan.max_batch and plan.at(1).fits
    scaler = torch.amp.GradScaler("cpu")
    state = dict(vars(scaler))

    def step(net, optimizer, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    assert brimful.plan(model(), (32, 64), step=step, device="t4").max_batch
    assert vars(scaler) == state


def test_optional_inputs_reach_forward():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(5000, 64), nn.Linear(64, 5000)

        def forward(self, tokens, targets=None):
            hidden = self.embedding(tokens)
            if targets is None:
                return self.head(hidden[:, [-1]])
            return F.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())

    tokens = torch.zeros(8, 256, dtype=torch.int64)
    by_place = brimful.plan(Language(), (tokens, tokens), device="t4")
    by_name = brimful.plan(Language(), {"tokens": tokens, "targets": tokens}, device="t4")
    assert by_place.peak.allocated_bytes == by_name.peak.allocated_bytes


@pytest.mark.parametrize(
    "setting", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.device("meta")]
)
def test_what_the_caller_has_set_does_not_matter(setting):
    net = model()
    plain = brimful.plan(net, (32, 64), device="t4").peak.allocated_bytes
    with setting():
        assert brimful.plan(net, (32, 64), device="t4").peak.allocated_bytes == plain


def test_a_script_that_falls_back_to_the_cpu_is_planned_for_the_gpu():
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def step(net, optimizer, batch):
        x, y = batch[0].to(device), batch[1].to(device)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    assert whole(brimful.plan(model(), ((32, 64), (32,)), step=step, device="t4"))


def test_a_decorator_made_before_the_plan_counts():
    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        @torch.autocast("cuda", dtype=torch.bfloat16)
        def forward(self, x):
            return self.inner(x)

    plan = brimful.plan(Decorated(), (4096, 64), device="t4")
    same = brimful.plan(model(), (4096, 64), precision="mixed_bfloat16", device="t4")
    assert plan.report["job"]["precision"] == "autocast_bfloat16"
    assert plan.breakdown["saved_activations"] == pytest.approx(same.breakdown["saved_activations"], rel=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model()(torch.randn(2, 64)).dtype == torch.bfloat16


def test_a_loop_that_waits_for_a_value_ends():
    class Waiting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(64, 64)

        def forward(self, x):
            x = self.inner(x)
            while x.norm() > 1e-3:
                x = x * 0.5
            return x

    plan = brimful.plan(Waiting(), (8, 64), device="t4")
    assert plan.partial and plan.fits is None
    assert any(__file__ in note["text"] for note in plan.notes if note["code"] == "partial_capture")


def test_cells_losses_and_optimizers_that_need_care():
    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.lstm = nn.GRUCell(16, 32), nn.LSTMCell(32, 32)

        def forward(self, x):
            hidden = x.new_zeros(x.shape[1], 32)
            state = (hidden, hidden)
            for step in x:
                hidden = self.gru(step, hidden)
                state = self.lstm(hidden, state)
            return state[0]

    assert whole(brimful.plan(Cells(), torch.randn(5, 8, 16), device="t4"))

    def clipped(net, optimizer, batch):
        net(batch).mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()

    assert whole(brimful.plan(model(), (32, 64), step=clipped, device="t4"))
    for optimizer in ("momentum_fused", "momentum_foreach", lambda parameters: torch.optim.AdamW(parameters, capturable=True)):
        assert whole(brimful.plan(model(), (32, 64), optimizer=optimizer, device="t4"))
    with pytest.raises(ValueError, match="one batch before"):
        brimful.plan(nn.LazyLinear(4), (8, 16), device="t4")
    with pytest.raises(ValueError, match="1 or more"):
        brimful.plan(model(), (32, 64), device="t4").at(0)
