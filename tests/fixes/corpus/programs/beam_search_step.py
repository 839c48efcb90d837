"""One step of beam search: extend the beams, move finished ones out, stop when all are finished."""

import torch
import torch.nn.functional as F


def step(logits, beams, scores, finished, eos=0):
    batch_beams, vocab = logits.shape
    logp = F.log_softmax(logits, dim=-1)
    if finished.all():
        return beams, scores, finished
    if finished.any():
        frozen = torch.full_like(logp, float("-inf"))
        frozen[:, eos] = 0.0
        logp = torch.where(finished[:, None], frozen, logp)
    total = scores[:, None] + logp
    best, flat = total.view(-1).topk(batch_beams)
    origin = torch.div(flat, vocab, rounding_mode="floor")
    token = flat % vocab
    beams = torch.cat([beams[origin], token[:, None]], dim=1)
    finished = finished[origin] | (token == eos)
    if best[0] - best[-1] > 50.0:
        best = best.clamp(min=best[0].item() - 50.0)
    return beams, best, finished


def example_inputs():
    torch.manual_seed(5)
    beams = torch.randint(1, 9, (4, 3))
    scores = torch.zeros(4)
    return [
        (torch.randn(4, 9), beams, scores, torch.tensor([False, False, False, False])),
        (torch.randn(4, 9), beams, scores, torch.tensor([True, False, False, True])),
        (torch.randn(4, 9), beams, scores, torch.tensor([True, True, True, True])),
    ]
