"""One optimizer step of language model pretraining, with gradient accumulation and logging."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

learning_rate, min_lr, warmup_iters, lr_decay_iters = 6e-4, 6e-5, 4, 40
grad_clip, log_interval, gradient_accumulation_steps = 1.0, 2, 2


class TinyLM(nn.Module):
    def __init__(self, vocab_size=48, n_embd=24):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.mix = nn.Conv1d(n_embd, n_embd, 3)
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets):
        x = self.wte(idx).transpose(1, 2)
        x = torch.tanh(self.mix(F.pad(x, (2, 0)))).transpose(1, 2)
        logits = self.lm_head(self.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = TinyLM()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=learning_rate)
        self.iter_num = 0
        self.best_loss = 1e9
        self.running_mfu = -1.0

    def step(self, x, y):
        t0 = time.time()
        lr = get_lr(self.iter_num)
        for param_group in self.optimizer.param_groups:
            param_group["lr"] = lr
        for micro_step in range(gradient_accumulation_steps):
            xb = x.chunk(gradient_accumulation_steps)[micro_step]
            yb = y.chunk(gradient_accumulation_steps)[micro_step]
            logits, loss = self.model(xb, yb)
            loss = loss / gradient_accumulation_steps
            loss.backward()
        if grad_clip != 0.0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        lossf = loss.item() * gradient_accumulation_steps
        if lossf < self.best_loss:
            self.best_loss = lossf
        if self.iter_num % log_interval == 0:
            print(f"iter {self.iter_num}: loss {lossf:.4f}, lr {lr:.2e}")
        dt = time.time() - t0
        self.running_mfu = dt if self.running_mfu == -1.0 else 0.9 * self.running_mfu + 0.1 * dt
        self.iter_num += 1
        return loss.detach()


def build():
    return Trainer().step


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for _ in range(3):
        data = torch.randint(0, 48, (4, 17), generator=g)
        calls.append((data[:, :-1].contiguous(), data[:, 1:].contiguous()))
    return calls
