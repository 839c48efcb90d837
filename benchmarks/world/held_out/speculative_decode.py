"""Speculative decoding: a draft model proposes, the target verifies and corrects, round by round."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, cache):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        mask = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x)), (k, v)


class LM(nn.Module):
    def __init__(self, vocab, dim, depth, max_len=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, cache=None):
        start = cache[0][0].shape[2] if cache else 0
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.shape[1]))
        new = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, cache[i] if cache else None)
            new.append(kv)
        return self.head(x), new


def trim(cache, length):
    return [(k[:, :, :length], v[:, :, :length]) for k, v in cache]


def norm_logits(logits, temperature=1.0, top_p=0.9):
    logits = logits / temperature
    sorted_logits, sorted_indices = torch.sort(logits, descending=True)
    cumulative = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
    remove = cumulative > top_p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    logits = logits.masked_fill(remove.scatter(-1, sorted_indices, remove), float("-inf"))
    return F.softmax(logits, dim=-1)


def max_fn(x):
    x = torch.clamp(x, min=0)
    return x / x.sum(dim=-1, keepdim=True)


class SpeculativeDecoder(nn.Module):
    def __init__(self, vocab=32, gamma=3, max_new=6, eos=0):
        super().__init__()
        self.draft, self.target = LM(vocab, 16, 1), LM(vocab, 32, 2)
        self.gamma, self.max_new, self.eos = gamma, max_new, eos
        self.stats = {"proposed": 0, "accepted": 0, "resampled": 0}
        self.elapsed = 0.0

    def propose(self, ids, cache, gamma):
        """Tokens of the draft and the distributions they came from."""
        probs = []
        for _ in range(gamma):
            start = cache[0][0].shape[2] if cache else 0
            logits, cache = self.draft(ids[:, start:], cache)
            probs.append(norm_logits(logits[:, -1]))
            ids = torch.cat([ids, torch.multinomial(probs[-1], 1)], dim=1)
        return ids, torch.stack(probs, 1), cache

    def verify(self, ids, n, q, p):
        for i in range(q.shape[1]):
            j = ids[0, n + i]
            r = torch.rand(1)
            if r > p[0, i, j] / q[0, i, j]:
                self.stats["resampled"] += 1
                return i, torch.multinomial(max_fn(p[:, i] - q[:, i]), 1)
            self.stats["accepted"] += 1
        return q.shape[1], torch.multinomial(p[:, -1], 1)

    def adapt(self, n_accepted):
        if n_accepted == self.gamma:
            self.gamma = min(self.gamma + 1, 5)
        elif n_accepted < self.gamma // 2:
            self.gamma = max(self.gamma - 1, 1)

    def start(self, prompt):
        self.ids, self.prompt_len, self.is_done = prompt, prompt.shape[1], False
        self.cache = self.draft_cache = None
        self.rounds = []

    @torch.inference_mode()
    def forward(self, prompt=None):
        """One round: a few proposed tokens, those accepted and one of the target."""
        if prompt is not None:
            self.start(prompt)
        if self.is_done:
            return self.ids, list(self.rounds), dict(self.stats)
        begin = time.perf_counter()
        n = self.ids.shape[1]
        x, q, self.draft_cache = self.propose(self.ids, self.draft_cache, self.gamma)
        self.stats["proposed"] += q.shape[1]
        start = self.cache[0][0].shape[2] if self.cache else 0
        logits, self.cache = self.target(x[:, start:], self.cache)
        p = norm_logits(logits[:, n - 1 - start :])
        n_accepted, token = self.verify(x, n, q, p)
        ids = torch.cat([x[:, : n + n_accepted], token], dim=1)
        self.cache = trim(self.cache, n + n_accepted)
        self.draft_cache = trim(self.draft_cache, n + n_accepted)
        self.rounds.append(n_accepted)
        self.adapt(n_accepted)
        new = ids[0, self.prompt_len :]
        if (new == self.eos).any():
            first = (new == self.eos).nonzero()[0].item()
            ids, self.is_done = ids[:, : self.prompt_len + first + 1], True
        elif len(new) >= self.max_new:
            self.is_done = True
        self.ids = ids
        self.elapsed += time.perf_counter() - begin
        return ids, list(self.rounds), dict(self.stats)


def build():
    torch.manual_seed(0)
    return SpeculativeDecoder()


def example_inputs():
    g = torch.Generator().manual_seed(19)
    calls = []
    for n in (4, 5):
        calls.append((torch.randint(1, 32, (1, n), generator=g),))
        calls.extend([(None,)] * 3)
    return calls
