"""The trainers log a watch's totals at their own steps, to whatever they log to."""

from __future__ import annotations

import csv
import json

import pytest

torch = pytest.importorskip("torch")

import graphdoctor

pytestmark = pytest.mark.slow

SIZES = (4, 4, 4, 6, 6, 8)
"""Of the batches: one compile and two recompiles, at the first, fourth and last."""
FIRST, LATE, LAST = 0, 3, 5


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x, **_):
        return {"loss": self.linear(x[:, :, None]).square().mean()}


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return len(SIZES)

    def __getitem__(self, index):
        return {"x": torch.ones(SIZES[index]), "labels": torch.ones(())}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_the_trainer_of_transformers_logs_totals_to_all_its_loggers(tmp_path, capsys):
    pytest.importorskip("accelerate", reason="needs transformers and accelerate")
    transformers = pytest.importorskip("transformers", reason="needs transformers")

    class Logger(transformers.TrainerCallback):
        """Stands before the watch's callback, as those of ``report_to`` do."""

        def __init__(self):
            self.rows = []

        def on_log(self, args, state, control, logs=None, **_):
            self.rows.append({"step": state.global_step, **logs})

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(Batches(), batch_size=1)

    logger = Logger()
    trainer = Trainer(
        model=torch.compile(Net(), backend="eager", dynamic=False),
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            num_train_epochs=1,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=Batches(),  # for its length
        callbacks=[logger],
    )
    watching = graphdoctor.TransformersWatch(trainer)
    trainer.add_callback(watching)
    with watching.watch as seen:
        trainer.train()

    compiles = [(event.step, event.kind) for event in seen.events if event.function == "forward"]
    assert compiles == [(FIRST + 1, "compile"), (LATE + 1, "recompile"), (LAST + 1, "recompile")]
    for rows in (logger.rows, trainer.state.log_history):
        totals = [row for row in rows if "compile/recompiles" in row]
        assert [(row["step"], row["compile/recompiles"]) for row in totals] == [
            (FIRST + 1, 0),
            (LATE + 1, 1),
            (LAST + 1, 2),
        ]
        assert totals[-1]["compile/seconds"] == pytest.approx(seen.compile_seconds)
        assert totals[-1]["compile/limit_hits"] == 0
    assert f"graphdoctor: {seen.summary()}" in capsys.readouterr().err


PROGRAM = """
import json, sys, warnings

warnings.simplefilter("ignore")
import torch
from {package} import LightningModule, Trainer
from {package}.loggers import CSVLogger
import graphdoctor
from tests.api.watching.test_trainers import Batches, Net


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.compile(Net(), backend="eager", dynamic=False)

    def training_step(self, batch, _):
        return self.net(batch["x"])["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Batches(), batch_size=1)


watching = graphdoctor.LightningWatch()
Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=CSVLogger(sys.argv[1], name="", version=""),
    callbacks=[watching],
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
).fit(Module())
watching.watch.close()
seen = watching.watch
compiles = [(e.step, e.kind) for e in seen.events if e.function == "forward"]
print(json.dumps([compiles, seen.compile_seconds, seen.summary()]))
"""


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_logs_totals_to_its_loggers(package, tmp_path):
    pytest.importorskip(package, reason="needs lightning or pytorch-lightning")
    import subprocess
    import sys

    # Which of the two packages is meant depends on what the process has imported.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(package=package), str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compiles, seconds, summary = json.loads(done.stdout.splitlines()[-1])
    assert compiles == [[FIRST, "compile"], [LATE, "recompile"], [LAST, "recompile"]]
    with (tmp_path / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["compile/recompiles"]]
    logged = [(int(row["step"]), int(row["compile/recompiles"])) for row in rows]
    assert logged == [(FIRST, 0), (LATE, 1), (LAST, 2)]
    assert float(rows[-1]["compile/seconds"]) == pytest.approx(seconds)
    assert rows[-1]["compile/limit_hits"] == "0"
    assert f"graphdoctor: {summary}" in done.stderr
