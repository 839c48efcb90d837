"""How far a model's results are from those in float64, in eager mode and compiled: what a person
would write.

    python plain_errors.py model.py

The file has ``Net`` and ``example_inputs()``, which returns one call. Prints ``{kind: [compiled,
eager]}``, for each kind of results the largest relative error of a value: the root mean square of
its distance from the float64 run, divided by that of the float64 run itself. Values whose error in
eager mode is above a tenth are 0 but for rounding, and left out.

Shares no code with graphdoctor.
"""

from __future__ import annotations

import copy
import json
import runpy
import sys

import torch


def results(net, call, x):
    """Everything that a call computes: output, gradients of parameters, and the module's state
    after it."""
    torch.manual_seed(0)
    output = call(x)
    generator = torch.Generator().manual_seed(20_250)
    weight = (
        torch.randn(output.shape, generator=generator, dtype=torch.float32).bfloat16().to(output)
    )
    names, parameters = zip(*net.named_parameters(), strict=True)
    gradients = torch.autograd.grad(output, parameters, weight)
    return {
        "outputs": {"output": output.detach()},
        "gradients": dict(zip(names, gradients, strict=True)),
        "state": {
            name: value.detach()
            for name, value in net.state_dict().items()
            if value.is_floating_point()
        },
    }


def root_mean_square(value):
    return value.double().square().mean().sqrt().item()


def main() -> None:
    torch.manual_seed(0)
    program = runpy.run_path(sys.argv[1])
    net = program["Net"]()
    torch.manual_seed(0)
    x = program["example_inputs"]()
    eager_net, precise_net, compiled_net = (copy.deepcopy(net) for _ in range(3))
    eager = results(eager_net, eager_net, x)
    torch.set_default_dtype(torch.float64)
    precise = results(precise_net.double(), precise_net, x.double())
    torch.set_default_dtype(torch.float32)
    compiled = results(compiled_net, torch.compile(compiled_net), x)
    found = {}
    for kind, values in precise.items():
        pairs = []
        for name, value in values.items():
            size = root_mean_square(value)
            errors = [
                root_mean_square(one[kind][name].double() - value) for one in (compiled, eager)
            ]
            if size and errors[1] <= size / 10:
                pairs.append([error / size for error in errors])
        found[kind] = [max(errors) for errors in zip(*pairs, strict=True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
