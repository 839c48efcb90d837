"""A classifier over a transformers encoder, with its own pooling and checks."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import DistilBertConfig, DistilBertModel


class TextClassifier(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        config = DistilBertConfig(
            vocab_size=50, dim=16, hidden_dim=32, n_layers=1, n_heads=2, max_position_embeddings=16
        )
        self.encoder = DistilBertModel(config)
        self.head = nn.Linear(16, classes)

    def forward(self, input_ids, attention_mask, labels=None):
        if (attention_mask.sum(1) == 0).any():
            raise ValueError("a text has no tokens")
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1)
        pooled = (hidden * mask).sum(1) / mask.sum(1)
        logits = self.head(pooled)
        if labels is None or (labels < 0).all():
            return logits, None
        loss = F.cross_entropy(logits[labels >= 0], labels[labels >= 0])
        print(f"loss {loss.item():.3f}")
        return logits, loss


model = TextClassifier().eval()


def example_inputs():
    torch.manual_seed(51)
    ids = torch.randint(1, 50, (2, 6))
    mask = torch.ones_like(ids)
    mask[0, 4:] = 0
    return [(ids, mask, torch.tensor([1, -100])), (ids, mask, torch.tensor([-100, -100]))]
