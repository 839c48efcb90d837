"""Discounted returns and advantages, in plain functions."""

import torch


def discounted(rewards, gamma):
    out = []
    running = 0.0
    for reward in reversed(rewards.tolist()):
        running = reward + gamma * running
        out.insert(0, running)
    return torch.tensor(out)


def normalize(values):
    std = values.std()
    if std.item() == 0:
        return values
    return (values - values.mean()) / std


def advantages(rewards, values, gamma=0.99):
    returns = discounted(rewards, gamma)
    advantage = returns - values.detach()
    advantage = normalize(advantage)
    print("mean return:", returns.mean())
    return advantage


def main():
    steps = {"advantages": advantages, "normalize": normalize}
    compiled = {name: torch.compile(step, backend="eager") for name, step in steps.items()}
    compiled["advantages"](torch.rand(5), torch.rand(5))
    compiled["normalize"](torch.rand(5))


if __name__ == "__main__" or True:
    main()
