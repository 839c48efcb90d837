"""Own code around a transformers encoder: pooling, a check, losses for the classes that occur."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import BertConfig, BertModel


class SentenceClassifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        config = BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(32, classes)
        self.classes = classes
        self.max_len = 0

    def pool(self, hidden, mask):
        lengths = mask.sum(1)
        if (lengths == 0).any():
            raise ValueError("empty sentence")
        self.max_len = max(self.max_len, int(lengths.max()))
        summed = (hidden * mask.unsqueeze(-1)).sum(1)
        return summed / lengths.unsqueeze(-1)

    def forward(self, input_ids, attention_mask, labels=None):
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = self.pool(hidden, attention_mask)
        logits = self.head(self.dropout(pooled))
        if labels is None:
            return logits
        keep = labels != -100
        if not keep.any():
            print("no labels in this batch")
            return logits.sum() * 0
        loss = F.cross_entropy(logits[keep], labels[keep])
        print(f"batch loss: {loss:.4f}, {keep.sum()} labels")
        return loss


def build():
    return SentenceClassifier().eval()


def example_inputs():
    input_ids = torch.randint(0, 100, (4, 10))
    mask = torch.ones(4, 10, dtype=torch.long)
    mask[1, 6:] = 0
    labels = torch.tensor([0, 2, -100, 1])
    return input_ids, mask, labels
