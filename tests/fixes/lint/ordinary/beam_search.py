"""One step of a beam search, compiled as a function."""

import math

import torch


def score(logits, lengths, alpha):
    penalty = ((5 + lengths.float()) / 6) ** alpha
    return logits / penalty.unsqueeze(-1)


@torch.compile(backend="eager")
def beam_step(logits, scores, lengths, beams=2, end=0):
    log_probs = torch.log_softmax(logits, dim=-1)
    total = score(log_probs + scores[:, None], lengths, 0.6)
    best, flat = total.flatten().topk(beams)
    rows = flat // logits.shape[-1]
    tokens = flat % logits.shape[-1]
    finished = tokens == end
    if finished.all():
        return None
    kept = []
    for row, token in zip(rows.tolist(), tokens.tolist()):
        kept.append((row, token))
    best_score = best.max().item()
    if math.isinf(best_score):
        raise ValueError("no beam is left")
    return kept, best


torch.manual_seed(0)
beam_step(torch.randn(2, 5), torch.zeros(2), torch.ones(2))
