"""Session-based recommendation with a gated graph network; evaluates Recall@k and MRR@k."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class GNN(nn.Module):
    def __init__(self, hidden_size, step=1):
        super().__init__()
        self.step = step
        self.linear_in = nn.Linear(hidden_size, hidden_size)
        self.linear_out = nn.Linear(hidden_size, hidden_size)
        self.gru = nn.GRUCell(2 * hidden_size, hidden_size)

    def forward(self, A, hidden):
        n = A.size(1)
        for _ in range(self.step):
            input_in = torch.matmul(A[:, :, :n], self.linear_in(hidden))
            input_out = torch.matmul(A[:, :, n : 2 * n], self.linear_out(hidden))
            inputs = torch.cat([input_in, input_out], 2)
            flat = self.gru(inputs.flatten(0, 1), hidden.flatten(0, 1))
            hidden = flat.view_as(hidden)
        return hidden


class SessionGraph(nn.Module):
    def __init__(self, n_node=30, hidden_size=8, topk=5):
        super().__init__()
        self.embedding = nn.Embedding(n_node, hidden_size, padding_idx=0)
        self.gnn = GNN(hidden_size)
        self.linear_one = nn.Linear(hidden_size, hidden_size)
        self.linear_two = nn.Linear(hidden_size, hidden_size)
        self.linear_three = nn.Linear(hidden_size, 1, bias=False)
        self.linear_transform = nn.Linear(hidden_size * 2, hidden_size)
        self.topk = topk
        self.hit, self.mrr = [], []
        stdv = 1.0 / math.sqrt(hidden_size)
        for weight in self.parameters():
            weight.data.uniform_(-stdv, stdv)

    def build_graph(self, inputs):
        items, n_node, A, alias_inputs = [], [], [], []
        inputs = inputs.cpu().numpy()
        for u_input in inputs:
            n_node.append(len(np.unique(u_input)))
        max_n_node = np.max(n_node)
        for u_input in inputs:
            node = np.unique(u_input)
            items.append(node.tolist() + (max_n_node - len(node)) * [0])
            u_A = np.zeros((max_n_node, max_n_node))
            for i in np.arange(len(u_input) - 1):
                if u_input[i + 1] == 0:
                    break
                u = np.where(node == u_input[i])[0][0]
                v = np.where(node == u_input[i + 1])[0][0]
                u_A[u][v] = 1
            u_sum_in = np.sum(u_A, 0)
            u_sum_in[np.where(u_sum_in == 0)] = 1
            u_sum_out = np.sum(u_A, 1)
            u_sum_out[np.where(u_sum_out == 0)] = 1
            u_A = np.concatenate([u_A / u_sum_in, (u_A.T / u_sum_out)]).transpose()
            A.append(u_A)
            alias_inputs.append([np.where(node == i)[0][0] for i in u_input])
        A = torch.from_numpy(np.array(A)).float()
        return torch.LongTensor(np.array(alias_inputs)), A, torch.LongTensor(np.array(items))

    def compute_scores(self, hidden, mask):
        ht = hidden[torch.arange(mask.shape[0]), torch.sum(mask, 1) - 1]
        q1 = self.linear_one(ht).view(ht.shape[0], 1, ht.shape[1])
        q2 = self.linear_two(hidden)
        alpha = self.linear_three(torch.sigmoid(q1 + q2))
        a = torch.sum(alpha * hidden * mask.view(mask.shape[0], -1, 1).float(), 1)
        a = self.linear_transform(torch.cat([a, ht], 1))
        return torch.matmul(a, self.embedding.weight[1:].transpose(1, 0))

    def forward(self, inputs, targets):
        mask = (inputs != 0).long()
        alias_inputs, A, items = self.build_graph(inputs)
        hidden = self.gnn(A, self.embedding(items))
        seq_hidden = torch.stack([hidden[i][alias_inputs[i]] for i in range(len(alias_inputs))])
        scores = self.compute_scores(seq_hidden, mask)
        loss = F.cross_entropy(scores, targets - 1)

        sub_scores = scores.topk(self.topk)[1].cpu().detach().numpy()
        for score, target in zip(sub_scores, targets.cpu().detach().numpy()):
            self.hit.append(np.isin(target - 1, score))
            if len(np.where(score == target - 1)[0]) == 0:
                self.mrr.append(0)
            else:
                self.mrr.append(1 / (np.where(score == target - 1)[0][0] + 1))
        return loss, float(np.mean(self.hit) * 100), float(np.mean(self.mrr) * 100)


def build():
    torch.manual_seed(0)
    return SessionGraph()


def example_inputs():
    g = torch.Generator().manual_seed(7)
    calls = []
    for lens in ([4, 6, 3], [6, 2, 5], [5, 5, 1, 3]):
        seqs = torch.randint(1, 30, (len(lens), max(lens)), generator=g)
        for i, length in enumerate(lens):
            seqs[i, length:] = 0
        calls.append((seqs, torch.randint(1, 30, (len(lens),), generator=g)))
    return calls
