"""Point cloud network: farthest points, ball query, voxel pooling and a rotation penalty."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def square_distance(src, dst):
    return ((src[:, :, None] - dst[:, None]) ** 2).sum(-1)


def index_points(points, idx):
    batch = torch.arange(points.shape[0]).view(-1, *([1] * (idx.dim() - 1))).expand_as(idx)
    return points[batch, idx, :]


def farthest_point_sample(xyz, npoint):
    B, N, C = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long)
    distance = torch.ones(B, N) * 1e10
    farthest = torch.zeros(B, dtype=torch.long)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = index_points(xyz, farthest.unsqueeze(1))
        dist = torch.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = torch.max(distance, -1)[1]
    return centroids


def query_ball_point(radius, nsample, xyz, new_xyz):
    B, N, _ = xyz.shape
    S = new_xyz.shape[1]
    group_idx = torch.arange(N).view(1, 1, N).repeat([B, S, 1])
    group_idx[square_distance(new_xyz, xyz) > radius**2] = N
    group_idx = group_idx.sort(dim=-1)[0][:, :, :nsample]
    group_first = group_idx[:, :, 0].view(B, S, 1).repeat([1, 1, nsample])
    mask = group_idx == N
    group_idx[mask] = group_first[mask]
    return group_idx


def voxel_pool(xyz, feat, size):
    coords = torch.floor(xyz / size).long()
    coords = coords - coords.min(0).values
    key = coords[:, 0] * 10000 + coords[:, 1] * 100 + coords[:, 2]
    _, inverse, counts = torch.unique(key, return_inverse=True, return_counts=True)
    pooled = torch.zeros(counts.shape[0], feat.shape[1]).index_add_(0, inverse, feat)
    return pooled / counts[:, None]


class PointNet2(nn.Module):
    def __init__(self, npoint=6, radius=0.8, nsample=4, n_classes=3):
        super().__init__()
        self.npoint, self.radius, self.nsample = npoint, radius, nsample
        self.tnet = nn.Linear(3, 9)
        self.mlp = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(32, n_classes)

    def forward(self, xyz, label):
        trans = self.tnet(xyz.mean(1)).view(-1, 3, 3) + torch.eye(3)
        pts = torch.bmm(xyz, trans)
        fps_idx = farthest_point_sample(xyz, self.npoint)
        new_xyz = index_points(pts, fps_idx)
        idx = query_ball_point(self.radius, self.nsample, pts, new_xyz)
        grouped = index_points(pts, idx)
        feat = self.mlp(torch.cat([grouped - new_xyz.unsqueeze(2), grouped], dim=-1)).max(2)[0]
        pooled = torch.stack([voxel_pool(p, f, 0.5).max(0)[0] for p, f in zip(new_xyz.detach(), feat)])
        logits = self.head(torch.cat([feat.max(1)[0], pooled], dim=-1))
        ortho = torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - torch.eye(3), dim=(1, 2)).mean()
        return F.cross_entropy(logits, label) + 0.001 * ortho, logits.argmax(-1)


def build():
    torch.manual_seed(0)
    return PointNet2()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return torch.rand(2, 20, 3, generator=g), torch.tensor([0, 2])
