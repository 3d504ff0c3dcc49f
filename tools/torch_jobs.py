"""The PyTorch jobs whose memory is measured, and how each is run.

In: a job as a dict, such as {"model": "resnet50", "batch": 32, "opt": "adamw", "dtype": "fp32"}. Out: a model, an example
batch and a step function. `measure_torch.py` runs them on a GPU, `python -m brimful.torch.accuracy` plans them without one.

Keys: model, batch, opt, dtype (fp32, bf16 and fp16 autocast, bf16_pure), seq, side, ckpt (gradient checkpointing),
channels_last, variant (inference, frozen, accumulate, compile, expandable).
"""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

MICRO_BATCHES = 4


# --- models: each maker returns (model, kind of input, size of input) ---------------------------------------------------


def vision(name, side=224):
    def make(job):
        import torchvision

        extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
        return getattr(torchvision.models, name)(weights=None, **extra), "image", job.get("side", side)

    return make


def seed_cnn(job):
    side = job.get("side", 256)
    left = ((side - 2) // 2 - 2) // 2
    layers = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * left * left, 2)), "image", side


def seed_mlp(job):
    sizes = [1000, 512, 256, 128]
    layers = []
    for inner, outer in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 2)), "vector", 1000


class TextRnn(nn.Module):
    """Tokens through an embedding and a recurrent layer; the last step is classified."""

    def __init__(self, kind=nn.LSTM, **options):
        super().__init__()
        self.embedding = nn.Embedding(20000, 256)
        self.rnn = kind(256, 64, batch_first=True, **options)
        self.out = nn.Linear(64 * (2 if options.get("bidirectional") else 1), 2)

    def forward(self, tokens):
        states, _ = self.rnn(self.embedding(tokens))
        return self.out(states[:, -1])


class UNet(nn.Module):
    """Three levels down and up again, with skip connections."""

    def __init__(self, width=32):
        super().__init__()

        def block(inner, outer):
            parts = []
            for size in (inner, outer):
                parts += [nn.Conv2d(size, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]
            return nn.Sequential(*parts)

        w = width
        self.down1, self.down2, self.down3, self.middle = block(3, w), block(w, 2 * w), block(2 * w, 4 * w), block(4 * w, 8 * w)
        self.pool = nn.MaxPool2d(2)
        self.grow3, self.grow2, self.grow1 = (nn.ConvTranspose2d(2 * c, c, 2, 2) for c in (4 * w, 2 * w, w))
        self.up3, self.up2, self.up1 = block(8 * w, 4 * w), block(4 * w, 2 * w), block(2 * w, w)
        self.out = nn.Conv2d(w, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.down3(self.pool(b))
        y = self.middle(self.pool(c))
        y = self.up3(torch.cat([self.grow3(y), c], 1))
        y = self.up2(torch.cat([self.grow2(y), b], 1))
        y = self.up1(torch.cat([self.grow1(y), a], 1))
        return self.out(y)


class AudioConv(nn.Module):
    """Strided 1-d convolutions over raw audio."""

    def __init__(self):
        super().__init__()
        layers, inner = [], 1
        for outer in (32, 64, 128, 256):
            layers += [nn.Conv1d(inner, outer, 9, stride=4, padding=4), nn.BatchNorm1d(outer), nn.GELU()]
            inner = outer
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(256, 10)

    def forward(self, x):
        return self.out(self.body(x[:, None]).mean(-1))


class VideoConv(nn.Module):
    """A small 3-d network."""

    def __init__(self):
        super().__init__()
        layers, inner = [], 3
        for outer in (16, 32, 64):
            layers += [nn.Conv3d(inner, outer, 3, padding=1), nn.BatchNorm3d(outer), nn.ReLU(), nn.MaxPool3d(2)]
            inner = outer
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        clip = x[:, :, None].expand(-1, -1, 8, -1, -1).contiguous()
        return self.out(self.body(clip).mean((2, 3, 4)))


class GroupNormNet(nn.Module):
    """Residual blocks with group normalisation and SiLU, as diffusion models have them."""

    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.Dropout(0.1)) for _ in range(4)
        )
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


class TorchTransformer(nn.Module):
    """PyTorch's own encoder layers over tokens."""

    def __init__(self, **options):
        super().__init__()
        self.embedding = nn.Embedding(20000, 512)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, **options)
        self.encoder = nn.TransformerEncoder(layer, 6)
        self.out = nn.Linear(512, 2)

    def forward(self, tokens):
        return self.out(self.encoder(self.embedding(tokens)).mean(1))


def module(make_module, kind, size):
    return lambda job: (make_module(), kind, job.get("side" if kind in ("image", "segment") else "seq", size))


def transformers_model(name):
    def make(job):
        import transformers as t

        llama = dict(vocab_size=32000)
        small = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12)
        grouped = dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=4)
        makers = {
            "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config()),
            "bert": lambda: t.BertForMaskedLM(t.BertConfig()),
            "llama160m": lambda: t.LlamaForCausalLM(t.LlamaConfig(**small, **llama)),
            "llama1b": lambda: t.LlamaForCausalLM(
                t.LlamaConfig(
                    hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4, **llama
                )
            ),
            "t5small": lambda: t.T5ForConditionalGeneration(
                t.T5Config(d_model=512, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128, decoder_start_token_id=0, pad_token_id=0)
            ),
            "pythia160m": lambda: t.GPTNeoXForCausalLM(
                t.GPTNeoXConfig(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, vocab_size=50304)
            ),
            "distilbert": lambda: t.DistilBertForMaskedLM(t.DistilBertConfig()),
            "roberta": lambda: t.RobertaForMaskedLM(t.RobertaConfig(max_position_embeddings=1026)),
            "electra": lambda: t.ElectraForMaskedLM(t.ElectraConfig(hidden_size=512, intermediate_size=2048, num_attention_heads=8)),
            "opt125m": lambda: t.OPTForCausalLM(t.OPTConfig()),
            "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**grouped, vocab_size=50000)),
            "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**grouped, vocab_size=32000)),
            "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**grouped, head_dim=64, vocab_size=40000)),
            "phi": lambda: t.PhiForCausalLM(
                t.PhiConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=16)
            ),
            "bloom": lambda: t.BloomForCausalLM(t.BloomConfig(hidden_size=512, n_layer=8, n_head=8, vocab_size=40000)),
            "gpt_neo": lambda: t.GPTNeoForCausalLM(
                t.GPTNeoConfig(hidden_size=768, num_layers=12, num_heads=12, attention_types=[[["global", "local"], 6]])
            ),
            "falcon": lambda: t.FalconForCausalLM(
                t.FalconConfig(hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, vocab_size=40000)
            ),
            "stablelm": lambda: t.StableLmForCausalLM(t.StableLmConfig(**grouped, vocab_size=40000)),
            "mpnet": lambda: t.MPNetForMaskedLM(t.MPNetConfig()),
            "bart": lambda: t.BartForConditionalGeneration(
                t.BartConfig(
                    d_model=512,
                    encoder_layers=4,
                    decoder_layers=4,
                    encoder_attention_heads=8,
                    decoder_attention_heads=8,
                    encoder_ffn_dim=2048,
                    decoder_ffn_dim=2048,
                )
            ),
            "albert": lambda: t.AlbertForMaskedLM(t.AlbertConfig(hidden_size=768, intermediate_size=3072, num_attention_heads=12)),
        }
        model = makers[name]()
        model.train()
        if job.get("ckpt"):
            model.config.use_cache = False
            model.gradient_checkpointing_enable()
        return model, "lm", job.get("seq", 512)

    return make


VISION = (
    "resnet18 resnet50 resnet101 vgg16 vgg11_bn alexnet densenet121 mobilenet_v2 mobilenet_v3_large efficientnet_b0 vit_b_16 "
    "regnet_y_400mf squeezenet1_1 resnext50_32x4d wide_resnet50_2 convnext_tiny swin_t shufflenet_v2_x1_0 mnasnet1_0 googlenet "
    "efficientnet_v2_s regnet_x_800mf resnet34 vgg19 densenet169 swin_v2_t vit_b_32 mobilenet_v3_small "
    "resnet152 efficientnet_b1 regnet_y_1_6gf shufflenet_v2_x0_5 densenet201 convnext_small mnasnet0_5 vgg13_bn squeezenet1_0 swin_s"
).split()
TRANSFORMERS = (
    "gpt2 bert llama160m llama1b t5small pythia160m distilbert roberta electra opt125m qwen2 mistral gemma phi bloom albert gpt_neo falcon stablelm mpnet bart"
).split()
MODELS = {name: vision(name) for name in VISION}
MODELS["inception_v3"] = vision("inception_v3", 299)
MODELS |= {name: transformers_model(name) for name in TRANSFORMERS}
MODELS |= {
    "seed_cnn": seed_cnn,
    "seed_mlp": seed_mlp,
    "seed_lstm": module(TextRnn, "tokens", 128),
    "unet": module(UNet, "segment", 256),
    "gru2": module(lambda: TextRnn(nn.GRU, num_layers=2), "tokens", 128),
    "bilstm2": module(lambda: TextRnn(nn.LSTM, num_layers=2, bidirectional=True, dropout=0.2), "tokens", 128),
    "audio_conv": module(AudioConv, "vector", 16000),
    "video_conv": module(VideoConv, "image", 64),
    "group_norm": module(GroupNormNet, "segment", 128),
    "lstm_wide": module(lambda: TextRnn(nn.LSTM, num_layers=3), "tokens", 200),
    "encoder": module(TorchTransformer, "tokens", 256),
    "encoder_gelu": module(lambda: TorchTransformer(activation="gelu", norm_first=True), "tokens", 256),
}

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=1e-3),
    "momentum": lambda params: torch.optim.SGD(params, lr=1e-3, momentum=0.9),
    "adam": lambda params: torch.optim.Adam(params, lr=1e-4),
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-4),
    "adamw_fused": lambda params: torch.optim.AdamW(params, lr=1e-4, fused=True),
    "adamw_forloop": lambda params: torch.optim.AdamW(params, lr=1e-4, foreach=False),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=1e-4),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-3),
    "adafactor": lambda params: torch.optim.Adafactor(params, lr=1e-3),
    "nadam": lambda params: torch.optim.NAdam(params, lr=1e-4),
    "radam": lambda params: torch.optim.RAdam(params, lr=1e-4),
    "adamax": lambda params: torch.optim.Adamax(params, lr=1e-4),
    "adadelta": lambda params: torch.optim.Adadelta(params),
}
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_batch(kind, size, batch, dtype, device):
    """Features and labels as the measured runs have them."""
    if kind == "image":
        x = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
        return x, torch.randint(0, 2, (batch,), device=device)
    if kind == "segment":
        x = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
        return x, torch.randint(0, 2, (batch, size, size), device=device)
    if kind == "vector":
        return torch.randn(batch, size, device=device, dtype=dtype), torch.randint(0, 2, (batch,), device=device)
    if kind == "tokens":
        return torch.randint(0, 20000, (batch, size), device=device), torch.randint(0, 2, (batch,), device=device)
    x = torch.randint(0, 30000, (batch, size), device=device)
    return x, x.clone()


def loss_of(model, kind, x, y):
    if kind == "lm":
        return model(input_ids=x, labels=y).loss
    return F.cross_entropy(model(x), y)


def make_model(job):
    """The model on the host, its kind of input and the size of it."""
    model, kind, size = MODELS[job["model"]](job)
    if job.get("dtype") == "bf16_pure":
        model = model.to(torch.bfloat16)
    model.train(job.get("variant") != "inference")
    return model, kind, size


def freeze_backbone(model):
    """Everything but the last two parameters, a head's weight and bias, stays as it is."""
    parameters = list(model.parameters())
    for parameter in parameters[:-2]:
        parameter.requires_grad_(False)


def make_step(job, kind, scaler):
    """One training step as a function of (model, optimizer, (x, y)), as the measured runs do it."""
    amp = AUTOCAST.get(job.get("dtype"))

    def autocast():
        return torch.autocast("cuda", dtype=amp, enabled=amp is not None)

    def inference(model, optimizer, batch):
        with torch.no_grad(), autocast():
            x, y = batch
            return model(input_ids=x, labels=y) if kind == "lm" else model(x)

    def train(model, optimizer, batch):
        optimizer.zero_grad(set_to_none=True)
        pieces = [batch]
        if job.get("variant") == "accumulate":
            pieces = list(zip(*(part.chunk(MICRO_BATCHES) for part in batch)))
        for x, y in pieces:
            with autocast():
                if kind == "lm":
                    loss = model(input_ids=x, labels=y).loss
                else:
                    out = model(x)
                    loss = F.cross_entropy(out, y)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    return inference if job.get("variant") == "inference" else train


def on_device(job, device):
    """The job ready to run: model, optimizer, batch and step."""
    model, kind, size = make_model(job)
    if job.get("variant") == "frozen":
        freeze_backbone(model)
    model.to(device)
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    optimizer = OPTIMIZERS[job["opt"]]([p for p in model.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda") if job.get("dtype") == "fp16" else None
    dtype = torch.bfloat16 if job.get("dtype") == "bf16_pure" else torch.float32
    return model, optimizer, make_batch(kind, size, job["batch"], dtype, device), make_step(job, kind, scaler)
