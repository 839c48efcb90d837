"""Top-p sampling with a repetition penalty."""

import torch
import torch.nn.functional as F


def sample(logits, generated, top_p=0.9, penalty=1.2):
    if torch.isnan(logits).any() or torch.isinf(logits).any():
        raise ValueError("logits contain nan or inf")
    for token in set(generated.tolist()):
        logits[:, token] /= penalty
    sorted_logits, order = torch.sort(logits, descending=True)
    cumulative = F.softmax(sorted_logits, dim=-1).cumsum(-1)
    remove = cumulative > top_p
    remove[:, 1:] = remove[:, :-1].clone()
    remove[:, 0] = False
    logits = logits.clone()
    logits[:, order[remove]] = float("-inf")
    probs = F.softmax(logits, dim=-1)
    next_token = torch.multinomial(probs, num_samples=1)
    return next_token.squeeze(1), probs.max().item()


def example_inputs():
    torch.manual_seed(9)
    return (torch.randn(1, 15), torch.tensor([3, 7, 3, 1]))
